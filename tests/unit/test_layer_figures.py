"""Figures of one cell (token, layer, variant) and of one coordinate: data, axes, captions, empty states."""

from __future__ import annotations

import html
import json
import re
from typing import Any

import numpy as np
import pytest
import torch

from ctxviz import alarms
from ctxviz.errors import SettingsError
from ctxviz.figures.card import FigureCard, to_csv
from ctxviz.figures.cell import Cell, find
from ctxviz.figures.coordinates import coordinates
from ctxviz.figures.everywhere import everywhere
from ctxviz.figures.guilty import guilty, guilty_sentence
from ctxviz.figures.multiplier import multiplier
from ctxviz.figures.palette import DARK, LIGHT
from ctxviz.figures.rounding import round_to, rounding, stored_error
from ctxviz.figures.scales import scales
from ctxviz.figures.scatter import farthest
from ctxviz.figures.spectrum import spectrum
from ctxviz.figures.text import sci
from ctxviz.numerics import rms_target
from ctxviz.records import SOLVER_CASES, LayerVectors
from ctxviz.run import Run
from ctxviz.settings import EPSILONS, UPDATE_RULES
from tests.synthetic import synthetic_run
from tests.tables import read_records

CELL_FIGURES = (coordinates, spectrum, scales, rounding, multiplier)
TORCH = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
STEP, LAYER, WIDTH = 3, 4, 64
DIRECT, STABLE, RESCALED, FLOORED = range(4)


@pytest.fixture
def run() -> Run:
    """A run whose cells in layer 4 at token 3 were solved by the real rules, in exact arithmetic."""
    run = synthetic_run(6, WIDTH, 6, updates=UPDATE_RULES, dtypes=["float32"])
    rng = np.random.default_rng(7)
    for variant, rule in ((STABLE, "stable"), (FLOORED, "floored")):
        kept = vectors(run, variant)
        m = kept.scale[LAYER].astype(np.float64)
        g = rng.normal(0, 8, WIDTH) + m * rng.normal(size=WIDTH)
        floor = (run.variants[variant].floor,) if rule == "floored" else ()
        target = getattr(rms_target, rule)(m, g, float(WIDTH), *floor)
        kept.h[LAYER], kept.delta_scale[LAYER] = target.n, (g - m * target.n) / target.n
        run._fields["multiplier"].array[STEP, variant, LAYER] = target.multiplier
        run._fields["solver_case"].array[STEP, variant, LAYER] = target.case
    return run


def vectors(run: Run, variant: int, step: int = STEP) -> LayerVectors:
    kept = run.vectors(step, variant)
    assert kept is not None
    return kept


def traces(card: FigureCard, meta: str) -> list[Any]:
    return [trace for trace in card.figure.data if trace.meta == meta]


def drawn(card: FigureCard, name: str) -> dict[int, tuple[float, float]]:
    """Coordinates of one class, with their places."""
    return {
        row[0]: (x, y)
        for t in traces(card, "points")
        if t.name == name
        for row, x, y in zip(t.customdata, t.x, t.y, strict=True)
    }


def words(card: FigureCard) -> list[str]:
    return [a.text for a in card.figure.layout.annotations]


def lines(card: FigureCard) -> dict[str, Any]:
    return {s.name: s for s in card.figure.layout.shapes}


@pytest.mark.parametrize("make", CELL_FIGURES)
def test_what_is_missing_is_explained(make: Any) -> None:
    gone = make(synthetic_run(4, 8, 2, vectors=False), 1, 2, 0)
    assert gone.caption.startswith("The coordinates of this token were not kept")
    assert (words(gone), gone.table) == (["coordinates not kept"], {})
    unpatched = make(synthetic_run(4, 8, 2, first_layer=2), 1, 1, 0)
    assert unpatched.caption == "Layer 1 is not patched; the first patched layer is 2."
    assert words(unpatched) == ["layer not patched"]


