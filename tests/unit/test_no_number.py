"""A real overflow in float16, from the model to all that people read; and what nobody measured beside it."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from ctxviz import alarms
from ctxviz.cli import lines, report
from ctxviz.engine import stream
from ctxviz.figures.card import to_csv
from ctxviz.figures.cell import Cell, Missing, find
from ctxviz.figures.heatmap import heatmap
from ctxviz.figures.lines import tvd_lines
from ctxviz.figures.replay_words import meaning
from ctxviz.figures.statistics import summary
from ctxviz.figures.words import verdict
from ctxviz.models import LoadedModel, load_model
from ctxviz.no_number import all_computed, computed
from ctxviz.records import INTEGER_LAYER_METRICS, LAYER_METRICS, LayerVectors, Step
from ctxviz.run import Run
from ctxviz.settings import UPDATE_RULES, RunSettings
from ctxviz.store import load_run
from ctxviz.ui import field_values, tables
from tests.bundles import differences, parts_of, saved
from tests.tables import read_csv, read_records
from tests.tiny_models import save_tiny_folder

PROMPT = "the robot on mars says that dust will fall from the sky"
TOKENS, WIDTH, LOST = 4, 48, 7
"""LOST is the coordinate of layer 2's h_down that overflows."""
FIRST = 4
"""The first variant in float16; those before it are the same rules in float32."""
SETTINGS = RunSettings(
    updates=UPDATE_RULES,
    dtypes=("float32", "float16"),
    first_layer=1,
    max_new_tokens=TOKENS,
    replays=("same", "batch"),
    budget=True,
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    folder = save_tiny_folder(tmp_path_factory.mktemp("tiny"))
    return load_model(str(folder), dtypes=("float64", "float32", "float16"))


def made(model: LoadedModel, settings: RunSettings = SETTINGS) -> Run:
    running = stream(model, PROMPT, settings)
    run = Run(model.identity, running.context, settings)
    for event in running:
        if isinstance(event, Step):
            run.append(event)
        else:
            run.refer(event)
    run.outcome = running.outcome
    return run


@contextmanager
def changed(weight: torch.Tensor, index: int, value: float) -> Iterator[None]:
    """A row or a number of a weight set to ``value`` for a while."""
    before = weight[index].clone()
    with torch.no_grad():
        weight[index] = value
        try:
            yield
        finally:
            weight[index] = before


def layer_of(model: LoadedModel, layer: int) -> Any:
    return model.in_dtype("float16").get_submodule(model.architecture.layers)[layer]  # type: ignore[index]


@pytest.fixture(scope="module")
def healthy(model: LoadedModel) -> Run:
    return made(model)


@pytest.fixture(scope="module")
def run(model: LoadedModel) -> Run:
    """Layer 2 overflows at one coordinate, in float16 alone; layer 3 starts from what is no number."""
    with changed(layer_of(model, 2).mlp.down_proj.weight, LOST, 6e4):
        return made(model)


HALF = range(FIRST, FIRST + len(UPDATE_RULES))


def vectors(run: Run, variant: int) -> LayerVectors:
    kept = run.vectors(0, variant)
    assert kept is not None
    return kept


def test_nothing_that_was_computed_is_recorded_as_not_measured(run: Run) -> None:
    for k in HALF:
        rule = run.variants[k].update
        for name in LAYER_METRICS:
            values = run.field(name, k)
            if name in INTEGER_LAYER_METRICS or name in ("drift_ulp", "drift_rounded"):
                continue
            needs_no_patch = name in ("resid_ratio", "cosine", "output_error", "output_max_abs")
            needs_no_patch |= name.startswith("drift")
            absent = (name == "down_ratio" and rule == "direct") or (
                name == "multiplier" and rule in ("direct", "rescaled")
            )
            assert np.isnan(values[0]).all() == (not needs_no_patch), (name, "not patched")
            assert np.isnan(values[1:]).all() == absent, (name, rule)
            assert np.isnan(values[1:]).any() == absent, (name, rule)
            assert np.isfinite(values[1]).all() == (not absent), (name, "layer 1 is healthy")
        for name in ("output_error", "output_max_abs", "h_abs_min", "drift_batch"):
            assert np.isinf(run.field(name, k)[2:]).all(), name
        for name in ("resid_ratio", "cosine", "gate_ratio", "up_ratio"):
            assert np.isfinite(run.field(name, k)[2]).all(), (name, "before the overflow")
            assert np.isinf(run.field(name, k)[3]).all(), name
        assert (run.field("h_argmin", k)[2] == LOST).all(), "the first that is no number"
        assert (run.field("h_argmin", k)[3] == 0).all()
        assert (run.field("uncontrolled", k)[2:] == WIDTH).all()
        for name in ("tvd", "logit_linf", "kl", "replay_batch_tvd", "replay_same_shift"):
            assert np.isinf(run.series(name, k)).all(), name
        assert (run.series("rank", k) == -1).all()
        assert not run.series("match", k).any()
    assert all(run.baseline(step, "float16").margin == np.inf for step in range(TOKENS))
    for name in ("unpatched_tvd", "unpatched_linf"):
        assert np.isinf(run.reference(name, "float16")).all()
    for name in ("noise_floor_tvd", "float32_tvd", "float64_tvd", "eager_tvd", "ulp_tvd"):
        assert np.isinf(run.reference(name, "float16")[:3]).all()


def test_what_nobody_measured_stays_so(run: Run, healthy: Run) -> None:
    for k in range(len(run.variants)):
        assert np.isnan(run.field("drift_ulp", k)).all(), "not asked for"
        assert np.isnan(run.replay("ulp", "tvd", k)).all()
        assert np.isnan(vectors(run, k).h[0]).all()
        assert (run.field("h_argmin", k)[0] == -1).all()
    assert np.isnan(run.reference("noise_floor_tvd", "float32")[3]), "no floor is due at token 3"
    # The other dtype, and all of a model that does not overflow, are numbers, and to the bit those of before.
    for k in range(FIRST):
        for name in LAYER_METRICS:
            np.testing.assert_array_equal(run.field(name, k), healthy.field(name, k))
        np.testing.assert_array_equal(run.series("tvd", k), healthy.series("tvd", k))
    for k in range(len(healthy.variants)):
        assert not any(np.isinf(healthy.field(name, k)).any() for name in LAYER_METRICS)
        assert np.isfinite(healthy.series("tvd", k)).all()


def test_coordinates_tell_which_is_no_number(run: Run) -> None:
    for k in HALF:
        kept = vectors(run, k)
        assert np.flatnonzero(~np.isfinite(kept.h[2])).tolist() == [LOST]
        assert np.isinf(kept.h[3]).all()
        assert np.isfinite(kept.delta_v[2]).all()
        assert np.isinf(kept.delta_v[3]).all()
        assert np.isfinite(kept.delta_scale[1:]).all(), "the change that was made"


def test_it_goes_through_a_run_file(run: Run, healthy: Run) -> None:
    bundle = saved(run)
    assert differences(run, load_run(bundle)) == []
    parts = parts_of(bundle)
    assert json.loads(parts["run.json"])["schema_version"] == 3
    table = pq.read_table(io.BytesIO(parts["layers.parquet"])).to_pandas()
    half = table[(table["dtype"] == "float16") & (table["update"] == "stable") & (table["step"] == 0)]
    assert half["h_abs_min"].isna().tolist() == [True, False, False, False]
    assert np.isinf(half["h_abs_min"]).tolist() == [False, False, True, True]
    assert differences(healthy, load_run(saved(healthy))) == []


def test_maps_and_lines_mark_and_count_it(run: Run) -> None:
    card = heatmap(run, FIRST, "h_abs_min")
    [lost] = [t for t in card.figure.data if t.meta == "glyph"]
    assert (lost.name, set(lost.y), len(lost.y)) == ("no number", {2, 3}, 2 * TOKENS)
    assert f"✕ {2 * TOKENS} cells are no number." in card.caption
    assert "not measured" not in card.caption
    assert [a.text for a in card.figure.layout.annotations] == ["layer 0 is not patched"]
    assert "No number first in layer 2 at token 0" in card.alt
    cells = next(t for t in card.figure.data if t.meta == "cells").customdata
    assert {words for _, layer, _, _, words in cells if layer > 1} == {"no number"}
    assert {words for _, layer, _, _, words in cells if layer == 0} == {"not measured"}
    drawn = tvd_lines(run)
    assert "✗ on the top row: " in drawn.caption
    assert "direct float16: no number." in drawn.alt
    assert json.loads(drawn.figure.to_json())


def test_a_cell_says_why_it_has_no_figure(run: Run) -> None:
    assert isinstance(find(run, 0, 1, FIRST), Cell)
    assert isinstance(find(run, 0, 2, FIRST), Cell), "47 coordinates are numbers"
    lost, unpatched = find(run, 0, 3, FIRST), find(run, 0, 0, FIRST)
    assert isinstance(lost, Missing)
    assert isinstance(unpatched, Missing)
    assert lost.reason == (
        f"Layer 3 was computed, and h is no number at {WIDTH} coordinates of {WIDTH}: it or a layer before it"
        " overflowed in float16."
    )
    assert unpatched.reason == "Layer 0 is not patched; the first patched layer is 1."


def test_csv_files_tell_them_apart(run: Run) -> None:
    of_layers = read_records(field_values.csv(run, "h_abs_min", FIRST))
    assert {(row["layer 0"], row["layer 2"], row["layer 3"]) for row in of_layers} == {
        ("", "no number", "no number")
    }
    assert all(float(row["layer 1"]) > 0 for row in of_layers)
    chart = read_records(tables.chart_csv(run, "tvd"))
    names = [variant.label for variant in run.variants]
    assert all(row[names[FIRST]] == "no number" and float(row[names[0]]) < 1e-3 for row in chart)
    assert {row["noise_floor_tvd float16"] for row in chart} == {"no number"}
    assert [row["noise_floor_tvd float32"] == "" for row in chart] == [False] * 3 + [True]
    replayed = read_records(tables.chart_csv(run, "replay_tvd"))
    assert {row[names[FIRST]] for row in replayed} == {"no number"}
    assert {row[-1] for row in read_csv(tables.tokens_csv(run))[1:] if "float16" in row[2]} == {"no number"}
    of_cell = find(run, 0, 2, FIRST)
    assert isinstance(of_cell, Cell)
    assert [row["h"] for row in read_records(to_csv(of_cell.table()))].count("no number") == 1


def test_json_lines_name_what_is_no_number(run: Run) -> None:
    line = lines.step_record(run, 0, FIRST)
    assert json.loads(json.dumps(line, allow_nan=False)) == line
    of_step = ["tvd", "logit_linf", "kl", "unpatched_tvd", "noise_floor_tvd"]
    more = ["eager_tvd", "float32_tvd", "float64_tvd", "ulp_tvd"]
    replays = [f"replays.{kind}.{name}" for kind in ("same", "batch") for name in ("tvd", "shift")]
    assert line["no_number"] == [*of_step, *more, *replays]
    assert {line[name] for name in of_step + more} == {None}
    assert line["replays"]["batch"] == {"match": False, "tvd": None, "shift": None}
    assert [layer["no_number"] for layer in line["layers"]] == [
        [], [], ["h_abs_min", "output_error"], ["h_abs_min", "gate_ratio", "up_ratio", "output_error"],
    ]  # fmt: skip
    assert line["layers"][0]["h_abs_min"] is line["layers"][1]["down_ratio"] is None
    assert lines.step_record(run, 3, FIRST)["noise_floor_tvd"] is None
    assert "noise_floor_tvd" in lines.step_record(run, 3, FIRST)["no_number"], "the latest one"
    assert lines.step_record(run, 0, 0)["no_number"] == []


def test_alarms_and_sentences_say_so(run: Run) -> None:
    found = [a for a in alarms.find(run, ["near-overflow"]) if a.variant == FIRST]
    assert [(a.layer, a.step) for a in found] == [(2, step) for step in range(TOKENS)]
    assert all(a.sentence.endswith(": |x| is no number, where float16 ends at 65504.") for a in found)
    [wrong] = [a for a in alarms.top(run) if a.kind == "mismatch" and a.variant == FIRST]
    assert "said nothing, since its logits are no numbers, nor did the model with context" in wrong.sentence
    assert "The logits of direct float16 are no numbers at 4 tokens, first at token 0" in verdict(run).detail
    assert meaning(run, FIRST).startswith("The logits were no numbers already while the patch was built")
    assert (summary(run, FIRST).tvd_worst, summary(run, FIRST).tvd_median) == (np.inf, np.inf)
    told = report._summary(run, FIRST)
    assert told["TVD, largest"] == told["largest logit gap"] == "no number"
    assert told["smallest |h|"] == f"no number layer 2, j {LOST}"
    assert report._summary(run, 0)["smallest |h|"] != "-"


def test_a_patch_that_overflows_where_the_context_does_not(model: LoadedModel) -> None:
    settings = RunSettings(
        updates=("direct",), dtypes=("float32", "float16"), first_layer=1, max_new_tokens=1
    )
    norm, seen = layer_of(model, 0).post_attention_layernorm, []
    hook = norm.register_forward_hook(lambda m, _, out: seen.append(out[0].float() / (1 + m.weight.float())))
    try:
        made(model, settings)
    finally:
        hook.remove()
    prefill, query, patched = (np.abs(normed.numpy()) for normed in seen[:3])
    context = np.concatenate([prefill, query]).max(axis=0)
    j = int((patched[-1] / context).argmax())
    assert patched[-1, j] > 1.05 * context[j]
    with changed(norm.weight, j, 65504 / float(np.sqrt(patched[-1, j] * context[j]))):
        run = made(model, settings)
    assert np.isfinite(run.baseline(0, "float16").margin)
    assert run.baseline(0, "float16").top.texts
    assert (run.series("tvd", 1)[0], run.top(0, 1).texts) == (np.inf, ())
    assert np.isinf(run.field("output_max_abs", 1)).all(), "layer 0 is not patched, and overflows"
    [wrong] = alarms.find(run, ["mismatch"])
    assert wrong.sentence.startswith(
        "Direct float16 said nothing, since its logits are no numbers, where the"
    )
    [overflow] = alarms.find(run, ["near-overflow"])
    assert overflow.layer == 0


def test_what_is_computed_is_itself_or_infinite() -> None:
    values = np.array([1.5, -0.0, np.nan, np.inf, -np.inf, 1e39, -1e39])
    wanted = np.array([1.5, -0.0, np.inf, np.inf, -np.inf, np.inf, -np.inf], np.float32)
    found = all_computed(values)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, wanted)
    assert np.signbit(found[1])
    assert [computed(v) for v in values.tolist()][2:6] == [np.inf, np.inf, -np.inf, 1e39]
