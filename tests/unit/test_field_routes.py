"""Whole tables for the linked maps: exact numbers, only known views and metrics, and what a browser says."""

import base64
import csv
import io
import json

import numpy as np
import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from ctxviz.figures.card import BYTE_ORDER_MARK
from ctxviz.figures.metrics import LIVE_METRICS, METRICS, metric_table, signed_table
from ctxviz.records import LAYER_METRICS, SOLVER_CASES
from ctxviz.run import Run
from ctxviz.ui import delta, field_values, fields, routes
from ctxviz.ui.components import Picked
from ctxviz.ui.views import View, views
from tests.browser import harness

PROBE = "zq9<script>"


def ask(address: str):
    application = Starlette(routes=routes.routes(), middleware=routes.middleware())
    with TestClient(application, base_url="http://localhost:8501") as client:
        return client.get(address)


@pytest.fixture
def view() -> View:
    view = views().create()
    view.show(harness.whole(5, 9), "done")
    return view


def run_of(view: View) -> Run:
    assert view.run is not None
    return view.run


def numbers(answer: dict) -> np.ndarray:
    return np.frombuffer(base64.b64decode(answer["values"]), "<f4").reshape(-1, answer["layers"])


def test_every_per_layer_figure_but_the_positions_can_be_drawn():
    assert set(LAYER_METRICS) - {"scale_argmax", "h_argmin"} <= set(METRICS)
    assert set(METRICS) - set(LAYER_METRICS) == {"weight_ratio"}
    counts = {key for key, metric in METRICS.items() if metric.kind == "count"}
    assert counts == {"h_small", "dead", "uncontrolled", "swallowed"}
    assert [key for key, metric in METRICS.items() if metric.kind == "category"] == ["solver_case"]
    assert METRICS["solver_case"].words == SOLVER_CASES
    initials = {word[0] for word in SOLVER_CASES}
    assert len(initials) == len(SOLVER_CASES), "a cell shows the first letter of its case"


def test_titles_and_symbols_tell_the_metrics_apart():
    assert len({metric.symbol for metric in METRICS.values()} | {"‖ΔW‖ / ‖W‖"}) == len(METRICS)
    assert len({metric.title for metric in METRICS.values()}) == len(METRICS)
    assert all(metric.meaning.endswith(".") for metric in METRICS.values())


def test_the_live_view_offers_what_it_did():
    assert tuple(delta.METRICS) == LIVE_METRICS
    assert LIVE_METRICS == ("h_abs_min", "scale_max_abs", "scale_ratio", "weight_ratio", "output_error")
    described = delta.describe(harness.whole(2, 1))
    assert tuple(described["metrics"]) == LIVE_METRICS
    assert tuple(described["fields"]) == tuple(METRICS)


@pytest.mark.parametrize("metric", METRICS)
def test_a_table_holds_the_float32_numbers_of_the_run(view, metric):
    run = run_of(view)
    answer = ask(f"/_ctxviz/values/{view.id}?metric={metric}&variant=1").json()
    assert (answer["n"], answer["layers"], answer["from"], answer["epoch"]) == (9, 5, 0, 1)
    assert (answer["metric"], answer["variant"]) == (metric, 1)
    found = numbers(answer)
    if metric == "weight_ratio":
        expected = np.fmax(run.field("gate_ratio", 1), run.field("up_ratio", 1)).T
    elif metric == "cosine":
        expected = 1 - run.field("cosine", 1).T.astype(np.float64)
    else:
        expected = run.field(metric, 1).T
    np.testing.assert_array_equal(found, expected.astype(np.float32))


def test_signs_infinities_and_gaps_reach_the_browser(view):
    run = run_of(view)
    run._fields["dead"].array[2, 0, 1] = -1
    multiplier = numbers(field_values.answer(view, "multiplier", 0, 0, 1))
    assert (multiplier[:, ::2] < 0).all()
    assert (multiplier[:, 1::2] > 0).all()
    assert (metric_table(run, 0, "multiplier") > 0).all()
    assert np.isposinf(numbers(field_values.answer(view, "drift_batch", 0, 0, 1))[:, 3]).all()
    dead = numbers(field_values.answer(view, "dead", 0, 0, 1))
    assert np.isnan(dead[2, 1])
    assert np.isnan(dead).sum() == 1
    json.dumps(field_values.answer(view, "drift_batch", 0, 0, 1), allow_nan=False)


def test_a_browser_is_sent_only_what_it_lacks(view):
    whole = numbers(field_values.answer(view, "scale_ratio", 0, 0, 1))
    rest = field_values.answer(view, "scale_ratio", 0, 7, 1)
    assert (rest["from"], rest["n"]) == (7, 9)
    np.testing.assert_array_equal(numbers(rest), whole[7:])
    assert field_values.answer(view, "scale_ratio", 0, 9, 1)["values"] == ""


@pytest.mark.parametrize(("start", "epoch"), [(7, 0), (10, 1), (10**9, 1)])
def test_a_browser_that_holds_something_else_is_sent_all(view, start, epoch):
    answer = field_values.answer(view, "scale_ratio", 0, start, epoch)
    assert (answer["from"], len(numbers(answer))) == (0, 9)


