"""Occlusion, swap and the answer without pictures against a stock model given those very pictures."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from ctxviz.engine import covered, occlude, swap, without_pictures
from ctxviz.errors import SettingsError
from ctxviz.folds import Fold
from ctxviz.picture_findings import Occlusion, Square, Swap, WithoutPictures, grids
from ctxviz.pictures import Picture, from_image
from ctxviz.records import Step
from ctxviz.run import Run
from ctxviz.settings import RunSettings
from tests.oracle.stock import tvd
from tests.oracle.stock_pictures import noise_image, stock_of
from tests.oracle.test_pictures import ours

SHAPE = "4 tokens"
PROMPT = "what is on the hill"
A, B, C = (from_image(noise_image(k), f"{k}.png") for k in (1, 2, 3))
CLOSE = 2e-6
"""float32: the stock model reads everything at once, ours decodes the last token with a cache, and the
patched model's factors are stored in float32. Seen here: below 3e-7."""
FAR = 1e-3
"""What a control must differ by at least."""


@cache
def run_of(fold: str = "all", tokens: int = 3, pictures: tuple[Picture, ...] = (A,)) -> Run:
    from ctxviz.engine import stream

    settings = RunSettings(updates=("floored", "direct"), fold=Fold.parse(fold), max_new_tokens=tokens)
    source = stream(ours(SHAPE), PROMPT, settings, pictures=pictures)
    run = Run(ours(SHAPE).identity, source.context, settings, source.pictures)
    for record in source:
        run.append(record) if isinstance(record, Step) else run.refer(record)
    return run


def stock_logits(images: list[Image.Image], run: Run, step: int) -> torch.Tensor:
    """What the stock model says after the stock processor read these images, and the run's first tokens."""
    stock = stock_of(SHAPE, "float32")
    ids = [int(i) for i in stock.read(PROMPT, images)["input_ids"][0]]
    return stock.with_context([*ids, *(run.token(k)[3] for k in range(step))], images)[1]