@pytest.mark.parametrize("make", CELL_FIGURES)
def test_every_card_says_where_it_is_and_holds_every_coordinate(run: Run, make: Any) -> None:
    for variant in range(4):
        card = make(run, STEP, LAYER, variant)
        assert card.title.startswith(f"Layer 4, token 3 “·Mars”, {run.variants[variant].update}")
        assert card.caption.endswith(".")
        assert card.table["coordinate"] == list(range(WIDTH))
        assert len({len(values) for values in card.table.values()}) == 1
        rows = read_records(to_csv(card.table))
        of_h = np.array([row["h"] for row in rows], np.float32)
        np.testing.assert_array_equal(of_h, vectors(run, variant).h[LAYER])
        assert "nan" not in to_csv(card.table)


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_both_themes_reach_every_part(run: Run, theme: Any) -> None:
    kept = vectors(run, STABLE)
    kept.uncontrolled[LAYER, 10] = kept.swallowed[LAYER, 11] = True
    other = DARK if theme is LIGHT else LIGHT
    cards = [make(run, STEP, LAYER, STABLE, theme) for make in CELL_FIGURES]
    for card in [*cards, everywhere(run, 3, STABLE, theme)]:
        assert card.figure.layout.paper_bgcolor == theme.background
        text = card.figure.to_json() or ""
        assert not any(c in text for c in (other.background, other.ink, other.soft, other.line, other.alarm))


def test_hostile_text_stays_text() -> None:
    run = synthetic_run(6, 16, 4, texts=["<img src=x>$\u202e%{x}"])
    cards = [everywhere(run, 3, 0), *(make(run, 3, 4, 1) for make in CELL_FIGURES)]
    for card in cards:
        text = html.unescape(card.figure.to_json() or "")
        assert "\u202e" not in text + card.title + card.alt
        assert "\\u202e" not in text
        tags = set(re.findall(r"<[^>]*>?", card.figure.to_json(engine="json") or ""))
        assert tags <= {"<b>", "</b>", "<br>", "<extra>", "</extra>"}


@pytest.mark.parametrize("dtype", EPSILONS)
def test_epsilons_are_those_of_the_dtypes(dtype: str) -> None:
    assert EPSILONS[dtype] == torch.finfo(getattr(torch, dtype)).eps


def test_the_epsilon_is_a_line_where_it_lies_within_the_plot(run: Run) -> None:
    kept = vectors(run, DIRECT)
    above = coordinates(run, STEP, 2, DIRECT)
    assert lines(above) == {}
    assert "All |h| lie above the epsilon of float32, 1.2·10⁻⁷." in above.more
    kept.h[2, 5] = 1e-8
    inside = coordinates(run, STEP, 2, DIRECT)
    line = lines(inside)["epsilon"]
    assert (line.x0, line.x1, line.yref) == (2.0**-23, 2.0**-23, "paper")
    assert "ε float32" in words(inside)
    assert (
        "The dashed line is the epsilon of float32, 1.2·10⁻⁷; 1 coordinate has a smaller |h|." in inside.more
    )
    kept.h[2, 5] = 0
    zero = coordinates(run, STEP, 2, DIRECT)
    assert lines(zero) == {}, "left of the place of exact zeros a line would tell the wrong order"
    assert "All |h| lie above the epsilon of float32, 1.2·10⁻⁷, except 1 exact zero." in zero.more
    kept.h[2] = 1e-12
    assert "All |h| lie below the epsilon of float32" in coordinates(run, STEP, 2, DIRECT).more


def test_flags_are_marked_over_their_points_and_counted(run: Run) -> None:
    kept = vectors(run, STABLE)
    kept.uncontrolled[LAYER, [3, 10]] = True
    kept.swallowed[LAYER, [10, 20, 21]] = True
    card = coordinates(run, STEP, LAYER, STABLE)
    flags = {t.name: t for t in traces(card, "flag")}
    assert {name: list(t.customdata) for name, t in flags.items()} == {
        "uncontrolled": [3, 10], "swallowed": [10, 20, 21]
    }  # fmt: skip
    symbols = {t.marker.symbol for t in [*flags.values(), *traces(card, "points")]}
    assert len(symbols) == 4
    points = drawn(card, "live") | drawn(card, "dead")
    for trace in flags.values():
        assert [points[j] for j in trace.customdata] == list(zip(trace.x, trace.y, strict=True))
    assert "◇ 7 coordinates are dead (m = 0)." in card.caption
    assert "✕ 2 coordinates are uncontrolled (the error Δv stays)." in card.caption
    assert "○ 3 coordinates are swallowed (w + Δm rounds back to w)." in card.caption
    hover = {row[0]: row[1] for t in traces(card, "points") for row in t.customdata}
    assert (hover[3], hover[10], hover[0]) == (" (dead, uncontrolled)", " (uncontrolled, swallowed)", "")
    assert card.table["swallowed"] == kept.swallowed[LAYER].tolist()
    plainly = coordinates(run, STEP, LAYER, DIRECT)
    assert traces(plainly, "flag") == []
    assert "uncontrolled" not in plainly.caption