def test_a_view_without_a_run_and_a_variant_the_run_lacks(view):
    empty = View()
    assert field_values.answer(empty, "dead", 3, 0, 0) == {
        "epoch": 0, "from": 0, "n": 0, "layers": 0, "metric": "dead", "variant": 0, "values": ""
    }  # fmt: skip
    assert field_values.answer(view, "scale_ratio", 99, 0, 1)["variant"] == 0


def test_a_large_run_is_one_answer():
    view = views().create()
    view.show(harness.whole(62, 512, ("stable",)), "done")
    answer = ask(f"/_ctxviz/values/{view.id}?metric=output_error")
    table = signed_table(run_of(view), 0, "output_error").T.astype(np.float32)
    assert table.shape == (512, 62)
    np.testing.assert_array_equal(numbers(answer.json()), table)
    assert len(answer.content) < 512 * 62 * 4 * 1.4


@pytest.mark.parametrize(
    "query",
    [
        f"metric={PROBE}",
        "metric=h_argmin",
        "metric=__class__",
        "variant=-1",
        "from=-1",
        "epoch=x",
        "from=1e3",
    ],
)
def test_a_bad_query_is_refused_and_not_repeated(view, query):
    for kind in ("values", "csv"):
        if kind == "csv" and not query.startswith(("metric", "variant")):
            continue
        address = f"/_ctxviz/values/{view.id}" + ("/csv" if kind == "csv" else "")
        answer = ask(f"{address}?{query}")
        assert (answer.status_code, answer.json()) == (400, {"error": "bad query"})


@pytest.mark.parametrize("address", [f"/_ctxviz/values/{PROBE}", f"/_ctxviz/values/{PROBE}/csv"])
def test_an_unknown_view_is_not_found(address):
    answer = ask(address)
    assert answer.status_code == 404
    assert "zq9" not in answer.text


def test_the_live_routes_keep_to_their_own_metrics(view):
    for kind in ("delta", "figure"):
        assert ask(f"/_ctxviz/{kind}/{view.id}?metric=multiplier").status_code == 400


@pytest.mark.parametrize(
    ("metric", "read"),
    [("multiplier", np.float32), ("dead", int), ("solver_case", SOLVER_CASES.index)],
)
def test_the_csv_says_what_the_map_shows(view, metric, read):
    answer = ask(f"/_ctxviz/values/{view.id}/csv?metric={metric}&variant=1")
    assert answer.headers["content-type"].startswith("text/csv")
    rows = read_csv(answer.content.decode())
    assert rows[0] == ["step", "token", *(f"layer {layer}" for layer in range(5))]
    assert rows[1][1] == " The"
    found = [[read(cell.lstrip("'")) for cell in row[2:]] for row in rows[1:]]
    np.testing.assert_array_equal(found, signed_table(run_of(view), 1, metric).T.astype(np.float32))


def test_the_csv_guards_formulas(view):
    view.show(harness.whole(4, 30), "done")
    rows = read_csv(field_values.csv(run_of(view), "h_abs_min", 0))
    assert rows[25][:2] == ["24", "' =2+2"]
    assert np.float32(rows[25][2]) == run_of(view).field("h_abs_min", 0)[0, 24]


def read_csv(text: str) -> list[list[str]]:
    assert text[0] == BYTE_ORDER_MARK
    return list(csv.reader(io.StringIO(text[1:])))


def test_no_number_is_written_and_a_gap_is_empty(view):
    rows = read_csv(field_values.csv(run_of(view), "drift_batch", 0))
    assert [row[5] for row in rows[1:]] == ["no number"] * 9
    rows = read_csv(field_values.csv(run_of(view), "drift_rounded", 0))
    assert [row[3] for row in rows[1:]] == [""] * 9
    run_of(view)._fields["solver_case"].array[4, 0, 2] = len(SOLVER_CASES)
    rows = read_csv(field_values.csv(run_of(view), "solver_case", 0))
    assert [row[4] == "" for row in rows[1:]] == [step == 4 for step in range(9)]


@pytest.mark.parametrize(
    "value",
    [
        None, "x", [3, 2], {}, {"step": 9, "layer": 0}, {"step": 0, "layer": 5}, {"step": -1, "layer": 0},
        {"step": 0}, {"step": 0, "layer": None}, {"step": True, "layer": 1}, {"step": 0.0, "layer": 1},
    ],
)  # fmt: skip
def test_a_cell_the_run_lacks_is_no_pick(value):
    assert fields.picked_cell(value, 9, 5, 2) is None


def test_a_cell_of_the_run_is_a_pick():
    assert fields.picked_cell({"step": 8, "layer": 4}, 9, 5, 2) == Picked(8, 4, 2)


@pytest.mark.parametrize(
    "value",
    [None, "dead", ["dead"], ["dead", "nothing"], [PROBE, "dead"], [["dead"], "dead"], {"dead": "dead"}],
)
def test_metrics_that_do_not_exist_leave_what_was_shown(value):
    assert fields.chosen_metrics(value, ("scale_ratio", "dead")) == ("scale_ratio", "dead")


def test_known_metrics_are_taken():
    assert fields.chosen_metrics(["dead", "cosine"], ("scale_ratio", "dead")) == ("dead", "cosine")