def grey_square(picture: Picture, grid: int, row: int, column: int) -> Image.Image:
    """One of grid x grid squares set to 127 by independent code; sides that grid divides."""
    pixels = np.array(picture.image)
    high, wide = (n // grid for n in pixels.shape[:2])
    pixels[row * high : (row + 1) * high, column * wide : (column + 1) * wide] = 127
    return Image.fromarray(pixels)


def occluded(run: Run, step: int, variant: int, **choices: Any) -> Occlusion:
    *_, last = occlude(ours(SHAPE), run, step, run.variants[variant], **choices)
    return last


def probability(logits: torch.Tensor, token: int) -> float:
    return float(torch.softmax(logits.double(), -1)[token])


@pytest.mark.parametrize("fold", ["all", "image"])
@pytest.mark.parametrize(("step", "variant"), [(0, 0), (2, 0), (1, 1)])
def test_every_square_says_what_a_stock_model_with_the_greyed_picture_says(
    fold: str, step: int, variant: int
) -> None:
    run = run_of(fold)
    found = occluded(run, step, variant)
    token = run.token(step)[3]
    whole = stock_logits([A.image], run, step)
    assert found.grid == 2
    assert [(s.row, s.column) for s in found.squares] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert found.probability == pytest.approx(probability(whole, token), abs=CLOSE)
    others = []
    for square in found.squares:
        grey = stock_logits([grey_square(A, 2, square.row, square.column)], run, step)
        for distance, chance in (
            (square.tvd, square.probability),
            (square.context_tvd, square.context_probability),
        ):
            assert distance == pytest.approx(tvd(whole, grey), abs=CLOSE)
            assert chance == pytest.approx(probability(grey, token), abs=CLOSE)
        others.append(tvd(whole, grey))
    # The control: squares differ, so that one in the place of another would be seen.
    assert np.diff(sorted(others)).min() > 10 * CLOSE
    assert max(others) > FAR


def test_squares_may_have_another_colour() -> None:
    run = run_of()
    found = occluded(run, 0, 0, grid=1, colour=(200, 10, 30))
    whole = stock_logits([A.image], run, 0)
    plain = (Image.new("RGB", A.image.size, colour) for colour in ((200, 10, 30), (127,) * 3))
    red, grey = (stock_logits([image], run, 0) for image in plain)
    assert found.colour == (200, 10, 30)
    assert found.squares[0].tvd == pytest.approx(tvd(whole, red), abs=CLOSE)
    assert abs(tvd(whole, red) - tvd(whole, grey)) > 10 * CLOSE


def test_one_square_over_all_is_a_grey_picture() -> None:
    run = run_of()
    (square,) = occluded(run, 0, 0, grid=1).squares
    whole, grey = (stock_logits([i], run, 0) for i in (A.image, Image.new("RGB", A.image.size, (127,) * 3)))
    assert square.tvd == pytest.approx(tvd(whole, grey), abs=CLOSE)
    assert square.tvd > FAR


def test_grey_on_grey_changes_nothing_bit_for_bit() -> None:
    grey = from_image(Image.new("RGB", (16, 16), (127,) * 3), "grey.png")
    found = occluded(run_of(pictures=(grey,)), 1, 0)
    assert [(s.tvd, s.context_tvd) for s in found.squares] == [(0.0, 0.0)] * 4
    assert found.squares[0].probability == found.probability
    # Of a picture that is not grey the same comparison is not zero.
    assert min(s.tvd for s in occluded(run_of(), 1, 0).squares) > 0


def test_the_second_of_two_pictures_is_covered_and_the_first_is_not() -> None:
    run = run_of("image:2", 1, (A, C))
    found = occluded(run, 0, 0, picture=1)
    whole = stock_logits([A.image, C.image], run, 0)
    right = stock_logits([A.image, grey_square(C, 2, 0, 1)], run, 0)
    wrong = stock_logits([grey_square(A, 2, 0, 1), C.image], run, 0)
    square = found.squares[1]
    assert square.tvd == pytest.approx(tvd(whole, right), abs=CLOSE)
    assert abs(square.tvd - tvd(whole, wrong)) > 10 * CLOSE


def test_what_is_found_comes_square_by_square() -> None:
    counts = [len(found.squares) for found in occlude(ours(SHAPE), run_of(), 0, run_of().variants[0])]
    assert counts == [0, 1, 2, 3, 4]


def test_squares_cover_a_picture_that_they_do_not_divide() -> None:
    picture = from_image(Image.new("RGB", (7, 5), (0, 0, 0)), "odd.png")
    covers = np.zeros((5, 7), int)
    for row in range(3):
        for column in range(3):
            covers += np.array(covered(picture, 3, row, column).image)[..., 0] == 127
    assert (covers == 1).all()
    assert not np.array(picture.image).any()


@pytest.mark.parametrize(
    ("step", "picture", "grid"), [(9, 0, 2), (-1, 0, 2), (0, 1, 2), (0, 0, 0), (0, 0, 9)]
)
def test_what_is_not_there_is_refused(step: int, picture: int, grid: int) -> None:
    with pytest.raises(SettingsError, match="choose"):
        occluded(run_of(), step, 0, picture=picture, grid=grid)


def test_a_picture_that_is_kept_is_not_in_the_patches() -> None:
    for run, picture in ((run_of("text"), 0), (run_of("image:2", 1, (A, C)), 0)):
        with pytest.raises(SettingsError, match="leaves picture 1 in the input"):
            occluded(run, 0, 0, picture=picture)
    with pytest.raises(SettingsError, match="leaves picture 1"):
        next(iter(without_pictures(ours(SHAPE), run_of("text"))))


def test_pictures_that_are_not_at_hand_are_asked_for() -> None:
    run = run_of()
    bare = Run(run.model, run.context, run.settings)
    for asked in (
        occlude(ours(SHAPE), bare, 0, run.variants[0], grid=2),
        swap(ours(SHAPE), bare, B, 0, run.variants[0]),
        without_pictures(ours(SHAPE), bare),
    ):
        with pytest.raises(SettingsError, match="pictures"):
            next(iter(asked))


def swapped(run: Run, other: Picture, step: int, variant: int = 0, picture: int = 0) -> Swap:
    *shares, last = swap(ours(SHAPE), run, other, step, run.variants[variant], picture=picture)
    assert shares == [0.5, 1.0]
    assert isinstance(last, Swap)
    return last


@pytest.mark.parametrize(("fold", "step", "variant"), [("all", 0, 0), ("image", 1, 0)])
def test_each_pictures_patches_say_what_a_stock_model_with_it_says(
    fold: str, step: int, variant: int
) -> None:
    run = run_of(fold)
    found = swapped(run, B, step, variant)
    stock = [stock_logits([picture.image], run, step) for picture in (A, B)]
    apart = tvd(*stock)
    assert apart > FAR
    assert found.context_tvd == pytest.approx(apart, abs=CLOSE)
    for logits, voice in zip(stock, found.voices, strict=True):
        assert voice.tvd_own < CLOSE
        # The control: the patches of one picture do not say what the other makes the model say.
        assert voice.tvd_other == pytest.approx(apart, abs=CLOSE)
        probabilities, ids = torch.softmax(logits.double(), -1).topk(8)
        for top in (voice.context, voice.patched):
            assert top.ids.tolist() == ids.tolist()
            assert top.probabilities == pytest.approx(probabilities.numpy(), abs=CLOSE)


def test_the_same_picture_makes_the_same_patches() -> None:
    found = swapped(run_of("image"), A, 1)
    assert all((values == 0).all() for values in found.distances.values())
    assert found.context_tvd == 0
    apart = swapped(run_of("image"), B, 1)
    # The windows of the first two layers do not reach the picture in a prompt this long; the third has none.
    assert all((values[2:] > FAR).all() for values in apart.distances.values())


def test_distances_are_those_of_the_patches_built_by_the_run() -> None:
    from ctxviz.engine import rebuild, stream

    found = swapped(run_of("image"), B, 0)
    dense = []
    for picture in (A, B):
        settings = run_of("image").settings
        source = stream(ours(SHAPE), PROMPT, settings, pictures=(picture,))
        run = Run(ours(SHAPE).identity, source.context, settings, source.pictures)
        run.append(next(iter(source)))  # type: ignore[arg-type]
        *_, built = rebuild(ours(SHAPE), run, 0, run.variants[0])
        dense.append({u.parameter: u for p in built.patches for u in p.updates})  # type: ignore[union-attr]
    names = {"gate": "gate_proj", "up": "up_proj", "down": "down_proj"}
    for layer in range(ours(SHAPE).n_layers):
        for part, name in names.items():
            a, b = (
                next(
                    np.outer(u.left.astype(float), u.right)
                    for k, u in one.items()
                    if f".{layer}.mlp.{name}" in k
                )
                for one in dense
            )
            wanted = np.linalg.norm(a - b) / np.linalg.norm(a)
            assert found.distances[part][layer] == pytest.approx(wanted, rel=1e-4, abs=1e-6)


def answer(run: Run) -> WithoutPictures:
    *_, last = without_pictures(ours(SHAPE), run)
    return last


@pytest.mark.parametrize("fold", ["all", "image"])
def test_without_the_picture_a_stock_model_goes_on_from_the_text(fold: str) -> None:
    run = run_of(fold)
    found = answer(run)
    model = stock_of(SHAPE, "float32").model
    span = run.context.images[0]
    positions = [p for p in range(len(run.context.token_ids)) if not span.start <= p < span.end]
    ids = [run.context.token_ids[p] for p in positions]
    written = []
    for _ in range(len(run)):
        with torch.no_grad():
            logits = model(
                input_ids=torch.tensor([ids]),
                position_ids=torch.tensor([positions]),
                attention_mask=torch.ones(1, len(ids), dtype=torch.long),
                use_cache=False,
            ).logits[0, -1]
        written.append(int(logits.argmax()))
        ids.append(written[-1])
        positions.append(positions[-1] + 1)
    assert found.ids == tuple(written)
    assert found.dropped == (0,)
    # The control: with the picture the run wrote something else.
    assert found.ids != tuple(run.token(k)[3] for k in range(len(run)))


def test_only_the_folded_picture_is_dropped() -> None:
    both, second = (answer(run_of(fold, 1, (A, C))) for fold in ("image", "image:2"))
    assert both.dropped == (0, 1)
    assert second.dropped == (1,)


def test_grids_divide_the_rows_of_image_tokens() -> None:
    assert grids(run_of()) == (1, 2)
    assert isinstance(occluded(run_of(), 0, 0, grid=1).squares[0], Square)
