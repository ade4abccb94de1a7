"""What lies behind a cell of the live map is what the records say, and why where there is nothing."""

import base64
import json
from dataclasses import asdict

import numpy as np
import pytest

from ctxviz.figures.coordinates import worst_table
from ctxviz.figures.text import readable, sci
from ctxviz.records import SOLVER_CASES, LayerVectors, Step
from ctxviz.run import Run
from ctxviz.ui import cell_view, looked_at
from ctxviz.ui.delta import number
from ctxviz.ui.views import View
from tests.synthetic import BAD_LAYER, synthetic_items, synthetic_run

DIRECT, STABLE = 0, 1
"""Variants of a synthetic run, both in float32."""


def shown(run: Run, state: str = "done") -> View:
    view = View()
    view.show(run, state)  # pyright: ignore[reportArgumentType]
    return view


def opened(view: View, step: int | None, layer: int | None, variant: int) -> dict:
    answer = cell_view.answer(view, step, layer, variant)
    json.dumps(answer, allow_nan=False)
    assert answer["epoch"] == view.epoch
    return answer["cell"]


def floats(text: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), "<f4")


def vectors_of(run: Run, step: int, variant: int) -> LayerVectors:
    found = run.vectors(step, variant)
    assert found is not None
    return found


@pytest.fixture
def run() -> Run:
    return synthetic_run(6, 16, 8)


@pytest.mark.parametrize("place", [(0, 0, DIRECT), (4, BAD_LAYER, DIRECT), (3, 1, STABLE), (7, 5, 3)])
def test_every_field_is_the_record_of_the_cell(run, place):
    step, layer, variant = place
    cell = opened(shown(run), step, layer, variant)
    vectors = vectors_of(run, step, variant)
    assert (cell["step"], cell["layer"], cell["variant"], cell["why"]) == (*place, "")
    assert floats(cell["h"]).tobytes() == vectors.h[layer].tobytes()
    assert floats(cell["delta_m"]).tobytes() == vectors.delta_scale[layer].tobytes()
    assert cell["dead"] == np.flatnonzero(vectors.scale[layer] == 0).tolist()
    for row, one in zip(cell["worst"], worst_table(vectors, layer, cell_view.WORST), strict=True):
        said = [number(value) for value in (one.h, one.delta_v, one.m, one.delta_m)]
        assert [row["h"], row["delta_v"], row["m"], row["delta_m"]] == said
        assert (row["j"], row["dead"]) == (one.j, one.dead)
    changes = [abs(float(vectors.delta_scale[layer, row["j"]])) for row in cell["worst"]]
    assert changes == sorted(np.abs(vectors.delta_scale[layer]).tolist(), reverse=True)[: cell_view.WORST]
    first = cell["worst"][0]
    sizes = np.abs(vectors.h[layer])
    low, j = float(sizes.min()), int(sizes.argmin())
    assert cell["headline"] == (
        f"|Δm| = {sci(changes[0])} where |h| = {sci(low)}, coordinate {j}"
        if j == first["j"]
        else f"smallest |h| = {sci(low)}, coordinate {j}; largest |Δm| = {sci(changes[0])}, "
        f"coordinate {first['j']}"
    )
    assert cell["reason"] == ""
    assert cell["product"] == ("|Δv|" if run.variants[variant].update == "direct" else "|h·Δm|")
    assert cell["title"].startswith(f"Layer {layer}, token {step} “{readable(run.token(step)[4])}”, ")
    assert run.variants[variant].update in cell["title"]
    assert run.variants[variant].dtype in cell["title"]


def test_the_next_tokens_are_those_of_both_models(run):
    half, mismatch = 4, 2
    cell = opened(shown(run), half, 0, mismatch)
    for told, top in (
        (cell["context"], run.baseline(half, run.variants[mismatch].dtype).top),
        (cell["patched"], run.top(half, mismatch)),
    ):
        assert [text for text, _ in told] == [readable(text) for text in top.texts[: cell_view.NEXT]]
        assert [p for _, p in told] == [number(float(p)) for p in top.probabilities[: cell_view.NEXT]]
    assert cell["context"][0][0] != cell["patched"][0][0]


