"""Figures of replays, the error budget, many prompts, sweeps and pairs: data, axes, marks, captions, alt."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

from ctxviz.figures.budget import MOST_COLUMNS, budget, worst_replay
from ctxviz.figures.card import FigureCard
from ctxviz.figures.logaxis import MANY_GLYPHS, LogAxis
from ctxviz.figures.pair import diverge, pair
from ctxviz.figures.palette import DARK, LIGHT
from ctxviz.figures.replay_words import (
    KIND_WORDS,
    bits_sentence,
    control_sentence,
    meaning,
    replays_sentence,
)
from ctxviz.figures.replays import KIND_STYLES, drift_lines, held_lines, replay_lines
from ctxviz.figures.spread import five, match_rates, tvd_boxes
from ctxviz.figures.statistics import quantile, summary, wilson
from ctxviz.figures.sweeps import QUANTITIES, Cells, first_layer_field, first_layer_lines, rule_table
from ctxviz.figures.text import sci
from ctxviz.replaying import FAIL_LEAST_TVD, SAME_WEIGHTS, carried, failed, limit, ties, worst_kind
from ctxviz.run import Run, replay_name
from ctxviz.settings import REPLAY_KINDS, REPLAYS
from tests.synthetic import synthetic_run

DIRECT, STABLE, DIRECT_LOW, STABLE_LOW = range(4)
HOSTILE = "<b>x</b> $y$ \u202e"


def replayed(**changes: Any) -> Run:
    return synthetic_run(**({"replays": REPLAYS, "hold": 3, "budget": True} | changes))


def write(run: Run, column: str, variant: int, step: int | slice, value: float) -> None:
    run._series[column].array[step, variant] = value


@pytest.fixture
def run() -> Run:
    return replayed()


@pytest.fixture(scope="module")
def cells() -> Cells:
    runs = [replayed(first_layer=first, seed=first) for first in (0, 3, 9)]
    return [(variant, run, i) for run in runs for i, variant in enumerate(run.variants)]


def traces(card: FigureCard, meta: str) -> list[Any]:
    return [trace for trace in card.figure.data if trace.meta == meta]


def all_cards(run: Run, cells: Cells, theme: Any = LIGHT) -> list[FigureCard]:
    named = [("one", run), (HOSTILE, run)]
    return [
        replay_lines(run, DIRECT, theme),
        held_lines(run, STABLE, theme),
        drift_lines(run, 2, DIRECT, theme),
        budget(run, STABLE, theme),
        tvd_boxes(named, theme),
        match_rates(named, theme),
        *(make(cells, q, theme) for make in (first_layer_lines, first_layer_field) for q in QUANTITIES),
        pair(run, run, DIRECT, STABLE, theme, ("one", HOSTILE)),
    ]


def test_a_replay_fails_above_ten_times_building_and_floor_and_a_thousandth(run: Run) -> None:
    assert failed(run, DIRECT, "batch").all()
    assert not failed(run, STABLE, "batch").any()
    write(run, "tvd", STABLE, slice(None), 1e-6)
    tvd = replay_name("batch", "tvd")
    write(run, tvd, STABLE, 4, FAIL_LEAST_TVD)
    write(run, tvd, STABLE, 5, FAIL_LEAST_TVD * 1.001)
    assert np.flatnonzero(failed(run, STABLE, "batch")).tolist() == [5]
    write(run, "tvd", STABLE, 5, FAIL_LEAST_TVD / 9)
    assert limit(run, STABLE)[5] == pytest.approx(FAIL_LEAST_TVD / 0.9)
    assert not failed(run, STABLE, "batch").any(), "within ten times the building pass"
    write(run, "tvd", STABLE, 5, 1e-6)
    run._references["noise_floor_tvd"].array[4, 0] = FAIL_LEAST_TVD / 9
    assert math.isclose(limit(run, STABLE)[5], FAIL_LEAST_TVD / 0.9), "the latest floor holds until the next"
    assert not failed(run, STABLE, "batch").any()
    write(run, tvd, STABLE, 7, math.inf)
    assert np.flatnonzero(failed(run, STABLE, "batch")).tolist() == [7]


def test_a_replay_fails_where_its_token_differs_unless_that_is_a_tie(run: Run) -> None:
    match = replay_name("ulp", "match")
    write(run, match, STABLE, 6, 0)
    assert np.flatnonzero(failed(run, STABLE, "ulp")).tolist() == [6]
    run._references["noise_floor_linf"].array[4, 0] = run.baseline(6, "float32").margin * 1.01
    assert ties(run, STABLE)[6], "its margin is below the latest floor"
    assert not failed(run, STABLE, "ulp").any()
    assert not ties(run, STABLE)[3], "measured later"
    write(run, replay_name("ulp", "match"), STABLE, 6, math.nan)
    assert not failed(run, STABLE, "ulp")[6], "not measured is no failure"


def test_weights_carry_the_context_mostly_up_to_half_of_the_tokens(run: Run) -> None:
    assert (carried(run, DIRECT), carried(run, STABLE)) == ("no", "yes")
    tvd = replay_name("ulp", "tvd")
    write(run, tvd, STABLE, slice(0, 6), 0.2)
    assert carried(run, STABLE) == "mostly"
    assert worst_kind(run, STABLE) == "ulp"
    write(run, tvd, STABLE, slice(0, 7), 0.2)
    assert carried(run, STABLE) == "no"
    assert carried(synthetic_run(), DIRECT) is None
    rounded_only = replayed(replays=("rounded",))
    assert failed(rounded_only, STABLE, "rounded").all()
    assert carried(rounded_only, STABLE) is None, "rounded weights are other weights"


def test_the_control_is_the_same_move_of_the_model_with_its_context(run: Run) -> None:
    moved = run.reference("ulp_tvd", "float32")
    said = control_sentence(run, STABLE)
    assert f"TVD {sci(float(np.nanmax(moved)))} at most (5 tokens measured)" in said
    assert control_sentence(synthetic_run(), STABLE) == ""


def test_the_meaning_is_one_sentence_from_the_numbers(run: Run) -> None:
    write(run, replay_name("batch", "tvd"), DIRECT, 0, 0.99)
    write(run, "tvd", DIRECT, slice(None), 2e-6)
    assert meaning(run, DIRECT) == (
        "The weights do not carry the context: run in a batch of two, they give another distribution (TVD up"
        " to 0.99), though the patch was built to 2·10⁻⁶."
    )
    write(run, "tvd", STABLE, slice(None), 1e-6)
    for kind in SAME_WEIGHTS:
        write(run, replay_name(kind, "tvd"), STABLE, slice(None), 1e-6)
    write(run, replay_name("batch", "tvd"), STABLE, 2, 4e-6)
    assert meaning(run, STABLE) == (
        "The weights carry the context: even run in a batch of two, they stay within TVD 4·10⁻⁶ of the model"
        " with context, built to 1·10⁻⁶."
    )
    write(run, replay_name("batch", "tvd"), STABLE, slice(2, 4), 0.04)
    assert "mostly carry the context" in meaning(run, STABLE)
    assert "at 2 of 12 tokens (TVD up to 0.04)" in meaning(run, STABLE)
    assert "not known" in meaning(synthetic_run(), STABLE)


def test_the_meaning_reads_well_where_logits_are_no_numbers(run: Run) -> None:
    write(run, "tvd", DIRECT, slice(None), 2e-6)
    for kind in SAME_WEIGHTS:
        write(run, replay_name(kind, "tvd"), DIRECT, slice(None), math.inf)
        write(run, replay_name(kind, "match"), DIRECT, slice(None), 0)
    assert meaning(run, DIRECT).endswith(
        "they give logits that are no numbers, though the patch was built to 2·10⁻⁶."
    )
    assert "and 36 replays gave logits that are no numbers)" in replays_sentence(run)
    for kind in SAME_WEIGHTS:
        write(run, replay_name(kind, "tvd"), DIRECT, 4, 0.5)
    assert "(TVD up to 0.5, and 11 tokens gave logits that are no numbers)" in meaning(run, DIRECT)
    only = replayed(updates=("direct",), dtypes=("float32",))
    for kind in SAME_WEIGHTS:
        write(only, replay_name(kind, "tvd"), 0, slice(1, None), math.inf)
    assert "and 33 replays gave logits that are no numbers)" in replays_sentence(only)
    write(only, "tvd", 0, 2, math.inf)
    largest = sci(float(np.delete(only.series("tvd", 0), 2).max()))
    assert meaning(only, 0).endswith(f"{largest} (no number at 1 token).")
    write(only, "tvd", 0, slice(None), math.inf)
    assert meaning(only, 0).startswith("The logits were no numbers already while the patch was built")
    assert replays_sentence(only) == ""


def test_bits_are_said_to_be_the_same_only_if_all_are(run: Run) -> None:
    assert bits_sentence(run, STABLE).endswith("bit for bit, at all 12 tokens.")
    write(run, replay_name("same", "shift"), STABLE, 3, 2e-5)
    said = bits_sentence(run, STABLE)
    assert "at 11 of 12 tokens; a logit moved by up to 2·10⁻⁵" in said
    write(run, replay_name("same", "shift"), STABLE, 4, math.inf)
    both = "at 10 of 12 tokens; a logit moved by up to 2·10⁻⁵, and logits are no numbers at 1 token."
    assert bits_sentence(run, STABLE).endswith(both)
    write(run, replay_name("same", "shift"), STABLE, slice(None), math.inf)
    none = "gave the same logits at 0 of 12 tokens; logits are no numbers at 12 tokens."
    assert bits_sentence(run, STABLE).endswith(none)
    assert "not run again" in bits_sentence(synthetic_run(), STABLE)


def test_replay_lines_draw_each_kind_against_the_building_pass(run: Run) -> None:
    card = replay_lines(run, DIRECT)
    assert [t.meta for t in card.figure.data if t.meta in REPLAY_KINDS] == list(REPLAYS), "held is apart"
    for kind in REPLAYS:
        [trace] = traces(card, kind)
        np.testing.assert_array_equal(trace.y, run.replay(kind, "tvd", DIRECT))
        assert trace.name == KIND_WORDS[kind].short
    [built] = traces(card, "building")
    np.testing.assert_array_equal(built.y, run.series("tvd", DIRECT))
    assert [t.name for t in traces(card, "reference")] == ["noise floor", "no patch"]
    axis = card.figure.layout.yaxis
    assert (axis.type, axis.title.text, card.figure.layout.xaxis.title.text) == ("log", "TVD", "token")
    assert axis.range[0] < np.log10(run.series("tvd", DIRECT).min())
    assert card.caption.startswith("Where a line leaves the building pass,")
    assert card.table["tvd batch"] == run.replay("batch", "tvd", DIRECT).tolist()
    assert card.table["match ulp"] == [False] * 12


def test_replay_lines_mark_other_tokens_zeros_and_what_was_not_replayed(run: Run) -> None:
    card = replay_lines(run, DIRECT)
    [crosses] = traces(card, "differs")
    assert len(crosses.x) == 24, "batch and ulp, every token"
    assert "✗ marks another token (24)." in card.caption
    assert (
        crosses.textfont.size > traces(replay_lines(replayed(steps=40), DIRECT), "differs")[0].textfont.size
    )
    assert 24 < MANY_GLYPHS < 80
    assert traces(card, "tie") == traces(card, "zero") == []
    stable = replay_lines(run, STABLE)
    [zero] = traces(stable, "zero")
    assert list(zero.x) == [2, 2], "building and the same kernel"
    assert "2 values are exactly 0." in stable.caption
    for metric in ("match", "tvd", "shift"):
        write(run, replay_name("batch", metric), STABLE, 5, math.nan)
    gap = replay_lines(run, STABLE)
    assert "1 token is not replayed." in gap.caption
    assert gap.table["tvd batch"][5] is gap.table["match batch"][5] is None
    assert "left out" not in gap.caption
    write(run, replay_name("ulp", "tvd"), STABLE, 6, math.inf)
    lost = replay_lines(run, STABLE)
    assert lost.caption.endswith("✗ on the top row: 1 value is no number.")
    assert "left out" not in lost.caption
    assert lost.table["tvd ulp"][6] == math.inf


def test_kinds_differ_by_colour_and_marker_and_dash() -> None:
    assert set(KIND_STYLES) == set(KIND_WORDS) == set(REPLAY_KINDS)
    for part in ("color", "symbol", "dash"):
        assert len({getattr(style, part) for style in KIND_STYLES.values()}) == len(REPLAY_KINDS)


def test_drift_lines_tell_how_fast_a_difference_grows(run: Run) -> None:
    run._fields["drift_batch"].array[2, DIRECT] = 1e-7 * 2.0 ** np.arange(18)
    card = drift_lines(run, 2, DIRECT)
    [batch] = traces(card, "batch")
    np.testing.assert_allclose(batch.y, 1e-7 * 2.0 ** np.arange(18), rtol=1e-6)
    np.testing.assert_array_equal(batch.x, np.arange(18))
    assert "Batch of two: 1·10⁻⁷ after layer 0, 0.013 after layer 17, 2 times a layer." in card.more
    assert "Same kernel: no difference in any layer." in card.more
    assert "18 values are exactly 0." in card.caption
    [built] = traces(card, "building")
    np.testing.assert_array_equal(built.y, run.field("output_error", DIRECT)[:, 2])
    assert card.figure.layout.xaxis.title.text == "layer"
    assert card.figure.layout.yaxis.type == "log"
    assert card.table["drift_batch"][1] == np.float32(2e-7)
    assert "“·for”" in card.title


def test_held_lines_begin_at_the_held_token_and_name_it(run: Run) -> None:
    card = held_lines(run, STABLE)
    [held] = traces(card, "held")
    assert np.isnan(np.array(held.y)).tolist() == [True] * 3 + [False] * 9
    assert "token 3 “·Mars”" in card.caption
    assert "weights belong to one token" in card.more
    assert "3 tokens are not replayed." in card.caption
    assert "left out" not in card.caption
    assert [t.name for t in traces(card, "reference")] == ["noise floor", "no patch"]


def test_nothing_replayed_is_said(run: Run) -> None:
    bare = synthetic_run(arithmetics=("written", "factored"))
    assert "choose one before the run" in replay_lines(bare, 0).caption
    assert "factored update leaves no weights" in replay_lines(bare, 1).caption
    assert "choose one before the run" in held_lines(bare, 0).caption
    assert drift_lines(bare, 2, 0).table == {}
    empty = replayed(steps=0)
    for card in (replay_lines(empty, 0), held_lines(empty, 0), drift_lines(empty, 0, 0), budget(empty, 0)):
        assert card.caption == "No token yet."
        assert any("no token yet" in a.text for a in card.figure.layout.annotations)
        assert not card.figure.data


def test_the_budget_nests_columns_from_no_patch_to_the_floor(run: Run) -> None:
    card = budget(run, STABLE)
    bars = [t for t in card.figure.data if t.type == "bar"]
    keys = [bar.meta for bar in bars]
    assert keys[:3] == ["unpatched_tvd", "worst_replay_tvd", "tvd"]
    assert keys[-1] == "noise_floor_tvd"
    assert len(keys) == 8
    assert [bar.width for bar in bars] == sorted({bar.width for bar in bars}, reverse=True)
    assert card.figure.layout.barmode == "overlay"
    values = dict(zip(keys, (np.array(bar.y, float) for bar in bars), strict=True))
    built = run.series("tvd", STABLE)
    np.testing.assert_array_equal(values["tvd"], np.where(built > 0, built, np.nan))
    most = np.max([run.replay(kind, "tvd", STABLE) for kind in SAME_WEIGHTS], axis=0)
    np.testing.assert_array_equal(values["worst_replay_tvd"], most)
    np.testing.assert_array_equal(worst_replay(run, STABLE), most)
    assert np.flatnonzero(np.isfinite(values["eager_tvd"])).tolist() == [0, 1, 2, 4, 8]
    assert "against float64, against float32, eager against sdpa, noise floor at 5." in card.more
    assert "weights rounded or held from another token are not among them" in card.more
    assert "1 value is exactly 0." in card.caption
    assert list(traces(card, "zero")[0].x) == [2]
    assert card.figure.layout.yaxis.type == "log"
    assert (
        budget(synthetic_run(), STABLE).more.count(
            "Not measured: worst replay, with context at 1 ulp, against float64"
        )
        == 1
    )


def test_the_budget_counts_ties_and_other_tokens_apart(run: Run) -> None:
    wrong, tied, fine = (budget(run, i) for i in (DIRECT_LOW, STABLE_LOW, DIRECT))
    assert list(traces(wrong, "differs")[0].x) == [6]
    assert "✗ at 1 token: another token." in wrong.caption
    assert traces(wrong, "tie") == []
    assert list(traces(tied, "tie")[0].x) == [3]
    assert traces(tied, "differs") == []
    assert "≈ at 1 token: a tie inside the noise floor." in tied.caption
    assert "Every token is the baseline's." in fine.caption
    assert wrong.table["match"].count(False) == tied.table["tie"].count(True) == 1


def test_a_budget_of_nothing_finite_is_a_note() -> None:
    run = synthetic_run(updates=("direct",), dtypes=("float32",))
    write(run, "tvd", 0, slice(None), math.inf)
    for grown in run._references.values():
        grown.array[:] = math.nan
    card = budget(run, 0)
    assert [a.text for a in card.figure.layout.annotations] == ["nothing here is a number"]
    assert card.caption.startswith("No distance is a number at any token")
    assert "No distance is a number" in card.alt
    assert card.table["tvd"] == [math.inf] * 12
    assert card.table["worst_replay_tvd"] == [None] * 12
    write(run, "tvd", 0, 3, 1e-3)
    write(run, "match", 0, slice(None), 0)
    write(run, "tie", 0, slice(None), 0)
    some = budget(run, 0)
    assert "nothing here is a number" not in [a.text for a in some.figure.layout.annotations]
    assert "✗ at 1 token: another token." in some.caption, "a model without a distribution said none"
    assert "✗ on the top row: 11 values are no number." in some.caption
    assert "building the patch: median no number, largest no number at token 0" in some.alt
    assert "(12 tokens are measured)" in some.alt


def test_a_long_budget_is_drawn_as_steps() -> None:
    card = budget(replayed(steps=MOST_COLUMNS + 1), DIRECT)
    assert {trace.line.shape for trace in card.figure.data if trace.meta == "tvd"} == {"hvh"}
    assert "More than 48 tokens are drawn as steps." in card.caption
    assert "steps" not in budget(replayed(steps=MOST_COLUMNS), DIRECT).caption


@pytest.mark.parametrize(("same", "n"), [(0, 5), (5, 5), (3, 7), (96, 100), (1, 1)])
def test_wilson_agrees_with_scipy(same: int, n: int) -> None:
    oracle = binomtest(same, n).proportion_ci(method="wilson")
    assert wilson(same, n, 1.959963984540054) == pytest.approx((oracle.low, oracle.high), abs=1e-12)
    assert wilson(same, n) != wilson(same, n, 1.0)


def test_wilson_without_trials_knows_nothing_and_refuses_nonsense() -> None:
    assert wilson(0, 0) == (0.0, 1.0)
    for same, n in ((2, 1), (-1, 3)):
        with pytest.raises(ValueError, match="no proportion"):
            wilson(same, n)


def test_a_summary_is_what_the_columns_hold(run: Run) -> None:
    found = summary(run, DIRECT_LOW)
    tvd = run.series("tvd", DIRECT_LOW)
    assert (found.n, found.matches, found.ties) == (12, 11, 0)
    assert (found.tvd_median, found.tvd_worst) == (np.median(tvd), tvd.max())
    assert found.tvd_p90 == pytest.approx(np.quantile(tvd, 0.9))
    assert found.largest_change == run.field("scale_max_abs", DIRECT_LOW).max()
    assert found.scale_ratio == run.field("scale_ratio", DIRECT_LOW).max()
    assert [r.kind for r in found.replays] == list(REPLAY_KINDS)
    batch, held = found.replay("batch"), found.replay("held")
    assert batch is not None
    assert held is not None
    assert batch.tvd_worst == run.replay("batch", "tvd", DIRECT_LOW).max()
    assert batch.failures == 12
    assert (held.n, held.failures) == (9, 8)
    assert summary(run, STABLE_LOW).ties == 1


def test_a_summary_of_nothing_is_none() -> None:
    empty = summary(synthetic_run(steps=0), DIRECT)
    assert (empty.n, empty.tvd_median, empty.scale_ratio, empty.replays) == (0, None, None, ())
    bare = synthetic_run()
    write(bare, "tvd", DIRECT, slice(None), math.inf)
    assert summary(bare, DIRECT).tvd_worst == math.inf
    write(bare, "tvd", DIRECT, slice(None), math.nan)
    assert summary(bare, DIRECT).tvd_worst is None
    assert summary(bare, DIRECT).replay("batch") is None


def test_boxes_hold_measured_quartiles_and_count_zeros() -> None:
    one, two = replayed(seed=1), replayed(seed=2, dtypes=("float32",))
    write(two, "tvd", DIRECT, 0, math.nan)
    card = tvd_boxes([("one", one), (HOSTILE, two)])
    boxes = traces(card, "box")
    assert [len(box.median) for box in boxes] == [2, 2, 1, 1]
    direct = boxes[0]
    assert direct.median[0] == sorted(one.series("tvd", DIRECT))[5]
    assert direct.lowerfence[1] == np.nanmin(two.series("tvd", DIRECT))
    assert len({round(float(box.x[0]), 6) for box in boxes}) == 4, "side by side"
    assert boxes[1].lowerfence[0] == pytest.approx(
        LogAxis.around([one.series("tvd", i) for i in range(4)]).zero
    )
    assert "2 values are exactly 0." in card.caption
    assert "1 value is not measured and left out." in card.caption
    assert card.table["zeros"] == [0, 1, 0, 0, 0, 1]
    assert card.table["min"][1] == 0.0
    assert card.table["prompt"][-1] == HOSTILE
    assert "<b>" not in "".join(card.figure.layout.xaxis.ticktext)
    assert card.figure.layout.yaxis.type == "log"
    assert five(np.array([0.0, 1.0, 100.0, math.nan])) == (0.0, 0.0, 1.0, 100.0, 100.0)
    assert five(np.array([0.0, 1.0, 100.0, math.inf])) == (0.0, 0.0, 1.0, 100.0, math.inf)


def test_a_box_that_holds_what_is_no_number_runs_off_the_scale() -> None:
    one = replayed(seed=1)
    write(one, "tvd", DIRECT, [3, 4], math.inf)
    card = tvd_boxes([("one", one)])
    top = 10 ** LogAxis.around([one.series("tvd", i) for i in range(4)]).high
    assert [box.upperfence[0] == top for box in traces(card, "box")] == [True, False, False, False]
    [lost] = traces(card, "lost")
    assert list(lost.x) == [traces(card, "box")[0].x[0]] * 2
    beyond = "✗ on the top row: 2 values are no number. A box or whisker that reaches up to it has no end."
    assert beyond in card.caption
    assert (card.table["no number"], card.table["max"][0]) == ([2, 0, 0, 0], math.inf)
    assert "direct float32: median " in card.alt
    assert "to no number." in card.alt


@pytest.mark.parametrize("q", [0, 0.25, 0.5, 0.9, 1])
def test_quantiles_count_what_is_no_number_as_larger_than_any(q: float) -> None:
    values = np.random.default_rng(0).exponential(size=101)
    assert quantile(values, q) == np.quantile(values, q), "to the bit"
    lost = np.sort(values)
    lost[60:] = math.inf
    wanted = float(np.sort(values)[round(100 * q)]) if q <= 0.5 else math.inf
    assert quantile(np.append(lost, math.nan), q) == wanted
    assert quantile(np.full(3, math.nan), q) is None


def test_match_rates_pool_prompts_and_keep_ties_apart() -> None:
    runs = [("one", replayed(seed=1)), ("two", replayed(seed=2, steps=8))]
    card = match_rates(runs)
    rates = traces(card, "rate")
    assert [t.name for t in rates] == [
        "direct float32",
        "stable float32",
        "direct bfloat16",
        "stable bfloat16",
    ]
    assert card.table["tokens"] == [20] * 4
    assert card.table["matches"] == [20, 20, 18, 18]
    assert card.table["ties"] == [0, 0, 0, 2]
    low, high = wilson(18, 20)
    assert rates[2].x == (90.0,)
    assert rates[2].x[0] - rates[2].error_x.arrayminus[0] == pytest.approx(100 * low)
    assert rates[2].x[0] + rates[2].error_x.array[0] == pytest.approx(100 * high)
    [tie] = traces(card, "tie")
    assert (tie.x, tie.y) == ((100.0,), (3,))
    assert "(2 ties)" in card.caption
    assert card.figure.layout.xaxis.title.text == "share of tokens, %"
    assert "stable bfloat16: 18 of 20 and 2 ties" in card.alt


def test_runs_of_one_name_are_one_prompt_and_one_floor_is_shown() -> None:
    settings: dict[str, Any] = {"dtypes": ("float32",)}
    both = synthetic_run(steps=6, updates=("stable", "floored"), **settings)
    other = synthetic_run(steps=5, updates=("floored",), seed=1, **settings)
    other.variants = (replace(other.variants[0], floor=0.1),)
    named = [("a", both), ("a", other), ("b", both)]
    card = tvd_boxes(named, floor=0.1)
    assert card.table["prompt"] == ["a", "a", "b"]
    assert card.table["variant"] == ["stable float32", "floored 0.1 float32", "stable float32"]
    assert card.table["tokens"] == [6, 5, 6]
    assert list(card.figure.layout.xaxis.tickvals) == [0, 1]
    assert "of 2 prompts and 2 variants" in card.alt
    rates = match_rates(named, floor=0.1)
    assert rates.table["variant"] == ["stable float32", "floored 0.1 float32"]
    assert rates.table["tokens"] == [12, 5]
    assert "over 2 prompts" in rates.alt
    pooled = tvd_boxes([("a", both), ("a", both)])
    assert pooled.table["tokens"] == [12, 12]


def test_no_runs_and_no_tokens_are_said() -> None:
    for runs in ([], [("one", synthetic_run(steps=0))]):
        for card in (tvd_boxes(runs), match_rates(runs)):
            assert card.table == {}
            assert any("no token yet" in a.text for a in card.figure.layout.annotations)
    for quantity in QUANTITIES:
        for card in (first_layer_lines([], quantity), first_layer_field([], quantity)):
            assert card.table == {}
            assert "nothing to draw" in card.alt
    assert rule_table([]) == {}


def test_sweep_lines_hold_medians_and_extremes_by_first_layer(cells: Cells) -> None:
    card = first_layer_lines(cells, "tvd")
    lines = traces(card, "rule")
    assert [t.name for t in lines] == [
        "direct float32",
        "stable float32",
        "direct bfloat16",
        "stable bfloat16",
    ]
    _, second, _ = (run for variant, run, i in cells if i == DIRECT)
    tvd = second.series("tvd", DIRECT)
    assert lines[0].y[1] == np.median(tvd)
    assert lines[0].y[1] + lines[0].error_y.array[1] == pytest.approx(tvd.max())
    assert lines[0].y[1] - lines[0].error_y.arrayminus[1] == pytest.approx(tvd.min())
    assert [round(float(x)) for x in lines[0].x] == [0, 3, 9]
    assert list(card.figure.layout.xaxis.tickvals) == [0, 3, 9]
    assert card.figure.layout.yaxis.type == "log"
    assert "3 values are exactly 0." in card.caption
    assert len({line.marker.symbol for line in lines}) == 4
    assert card.table["first_layer"] == [0, 3, 9] * 4


def test_sweep_rates_are_linear_with_wilson_intervals(cells: Cells) -> None:
    card = first_layer_lines(cells, "match")
    line = traces(card, "rule")[DIRECT_LOW]
    low, _ = wilson(11, 12)
    assert line.y[0] == pytest.approx(100 * 11 / 12)
    assert line.y[0] - line.error_y.arrayminus[0] == pytest.approx(100 * low)
    assert card.figure.layout.yaxis.type is None
    assert card.figure.layout.yaxis.range[1] == 102
    assert "3 ties inside the noise floor" in card.caption
    assert "exactly 0" not in card.caption


def test_the_sweep_field_colours_logarithms_and_writes_numbers(cells: Cells) -> None:
    gap = [cell for cell in cells if not (cell[2] == STABLE and cell[0].first_layer == 3)]
    card = first_layer_field(gap, "tvd")
    [field], [numbers] = traces(card, "field"), traces(card, "numbers")
    z = np.array(field.z, float)
    assert z.shape == (4, 3)
    assert z[0, 0] == pytest.approx(np.log10(np.median(cells[0][1].series("tvd", DIRECT))))
    assert np.isnan(z[1, 1])
    assert numbers.text[4] == "–"
    assert "1 cell not measured" in card.caption
    assert card.figure.layout.yaxis.ticktext[0] == "direct float32"
    rate = first_layer_field(cells, "match")
    [shares] = traces(rate, "field")
    assert (shares.zmin, shares.zmax) == (0, 100)
    assert traces(rate, "numbers")[0].text[6] == "91.7 %"


def test_the_rule_table_pools_runs_of_one_variant(cells: Cells) -> None:
    first = [cell for cell in cells if cell[0].first_layer == 0]
    other = replayed(seed=7, steps=8)
    table = rule_table([*first, *((v, other, i) for i, v in enumerate(other.variants))])
    assert table["rule"] == ["direct", "stable", "direct", "stable"]
    assert table["dtype"] == ["float32", "float32", "bfloat16", "bfloat16"]
    assert table["tokens"] == [20] * 4
    assert table["match"] == [1, 1, 0.9, 0.9]
    assert table["ties"] == [0, 0, 0, 2]
    both = np.concatenate([run.series("tvd", DIRECT) for run in (first[0][1], other)])
    assert (table["tvd_median"][0], table["tvd_worst"][0]) == (np.median(both), both.max())
    batch = np.concatenate([run.replay("batch", "tvd", STABLE) for run in (first[0][1], other)])
    assert (table["batch_median"][1], table["batch_worst"][1]) == (np.median(batch), batch.max())
    assert len(rule_table(cells)["rule"]) == 12, "first layers stay apart"
    bare = synthetic_run()
    assert rule_table([(bare.variants[0], bare, 0)])["ulp_worst"] == [None]


def test_a_pair_draws_both_and_the_ratio_in_powers_of_ten(run: Run) -> None:
    other = replayed(seed=5, steps=17)
    card = pair(run, other, STABLE, STABLE_LOW, names=("mine", HOSTILE))
    left, right = traces(card, "variant")
    assert (len(left.x), len(right.x)) == (12, 17)
    np.testing.assert_array_equal(right.y, other.series("tvd", STABLE_LOW))
    [ratio] = traces(card, "ratio")
    assert len(ratio.y) == 12
    expected = np.log10(other.series("tvd", STABLE_LOW)[5] / run.series("tvd", STABLE)[5])
    assert ratio.y[5] == pytest.approx(expected)
    assert np.isnan(ratio.y[2]), "the left one is exactly 0 there"
    assert "No ratio at 1 token" in card.caption
    assert "above 0 " in card.more
    assert card.figure.layout.yaxis2.title.text == "log₁₀ ratio"
    assert card.figure.layout.yaxis.type == "log"
    assert left.line.color != right.line.color
    assert left.marker.symbol != right.marker.symbol
    assert "5 tokens are of " in card.caption
    assert card.table["tvd mine"][12:] == [None] * 5
    assert len(card.table["log10 ratio"]) == 17
    assert "<b>x" not in right.name
    swapped = traces(pair(other, run, STABLE_LOW, STABLE), "ratio")[0]
    np.testing.assert_allclose(swapped.y[3:12], -np.array(ratio.y[3:12]))


def test_a_pair_names_where_the_texts_part(run: Run) -> None:
    other = replayed(texts=[" The", " forecast", " for", "<b>Venus</b>"])
    assert diverge(run, other) == 4
    assert diverge(other, run) == 4
    assert diverge(run, replayed(steps=4)) is diverge(run, run) is None
    card = pair(run, other, DIRECT, STABLE)
    [mark] = [shape for shape in card.figure.layout.shapes if shape.x0 == shape.x1]
    assert mark.x0 == 4
    assert any("the texts part: “·tomorrow” | “·The”" in a.text for a in card.figure.layout.annotations)
    assert "part at token 4: A wrote “·tomorrow”, B “·The”" in card.caption
    same = pair(run, run, DIRECT, STABLE)
    assert "The texts are the same for all 12 tokens" in same.caption
    assert not [shape for shape in same.figure.layout.shapes if shape.x0 == shape.x1]
    assert "prompts differ" not in same.caption


def test_texts_of_two_models_are_not_compared(run: Run) -> None:
    other = replayed(texts=[" The", " forecast", " for", "<b>Venus</b>"])
    other.model = replace(other.model, key="other", name="<b>O", sha256="1" * 64)
    card = pair(run, other, DIRECT, STABLE)
    assert "The models differ, so token numbers do not stand" in card.caption
    assert "The texts of two models are not compared (A is Synthetic, B is <b>O)." in card.caption
    assert "The texts of two models are not compared" in card.alt
    assert "part at" not in card.caption + card.alt
    assert not [shape for shape in card.figure.layout.shapes if shape.x0 == shape.x1]
    other.context = replace(other.context, token_ids=(2, 9), token_texts=("<bos>", "x"))
    assert "prompts" not in pair(run, other, DIRECT, STABLE).caption, "another vocabulary, the same text"
    other.context = replace(other.context, prompt="x")
    assert "The models and the prompts differ, so" in pair(run, other, DIRECT, STABLE).caption
    alike = replayed(steps=4)
    alike.model = replace(alike.model, sha256="1" * 64)
    caption = pair(run, alike, DIRECT, STABLE).caption
    assert "The models differ" in caption
    assert "The texts are the same" not in caption
    alike.model = replace(alike.model, sha256=None)
    assert "The models differ" not in pair(run, alike, DIRECT, STABLE).caption
    alike.model = replace(alike.model, key="other")
    assert "The models differ" in pair(run, alike, DIRECT, STABLE).caption


def test_a_pair_says_that_prompts_differ(run: Run) -> None:
    other = replayed()
    other.context = replace(other.context, token_ids=(2, 9), token_texts=("<bos>", "x"))
    assert "The prompts differ" in pair(run, other, DIRECT, DIRECT).caption
    assert pair(synthetic_run(steps=0), synthetic_run(steps=0), 0, 0).caption == "No token yet."
    half = pair(run, synthetic_run(steps=0), 0, 0)
    assert "12 tokens are of A alone." in half.caption
    assert "B, direct float32: 0 tokens, not measured." in half.alt


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda theme: theme.name)
def test_every_card_speaks_its_theme_and_holds_no_nan(run: Run, cells: Cells, theme: Any) -> None:
    for card in all_cards(run, cells, theme):
        assert card.figure.layout.paper_bgcolor == theme.background
        assert len({len(cells) for cells in card.table.values()}) == 1
        assert card.title
        assert card.caption.endswith(".")
        assert card.alt.endswith(".")
        numbers = [v for values in card.table.values() for v in values if isinstance(v, float)]
        assert not any(map(math.isnan, numbers))
        text = json.dumps(json.loads(card.figure.to_json()))
        assert "NaN" not in text
        assert "<b>x</b>" not in text
        assert "nan" not in card.caption + card.alt


def test_thresholds_and_statistics_need_no_plotly() -> None:
    code = (
        "import sys, ctxviz.replaying, ctxviz.figures.statistics;"
        "print([name for name in sys.modules if name.startswith('{}')])"
    )
    for name, clean in (("plotly", True), ("numpy", False)):
        out = subprocess.run(
            [sys.executable, "-c", code.format(name)], capture_output=True, text=True, check=True
        ).stdout
        assert (out.strip() == "[]") is clean
