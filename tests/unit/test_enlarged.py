"""The large figures of the Live page hold the numbers of the run they are asked of."""

import csv
import io

import numpy as np
import pytest

from ctxviz.figures.card import to_csv
from ctxviz.run import Run
from ctxviz.ui import enlarged
from ctxviz.ui.card_data import card_data
from ctxviz.ui.delta import METRICS
from tests.synthetic import synthetic_run

STEP, LAYER, VARIANT = 5, 3, 1


@pytest.fixture(scope="module")
def run() -> Run:
    return synthetic_run(6, 16, 9, replays=("same", "batch"), hold=2)


def rows_of(run: Run, name: str, metric: str = "h_abs_min") -> list[dict[str, str]]:
    card = enlarged.card(run, name, metric, VARIANT, STEP, LAYER)
    return list(csv.DictReader(io.StringIO(to_csv(card.table).removeprefix("\ufeff"))))


@pytest.mark.parametrize("metric", METRICS)
def test_the_map_is_of_the_metric_and_the_variant(run, metric):
    card = enlarged.card(run, "field", metric, VARIANT, STEP, LAYER)
    assert METRICS[metric].title in card.title
    label = run.variants[VARIANT]
    assert f"{label.update} {label.dtype}" in card.title + card.caption + card.alt + card.subject
    rows = rows_of(run, "field", metric)
    assert len(rows) == 9 * 6
    assert (rows[0]["step"], rows[0]["layer"]) == ("0", "0")
    if metric != "weight_ratio":
        value = next(name for name in rows[0] if name not in ("step", "token", "layer", "update", "dtype"))
        found = {(int(row["step"]), int(row["layer"])): row[value] for row in rows}
        for (step, layer), cell in found.items():
            assert np.float32(cell) == pytest.approx(abs(run.field(metric, VARIANT)[layer, step]), rel=1e-5)


def test_the_cell_is_the_one_that_was_asked_for(run):
    vectors = run.vectors(STEP, VARIANT)
    assert vectors is not None
    rows = rows_of(run, "cell")
    for name, kept in (("h", vectors.h), ("delta_m", vectors.delta_scale)):
        assert np.array_equal(np.array([row[name] for row in rows], np.float32), kept[LAYER])
    title = enlarged.card(run, "cell", "h_abs_min", VARIANT, STEP, LAYER).title
    assert title.startswith(f"Layer {LAYER}, token {STEP} ")


def columns_of(run: Run) -> dict[tuple[str, str], np.ndarray]:
    """Per line figure the columns that it must hold, by name."""
    named = [(k, f"{v.update} {v.dtype}") for k, v in enumerate(run.variants)]
    ratio = {k: np.fmax.reduce(run.field("scale_ratio", k)) for k, _ in named}
    every = {
        **{("tvd", f"tvd {name}"): run.series("tvd", k) for k, name in named},
        **{("logit_linf", f"logit_linf {name}"): run.series("logit_linf", k) for k, name in named},
        **{("patch_ratio", f"scale_ratio {name}"): ratio[k] for k, name in named},
    }
    again = {("replay_tvd", f"tvd {kind}"): run.replay(kind, "tvd", VARIANT) for kind in ("same", "batch")}
    return every | again | {("held_tvd", "tvd held"): run.replay("held", "tvd", VARIANT)}


def test_the_line_figures_hold_the_series_of_the_run(run):
    columns = columns_of(run)
    assert {name for name, _ in columns} == set(enlarged.FIGURES) - {"field", "cell"}
    for (name, column), values in columns.items():
        found = [row[column] for row in rows_of(run, name)]
        assert [cell == "" for cell in found] == np.isnan(values).tolist(), (name, column)
        told = [np.nan if cell == "" else float(cell) for cell in found]
        np.testing.assert_allclose(told, values, rtol=1e-6, err_msg=f"{name}, {column}")


def test_the_figures_are_told_apart(run):
    cards = [enlarged.card(run, name, "h_abs_min", VARIANT, STEP, LAYER) for name in enlarged.FIGURES]
    assert len({card.title for card in cards}) == len(cards)
    assert all(card.caption and card.alt for card in cards)
    assert len(card_data(cards[0])["themes"]) == 2