def test_a_model_that_overflowed_has_no_next_token(run):
    top = run.top(3, STABLE)
    nothing = type(top)(top.ids[:0], top.probabilities[:0], ())
    run._tops[3] = tuple(nothing if k == STABLE else top for k, top in enumerate(run._tops[3]))
    cell = opened(shown(run), 3, 0, STABLE)
    assert cell["patched"] == []
    assert len(cell["context"]) == cell_view.NEXT


def test_what_was_counted_is_said(run):
    for name, value in (("uncontrolled", 2), ("swallowed", 11), ("h_small", 3)):
        run._fields[name].array[4, STABLE, BAD_LAYER] = value
    case = SOLVER_CASES[int(run.field("solver_case", STABLE)[BAD_LAYER, 4])]
    multiplier = float(run.field("multiplier", STABLE)[BAD_LAYER, 4])
    assert opened(shown(run), 4, BAD_LAYER, STABLE)["counts"] == (
        f"7 dead coordinates, 2 uncontrolled, 11 swallowed by rounding, 3 with |h| below 0.001; "
        f"solver: λ = {sci(multiplier)}, {case}."
    )
    run._fields["swallowed"].array[4, DIRECT, 1] = -1
    counts = opened(shown(run), 4, 1, DIRECT)["counts"]
    assert counts.startswith("1 dead coordinate, 0 uncontrolled, swallowed not counted, ")
    assert counts.endswith("solver: closed form.")


def test_what_is_no_number_comes_first_and_is_said(run):
    vectors = vectors_of(run, 3, DIRECT)
    vectors.h[2, 5] = vectors.delta_scale[2, 5] = np.inf
    vectors.delta_scale[2, 9] = -np.inf
    cell = opened(shown(run), 3, 2, DIRECT)
    assert {row["j"] for row in cell["worst"][:2]} == {5, 9}
    rows = {row["j"]: row for row in cell["worst"]}
    assert (rows[5]["h"], rows[5]["delta_m"], rows[9]["delta_m"]) == ("no number",) * 3
    assert rows[9]["h"] == number(float(vectors.h[2, 9]))
    assert np.isinf(floats(cell["delta_m"])[[5, 9]]).all()
    assert "no number" in cell["headline"]
    assert not {"∞", "nan", "NaN", "inf", "not measured"} & set(cell["headline"].split())


def test_a_layer_of_which_nothing_is_a_number_says_that_it_overflowed(run):
    vectors = vectors_of(run, 3, DIRECT)
    vectors.h[2] = vectors.delta_scale[2] = np.inf
    cell = opened(shown(run), 3, 2, DIRECT)
    assert cell["reason"].startswith("Layer 2 was computed, and h is no number at 16 coordinates of 16")
    assert (cell["h"], cell["delta_m"], cell["worst"], cell["headline"]) == ("", "", [], "")
    assert "not measured" not in cell["reason"]


def test_a_layer_that_was_not_patched_says_so():
    run = synthetic_run(5, 8, 4, first_layer=2)
    cell = opened(shown(run), 1, 1, DIRECT)
    assert cell["reason"] == "Layer 1 is not patched; the first patched layer is 2."
    assert cell["counts"] == "This layer was not patched."
    assert (cell["h"], cell["worst"], cell["dead"]) == ("", [], [])


def test_coordinates_that_were_dropped_or_never_kept_say_why():
    never = synthetic_run(4, 8, 4, vectors=False)
    assert (
        opened(shown(never), 1, 1, DIRECT)["reason"] == "This token's coordinates were not kept or not saved."
    )
    whole = synthetic_run(4, 8, 12)
    few = Run(whole.model, whole.context, whole.settings)
    object.__setattr__(few.settings, "vector_budget", vectors_of(whole, 0, 0).nbytes * 8)
    for item in synthetic_items(few, 12):
        few.append(item) if isinstance(item, Step) else few.refer(item)
    assert few.forgotten_vectors == 12 * 4 - 8
    reason = opened(shown(few), 1, 1, DIRECT)["reason"]
    assert reason.startswith("This token's coordinates were dropped: a run keeps ")
    assert "(40 tables of coordinates were dropped so far)" in reason
    assert opened(shown(few), 11, 1, DIRECT)["reason"] == ""