def test_the_spectrum_is_every_denominator_in_order(run: Run) -> None:
    card = spectrum(run, STEP, LAYER, STABLE)
    h = np.abs(vectors(run, STABLE).h[LAYER].astype(np.float64))
    places = drawn(card, "live") | drawn(card, "dead")
    by_rank = sorted(places.values())
    assert [x for x, _ in by_rank] == list(range(WIDTH))
    assert [y for _, y in by_rank] == sorted(h)
    assert set(drawn(card, "dead")) == set(range(1, 8))
    axes = card.figure.layout
    assert (axes.xaxis.title.text, axes.yaxis.title.text) == (
        "rank, smallest first",
        "|h|, the denominator (RMS 1)",
    )
    assert (axes.yaxis.type, axes.xaxis.type) == ("log", None)
    low, high = axes.yaxis.range
    assert 10**low < h.min() < h.max() < 10**high
    smallest = [str(j) for j in np.argsort(h, kind="stable")[:3]]
    assert set(smallest) <= set(words(card))
    assert f"Smallest: coordinate {smallest[0]} (" in card.alt
    assert card.table["rank"] == np.argsort(np.argsort(h, kind="stable")).tolist()


def test_reference_lines_of_the_spectrum(run: Run) -> None:
    stable = spectrum(run, STEP, LAYER, STABLE)
    assert {name: s.y0 for name, s in lines(stable).items()} == {"small": 1e-3}
    assert f"none of {WIDTH} is below 0.001." in stable.caption
    assert "All |h| lie above the epsilon of float32" in stable.more
    floored = spectrum(run, STEP, LAYER, FLOORED)
    assert {name: s.y0 for name, s in lines(floored).items()} == {"small": 1e-3, "τ": 0.6}
    assert {"floor τ = 0.6", "counted as small, 0.001"} <= set(words(floored))
    assert "at least τ = 0.6 (the solid line); the smallest is 0.6." in floored.more
    vectors(run, STABLE).h[LAYER, :2] = 1e-8, 2e-4
    tiny = spectrum(run, STEP, LAYER, STABLE)
    assert {name: s.y0 for name, s in lines(tiny).items()} == {"small": 1e-3, "ε": 2.0**-23}
    assert f"2 of {WIDTH} are below 0.001" in tiny.caption
    assert len({s.line.dash for s in tiny.figure.layout.shapes}) == 2


def test_exact_zeros_of_the_spectrum_lie_on_the_lowest_row_and_are_counted(run: Run) -> None:
    kept = vectors(run, DIRECT)
    kept.h[2, [5, 9]] = 0
    kept.h[2, 11] = np.inf
    card = spectrum(run, STEP, 2, DIRECT)
    places = drawn(card, "live")
    [row] = {places[j][1] for j in (5, 9)}
    positive = np.abs(kept.h[2][(kept.h[2] != 0) & np.isfinite(kept.h[2])])
    assert 10 ** card.figure.layout.yaxis.range[0] < row < positive.min()
    assert sorted(places[j][0] for j in (5, 9)) == [0, 1]
    assert np.isnan(places[11][1])
    assert "2 coordinates are exactly 0, drawn on the lowest row." in card.caption
    assert "1 coordinate is no number and left out." in card.caption


def test_why_a_cell_has_no_figure_is_told_apart() -> None:
    run = synthetic_run(6, 16, 3, updates=["stable"], dtypes=["float16"], first_layer=2)
    kept = vectors(run, 0, 1)
    kept.h[4], kept.delta_v[4], kept.h[5, 3] = np.inf, np.inf, np.inf
    run._vectors.pop((0, 0))
    words = [
        (0, 4, "coordinates not kept", "The coordinates of this token were not kept"),
        (1, 1, "layer not patched", "Layer 1 is not patched; the first patched layer is 2."),
        (
            1,
            4,
            "no number",
            "Layer 4 was computed, and h is no number at 16 coordinates of 16: it or a",
        ),
    ]
    for step, layer, short, reason in words:
        for draw in (spectrum, scales, rounding, multiplier):
            card = draw(run, step, layer, 0)
            assert [a.text for a in card.figure.layout.annotations] == [short]
            assert card.caption.startswith(reason)
    assert isinstance(find(run, 1, 5, 0), Cell), "fifteen of its coordinates are numbers"
    card = rounding(run, 1, 5, 0)
    assert "1 coordinate is no number and left out." in card.caption
    assert [k for k, cost in enumerate(card.table["cost"]) if cost == np.inf] == [3]


