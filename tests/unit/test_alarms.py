"""Where alarms fire and where they do not, kind by kind."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ctxviz.alarm_cells import BLOW_UP, DRIFT, FINDERS, FLOAT16_MAX, NEAR_OVERFLOW, SWALLOWED_SHARE
from ctxviz.alarms import KINDS, REPLAY_WORDS, Alarm, count, find, first, top
from ctxviz.records import INTEGER_LAYER_METRICS, LAYER_METRICS, Reference, TopTokens
from ctxviz.run import Run, replay_name
from ctxviz.settings import REPLAY_KINDS, REPLAYS
from tests.synthetic import synthetic_run

STEPS, LAYERS, WIDTH = 5, 6, 16
PER_CELL = {"uncontrolled": 0.0, "blow-up": BLOW_UP, "swallowed": SWALLOWED_SHARE * WIDTH}
NO_TOP = TopTokens(np.zeros(0, np.int32), np.zeros(0, np.float32), ())
METRICS = {"uncontrolled": "uncontrolled", "blow-up": "scale_ratio", "swallowed": "swallowed"}


def quiet(**changes: Any) -> Run:
    """A run of two variants in which nothing is worth a look."""
    settings: dict[str, Any] = {"updates": ["direct", "stable"], "dtypes": ["float32"]} | changes
    run = synthetic_run(LAYERS, WIDTH, STEPS, faults=False, **settings)
    for name, level in (("scale_ratio", 0.1), ("dead", 0), ("uncontrolled", 0), ("swallowed", 0)):
        run._fields[name].array[:] = level
    run._fields["scale_max_abs"].array[:] = 1
    for kind in run.replayed:
        for name, value in (("match", 1), ("tvd", 1e-7), ("shift", 0)):
            column = run._series[replay_name(kind, name)].array
            column[np.isfinite(column)] = value
    for kind in REPLAYS:
        run._fields[f"drift_{kind}"].array[:] = 0
    return run


def place(alarm: Alarm) -> tuple[str, int | None, int | None, int | None]:
    return (alarm.kind, alarm.variant, alarm.layer, alarm.step)


def replayed(run: Run, kind: str, step: int, variant: int, **values: float) -> None:
    for name, value in values.items():
        run._series[replay_name(kind, name)].array[step, variant] = value


def test_nothing_fires_in_a_quiet_run() -> None:
    for run in (quiet(), quiet(replays=REPLAYS, hold=1), quiet(dtypes=["float16"])):
        assert find(run) == []
        assert top(run) == []
        assert count(run) == dict.fromkeys(KINDS, 0)
    assert find(synthetic_run(steps=0)) == []
    assert first(synthetic_run(steps=0), "dead") is None


@pytest.mark.parametrize("kind", PER_CELL)
def test_kinds_that_have_a_layer_fire_above_their_threshold(kind: str) -> None:
    run, threshold = quiet(), PER_CELL[kind]
    table = run._fields[METRICS[kind]].array
    table[3, 1, 2] = threshold
    assert find(run) == []
    table[3, 1, 2] = threshold + 1
    table[2, 1, 4] = table[1, 0, 2] = threshold + 3
    run._fields["scale_argmax"].array[2, 1, 4] = 7
    found = find(run)
    # The worst first, equals by variant.
    assert [place(a) for a in found] == [(kind, 0, 2, 1), (kind, 1, 4, 2), (kind, 1, 2, 3)]
    assert [a.value for a in found] == [threshold + 3, threshold + 3, threshold + 1]
    assert {a.threshold for a in found} == {threshold}
    assert found[1].coordinate == (7 if kind == "blow-up" else None)
    assert found[2].sentence.startswith("Stable float32, layer 2, token 3 “")
    assert count(run)[kind] == 3
    assert first(run, kind) == found[0], "token 1 comes first"
    # The short list has each variant once, for a blow-up each of its layers.
    assert [place(a) for a in top(run)] == [place(a) for a in found][: 3 if kind == "blow-up" else 2]


def test_layers_that_are_not_patched_say_nothing() -> None:
    run = synthetic_run(LAYERS, WIDTH, STEPS, first_layer=4, faults=False)
    assert {a.layer for a in find(run)} <= {4, 5}
    assert find(run)


def test_a_dead_layer_has_one_alarm() -> None:
    run = quiet()
    run._fields["dead"].array[:STEPS, :, 1] = 1
    run._fields["dead"].array[:STEPS, :, 4] = 7
    assert [place(a) for a in find(run)] == [("dead", None, 4, None), ("dead", None, 1, None)]
    assert find(run)[0].sentence == (
        "7 coordinates of layer 4 are dead (m = 0): all of their output comes from Δm."
    )
    assert [a.value for a in find(run)] == [7, 1]
    assert [(place(a), a.value) for a in top(run)] == [(("dead", None, 4, None), 8)]


@pytest.mark.parametrize(("metric", "value"), [("scale_max_abs", 4e4), ("output_max_abs", 5e4)])
def test_near_overflow_is_for_float16(metric: str, value: float) -> None:
    def run_with(size: float, dtype: str = "float16") -> Run:
        run = quiet(dtypes=[dtype])
        run._fields[metric].array[2, 1, 3] = size
        run._fields["scale_argmax"].array[2, 1, 3] = 9
        return run

    (alarm,) = find(run_with(value))
    assert place(alarm) == ("near-overflow", 1, 3, 2)
    assert alarm.coordinate == (9 if metric == "scale_max_abs" else None)
    assert (alarm.value, alarm.threshold) == (value if np.isfinite(value) else None, NEAR_OVERFLOW)
    size = "|Δm| = 4·10⁴ at coordinate 9" if metric == "scale_max_abs" else "|x| = 5·10⁴"
    assert alarm.sentence.endswith(f": {size}, where float16 ends at 65504.")
    assert top(run_with(value)) == [alarm]
    assert find(run_with(FLOAT16_MAX / 2)) == []
    assert find(run_with(value, "bfloat16")) == []


def test_logits_that_are_no_numbers_are_an_overflow() -> None:
    for dtype, wanted in (("float16", [("near-overflow", 0, None, 3)]), ("float32", [])):
        run = quiet(dtypes=[dtype])
        run._series["tvd"].array[3, 0] = np.inf
        assert [place(a) for a in find(run)] == wanted
        assert all(a.value == np.inf for a in find(run))
        run._series["tvd"].array[3, 0] = np.nan
        assert find(run) == [], "what was not measured did not overflow"
    run = quiet(dtypes=["float16"])
    run._series["tvd"].array[3, 0] = np.inf
    for empty, whose in ((run._baselines, "the logits of the model with context"), (run._tops, "the logits")):
        before = empty[3]
        empty[3] = tuple(NO_TOP if isinstance(e, TopTokens) else replace(e, top=NO_TOP) for e in before)
        (alarm,) = find(run)
        assert alarm.sentence.endswith(f": {whose} are no numbers; float16 overflowed.")
        empty[3] = before


def test_the_first_layer_without_a_number_is_where_float16_overflowed() -> None:
    run = quiet(dtypes=["float16"])
    run._series["tvd"].array[3, 0] = np.inf
    run._fields["output_max_abs"].array[3, 0, 2:] = np.inf
    (alarm,) = find(run)
    assert place(alarm) == ("near-overflow", 0, 2, 3)
    assert alarm.sentence.endswith(": |x| is no number, where float16 ends at 65504.")
    run._fields["scale_max_abs"].array[3, 0, 2] = 4e4
    assert find(run)[0].sentence.count("and |x| is no number") == 1


@pytest.mark.parametrize("name", LAYER_METRICS)
def test_a_clause_is_whole_whatever_is_no_number(name: str) -> None:
    run = synthetic_run(6, 16, 4, replays=REPLAYS, hold=0, dtypes=["float16"])
    if name not in INTEGER_LAYER_METRICS:
        run._fields[name].array[1, :, 2:] = np.inf
    for series in ("tvd", "logit_linf", "kl", "replay_batch_tvd", "replay_same_shift"):
        run._series[series].array[2] = np.inf
    for alarm in find(run):
        assert not re.search(r": ?[,.]|= (no number|not measured)|nan|inf\b|∞|not measured", alarm.sentence)
        assert alarm.value is None or not np.isnan(alarm.value)


def test_a_model_that_said_nothing_is_not_said_to_have_said_another_token() -> None:
    run = quiet()
    run._series["match"].array[2, 0], run._series["tvd"].array[2, 0] = 0, np.inf
    run._tops[2] = (NO_TOP, *run._tops[2][1:])
    (alarm,) = find(run)
    assert alarm.sentence.startswith(
        "Direct float32 said nothing, since its logits are no numbers, where the model with context said “"
    )
    run._baselines[2] = tuple(replace(b, top=NO_TOP) for b in run._baselines[2])
    (alarm,) = find(run)
    assert alarm.sentence.endswith("are no numbers, nor did the model with context, at token 2.")


def test_a_replay_of_a_patch_that_was_wrong_when_built_is_no_failure_of_its_own() -> None:
    run = quiet(replays=["same", "batch"])
    run._series["match"].array[2, 1] = 0
    run._series["tvd"].array[2, 1] = 0.3
    for kind in ("same", "batch"):
        replayed(run, kind, 2, 1, tvd=0.3, match=0)
    assert {a.kind for a in find(run)} == {"mismatch"}
    run._series["match"].array[3, 1], run._series["tvd"].array[3, 1] = 0, np.inf
    replayed(run, "batch", 3, 1, tvd=np.inf, match=0)
    assert "replay-failure" not in {a.kind for a in find(run)}


def test_what_the_model_with_context_loses_by_the_same_move_is_not_blamed_on_the_patch() -> None:
    run = quiet(replays=["batch", "ulp"])
    for kind in ("batch", "ulp"):
        replayed(run, kind, 2, 1, tvd=0.05)
    assert len(find(run)) == 2
    run.refer(Reference(1, "float32", ulp_tvd=0.006))
    (left,) = find(run)
    assert "batch of two" in left.sentence


def test_mismatches_and_ties_are_told_apart() -> None:
    run = quiet()
    for step, variant, tie, tvd in ((1, 0, 0, 0.2), (3, 0, 0, 0.4), (2, 1, 1, 0.1), (4, 1, 0, np.inf)):
        run._series["match"].array[step, variant] = 0
        run._series["tie"].array[step, variant] = tie
        run._series["tvd"].array[step, variant] = tvd
    run.refer(Reference(1, "float32", noise_floor_linf=0.25))
    run.refer(Reference(2, "float32", noise_floor_linf=0.5))
    found = find(run)
    kinds = ("mismatch", "mismatch", "mismatch", "tie")
    places = ((1, None, 4), (0, None, 3), (0, None, 1), (1, None, 2))
    assert [place(a) for a in found] == [(kind, *at) for kind, at in zip(kinds, places, strict=True)]
    assert [a.value for a in found[:3]] == [np.inf, 0.4, 0.2], "no number is the worst"
    assert found[3].value == pytest.approx(run.baseline(2, "float32").margin)
    assert found[3].threshold == 0.5, "the latest floor"
    assert found[2].sentence == (
        f"Direct float32 said “{run.top(1, 0).texts[0].replace(' ', '·')}” where the model with context said "
        "“·forecast”, at token 1."
    )
    assert [(a.kind, a.step, a.variant) for a in top(run)] == [("mismatch", 1, 0), ("mismatch", 4, 1)]
    assert top(run)[0].sentence.endswith(", at token 1 (the first of 2).")
    assert find(run, ["tie"]) == found[3:]


REPLAY_CASES: dict[str, tuple[str, dict[str, float], bool]] = {
    "far": ("batch", {"tvd": 0.5}, True),
    "below the least": ("batch", {"tvd": 0.9e-3}, False),
    "another token": ("ulp", {"match": 0}, True),
    "rounded weights are other weights": ("rounded", {"tvd": 0.9, "match": 0}, False),
    "no numbers": ("batch", {"tvd": float("inf"), "match": 0}, True),
    "not the same bits": ("same", {"shift": 1e-9}, True),
    "the same bits": ("same", {"shift": 0.0}, False),
    "another kernel, other bits": ("batch", {"shift": 1e-3}, False),
    "held": ("held", {"tvd": 0.9, "match": 0, "shift": 5.0}, False),
}


@pytest.mark.parametrize("case", REPLAY_CASES)
def test_replay_failures(case: str) -> None:
    kind, values, fires = REPLAY_CASES[case]
    run = quiet(replays=REPLAYS, hold=0)
    replayed(run, kind, 2, 1, **values)
    found = find(run)
    assert [place(a) for a in found] == ([("replay-failure", 1, None, 2)] if fires else [])
    if fires:
        assert f"run again ({REPLAY_WORDS[kind]})" in found[0].sentence
        if case == "no numbers":
            assert found[0].sentence.endswith("the logits are no numbers.")
            assert found[0].value == np.inf
            return
        assert ("another token" in found[0].sentence) == ("match" in values)
        value = values.get("tvd", values.get("shift", 1e-7))
        limit = 0 if "shift" in values else None if "match" in values else pytest.approx(1e-3)
        assert (found[0].value, found[0].threshold) == (value, limit)
        assert top(run) == found


def test_a_failing_replay_names_the_first_layer_that_drifts() -> None:
    run = quiet(replays=["batch"])
    replayed(run, "batch", 2, 0, tvd=0.5)
    replayed(run, "batch", 3, 0, tvd=0.7)
    run._fields["drift_batch"].array[2, 0] = [0, DRIFT / 2, DRIFT * 1.1, 0, 1, 1]
    late, early = find(run)
    assert (late.step, late.layer) == (3, None)
    assert (early.step, early.layer) == (2, 2)
    assert early.sentence.startswith("Direct float32, token 2 “")
    assert early.sentence.endswith("; it drifts from layer 2 on.")
    assert top(run) == [late], "one for each variant"


def test_factored_variants_are_not_replayed() -> None:
    run = quiet(arithmetics=["factored"], replays=["same", "batch"])
    assert find(run) == []


def test_several_replays_of_one_token_are_several_alarms() -> None:
    run = quiet(replays=["same", "batch"])
    replayed(run, "same", 1, 0, tvd=0.2)
    replayed(run, "batch", 1, 0, tvd=0.3)
    assert [a.value for a in find(run)] == [0.3, 0.2]


def test_all_alarms_come_in_the_order_of_the_table_and_worst_first() -> None:
    run = synthetic_run(replays=REPLAYS, dtypes=["float32", "float16"])
    found = find(run)
    kinds = [a.kind for a in found]
    assert sorted(kinds, key=list(KINDS).index) == kinds
    assert set(kinds) >= {"mismatch", "replay-failure", "near-overflow", "blow-up", "dead", "tie"}
    for kind in ("replay-failure", "near-overflow", "blow-up", "dead"):
        values = [a.value for a in found if a.kind == kind]
        assert values == sorted(values, key=lambda v: -(v or 0))
        assert len(values) == count(run)[kind] == count(run, [kind])[kind]
    assert {v for a in found for v in (a.value, a.threshold) if v is not None and not np.isfinite(v)} == set()
    blow_ups = [a for a in found if a.kind == "blow-up"]
    cells = sum(int((run.field("scale_ratio", i) > BLOW_UP).sum()) for i in range(len(run.variants)))
    assert len(blow_ups) == len({place(a) for a in blow_ups}) == cells > 3


@pytest.mark.parametrize("ask", [find, count])
def test_unknown_kinds_are_refused(ask: Callable[..., object]) -> None:
    with pytest.raises(KeyError, match="frob"):
        ask(quiet(), ["tie", "frob"])


def test_the_table_says_what_each_kind_means() -> None:
    words = " ".join(kind.threshold for kind in KINDS.values())
    for threshold in ("100 times", "50%", "32752", "65504", "10 times", "0.001"):
        assert threshold in words
    for kind in KINDS.values():
        assert "\n" not in kind.meaning + kind.threshold
    assert set(REPLAY_WORDS) == set(REPLAY_KINDS)
    assert list(KINDS) == list(FINDERS)
