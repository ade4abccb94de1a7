"""Patches of pictures are right when a stock model with them written in says what the context made it say."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from ctxviz.engine import stream
from ctxviz.engine.sight import Sight
from ctxviz.folds import Context, Fold
from ctxviz.models import LoadedModel, load_model
from ctxviz.pictures import Picture, from_image
from ctxviz.records import LayerPatch, Step
from ctxviz.settings import UPDATE_RULES, RunSettings
from tests.oracle.stock import relative_error, tvd, written_copy
from tests.oracle.stock_pictures import PLACE, SHAPES, Stock, folder_of, noise_image, stock_of
from tests.oracle.test_written_patches import TOLERANCE, WRONG, _shifted

ONE, OTHER, THIRD = (from_image(noise_image(k), f"{k}.png") for k in (1, 2, 3))
PROMPTS: dict[str, tuple[str, tuple[Picture, ...]]] = {
    "first": ("what is on the hill", (ONE,)),
    "middle": (f"the robot sees {PLACE} and then dust will fall", (ONE,)),
    "two first": ("what is in them", (ONE, OTHER)),
    "two apart": (f"here {PLACE} the sky and {PLACE} the sand", (ONE, OTHER)),
    "raw": (f"<bos>dust {PLACE} on {PLACE} the", (OTHER, ONE)),
    "three": (f"{PLACE} a {PLACE} b {PLACE} c", (ONE, OTHER, THIRD)),
}
WHOLE_FOLDS = ("all", "all-but-bos", "image", "image:1", "image:2", "text")
CUTS = ("cut", "cut end", "cut two")
TOKENS = 3


@cache
def ours(shape: str) -> LoadedModel:
    return load_model(str(folder_of(shape)), dtypes=("float64", "float32"))


def images_of(pictures: Sequence[Picture]) -> list[Any]:
    return [picture.image for picture in pictures]


def context_of(shape: str, prompt: str, pictures: Sequence[Picture]) -> Context:
    return stream(ours(shape), prompt, RunSettings(fold=Fold()), pictures=pictures).context


def fold_for(name: str, shape: str, prompt: str, pictures: Sequence[Picture]) -> Fold:
    """The fold; cuts go through the inside of a picture: its end, its beginning, or two pictures at once."""
    if name not in CUTS:
        return Fold.parse(name)
    images = context_of(shape, prompt, pictures).images
    first, last = images[0].tokens, images[-1].tokens
    middle = len(first) // 2
    if name == "cut":
        return Fold("span", first[middle], images[0].end + 1)
    if name == "cut end":
        return Fold("span", 1, last[middle])
    return Fold("span", first[middle], last[middle])


def steps_of(
    shape: str, prompt: str, pictures: Sequence[Picture], fold: Fold, dtype: str, rule: str = "stable"
) -> tuple[Context, list[Step]]:
    settings = RunSettings((rule,), dtypes=(dtype,), fold=fold, max_new_tokens=TOKENS)
    running = stream(ours(shape), prompt, settings, pictures=pictures, keep_patches=True)
    return running.context, [event for event in running if isinstance(event, Step)]


class Case:
    """One run of ctxviz, and what the stock model says of its steps."""

    def __init__(self, shape: str, prompt: str, fold: str, dtype: str, rule: str = "stable") -> None:
        self.text, self.pictures = PROMPTS[prompt]
        self.images = images_of(self.pictures)
        self.stock: Stock = stock_of(shape, dtype)
        self.fold = fold_for(fold, shape, self.text, self.pictures)
        self.context, self.steps = steps_of(shape, self.text, self.pictures, self.fold, dtype, rule)

    def history(self, step: Step) -> list[int]:
        return [*self.context.token_ids, *(s.next_token_id for s in self.steps[: step.index])]

    def wanted(self, step: Step, **how: Any) -> tuple[np.ndarray, torch.Tensor]:
        return self.stock.with_context(self.history(step), self.images, **how)

    def found(
        self, step: Step, patches: Sequence[LayerPatch], images: Sequence[Any] | None = None
    ) -> tuple[np.ndarray, torch.Tensor]:
        return self.stock.on_kept(
            written_copy(self.stock.model, patches),
            step.kept_ids,
            step.kept_positions,
            self.history(step),
            self.images if images is None else images,
        )

    def error(self, step: Step, patches: Sequence[LayerPatch], images: Sequence[Any] | None = None) -> float:
        return relative_error(self.found(step, patches, images)[0], self.wanted(step)[0])


def patches_of(step: Step) -> tuple[LayerPatch, ...]:
    patches = step.variants[0].patches
    assert patches is not None
    return patches


def folds_of(prompt: str) -> list[str]:
    count = len(PROMPTS[prompt][1])
    folds = [f for f in (*WHOLE_FOLDS, *CUTS) if count > 1 or f not in ("image:2", "cut two")]
    return [*folds, "image:3"] if count == 3 else folds


ALL_CASES = [(prompt, fold) for prompt in PROMPTS for fold in folds_of(prompt)]
WIDEST = "9 tokens"
"""The shape that every prompt and fold is tried with."""
SOME = [(s, *case) for s in SHAPES for case in ALL_CASES if s == WIDEST or case[0] == "two apart"]


def check(case: Case, dtype: str) -> None:
    assert len(case.steps) == TOKENS
    for step in case.steps:
        patches = patches_of(step)
        wanted, wanted_logits = case.wanted(step)
        bare, bare_logits = case.found(step, [])
        found, logits = case.found(step, patches)
        assert relative_error(bare, wanted) > WRONG, "the fold makes no difference, so nothing is tested"
        assert tvd(bare_logits, wanted_logits) > 1e-3
        assert relative_error(found, wanted) < TOLERANCE[dtype]
        assert tvd(logits, wanted_logits) < TOLERANCE[dtype]
        assert step.variants[0].tvd < TOLERANCE[dtype]
        assert step.next_token_id == int(wanted_logits.argmax())


@pytest.mark.parametrize(("shape", "prompt", "fold"), SOME)
def test_a_stock_model_with_the_patch_written_sees_what_was_folded(
    shape: str, prompt: str, fold: str
) -> None:
    check(Case(shape, prompt, fold, "float64"), "float64")


@pytest.mark.parametrize(("prompt", "fold"), [c for c in ALL_CASES if c[0] == "two apart"])
def test_so_it_does_in_float32(prompt: str, fold: str) -> None:
    check(Case(WIDEST, prompt, fold, "float32"), "float32")


@pytest.mark.parametrize("fold", ["all", "image:1", "text", "cut two"])
@pytest.mark.parametrize("rule", UPDATE_RULES)
def test_every_rule(rule: str, fold: str) -> None:
    check(Case("4 tokens", "two apart", fold, "float64", rule), "float64")


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_baseline_is_stock_cached_generation(shape: str, prompt: str) -> None:
    """And, for a prompt in the template, its ids and token types those of the stock processor."""
    case = Case(shape, prompt, "all", "float64")
    read = case.stock.read(case.text.removeprefix("<bos>"), case.images)
    if prompt == "raw":
        tokens = torch.tensor([case.context.token_ids])
        types = (tokens == read["input_ids"][0, read["token_type_ids"][0] == 1][0]).long()
        read |= {"input_ids": tokens, "token_type_ids": types, "attention_mask": torch.ones_like(tokens)}
    assert read["input_ids"][0].tolist() == list(case.context.token_ids)
    types = read["token_type_ids"][0].nonzero().flatten().tolist()
    assert types == [p for span in case.context.images for p in span.tokens]
    ids, logits = case.stock.generate(read, TOKENS)
    assert [step.next_token_id for step in case.steps] == ids
    for step, row in zip(case.steps, logits, strict=True):
        top = step.baselines[0].top
        chances = torch.softmax(row.double(), 0)[torch.from_numpy(top.ids).long()].numpy()
        assert top.probabilities == pytest.approx(chances, abs=TOLERANCE["float64"])
        assert tvd(case.found(step, patches_of(step))[1], row) < TOLERANCE["float64"]
    other, _ = case.stock.generate(read | {"pixel_values": read["pixel_values"].flip(-1)}, TOKENS)
    flipped = case.stock.with_context(case.context.token_ids, [i.transpose(0) for i in case.images])
    assert relative_error(flipped[0], case.wanted(case.steps[0])[0]) > 1e-3, (
        other,
        "the picture is not seen",
    )


@pytest.mark.parametrize("fold", ["all", "image", "image:1", "text", "cut two"])
@pytest.mark.parametrize("shape", ["4 tokens", WIDEST])
def test_wrong_patches_are_noticed(shape: str, fold: str) -> None:
    case = Case(shape, "two apart", fold, "float64")
    first, second = case.steps[:2]
    for step, other in ((first, second), (second, first)):
        patches = patches_of(step)
        assert case.error(step, patches) < TOLERANCE["float64"]
        assert case.error(step, []) > WRONG, "zeroed"
        assert case.error(step, patches_of(other)) > WRONG, "another token's"
        assert case.error(step, _shifted(patches)) > WRONG, "another layer's"


@pytest.mark.parametrize("fold", ["all", "image", "image:1", "cut two"])
@pytest.mark.parametrize("shape", ["4 tokens", WIDEST])
def test_patches_of_other_pictures_are_noticed(shape: str, fold: str) -> None:
    case = Case(shape, "two apart", fold, "float64")
    step = case.steps[0]
    assert case.error(step, patches_of(step)) < TOLERANCE["float64"]
    for others in ((THIRD, OTHER), (OTHER, ONE)):
        _, steps = steps_of(shape, case.text, others, case.fold, "float64")
        assert steps[0].kept_ids == step.kept_ids
        assert case.error(step, patches_of(steps[0])) > 10 * TOLERANCE["float64"]
        swapped = case.stock.with_context(case.history(step), images_of(others))
        assert relative_error(swapped[0], case.wanted(step)[0]) > 10 * TOLERANCE["float64"]


@pytest.mark.parametrize("fold", ["text", "image:1", "cut", "cut two"])
@pytest.mark.parametrize("shape", ["4 tokens", WIDEST])
def test_other_kept_pictures_are_noticed(shape: str, fold: str) -> None:
    case = Case(shape, "two apart", fold, "float64")
    step = case.steps[0]
    assert case.error(step, patches_of(step)) < TOLERANCE["float64"]
    assert case.error(step, patches_of(step), case.images[::-1]) > 10 * TOLERANCE["float64"]


@pytest.mark.parametrize("prompt", ["first", "two apart", "raw"])
@pytest.mark.parametrize("shape", SHAPES)
def test_causal_image_tokens_would_be_another_answer(shape: str, prompt: str) -> None:
    case = Case(shape, prompt, "all", "float64")
    for step in case.steps:
        causal = case.wanted(step, causal=True)[0]
        assert relative_error(causal, case.wanted(step)[0]) > 10 * TOLERANCE["float64"]
        patched = case.found(step, patches_of(step))[0]
        assert relative_error(patched, causal) > 10 * TOLERANCE["float64"]


@pytest.mark.parametrize("fold", ["all", "image", "text", "image:1", "cut two"])
@pytest.mark.parametrize("where", ["prefill", "kept tokens"])
@pytest.mark.parametrize("shape", ["4 tokens", WIDEST])
def test_an_engine_that_leaves_token_types_away_is_noticed(
    shape: str, where: str, fold: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Image tokens would be causal, and nothing says so: in the prefill (a range), or among kept tokens."""
    honest = Sight.arguments

    def forgetful(self: Sight, anatomy: Any, positions: Any) -> dict[str, Any]:
        given = honest(self, anatomy, positions)
        if isinstance(positions[0], range) == (where == "prefill"):
            given.pop("token_type_ids", None)
        return given

    monkeypatch.setattr(Sight, "arguments", forgetful)
    case = Case(shape, "two apart", fold, "float64")
    errors = [case.error(step, patches_of(step)) for step in case.steps]
    if where == "kept tokens" and fold in ("all", "image"):
        assert max(errors) < TOLERANCE["float64"], "no image token is kept"
    else:
        assert min(errors) > 10 * TOLERANCE["float64"]