def test_scales_before_and_after(run: Run) -> None:
    kept = vectors(run, DIRECT)
    kept.delta_scale[LAYER, 20] = -3 * kept.scale[LAYER, 20]
    kept.swallowed[LAYER, 30] = True
    card = scales(run, STEP, LAYER, DIRECT)
    m = kept.scale[LAYER].astype(np.float64)
    after = m + kept.delta_scale[LAYER].astype(np.float64)
    turned = set(np.flatnonzero(m * after < 0).tolist())
    assert 20 in turned
    assert set(drawn(card, "sign changed")) == turned
    assert set(drawn(card, "dead")) == set(range(1, 8))
    for j, place in (drawn(card, "same sign") | drawn(card, "sign changed")).items():
        assert place == (abs(m[j]), abs(after[j]))
    assert [list(t.customdata) for t in traces(card, "flag")] == [[30]]
    assert f"▲ {len(turned)} coordinates change sign." in card.caption
    assert "7 coordinates with an exact 0 lie on the edge." in card.caption
    [line] = traces(card, "line")
    np.testing.assert_allclose(line.x, line.y)
    assert "no change" in words(card)
    axes = card.figure.layout
    assert (axes.xaxis.type, axes.yaxis.type) == ("log", "log")
    assert axes.yaxis.title.text == "|m + Δm|, the scale after the patch"
    live = np.flatnonzero(m != 0)
    factor = np.abs(np.log(np.abs(after[live] / m[live])))
    assert {str(j) for j in live[np.argsort(-factor)[:5]]} <= set(words(card))
    assert len({t.marker.symbol for t in traces(card, "points")}) == 3


def test_the_farthest_is_by_factor_and_not_within_one_percent() -> None:
    x, y = np.array([1, 1, 1, 0, 1, 1.0]), np.array([2, 0.1, 1.005, 5, np.inf, 1.0])
    assert farthest(x, y, 5) == [1, 0]
    assert farthest(x, y, 1) == [1]


def awkward(count: int = 100_000) -> np.ndarray:
    """Random doubles of every size, ties of both half precisions, subnormals, huge ones, zeros."""
    rng = np.random.default_rng(1)
    spread = rng.standard_normal(count) * 10.0 ** rng.uniform(-50, 50, count)
    whole = rng.integers(2**7, 2**8, 2000) * 2.0 ** rng.integers(-140, 119, 2000)
    ties = np.concatenate([whole * (1 + 2.0**-8), (rng.integers(2**10, 2**11, 2000) + 0.5) * 2.0**-9])
    below = np.concatenate([ties * (1 - 2.0**-30), ties * (1 + 2.0**-30), ties * (1 + 2.0**-22)])
    halves = (rng.integers(0, 200, 500) + 0.5) * 2.0**-133
    small = np.concatenate(
        [rng.uniform(-1, 1, 2000) * 2.0**-125, rng.uniform(-1, 1, 2000) * 2.0**-14, halves]
    )
    ends = np.array([0.0, -0.0, 3.39e38, 3.3961775e38, 3.4e38, 65503, 65519.99, 65520, 1e300, np.inf, np.nan])
    every = np.concatenate([spread, ties, below, small, ends])
    return np.concatenate([every, -every])


@pytest.mark.parametrize("dtype", TORCH)
def test_rounding_is_torchs_to_the_bit(dtype: str) -> None:
    values = awkward()
    ours = round_to(values, dtype)
    theirs = torch.from_numpy(values).to(TORCH[dtype]).double().numpy()
    np.testing.assert_array_equal(ours, theirs)
    number = ~np.isnan(ours)
    np.testing.assert_array_equal(np.signbit(ours[number]), np.signbit(theirs[number]))


def test_rounding_to_bfloat16_takes_ties_to_even_and_float64_stays() -> None:
    one = 1.0
    np.testing.assert_array_equal(
        round_to(np.array([one + 2**-8, one + 3 * 2**-8, one + 2**-8 + 2**-20]), "bfloat16"),
        [1, 1 + 2**-6, 1 + 2**-7],
    )
    values = awkward(1000)
    np.testing.assert_array_equal(round_to(values, "float64"), values)


