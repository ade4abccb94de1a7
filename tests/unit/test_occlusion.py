"""Which squares a picture is cut into, which pictures a fold removes, and what covering leaves alone."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
from PIL import Image

from ctxviz.engine import covered, occlusion
from ctxviz.errors import SettingsError
from ctxviz.folds import Context, Fold, ImageSpan
from ctxviz.picture_findings import folded_pictures, grids, ground_of
from ctxviz.pictures import from_image
from ctxviz.run import Run
from ctxviz.settings import RunSettings, Variant
from ctxviz.shapes.drawing import draw
from ctxviz.shapes.scenes import Scene, Thing
from tests.synthetic import synthetic_identity


def run_with(side: int, size: tuple[int, int]) -> Run:
    picture = from_image(Image.new("RGB", size, (200, 10, 10)), "red.png")
    tokens = side * side + 2
    context = Context("x", (1,) * (tokens + 2), ("x",) * (tokens + 2), Fold(), ("",), (ImageSpan(0, tokens),))
    return Run(synthetic_identity(), context, RunSettings(), (picture,))


@pytest.mark.parametrize(
    ("side", "size", "wanted"),
    [
        (2, (64, 64), (1, 2)),
        (4, (64, 64), (1, 2, 4)),
        (16, (896, 896), (1, 2, 4, 8)),
        (7, (64, 64), (1, 7)),
        (4, (3, 64), (1, 2)),
    ],
)
def test_grids_divide_the_image_tokens_and_leave_every_square_a_pixel(
    side: int, size: tuple[int, int], wanted: tuple[int, ...]
) -> None:
    assert grids(run_with(side, size)) == wanted


def test_the_ground_is_what_fills_half_of_a_picture() -> None:
    def ground(share: float) -> tuple[int, int, int] | None:
        pixels = np.random.default_rng(0).integers(0, 256, (90, 120, 3), dtype=np.uint8)
        pixels[: round(90 * share)] = (10, 200, 30)
        return ground_of(from_image(Image.fromarray(pixels), "x.png"))

    assert ground(1) == ground(0.6) == (10, 200, 30)
    assert ground(0.4) is None
    assert ground(0) is None
    drawn = draw(Scene((Thing(0, "red", "circle"),), "black"), 256)
    assert ground_of(from_image(drawn, "x.png")) == drawn.getpixel((255, 255))


@pytest.mark.parametrize(
    ("side", "size", "finest"), [(16, 896, 16), (16, 12, 12), (4, 64, 8), (7, 64, 8), (4, 3, 3)]
)
def test_a_picture_is_covered_tile_by_tile_at_the_finest(
    monkeypatch: pytest.MonkeyPatch, side: int, size: int, finest: int
) -> None:
    class ReachedError(Exception):
        pass

    class Onlooker:
        def __init__(self, *_: object) -> None:
            pass

        def see(self) -> None:
            raise ReachedError

    monkeypatch.setattr(occlusion, "Onlooker", Onlooker)
    monkeypatch.setattr(Run, "token", lambda *_: (0, 0, "", 5, " red", 0.0))
    run, model = run_with(side, (size, size)), cast("Any", None)
    with pytest.raises(ReachedError):
        next(occlusion.occlude(model, run, 0, Variant("stable", "written", "float32"), grid=finest))
    with pytest.raises(SettingsError, match=f"choose 1 to {finest}"):
        next(occlusion.occlude(model, run, 0, Variant("stable", "written", "float32"), grid=finest + 1))


@pytest.mark.parametrize(
    ("fold", "wanted"),
    [
        ("all", (0, 1)),
        ("all-but-bos", (0, 1)),
        ("image", (0, 1)),
        ("image:2", (1,)),
        ("text", ()),
        ("1:7", (0,)),
        ("3:6", ()),
    ],
)
def test_a_picture_is_folded_where_all_its_image_tokens_are(fold: str, wanted: tuple[int, ...]) -> None:
    spans = (ImageSpan(1, 7), ImageSpan(8, 14))
    context = Context("x", (1,) * 16, ("x",) * 16, Fold.parse(fold), ("", ""), spans)
    assert folded_pictures(context) == wanted


def test_covering_greys_the_square_and_nothing_else() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (8, 12, 3), dtype=np.uint8)
    picture = from_image(Image.fromarray(noise), "noise.png")
    found = np.array(covered(picture, 4, 1, 2).image)
    wanted = noise.copy()
    wanted[2:4, 6:9] = 127
    assert (found == wanted).all()
    assert (np.array(picture.image) == noise).all()
