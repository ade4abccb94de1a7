"""What every figure owes its reader: letters large enough, and numbers on an axis at every zoom."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from typing import Any

import pytest

from ctxviz.figures.before_after import before_after
from ctxviz.figures.card import LOG_TICKS, FigureCard
from ctxviz.figures.coordinates import coordinates
from ctxviz.figures.everywhere import everywhere
from ctxviz.figures.frame import LABEL_GAP
from ctxviz.figures.occlusion import occlusion
from ctxviz.figures.pair import pair
from ctxviz.figures.palette import LIGHT
from ctxviz.figures.swap import crosswise, swap_distances
from tests.synthetic import synthetic_run
from tests.unit.test_figures import all_cards as cards_of_a_run
from tests.unit.test_figures_pictures import BLUE, PICTURE, RED, occluded, swapped, top
from tests.unit.test_layer_figures import CELL_FIGURES
from tests.unit.test_numerics_figures import all_cards as cards_of_numerics
from tests.unit.test_numerics_figures import replayed

SMALLEST = 14
LINE = 106
"""Characters of a caption that stand on one line of a figure 750 px wide."""


@pytest.fixture(scope="module")
def cards() -> list[FigureCard]:
    run, again = synthetic_run(), replayed()
    cells = [(variant, again, i) for i, variant in enumerate(again.variants)]
    swaps = swapped(top(RED), top(BLUE))
    return [
        *cards_of_a_run(run),
        *cards_of_numerics(again, cells),
        *(make(run, 3, 4, variant) for make in CELL_FIGURES for variant in (0, 1)),
        everywhere(run, 3, 0),
        occlusion(occluded([0.5, 0.1, 0.2, 0.3]), PICTURE, LIGHT),
        crosswise(swaps),
        swap_distances(swaps),
        before_after(again, 0),
        pair(run, run, 0, 1),
    ]


def fonts(node: Any, name: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(node, dict):
        if name.endswith("font"):
            yield name, node
        for key, value in node.items():
            yield from fonts(value, key)
    elif isinstance(node, (list, tuple)):
        for value in node:
            yield from fonts(value, name)


def test_no_letter_is_smaller_than_fourteen_pixels(cards: list[FigureCard]) -> None:
    for card in cards:
        figure = card.figure.to_plotly_json()
        found = list(fonts(figure["layout"]))
        for trace in figure["data"]:
            # ✗ and ≈ are marks, and smaller where many stand close together.
            if trace.get("meta") not in ("differs", "tie"):
                found += list(fonts(trace))
        assert found
        small = [(name, font) for name, font in found if font.get("size", SMALLEST) < SMALLEST]
        assert not small, card.title


def test_a_logarithmic_axis_numbers_every_gridline_at_every_zoom(cards: list[FigureCard]) -> None:
    seen = 0
    for card in cards:
        layout = card.figure.layout.to_plotly_json()
        for name, axis in layout.items():
            if name.startswith(("xaxis", "yaxis")) and axis.get("type") == "log":
                seen += 1
                assert {key: axis.get(key) for key in LOG_TICKS} == LOG_TICKS, card.title
                # Fixed ticks would leave a part that is zoomed into without any.
                assert not {"tickvals", "dtick", "ticktext"} & set(axis), card.title
    assert seen > 20


def test_a_caption_is_one_line_and_its_explanation_is_asked_for(cards: list[FigureCard]) -> None:
    for card in cards:
        first = re.split(r"(?<=\.) ", card.caption)[0]
        assert len(first) <= LINE, card.title
        assert card.more == "" or card.more.endswith("."), card.title
    assert sum(bool(card.more) for card in cards) > 10


@pytest.mark.parametrize(
    ("ratio", "blows"), [(99.0, False), (101.0, True), (math.inf, True), (math.nan, False)]
)
def test_only_what_blows_up_is_called_so(ratio: float, blows: bool) -> None:
    run = synthetic_run()
    run._fields["scale_ratio"].array[3, 1, 4] = ratio
    assert ("where it blows up" in coordinates(run, 3, 4, 1).title) is blows


def test_the_two_maps_of_a_coordinate_leave_each_other_room() -> None:
    """Their colour bars lie above them: beside them, numbers lay over the other map on a telephone."""
    for bar, panel in zip(
        (trace.colorbar for trace in everywhere(synthetic_run(), 3, 0).figure.data if trace.meta == "field"),
        ((0.0, 0.46), (0.54, 1.0)),
        strict=True,
    ):
        assert (bar.orientation, bar.y, bar.yanchor, bar.xanchor) == ("h", 1, "bottom", "right")
        assert panel[0] < bar.x - bar.len < bar.x <= panel[1]
        assert len(bar.ticktext) <= 4


@pytest.mark.parametrize("variant", [0, 1])
def test_names_of_lines_do_not_lie_over_each_other(variant: int) -> None:
    """Letters of 14 px in a figure of half a page take up to a fifth of its width."""
    run, seen = synthetic_run(18, 64, 8), 0
    for layer, step in itertools.product(range(18), range(8)):
        figure = coordinates(run, step, layer, variant).figure
        (x0, x1), (y0, y1) = figure.layout.xaxis.range, figure.layout.yaxis.range
        spots = [
            ((a.x - x0) / (x1 - x0), (a.y - y0) / (y1 - y0))
            for a in figure.layout.annotations
            if " = 10" in a.text
        ]
        seen += len(spots)
        for i, (across, up) in enumerate(spots):
            for other, height in spots[i + 1 :]:
                assert abs(up - height) >= LABEL_GAP or abs(across - other) >= 0.2
    assert seen > 200