def test_the_stored_error_is_exact_in_float64_too() -> None:
    w, dm = np.array([1.0, 1.0, 3.0]), np.array([2.0**-60, 2.0**-9, 0.0])
    np.testing.assert_array_equal(stored_error(w, dm, "float64"), [-(2.0**-60), 0, 0])
    np.testing.assert_array_equal(stored_error(w, dm, "bfloat16"), [-(2.0**-60), -(2.0**-9), 0])


def test_the_cost_of_rounding_the_scale() -> None:
    run = synthetic_run(6, WIDTH, 4, updates=["direct"], dtypes=["bfloat16"])
    kept = vectors(run, 0)
    kept.swallowed[LAYER, 12] = True
    card = rounding(run, STEP, LAYER, 0)
    total = kept.stored[LAYER].astype(np.float64) + kept.delta_scale[LAYER].astype(np.float64)
    error = torch.from_numpy(total).to(torch.bfloat16).double().numpy() - total
    cost = np.abs(error * kept.h[LAYER])
    assert cost.max() > 0
    for j, place in (drawn(card, "live") | drawn(card, "dead")).items():
        assert place == pytest.approx((abs(total[j]), cost[j]), rel=1e-6)
    worst = np.argsort(-cost)[:3]
    assert {str(j) for j in worst} <= set(words(card))
    assert f"Costliest: coordinate {worst[0]} (" in card.alt
    assert [list(t.customdata) for t in traces(card, "flag")] == [[12]]
    [line] = traces(card, "line")
    np.testing.assert_allclose(np.array(line.y) / line.x, 2.0**-8)
    assert (cost <= np.abs(total) * 2.0**-8 * np.abs(kept.h[LAYER]) * (1 + 1e-12)).all()
    axes = card.figure.layout
    assert (axes.xaxis.title.text, axes.yaxis.title.text) == (
        "|w + Δm|, as it should be stored",
        "|rounding error · h|, in the layer's output",
    )
    assert card.more.startswith("The patch rounds w + Δm to bfloat16")
    np.testing.assert_allclose(np.array(card.table["cost"], float), cost, rtol=1e-6)


def test_where_nothing_is_rounded_or_w_was_not_stored() -> None:
    factored = rounding(synthetic_run(6, 8, 2, arithmetics=["factored"]), 1, 2, 0)
    assert words(factored) == ["nothing is rounded"]
    assert factored.caption.startswith("A factored patch runs beside the weights")
    run = synthetic_run(6, 8, 2)
    vectors(run, 0, 1).stored[:] = np.nan
    assert words(rounding(run, 1, 2, 0)) == ["w not stored in this run"]


def test_stable_changes_the_scale_by_lambda_over_m(run: Run) -> None:
    card = multiplier(run, STEP, LAYER, STABLE)
    kept = vectors(run, STABLE)
    lam = float(run.field("multiplier", STABLE)[LAYER, STEP])
    places = drawn(card, "free, same sign")
    assert set(places) == set(range(WIDTH)) - set(range(1, 8)), "dead ones are left out, none is opposed"
    for j, (x, y) in places.items():
        assert x == pytest.approx(abs(lam / kept.scale[LAYER, j]), rel=1e-6)
        assert y == pytest.approx(x, rel=1e-4)
    assert card.caption.startswith("λ = ")
    assert "regular case" in card.caption
    assert "7 dead coordinates (m = 0) left out." in card.caption
    assert f"{WIDTH - 7} of {WIDTH - 7} coordinates within one percent" in card.alt
    [line] = traces(card, "line")
    np.testing.assert_allclose(line.x, line.y)
    assert card.table["lambda_over_m"][1:8] == [None] * 7
    kept.delta_scale[LAYER, 20] *= -7
    moved = multiplier(run, STEP, LAYER, STABLE)
    assert set(drawn(moved, "free, opposite sign")) == {20}
    assert "▲ 1 coordinate has the opposite sign." in moved.caption
    assert "20" in words(moved)