def test_where_nobody_picked_the_smallest_denominator_of_the_variant_is_opened(run):
    for variant in range(len(run.variants)):
        cell = opened(shown(run), None, None, variant)
        table = run.field("h_abs_min", variant)
        assert cell["why"] == "Smallest |h| of this run"
        assert cell["variant"] == variant
        assert table[cell["layer"], cell["step"]] == np.nanmin(table)
    assert opened(shown(run), None, None, DIRECT)["layer"] == BAD_LAYER


def test_no_number_is_worse_than_any_and_the_first_such_cell_is_opened(run):
    values = run._fields["h_abs_min"].array
    values[1, DIRECT, 0] = np.nan
    values[3, DIRECT, 2:] = values[5, DIRECT, 1:] = np.inf
    cell = opened(shown(run), None, None, DIRECT)
    assert (cell["step"], cell["layer"]) == (3, 2)
    assert cell["why"] == "First |h| of this run that is no number"
    assert opened(shown(run), 5, None, DIRECT)["layer"] == 1
    assert opened(shown(run), 5, None, DIRECT)["why"] == "", "its token was picked"
    assert opened(shown(run), None, None, STABLE)["why"] == "Smallest |h| of this run"


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_a_layer_that_is_not_patched_is_never_opened_by_itself(value):
    run = synthetic_run(4, 16, 4, first_layer=2)
    run._fields["h_abs_min"].array[:, DIRECT] = np.nan
    run._fields["h_abs_min"].array[:, DIRECT, 2:] = value
    for step in (None, 1):
        cell = opened(shown(run), step, None, DIRECT)
        assert cell["layer"] == 2
        assert "not patched" not in cell["reason"] + cell["counts"]


@pytest.mark.parametrize("state", ["queued", "loading", "running"])
def test_nothing_is_opened_by_itself_while_a_run_is_at_work(run, state):
    assert opened(shown(run, state), None, None, DIRECT) is None
    assert opened(shown(run, state), 2, 3, DIRECT)["why"] == ""


@pytest.mark.parametrize("state", ["paused", "done", "stopped", "failed"])
def test_a_run_that_rests_opens_its_worst_cell(run, state):
    assert opened(shown(run, state), None, None, DIRECT)["why"] == "Smallest |h| of this run"


def test_a_token_without_a_layer_opens_its_smallest_denominator(run):
    for step in range(len(run)):
        cell = opened(shown(run), step, None, STABLE)
        column = run.field("h_abs_min", STABLE)[:, step]
        assert (cell["step"], column[cell["layer"]]) == (step, column.min())
        assert cell["why"] == ""


def test_a_place_that_the_run_lacks_becomes_one_that_it_has(run):
    worst = opened(shown(run), None, None, DIRECT)
    assert opened(shown(run), 8, 0, 0) == worst
    assert opened(shown(run), 10**8, 10**8, 10**8) == worst
    assert opened(shown(run), 3, 99, 99) == opened(shown(run), 3, None, 0)
    assert opened(shown(run, "running"), 8, 0, 0) is None


def test_a_view_without_tokens_opens_nothing():
    assert cell_view.answer(View(), 0, 0, 0) == {"epoch": 0, "cell": None}
    assert opened(shown(synthetic_run(4, 8, 0)), None, None, 0) is None


def test_another_run_in_the_same_view_has_another_epoch(run):
    view = shown(run)
    before = cell_view.answer(view, 1, 1, 0)
    view.show(synthetic_run(6, 16, 8, seed=5), "done")
    after = cell_view.answer(view, 1, 1, 0)
    assert after["epoch"] == before["epoch"] + 1
    assert after["cell"]["epoch"] == after["epoch"]
    assert after["cell"]["h"] != before["cell"]["h"]


def test_text_of_a_model_is_made_visible():
    run = synthetic_run(3, 8, 3, texts=("\u202eevil\n",))
    cell = opened(shown(run), 1, 1, 0)
    assert "\u202e" not in json.dumps(cell, ensure_ascii=False)
    assert "\n" not in cell["title"]


def test_describe_is_what_is_answered(run):
    view = shown(run)
    record = cell_view.describe(run, 2, 3, STABLE, epoch=view.epoch)
    assert asdict(record) == opened(view, 2, 3, STABLE)
    assert looked_at.counts(run, 2, 3, STABLE) == record.counts
