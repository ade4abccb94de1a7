"""A saved figure says by itself what it is of, and so does its file's name."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from ctxviz import figures
from ctxviz.figures.card import FigureCard
from ctxviz.figures.coordinates import coordinates
from ctxviz.figures.lines import tvd_lines
from ctxviz.figures.occlusion import card_of
from ctxviz.figures.pair import pair
from ctxviz.figures.spread import match_rates, tvd_boxes
from ctxviz.figures.subject import file_name, subject
from ctxviz.figures.swap import cards as cards_of_swap
from ctxviz.figures.sweeps import QUANTITIES, first_layer_field, first_layer_lines
from ctxviz.figures.text import quoted
from ctxviz.folds import Fold
from ctxviz.run import Run
from ctxviz.ui.card_data import card_data
from tests.synthetic import synthetic_run
from tests.unit.test_figures_pictures import BLUE, PICTURE, RED, occluded, swapped, top

STEP, LAYER, VARIANT, J = 3, 1, 1, 7
PLACES = {"step": STEP, "layer": LAYER, "variant": VARIANT, "coordinate": J}


def of_one_run() -> Iterator[tuple[str, Callable[..., FigureCard]]]:
    """Every public function of the figures that makes a card of one run."""
    for found in pkgutil.iter_modules(figures.__path__):
        module = importlib.import_module(f"ctxviz.figures.{found.name}")
        for name, make in inspect.getmembers(module, inspect.isfunction):
            if name.startswith("_") or make.__module__ != module.__name__ or name == "described":
                continue
            signature = inspect.signature(make)
            if signature.return_annotation == "FigureCard" and next(iter(signature.parameters)) == "run":
                yield name, make


MAKERS = dict(of_one_run())


@pytest.fixture(scope="module")
def run() -> Run:
    return synthetic_run(4, 16, 6)


def made(make: Callable[..., FigureCard], run: Run) -> FigureCard:
    wanted = {name: PLACES[name] for name in inspect.signature(make).parameters if name in PLACES}
    return make(run, **wanted)


def test_the_search_finds_the_figures() -> None:
    cell = {"coordinates", "scales", "spectrum", "rounding", "multiplier"}
    assert cell | {"everywhere", "heatmap", "tops", "budget", "drift_lines", "tvd_lines"} <= set(MAKERS)


@pytest.mark.parametrize("name", MAKERS)
def test_a_card_names_its_model_and_whatever_it_is_one_of(run: Run, name: str) -> None:
    card, takes = made(MAKERS[name], run), inspect.signature(MAKERS[name]).parameters
    slug = run.variants[VARIANT].slug
    said = {
        "step": (f"token {STEP} “", f"-token{STEP}-"),
        "layer": (f"layer {LAYER},", f"-layer{LAYER}-"),
        "variant": (f"{run.variants[VARIANT].update} {run.variants[VARIANT].dtype}", f"-{slug}-"),
        "coordinate": (f"coordinate {J},", f"-coordinate{J}-"),
    }
    for place, (words, part) in said.items():
        if place in takes:
            assert words in card.subject
            assert part in f"-{card.file_name}-"
    assert card.subject.startswith(f"{run.model.name}, ")
    assert card.file_name.startswith("synthetic-")
    assert run.context.prompt[:20] in card.subject


def test_cells_and_figures_have_names_of_their_own(run: Run) -> None:
    names = [made(make, run).file_name for make in MAKERS.values()]
    names += [coordinates(run, step, layer, variant).file_name for step, layer, variant in (
        (STEP + 1, LAYER, VARIANT), (STEP, LAYER + 1, VARIANT), (STEP, LAYER, VARIANT - 1)
    )]  # fmt: skip
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("key", "start"),
    [
        ("google/gemma-3-270m", "gemma-3-270m-"),
        ("/home/me/my model/", "my-model-"),
        ("C:\\models\\a.gguf", "a.gguf-"),
        ("../..", "model-"),
        ("é\u202e\n", "model-"),
        ("x" * 300, "x" * 40 + "-"),
    ],
)
def test_a_file_name_is_safe_whatever_the_model_is_called(run: Run, key: str, start: str) -> None:
    other = synthetic_run(4, 16, 1)
    other.model = replace(other.model, key=key)
    name = file_name("tvd", other)
    assert name.startswith(start)
    assert re.fullmatch(r"[a-z0-9][A-Za-z0-9.-]*", name)


def test_hostile_words_stay_short_text(run: Run) -> None:
    other = synthetic_run(4, 16, 1)
    other.model = replace(other.model, name="<b>x</b>\u202e" + "y" * 500)
    other.context = replace(other.context, prompt="a\nb\u202e" + "z" * 5000)
    said = subject(other, variant=0)
    assert len(said) < 250
    assert "\n" not in said
    assert "\u202e" not in said
    assert said.startswith("<b>x</b>⟨U+202E⟩")


def test_a_step_that_is_not_there_is_not_named(run: Run) -> None:
    said: Any = subject(run, step=99, variant=0)
    assert "token" not in said


def test_a_figure_without_a_subject_reaches_no_page(run: Run) -> None:
    card = tvd_lines(run)
    assert card_data(card)["subject"] == card.subject
    for lacking in (replace(card, subject=""), replace(card, file_name="")):
        with pytest.raises(ValueError, match="does not say what it is of"):
            card_data(lacking)


def of_many(runs: list[Run]) -> dict[str, FigureCard]:
    named = [(run.context.prompt, run) for run in runs]
    cells = [(variant, run, k) for run in runs for k, variant in enumerate(run.variants)]
    cards = {"boxes": tvd_boxes(named), "rates": match_rates(named)}
    for quantity in QUANTITIES:
        cards |= {f"lines {quantity}": first_layer_lines(cells, quantity)}
        cards |= {f"field {quantity}": first_layer_field(cells, quantity)}
    return cards


def prompted(prompt: str, **model: str) -> Run:
    run = synthetic_run(4, 16, 3)
    run.context = replace(run.context, prompt=prompt)
    run.model = replace(run.model, **model)
    return run


def test_figures_of_many_runs_name_models_and_prompts() -> None:
    two = of_many([prompted("one"), prompted("two")])
    assert len({card.file_name for card in two.values()}) == len(two)
    for card in two.values():
        assert card.subject == "Synthetic, 2 runs, prompts “one”, “two”"
        assert card.file_name.startswith("synthetic-")
    many = [prompted(f"p{k}", name=f"m{k % 2}", key=f"m{k % 2}") for k in range(5)]
    for card in of_many(many).values():
        assert card.subject == "m0, m1, 5 runs, prompts “p0”, “p1”, “p2” and 2 more"
        assert card.file_name.startswith("several-models-")
    for card in (tvd_boxes([]), first_layer_lines([])):
        assert card_data(card)["file_name"].startswith("no-run-")


def test_two_runs_side_by_side_name_both() -> None:
    one, other = prompted("one"), prompted("two", name="Other", key="other")
    said = pair(one, other, 0, 1).subject
    words = [f"{run.variants[k].update} {run.variants[k].dtype}" for k, run in enumerate((one, other))]
    assert words[0] != words[1]
    assert said == f"A: Synthetic, {words[0]}, prompt “one”; B: Other, {words[1]}, prompt “two”"
    assert pair(one, other, 0, 1).file_name == "several-models-two-runs"
    assert pair(one, one, 0, 1).file_name == "synthetic-one-two-runs"


def test_what_was_asked_about_a_picture_names_run_picture_and_token() -> None:
    run = prompted("what is it")
    run.pictures = (PICTURE, PICTURE)
    swaps = replace(swapped(top(RED), top(BLUE)), variant=run.variants[1], picture=1, step=2)
    covered = replace(occluded([0.5] * 4), variant=run.variants[1], picture=1, step=2)
    cards = [*cards_of_swap(swaps, run).values(), card_of(covered, run)]
    start = f"Synthetic, token 2 {quoted(run.token(2)[4])}, picture 2, "
    for card in cards:
        assert card.subject.startswith(start)
        assert "prompt “what is it”" in card.subject
        assert card.file_name.startswith(f"synthetic-what-is-it-token2-picture2-{run.variants[1].slug}-")
    assert all(name in cards[0].subject for name in swaps.names)
    assert len({card.file_name for card in cards}) == 3


def test_runs_that_differ_in_fold_layers_or_pictures_are_told_apart() -> None:
    plain, picture = prompted("one"), prompted("one")
    picture.context = replace(picture.context, image_sha256=("0123456789abcdef" * 4,))
    late = synthetic_run(4, 16, 3, first_layer=2, fold=Fold.parse("all-but-bos"))
    late.context = replace(late.context, prompt="one")
    said = pair(plain, late, 0, 0).subject.split("; ")
    assert [words.removeprefix(f"{side}: ") for side, words in zip("AB", said, strict=True)] == [
        "Synthetic, direct float32, prompt “one”",
        "Synthetic, direct float32, fold all-but-bos, patched from layer 2 on, prompt “one”",
    ]
    assert "picture 01234567, prompt" in tvd_lines(picture).subject
    names = [tvd_lines(run).file_name for run in (plain, late, picture)]
    assert names == [
        "synthetic-one-tvd", "synthetic-one-fold-all-but-bos-from2-tvd", "synthetic-one-picture-01234567-tvd",
    ]  # fmt: skip
