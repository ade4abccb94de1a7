"""Figures: their data, axes, marks, captions and text alternatives; and that text in them stays text."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

from ctxviz.figures.card import FigureCard, to_csv
from ctxviz.figures.coordinates import coordinates, worst_table
from ctxviz.figures.heatmap import MANY_CELLS, heatmap
from ctxviz.figures.lines import NAME_ROOM, logit_gap_lines, patch_lines, tvd_lines
from ctxviz.figures.lost import reach
from ctxviz.figures.metrics import LIVE_METRICS, METRICS, metric_table
from ctxviz.figures.palette import (
    DARK,
    LIGHT,
    LOW_PRECISION_COLOURS,
    RULE_COLOURS,
    as_json,
    label,
    variant_style,
)
from ctxviz.figures.text import plain, quoted
from ctxviz.figures.tops import tops
from ctxviz.records import TopTokens
from ctxviz.run import Run
from ctxviz.settings import ARITHMETICS, DTYPES, UPDATE_RULES, RunSettings
from tests.synthetic import synthetic_run
from tests.tables import read_csv, read_records

LINES = (tvd_lines, logit_gap_lines, patch_lines)
HOSTILE = (
    "<img src=x onerror=alert(1)>",
    '<a href="javascript:x">y</a>',
    "<b>bold</b>",
    "$x$",
    "&lt;",
    "\u202e%{x}",
)


@pytest.fixture(scope="module")
def run() -> Run:
    return synthetic_run()


def traces(card: FigureCard, meta: str) -> list[Any]:
    return [trace for trace in card.figure.data if trace.meta == meta]


def all_cards(run: Run) -> list[FigureCard]:
    return [
        *(make(run) for make in LINES),
        *(heatmap(run, 0, metric) for metric in METRICS),
        coordinates(run, 6, 4, 0),
        coordinates(run, 6, 4, 1),
        tops(run, 6, 2),
    ]


def test_line_charts_draw_every_variant_on_a_logarithmic_axis(run: Run) -> None:
    for make, metric, axis in zip(
        LINES, ("tvd", "logit_linf", None), ("TVD", "max |Δ logit|", "‖Δm‖ / ‖m‖"), strict=True
    ):
        card = make(run)
        drawn = traces(card, "variant")
        assert [t.name for t in drawn] == [
            "direct float32",
            "stable float32",
            "direct bfloat16",
            "stable bfloat16",
        ]
        assert card.figure.layout.yaxis.type == "log"
        assert card.figure.layout.yaxis.title.text == axis
        assert card.figure.layout.xaxis.title.text == "token"
        for i, trace in enumerate(drawn):
            expected = run.series(metric, i) if metric else run.field("scale_ratio", i).max(axis=0)
            nonzero = expected > 0
            np.testing.assert_array_equal(np.array(trace.y)[nonzero], expected[nonzero].astype(np.float64))
            np.testing.assert_array_equal(trace.x, np.arange(12))
        low, high = card.figure.layout.yaxis.range
        ys = np.concatenate([t.y for t in drawn])
        assert 10**low < ys.min() <= ys.max() < 10**high


def test_variants_differ_by_colour_or_dash_and_always_by_symbol() -> None:
    every = RunSettings(updates=UPDATE_RULES, arithmetics=("written",), dtypes=DTYPES).variants
    styles = [variant_style(v, i) for i, v in enumerate(every[:8])]
    assert len({(s.color, s.dash, s.symbol) for s in styles}) == 8
    assert len({s.symbol for s in styles}) == 8
    high = [variant_style(v, 0) for v in every if v.dtype in ("float64", "float32")]
    low = [variant_style(v, 0) for v in every if v.dtype in ("bfloat16", "float16")]
    assert {s.dash for s in high} == {"solid"}
    assert "solid" not in {s.dash for s in low}
    assert len({(s.color, s.dash) for s in high[4:] + low[:4]}) == 8
    pair = RunSettings(arithmetics=ARITHMETICS).variants
    assert [variant_style(v, 0).symbol for v in pair] == ["circle", "circle-open"]


def test_reference_lines_are_dotted_and_grey(run: Run) -> None:
    names = [t.name for t in traces(tvd_lines(run), "reference")]
    assert names == ["noise floor float32", "noise floor bfloat16", "no patch float32", "no patch bfloat16"]
    for trace in traces(tvd_lines(run, DARK), "reference"):
        assert trace.line.color == DARK.soft
        assert re.fullmatch(r"\d+px,\d+px", trace.line.dash)
    floor = traces(logit_gap_lines(run), "reference")
    assert [t.name for t in floor] == names[:2]
    assert np.isfinite(floor[0].y).sum() == 5, "measured at steps 0, 1, 2, 4, 8"
    assert floor[0].connectgaps
    assert traces(patch_lines(run), "reference") == []


def test_references_of_two_dtypes_are_told_apart_by_line_and_by_name(run: Run) -> None:
    for make in (tvd_lines, logit_gap_lines):
        card = make(run)
        lines = [(t.line.dash, t.line.width) for t in traces(card, "reference")]
        assert len(set(lines)) == len(lines) >= 2
        named = {a.text: a for a in card.figure.layout.annotations if a.name == "reference"}
        assert set(named) == {t.name for t in traces(card, "reference")}
        low, high = card.figure.layout.yaxis.range
        heights = sorted(a.y for a in named.values())
        assert np.diff(heights).min() >= NAME_ROOM * (high - low) - 1e-9
        assert heights[-1] <= high - NAME_ROOM * (high - low) + 1e-9
    assert not any(a.name == "reference" for a in patch_lines(run).figure.layout.annotations)


def test_an_exact_zero_is_drawn_on_its_row_and_counted(run: Run) -> None:
    card = tvd_lines(run)
    [zero] = traces(card, "zero")
    [row] = set(zero.y)
    assert list(zero.x) == [2]
    smallest = min(run.series("tvd", i)[run.series("tvd", i) > 0].min() for i in range(4))
    assert 10 ** card.figure.layout.yaxis.range[0] < row < smallest / 1.5
    stable = traces(card, "variant")[1]
    assert stable.y[2] == row
    assert stable.customdata[2][1] == "0"
    assert "1 value is exactly 0." in card.caption
    assert "stable float32: from 0 to" in card.alt
    assert card.table["tvd stable float32"][2] == 0.0
    assert any(a.text == "exactly 0" for a in card.figure.layout.annotations)
    assert traces(patch_lines(run), "zero") == []


def test_an_exact_zero_of_the_noise_floor_is_marked_and_does_not_bend_its_line(run: Run) -> None:
    run = synthetic_run(faults=False)
    run._references["noise_floor_tvd"].array[0, 0] = 0
    card = tvd_lines(run)
    [zero] = traces(card, "zero")
    assert list(zero.x) == [0]
    assert np.isnan(traces(card, "reference")[0].y[0])
    assert "1 value is exactly 0." in card.caption


def test_zeros_alone_still_have_an_axis() -> None:
    run = synthetic_run(4, 8, 3, updates=["stable"], dtypes=["float32"], faults=False)
    run._series["logit_linf"].array[:3] = 0
    run._references["noise_floor_linf"].array[:3] = 0
    card = logit_gap_lines(run)
    assert "6 values are exactly 0." in card.caption
    run._references["noise_floor_linf"].array[:3] = np.nan
    assert "3 tokens are exactly 0." in logit_gap_lines(run).caption
    low, high = card.figure.layout.yaxis.range
    assert 10**low < traces(card, "zero")[0].y[0] < 10**high


def test_what_is_not_finite_is_a_gap_and_counted(run: Run) -> None:
    run = synthetic_run()
    run._series["tvd"].array[5, 0] = np.nan
    run._series["tvd"].array[7, 1] = np.inf
    card = tvd_lines(run)
    direct, stable = traces(card, "variant")[:2]
    assert np.flatnonzero(np.isnan(direct.y)).tolist() == [5]
    assert np.flatnonzero(np.isnan(stable.y)).tolist() == [7]
    assert not direct.connectgaps
    assert "1 value is not measured and left out." in card.caption
    assert "✗ on the top row: 1 value is no number." in card.caption
    [lost] = traces(card, "lost")
    highest = max(np.nanmax(t.y) for t in traces(card, "variant") + traces(card, "reference"))
    assert list(lost.x) == [7]
    assert np.log10(highest) < np.log10(lost.y[0]) < card.figure.layout.yaxis.range[1]
    assert "no number" in [a.text for a in card.figure.layout.annotations]
    assert traces(tvd_lines(synthetic_run()), "lost") == []
    assert f"stable float32: {reach(run.series('tvd', 1))}, largest at token" in card.alt
    assert reach(run.series("tvd", 1)).endswith(", no number at 1 token")
    assert (card.table["tvd direct float32"][5], card.table["tvd stable float32"][7]) == (None, np.inf)
    assert card.table["tvd direct float32"][5] is None
    run._fields["scale_ratio"].array[:] = np.nan
    card = patch_lines(run)
    assert "48 values are not measured and left out." in card.caption
    assert "direct float32: not measured." in card.alt


def test_mismatches_and_ties_are_marked_on_their_trace(run: Run) -> None:
    for make in LINES:
        card = make(run)
        [differs], [tie] = traces(card, "differs"), traces(card, "tie")
        drawn = traces(card, "variant")
        assert (list(differs.x), list(differs.y)) == ([6], [drawn[2].y[6]])
        assert (list(tie.x), list(tie.y)) == ([3], [drawn[3].y[3]])
        assert "✗" in differs.text[0]
        assert "≈" in tie.text[0]
        assert "✗ marks another token. ≈ marks a tie inside the noise floor." in card.caption
    calm = tvd_lines(synthetic_run(faults=False))
    assert traces(calm, "differs") + traces(calm, "tie") == []
    assert "✗" not in calm.caption


def test_the_text_alternative_of_lines_has_the_numbers(run: Run) -> None:
    alt = tvd_lines(run).alt
    assert alt.startswith("Total-variation distance (TVD) of 4 variants over 12 tokens, logarithmic.")
    worst = int(run.series("tvd", 0).argmax())
    assert f"direct float32: from 8.6·10⁻⁸ to 2.5·10⁻⁶, largest at token {worst} “,”." in alt


def test_the_legend_may_be_left_to_the_page(run: Run) -> None:
    assert tvd_lines(run).figure.layout.showlegend
    assert not tvd_lines(run, legend=False).figure.layout.showlegend


def test_a_run_without_tokens_says_so() -> None:
    empty = synthetic_run(steps=0)
    for card in (*(make(empty) for make in LINES), heatmap(empty, 0)):
        assert card.alt == "No token yet."
        assert card.figure.layout.annotations[0].text == "no token yet"
        assert list(card.figure.data) == []


@pytest.mark.parametrize("metric", LIVE_METRICS)
def test_the_heatmap_draws_logarithms_and_writes_numbers(run: Run, metric: str) -> None:
    card = heatmap(run, 0, metric)
    field = card.figure.data[0]
    values = metric_table(run, 0, metric)
    assert values.shape == (18, 12)
    np.testing.assert_allclose(field.z, np.log10(values), rtol=1e-12)
    assert (field.zmin, field.zmax) == pytest.approx((np.log10(values.min()), np.log10(values.max())))
    assert field.colorscale[0][1] == "#00224e"
    assert field.colorscale[-1][1] == "#fee838"
    assert field.colorbar.title.text == METRICS[metric].symbol
    for at, words in zip(field.colorbar.tickvals, field.colorbar.ticktext, strict=True):
        assert field.zmin <= at <= field.zmax
        if words.startswith("10"):
            assert words == "10" + str(int(at)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    assert card.figure.layout.yaxis.title.text == "layer"
    assert METRICS[metric].meaning in card.caption
    layer, step = np.unravel_index(
        values.argmin() if METRICS[metric].small_is_bad else values.argmax(), values.shape
    )
    assert f"in layer {layer} at token {step} “" in card.alt


def test_the_weight_ratio_is_the_largest_of_three() -> None:
    run = synthetic_run(3, 8, 2, updates=["stable"], dtypes=["float32"])
    ratios = [run.field(f"{name}_ratio", 0) for name in ("gate", "up", "down")]
    np.testing.assert_array_equal(metric_table(run, 0, "weight_ratio"), np.max(ratios, axis=0))
    run._fields["down_ratio"].array[:] = np.nan
    np.testing.assert_array_equal(metric_table(run, 0, "weight_ratio"), np.max(ratios[:2], axis=0))


def test_axis_ticks_of_the_heatmap_are_tokens_with_their_marks(run: Run) -> None:
    ticks = heatmap(run, 2).figure.layout.xaxis
    assert list(ticks.tickvals) == list(range(12))
    assert list(ticks.ticktext[:8]) == [
        "·The", "·forecast", "·for", "·Mars", "·tomorrow", ":", "✗ ⏎", "·dust"
    ]  # fmt: skip
    assert heatmap(run, 3).figure.layout.xaxis.ticktext[3] == "≈ ·Mars"
    many = heatmap(synthetic_run(2, 8, 120, vectors=False), 0).figure.layout.xaxis
    assert len(many.tickvals) <= 33


def test_cells_that_the_colours_cannot_tell_carry_a_mark() -> None:
    run = synthetic_run(6, 8, 5, updates=["direct"], dtypes=["float32"])
    cells = run._fields["scale_ratio"].array
    cells[0, 0, 3], cells[1, 0, 4], cells[2, 0, 5], cells[3, 0, 5] = 0, np.nan, np.inf, 1e31
    card = heatmap(run, 0, "scale_ratio", limits=(1e-30, 1e30))
    marks = {t.name: t for t in traces(card, "glyph")}
    assert {name: (list(t.x), list(t.y)) for name, t in marks.items()} == {
        "exactly 0": ([0], [3]), "not measured": ([1], [4]), "no number": ([2], [5]),
        "past the scale": ([3], [5]),
    }  # fmt: skip
    assert len({t.marker.symbol for t in marks.values()}) == 4
    for words in (
        "○ 1 cell is exactly 0.",
        "– 1 cell is not measured.",
        "✕ 1 cell is no number.",
        "△ 1 cell is past the scale.",
    ):
        assert words in card.caption
    said = {(y, x): words for x, y, _, _, words in traces(card, "cells")[0].customdata}
    assert [said[at] for at in ((4, 1), (5, 2), (5, 3))] == ["not measured", "no number", "1·10³¹"]
    assert "no number at 1 cell; largest in layer 5" in card.alt
    assert card.alt.endswith(f"No number first in layer 5 at token 2 {quoted(run.token(2)[4])}.")
    assert card.table["scale_ratio"][3 * 5] == 0
    assert card.table["scale_ratio"][4 * 5 + 1] is None
    assert card.table["scale_ratio"][5 * 5 + 2] == np.inf
    assert traces(heatmap(synthetic_run(), 0), "glyph") == []


def test_a_fixed_scale_marks_what_lies_past_either_end(run: Run) -> None:
    values = metric_table(run, 1, "scale_ratio")
    card = heatmap(run, 1, "scale_ratio", limits=(1e-5, 1e-3))
    field = card.figure.data[0]
    assert (field.zmin, field.zmax) == pytest.approx((-5, -3))
    [past] = traces(card, "glyph")
    expected = np.argwhere((values < 1e-5) | (values > 1e-3))
    np.testing.assert_array_equal(np.stack([past.y, past.x], axis=1), expected)
    assert f"△ {len(expected)} cells are past the scale." in card.caption


def test_unpatched_layers_are_named_once_and_not_marked_cell_by_cell() -> None:
    run = synthetic_run(6, 8, 5, first_layer=3)
    card = heatmap(run, 0)
    assert [a.text for a in card.figure.layout.annotations] == ["layers 0 to 2 are not patched"]
    assert traces(card, "glyph") == []
    assert np.isnan(card.figure.data[0].z[:3]).all()
    assert heatmap(run, 0, "output_error").figure.layout.annotations == ()


def test_every_cell_can_be_clicked_and_says_what_it_is(run: Run) -> None:
    [cells] = traces(heatmap(run, 0), "cells")
    assert len(cells.x) == 18 * 12
    assert cells.marker.opacity == 0
    at = next(i for i, row in enumerate(cells.customdata) if row[:2] == [6, 4])
    assert (cells.x[at], cells.y[at]) == (6, 4)
    assert cells.customdata[at][3:] == ["⏎", "3·10⁻⁸"]
    assert cells.customdata[at][2] == pytest.approx(3e-8)
    assert traces(heatmap(run, 0, clickable=False), "cells") == []
    outline = heatmap(run, 0, selected=(6, 4)).figure.layout.shapes[-1]
    assert (outline.x0, outline.x1, outline.y0, outline.y1) == (5.5, 6.5, 3.5, 4.5)


def test_many_cells_are_drawn_with_webgl() -> None:
    run = synthetic_run(2, 4, MANY_CELLS // 2 + 1, updates=["direct"], dtypes=["float32"], vectors=False)
    [cells] = traces(heatmap(run, 0), "cells")
    assert isinstance(cells, go.Scattergl)


def test_coordinates_are_drawn_as_they_are(run: Run) -> None:
    card = coordinates(run, 6, 4, 0)
    kept = run.vectors(6, 0)
    assert kept is not None
    axes = card.figure.layout
    assert (axes.xaxis.type, axes.yaxis.type) == ("log", "log")
    assert (axes.xaxis.title.text, axes.yaxis.title.text) == (
        "|h|, the denominator",
        "|Δm|, the change of the scale",
    )
    live, dead = traces(card, "points")
    assert (live.name, dead.name) == ("live", "dead")
    assert live.marker.symbol != dead.marker.symbol
    assert [row[0] for row in dead.customdata] == list(range(1, 8))
    at = [row[0] for row in live.customdata]
    np.testing.assert_array_equal(live.x, np.abs(kept.h[4, at]).astype(np.float64))
    np.testing.assert_array_equal(live.y, np.abs(kept.delta_scale[4, at]).astype(np.float64))
    assert "◇ 7 coordinates are dead (m = 0)." in card.caption
    assert "64 coordinates, 7 dead" in card.alt
    assert "Worst: coordinate 63, h = 3·10⁻⁸" in card.alt
    assert card.table["dead"] == [False, *[True] * 7, *[False] * 56]


def test_lines_of_equal_product_have_slope_minus_one_and_a_name(run: Run) -> None:
    for variant, symbol in ((0, "|Δv|"), (1, "|h·Δm|")):
        card = coordinates(run, 6, 4, variant)
        lines = traces(card, "product")
        assert 2 <= len(lines) <= 6
        for line in lines:
            slope = np.diff(np.log10(line.y)) / np.diff(np.log10(line.x))
            assert slope[0] == pytest.approx(-1)
            product = round(np.log10(line.x[0] * line.y[0]))
            assert line.x[0] * line.y[0] == pytest.approx(10.0**product)
            assert (
                line.name
                == f"{symbol} = 10{str(product).translate(str.maketrans('-0123456789', '⁻⁰¹²³⁴⁵⁶⁷⁸⁹'))}"
            )
        named = [a.text for a in card.figure.layout.annotations]
        assert any(line.name in named for line in lines)


def test_the_worst_ten_are_named_and_tabled(run: Run) -> None:
    kept = run.vectors(6, 1)
    assert kept is not None
    rows = worst_table(kept, 4)
    sizes = np.abs(kept.delta_scale[4])
    assert [row.j for row in rows] == np.argsort(-sizes, kind="stable")[:10].tolist()
    first = rows[0]
    of_first = [array[4, first.j] for array in (kept.h, kept.delta_v, kept.scale, kept.delta_scale)]
    assert [first.h, first.delta_v, first.m, first.delta_m, first.dead] == [*of_first, True]
    assert [row.dead for row in rows] == [row.m == 0 for row in rows]
    named = {a.text.removesuffix(" ◇") for a in coordinates(run, 6, 4, 1).figure.layout.annotations}
    assert {str(row.j) for row in rows} <= named
    assert len(worst_table(kept, 4, 3)) == 3


def test_zeros_and_non_finite_coordinates_are_counted_and_not_lost() -> None:
    run = synthetic_run(6, 16, 2, updates=["direct"], dtypes=["float32"])
    kept = run.vectors(1, 0)
    assert kept is not None
    kept.h[2, :3] = 0
    kept.delta_scale[2, 3] = 0
    kept.delta_scale[2, 4] = np.inf
    card = coordinates(run, 1, 2, 0)
    assert "4 coordinates with an exact 0 lie on the edge." in card.caption
    assert "1 coordinate is no number and left out." in card.caption
    [live] = traces(card, "points")
    assert len(live.x) == 16
    left, bottom = 10 ** card.figure.layout.xaxis.range[0], 10 ** card.figure.layout.yaxis.range[0]
    assert (live.x[:3] > left).all()
    assert (live.x[:3] < np.abs(kept.h[2, 3:]).min()).all()
    assert bottom < live.y[3] < live.y[5:].min()
    assert np.isnan(live.y[4])
    first = worst_table(kept, 2)[0]
    assert (first.j, first.delta_m) == (4, np.inf)
    assert card.table["delta_m"][4] == np.inf


def test_missing_coordinates_are_explained() -> None:
    gone = coordinates(synthetic_run(4, 8, 2, vectors=False), 1, 2, 0)
    assert "not kept" in gone.caption
    assert gone.table == {}
    run = synthetic_run(4, 8, 2, first_layer=2)
    unpatched = coordinates(run, 1, 1, 0)
    assert "the first patched layer is 2" in unpatched.caption
    kept = run.vectors(1, 0)
    assert kept is not None
    assert worst_table(kept, 1) == []


def test_tops_stand_side_by_side(run: Run) -> None:
    card = tops(run, 6, 2)
    context, patched = card.figure.data
    ours, theirs = run.baseline(6, "bfloat16").top, run.top(6, 2)
    assert (context.name, patched.name) == ("with context", "patched, direct bfloat16")
    np.testing.assert_array_equal(context.x, ours.probabilities.astype(float))
    of_id = dict(zip(theirs.ids.tolist(), theirs.probabilities.tolist(), strict=True))
    assert list(patched.x) == [of_id.get(i) for i in card.table["token_id"]]
    assert patched.marker.color == "rgba(0,0,0,0)" != context.marker.color
    assert patched.marker.line.color != context.marker.line.color
    assert card.figure.layout.yaxis.ticktext[0] == "⏎"
    assert card.figure.layout.xaxis.title.text == "probability of the next token"
    assert "With context: “⏎” 0." in card.alt
    assert "Patched, direct bfloat16: “·sand” 0." in card.alt


def test_tokens_of_one_model_alone_are_missing_bars_and_counted() -> None:
    run = synthetic_run(2, 8, 2)
    run._tops[1] = tuple(type(t)(t.ids + 10_000, t.probabilities, t.texts) for t in run._tops[1])
    card = tops(run, 1, 0)
    context, patched = card.figure.data
    assert list(context.x[5:]) == [None] * 5
    assert list(patched.x[:5]) == [None] * 5
    assert "10 bars are missing" in card.caption


@pytest.mark.parametrize("silent", ["context", "patched", "both"])
def test_a_model_without_a_distribution_is_not_one_whose_tokens_are_elsewhere(silent: str) -> None:
    run = synthetic_run(2, 8, 2)
    none = TopTokens(np.array([], np.int32), np.array([], np.float32), ())
    if silent != "context":
        run._tops[1] = (none, *run._tops[1][1:])
    if silent != "patched":
        run._baselines[1] = tuple(replace(b, top=none) for b in run._baselines[1])
    card = tops(run, 1, 0)
    who = {"context": "with context", "patched": "patched, direct float32"}
    names = " and ".join(name for key, name in who.items() if silent in (key, "both"))
    assert f"No distribution, since the logits are no numbers: {names}." in card.caption
    assert "missing" not in card.caption
    assert "no distribution" in card.alt
    for column, key in (("with_context", "context"), ("patched", "patched")):
        assert all((value == np.inf) == (silent == key) for value in card.table[column])
    if silent == "both":
        assert card.figure.layout.annotations[0].text == "no distribution: the logits are no numbers"
    else:
        assert {row[1] for row in card.figure.data[silent == "patched"].customdata} == {"no distribution"}


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from strings(inner)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_text_in_every_figure(text: str) -> None:
    run = synthetic_run(6, 16, 4, texts=[text])
    run._baselines[3] = tuple(
        type(b)(b.dtype, b.margin, type(b.top)(b.top.ids, b.top.probabilities, (text,) * 5), b.seconds)
        for b in run._baselines[3]
    )
    shown = plain(text)
    assert not re.search(r"[<>$]|\u202e", shown)
    for card in (*(make(run) for make in LINES), heatmap(run, 0), coordinates(run, 3, 4, 0), tops(run, 3, 0)):
        found = list(strings(json.loads(card.figure.to_json() or "")))
        tags = {tag for s in found for tag in re.findall(r"<[^>]*>?", s)}
        assert tags <= {"<b>", "</b>", "<br>", "<extra>", "</extra>"}
        assert not any("$" in s.replace("&#36;", "") or "\u202e" in s for s in found)
        templates = [t.hovertemplate or "" for t in card.figure.data] + [
            t.name or "" for t in card.figure.data
        ]
        assert not any(shown in template for template in templates), "text goes in as data, not as a template"
        assert "\u202e" not in card.title + card.caption + card.alt
    cells = traces(heatmap(run, 0), "cells")[0]
    assert html.unescape(cells.customdata[0][3]) == html.unescape(shown)


def test_plain_escapes_what_plotly_would_obey() -> None:
    assert plain("<b>&$") == "&lt;b&gt;&amp;&#36;"
    assert plain("a" * 30 + "<") == "a" * 24 + "…"


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_both_themes_reach_every_part(run: Run, theme: Any) -> None:
    cards = [make(run, theme) for make in LINES]
    cards += [heatmap(run, 0, theme=theme), coordinates(run, 6, 4, 0, theme), tops(run, 6, 2, theme)]
    for card in cards:
        layout = card.figure.layout
        assert (layout.paper_bgcolor, layout.plot_bgcolor) == (theme.background, theme.background)
        assert layout.font.color == theme.ink
        assert layout.xaxis.tickfont.color in (theme.soft, theme.ink)
        other = DARK if theme is LIGHT else LIGHT
        used = set(strings(json.loads(card.figure.to_json() or "")))
        assert not used & {other.background, other.ink, other.soft, other.line, other.alarm}


def contrast(a: str, b: str) -> float:
    """Contrast of two colours, as WCAG 2 defines it."""

    def luminance(colour: str) -> float:
        parts = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_words_can_be_read_on_their_ground(theme: Any) -> None:
    for colour in (theme.ink, theme.soft, theme.alarm, theme.accent):
        assert contrast(colour, theme.background) >= 4.5
        assert contrast(colour, theme.panel) >= 4.5


def test_no_theme_colour_is_a_variants_so_that_themes_can_be_swapped() -> None:
    variants = {c.lower() for c in (*RULE_COLOURS.values(), *LOW_PRECISION_COLOURS.values())}
    for theme in (LIGHT, DARK):
        colours = [
            theme.background,
            theme.panel,
            theme.ink,
            theme.soft,
            theme.line,
            theme.alarm,
            theme.accent,
        ]
        assert len(set(colours)) == 7
        assert not variants & {c.lower() for c in colours}


def test_the_browser_gets_the_same_look(run: Run) -> None:
    look = json.loads(json.dumps(as_json(run.variants)))
    assert look["themes"]["dark"]["background"] == DARK.background
    assert [v["label"] for v in look["variants"]] == [label(v, run.variants) for v in run.variants]
    assert look["variants"][2] == {
        "label": "direct bfloat16", "slug": "direct-written-bfloat16-from0",
        "color": "#E69F00", "dash": "6px,4px", "symbol": "diamond", "written": True,
    }  # fmt: skip
    both = RunSettings(arithmetics=ARITHMETICS).variants
    assert [label(v, both) for v in both] == ["stable float32 written", "stable float32 factored"]


def test_every_card_has_words_and_a_table_of_equal_columns(run: Run) -> None:
    for card in all_cards(run):
        assert card.title
        assert card.caption.endswith(".")
        assert card.alt.endswith(".")
        assert re.search(r"\d", card.alt)
        assert len({len(values) for values in card.table.values()}) == 1
        rows = read_csv(to_csv(card.table))
        assert rows[0] == list(card.table)
        assert len(rows) == 1 + len(next(iter(card.table.values())))
        assert "nan" not in to_csv(card.table).lower()


def test_csv_keeps_numbers_and_disarms_formulas() -> None:
    table = {
        "=name": ["=1+1", "+1", "-1", "@x", " =1", "\t=1", "plain", "a,b", 'q"', "\ud800", "＝1"],
        "number": [
            0.1,
            np.float32(0.1),
            1e-300,
            np.nan,
            None,
            -1,
            np.int32(7),
            True,
            np.bool_(False),
            -0.0,
            np.inf,
        ],
    }
    rows = read_csv(to_csv(table))
    assert [row[0] for row in rows] == [
        "'=name", "'=1+1", "'+1", "'-1", "'@x", "' =1", "'\t=1", "plain", "a,b", 'q"', "\ufffd", "'＝1",
    ]  # fmt: skip
    assert [row[1] for row in rows[1:]] == [
        "0.1", "0.1", "1e-300", "", "", "-1", "7", "true", "false", "-0.0", "no number",
    ]  # fmt: skip
    assert to_csv({}) == "\ufeff\r\n"
    assert "\n" not in to_csv(table).replace("\r\n", "")


def test_csv_numbers_come_back_to_the_bit(run: Run) -> None:
    rows = read_records(to_csv(tvd_lines(run).table))
    assert [float(row["tvd direct float32"]) for row in rows] == run.series("tvd", 0).tolist()
    rows = read_records(to_csv(coordinates(run, 6, 4, 0).table))
    kept = run.vectors(6, 0)
    assert kept is not None
    np.testing.assert_array_equal(np.array([row["h"] for row in rows], np.float32), kept.h[4])