def test_floored_does_so_above_the_floor_alone(run: Run) -> None:
    card = multiplier(run, STEP, LAYER, FLOORED)
    free = drawn(card, "free, same sign")
    floor = drawn(card, "on the floor, same sign") | drawn(card, "on the floor, opposite sign")
    assert len(free) > 5
    assert len(floor) > 5
    assert len(free) + len(floor) == WIDTH - 7
    assert all(y == pytest.approx(x, rel=1e-4) for x, y in free.values())
    assert sum(y == pytest.approx(x, rel=1e-2) for x, y in floor.values()) < len(floor) / 2
    h = np.abs(vectors(run, FLOORED).h[LAYER])
    assert all(h[j] > 0.6 for j in free)
    assert all(h[j] == pytest.approx(0.6, rel=1e-3) for j in floor)
    assert f"Hollow: {len(floor)} coordinates sit on the floor, |h| = 0.6" in card.caption
    hollow = {t.name: t.marker.symbol.endswith("-open") for t in traces(card, "points")}
    assert all(open_ == name.startswith("on the floor") for name, open_ in hollow.items())


def test_rules_without_a_lambda_say_so(run: Run) -> None:
    assert words(multiplier(run, STEP, LAYER, DIRECT)) == ["direct has no λ"]
    kept = vectors(run, RESCALED)
    kept.delta_scale[LAYER] = 0.25 * kept.scale[LAYER]
    rescaled = multiplier(run, STEP, LAYER, RESCALED)
    assert words(rescaled) == ["rescaled has no λ for m"]
    assert "median Δm / m here: 0.25" in rescaled.caption
    run._fields["multiplier"].array[STEP, STABLE, LAYER] = 0
    run._fields["solver_case"].array[STEP, STABLE, LAYER] = SOLVER_CASES.index("unconstrained")
    assert words(multiplier(run, STEP, LAYER, STABLE)) == ["λ = 0"]
    run._fields["multiplier"].array[STEP, STABLE, LAYER] = np.nan
    run._fields["solver_case"].array[STEP, STABLE, LAYER] = SOLVER_CASES.index("no input")
    none = multiplier(run, STEP, LAYER, STABLE)
    assert none.caption == "The solver gave no λ for this layer and token (case: no input)."
    assert len(none.table["coordinate"]) == WIDTH


def test_the_rescaled_rule_really_changes_every_scale_by_one_factor() -> None:
    rng = np.random.default_rng(0)
    m, g = np.exp(rng.normal(size=WIDTH)), rng.normal(size=WIDTH)
    n = rms_target.rescaled(m, g, float(WIDTH)).n
    factor = (g / n - m) / m
    np.testing.assert_allclose(factor, factor[0])


def test_one_coordinate_everywhere(run: Run) -> None:
    card = everywhere(run, 9, DIRECT)
    left, right = traces(card, "field")
    for step in range(6):
        kept = vectors(run, DIRECT, step)
        np.testing.assert_allclose(left.z[:, step], np.log10(np.abs(kept.h[:, 9]).astype(float)))
        np.testing.assert_allclose(right.z[:, step], np.log10(np.abs(kept.delta_scale[:, 9]).astype(float)))
    assert (left.xaxis, right.xaxis) == ("x", "x2")
    layout = card.figure.layout
    assert layout.xaxis.domain[1] < layout.xaxis2.domain[0]
    assert list(layout.xaxis2.ticktext) == list(layout.xaxis.ticktext)
    assert (layout.yaxis.title.text, layout.yaxis2.title.text) == ("layer", "")
    assert words(card) == ["|h|", "|Δm|"]
    assert left.text[2][3].startswith("layer 2, token 3 “·Mars”<br>|h| = ")
    assert traces(card, "glyph") == []
    at = card.table["step"].index(3) + 6 * 2
    assert (card.table["layer"][at], card.table["step"][at]) == (2, 3)
    assert card.table["abs_h"][at] == abs(vectors(run, DIRECT).h[2, 9])
    assert "|h| from" in card.alt


def test_cells_without_a_colour_carry_marks_and_words() -> None:
    run = synthetic_run(6, 16, 5, updates=["direct"], dtypes=["float32"], first_layer=2)
    run._vectors.pop((0, 0))
    vectors(run, 0).h[3, 9], vectors(run, 0).delta_scale[4, 9] = 0, np.inf
    card = everywhere(run, 9, 0)
    marks = {(t.name, t.xaxis): list(zip(t.x, t.y, strict=True)) for t in traces(card, "glyph")}
    column = [(0, layer) for layer in range(2, 6)]
    assert marks == {
        ("zero", "x"): [(3, 3)], ("not kept", "x"): column,
        ("not kept", "x2"): column, ("no number", "x2"): [(3, 4)],
    }  # fmt: skip
    assert words(card).count("not patched") == 2
    for sentence in (
        "○ exactly 0: 1 cell on the left, 0 on the right.",
        "✕ no number: 0 cells on the left, 1 on the right.",
        "– 1 token was not kept.",
        "Layers 0 to 1 are not patched.",
    ):
        assert sentence in card.caption
    field = traces(card, "field")[0]
    assert field.text[0][1].endswith("not patched")
    assert field.text[3][0].endswith("not kept")
    assert field.text[4][3].endswith("|h| = " + sci(abs(float(vectors(run, 0).h[4, 9]))))
    assert traces(card, "field")[1].text[4][3].endswith("|Δm| is no number")
    assert card.table["abs_h"][0] is None


def test_everywhere_without_coordinates_and_beyond_the_width() -> None:
    run = synthetic_run(4, 8, 2, vectors=False)
    card = everywhere(run, 3, 0)
    assert card.caption == "The coordinates of no token were kept."
    assert everywhere(synthetic_run(4, 8, 0), 3, 0).caption == "No token yet."
    with pytest.raises(SettingsError, match="There is no coordinate 8; choose one from 0 to 7"):
        everywhere(run, 8, 0)


def accuse(run: Run, largest: np.ndarray, change: np.ndarray, smallest: np.ndarray) -> None:
    """Set the statistics of variant 0, [n_layers, steps]."""
    for name, table in (("scale_argmax", largest), ("scale_max_abs", change), ("h_argmin", smallest)):
        run._fields[name].array[: len(run), 0] = table.T


def test_the_guilty_are_counted_from_the_statistics_alone() -> None:
    run = synthetic_run(4, 16, 5, updates=["direct"], dtypes=["float32"], vectors=False)
    largest, smallest = np.full((4, 5), 7), np.full((4, 5), 2)
    change = np.ones((4, 5))
    largest[1, :3], largest[3] = 5, -1
    change[3], smallest[3] = np.nan, -1
    change[2, 4], change[1, 1], change[0, 0] = 90, 40, 0
    smallest[0, :2] = 5
    accuse(run, largest, change, smallest)
    first, second, third = guilty(run, 0)
    assert (first.coordinate, first.largest_change, first.smallest_h) == (7, 11, 0)
    assert (first.worst, first.layer, first.step) == (90, 2, 4)
    assert (second.coordinate, second.largest_change, second.smallest_h) == (5, 3, 2)
    assert (second.worst, second.layer, second.step) == (40, 1, 1)
    assert (third.coordinate, third.largest_change, third.smallest_h, third.worst) == (2, 0, 13, None)
    assert [g.coordinate for g in guilty(run, 0, 1)] == [7]
    assert guilty_sentence(run, 0) == (
        "Coordinate 7 has the largest change in 11 of 14 cells (layer, token), over 3 layers;"
        " its worst is |Δm| = 90 in layer 2 at token 4. Next: 5 in 3."
    )


def test_the_sentence_is_honest_where_none_stands_out() -> None:
    run = synthetic_run(5, 64, 8, updates=["direct"], dtypes=["float32"], vectors=False)
    largest = np.arange(40).reshape(5, 8)
    largest[2, :3] = 50
    accuse(run, largest, np.ones((5, 8)), largest)
    assert guilty_sentence(run, 0) == (
        "No coordinate stands out: 50, the most frequent, has the largest change in 3 of 40 cells"
        " (layer, token), all in layer 2."
    )
    accuse(run, largest, np.zeros((5, 8)), largest)
    assert guilty_sentence(run, 0).startswith("No cell (layer, token) is patched and changed")
    assert guilty_sentence(synthetic_run(4, 8, 0), 0).startswith("No cell")
    assert guilty(synthetic_run(4, 8, 0), 0) == []


@pytest.mark.parametrize("limit", [0, 1, 7, 10_000])
def test_the_first_alarms_are_the_first_of_all(limit: int) -> None:
    run = synthetic_run(6, 64, 8, replays=("same", "batch"))
    every = alarms.find(run)
    assert len({alarm.kind for alarm in every[:7]}) > 1
    assert alarms.find(run, limit=limit) == every[:limit]


def test_figures_are_json_without_nan_words(run: Run) -> None:
    for make in CELL_FIGURES:
        json.loads(make(run, STEP, LAYER, STABLE).figure.to_json() or "", parse_constant=pytest.fail)
