"""The Layers, Replay and Compare pages: what they show of a run, and what their buttons do."""

from __future__ import annotations

import json
import os
import re
import time
import zipfile
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import streamlit as st

from ctxviz.figures.sweeps import rule_table
from ctxviz.figures.text import readable
from ctxviz.folds import ImageSpan
from ctxviz.models import loading
from ctxviz.presets import PRESETS
from ctxviz.run import Run
from ctxviz.store import load_patch, save_run
from ctxviz.ui import collection, jobs, layers_page, sweep_form, sweeping, watching
from ctxviz.ui.run_words import TITLE
from ctxviz.ui.tab_runs import COMPARED
from tests.app.conftest import Page
from tests.synthetic import synthetic_run
from tests.tables import read_records

PROMPT = synthetic_run(1, 8, 0).context.prompt
PAGES = ("layers", "replay", "compare")
HOSTILE = "<img src=x onerror=alert(1)> ![x](http://example.com/x.png) $x$ :smile:"


@pytest.fixture
def recorded() -> Run | None:
    return synthetic_run(6, 64, 8, replays=("same", "batch", "ulp"), hold=2, budget=True)


@pytest.fixture(autouse=True)
def own_sweeps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Sweeps of these tests stay out of the user's cache, and those that are shipped out of the tests."""
    monkeypatch.setattr(sweeping, "sweeps_folder", lambda: tmp_path / "sweeps")
    monkeypatch.setattr(sweeping, "ASSETS", tmp_path / "assets")
    return tmp_path / "sweeps"


def at(name: str, **query: str) -> Page:
    """A new tab on a page, with a link to the recorded run unless another prompt is given."""
    page = Page(**({"prompt": PROMPT} | query))
    return turn_to(page, name)


def turn_to(page: Page, name: str) -> Page:
    page.at.switch_page(f"../../pages/{name}.py")
    return page.run()


def cards(page: Page) -> list[dict]:
    """What the figures on the page were given."""
    return [
        json.loads(element.proto.json)
        for element in page.at.get("bidi_component")
        if element.proto.component_name == "ctxviz.figure"
    ]


def choose_alarm(page: Page, row: int | None) -> Page:
    """What the browser does when a row of the list of alarms is chosen, or undone."""
    states = page.at._tree.get_widget_states()
    chosen = states.widgets.add(id=page.at.dataframe[-1].proto.id)
    rows = [] if row is None else [row]
    chosen.string_value = json.dumps({"selection": {"rows": rows, "columns": [], "cells": []}})
    page.at._run(states)
    assert not page.at.exception
    return page


def slowed(folder: Path, monkeypatch: pytest.MonkeyPatch, seconds: float = 0.05) -> str:
    """A tiny model of which every turn of a run takes some time."""
    take = jobs.Measurement.__next__
    monkeypatch.setattr(jobs.Measurement, "__next__", lambda self: (time.sleep(seconds), take(self))[1])
    return str(folder)


def arrivals(page: Page) -> int:
    """How often the browser was told to bring what was opened into view."""
    [data] = (
        json.loads(element.proto.json)
        for element in page.at.get("bidi_component")
        if element.proto.component_name == "ctxviz.arrival"
    )
    return data["count"]


def says(page: Page, beginning: str) -> bool:
    """Whether a sentence of the page begins so."""
    return any(text.value.startswith(beginning) for text in page.at.text)


def titles(page: Page) -> list[str]:
    return [card["title"] for card in cards(page)]


def kept_cells(folder: Path, *runs: Run) -> list[Path]:
    """Runs as the cells of a sweep."""
    folder.mkdir(parents=True)
    paths = [folder / f"{k:03d}-cell.ctxviz" for k in range(1, len(runs) + 1)]
    for path, run in zip(paths, runs, strict=True):
        save_run(run, path, vectors=False)
    return paths


def with_floor(run: Run, prompt: str, floor: float) -> Run:
    """The same numbers under another prompt and floor."""
    run.context = replace(run.context, prompt=prompt)
    run.settings = replace(run.settings, floor=floor)
    run.variants = run.settings.variants
    return run


@pytest.mark.parametrize("name", PAGES)
def test_a_page_opens_on_its_own_in_a_new_tab(name: str) -> None:
    page = at(name)
    assert len(page.at.get("bidi_component")) > 2
    assert page.session.view.run is not None


class TestWithoutARecordedRun:
    @pytest.fixture
    def recorded(self) -> None:
        return None

    @pytest.mark.parametrize("name", PAGES)
    def test_an_empty_page_says_what_to_do(self, name: str) -> None:
        assert "Live page" in at(name).texts()


class TestLayers:
    def test_it_shows_the_worst_cell_and_all_that_is_behind_it(self, recorded: Run) -> None:
        page = at("layers")
        worst = recorded.field("h_abs_min", 0)
        layer, step = np.unravel_index(int(worst.argmin()), worst.shape)
        assert f"Behind token {step}," in page.texts()
        assert f"in layer {layer}" in page.texts()
        assert titles(page)[:4] == [
            "Where it blows up",
            "The scale before and after",
            "Its denominators in order",
            "What rounding the scale costs",
        ]
        assert any(t.startswith("Coordinate ") for t in titles(page))
        assert "direct has no λ" not in str(cards(page))

    def test_the_maps_come_first_and_then_their_cell(self) -> None:
        page = at("layers")
        order = [e.proto.component_name for e in page.at.get("bidi_component")]
        words = [name for name in order if name in ("ctxviz.fields", "ctxviz.figure")]
        assert words[0] == "ctxviz.fields"
        assert words[1:] == ["ctxviz.figure"] * 5

    def test_what_nobody_chose_is_said_to_be_so(self) -> None:
        page = at("layers")
        assert "Not chosen by you: smallest |h| of this run." in page.texts()
        page.at.number_input("inspect_step").set_value(5)
        page.run()
        assert "Not chosen by you" not in page.texts()
        page.session.pick(5, None, 0)
        page.run()
        assert "Not chosen by you: smallest |h| of this token." in page.texts()

    def test_another_variant_has_its_multiplier(self) -> None:
        page = at("layers", variant="1")
        assert sum("λ" in title for title in titles(page)) == 1

    def test_a_token_and_a_layer_are_chosen_by_keyboard(self) -> None:
        page = at("layers")
        page.at.number_input("inspect_step").set_value(5)
        page.run()
        page.at.number_input("inspect_layer").set_value(1)
        page.run()
        assert (page.session.focus.step, page.session.focus.layer) == (5, 1)
        assert page.at.query_params["step"] == "5"
        assert page.at.query_params["layer"] == "1"

    def test_a_link_reopens_the_same_cell_and_maps(self) -> None:
        page = at("layers", step="5", layer="2", variant="2", left="dead", right="swallowed")
        assert "Behind token 5," in page.texts()
        assert (page.at.session_state.left, page.at.session_state.right) == ("dead", "swallowed")

    def test_a_suspect_is_looked_at_with_one_click(self) -> None:
        page = at("layers")
        suspect = next(b for b in page.at.button if (b.key or "").startswith("suspect"))
        page.press(suspect.key)
        assert any(t.startswith(f"Coordinate {suspect.label} ") for t in titles(page))

    def test_alarms_are_listed_and_filtered(self) -> None:
        page = at("layers")
        kinds = page.at.get("button_group")
        assert kinds
        table = page.at.dataframe[-1].value
        assert set(table["kind"]) == {"blow-up", "mismatch", "replay-failure", "tie", "dead"}
        page.at.session_state["alarm_kinds"] = ["tie"]
        page.run()
        assert set(page.at.dataframe[-1].value["kind"]) == {"tie"}
        assert "inside the noise floor" in page.texts() or "rounding alone" in page.texts()

    def test_an_alarm_is_followed_once_for_each_time_it_is_chosen(self) -> None:
        page = at("layers")
        table = page.at.dataframe[-1].value
        row = int(table.index[table["kind"] == "blow-up"][1])
        place = (int(table["token"][row]), int(table["layer"][row]))
        assert arrivals(page) == 0
        choose_alarm(page, row)
        assert (page.session.focus.step, page.session.focus.layer) == place
        assert page.at.number_input("coordinate").value == table["j"][row]
        assert table["what"][row] in page.texts(), "why this cell is opened"
        assert arrivals(page) == 1
        page.at.number_input("inspect_step").set_value((place[0] + 1) % 8)
        page.run()
        moved = page.session.focus
        assert moved.step != place[0]
        assert table["what"][row] not in page.texts()
        assert arrivals(page) == 1, "who goes on by themselves is not scrolled"
        page.at.session_state["alarm_kinds"] = ["blow-up", "tie"]
        page.run()
        page.session.open(synthetic_run(6, 64, 7, replays=("same",)))
        page.run()
        assert page.session.focus.step is None, "another list and another run follow nothing"
        page.press("back")
        page.at.session_state["alarm_kinds"] = []
        page.run()
        page.session.focus = moved
        page.run()
        assert page.session.focus == moved
        choose_alarm(page, None)
        assert page.session.focus == moved
        assert arrivals(page) == 1
        choose_alarm(page, row)
        assert (page.session.focus.step, page.session.focus.layer) == place

    def test_dead_coordinates_are_of_no_token(self) -> None:
        page = at("layers", step="5", layer="0")
        table = page.at.dataframe[-1].value
        row = int(table.index[table["kind"] == "dead"][0])
        choose_alarm(page, row)
        assert (page.session.focus.step, page.session.focus.layer) == (5, int(table["layer"][row]))

    def test_the_kinds_stay_chosen_from_page_to_page(self) -> None:
        page = at("layers")
        page.at.button_group("alarm_kinds").set_value(["tie"])
        page.run()
        turn_to(turn_to(page, "replay"), "layers")
        assert set(page.at.dataframe[-1].value["kind"]) == {"tie"}

    def test_a_link_reopens_the_coordinate(self) -> None:
        page = at("layers", coordinate="17")
        assert any(t.startswith("Coordinate 17 ") for t in titles(page))
        page.at.number_input("coordinate").set_value(9)
        page.run()
        assert page.at.query_params["coordinate"] == "9"
        assert any(t.startswith("Coordinate 9 ") for t in titles(at("layers", coordinate="9999"))) is False

    def test_the_coordinate_is_drawn_again_only_where_it_is_another(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        drawn = []
        make = layers_page.everywhere
        monkeypatch.setattr(layers_page, "everywhere", lambda *a: (drawn.append(a[1:]), make(*a))[1])
        page = at("layers")
        page.at.number_input("inspect_step").set_value(1)
        page.run()
        assert len(drawn) == 1
        page.at.number_input("coordinate").set_value(3)
        page.run()
        assert drawn[1:] == [(3, 0)]

    @pytest.mark.parametrize("name", ["layers", "replay"])
    def test_a_growing_run_says_as_of_when(
        self, name: str, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        page = Page(model=slowed(tiny_folder, monkeypatch), tokens="200", prompt="the", replay="same")
        page.press("generate").wait(lambda: len(page.session.view.run or ()) > 1)
        turn_to(page, name)
        (shown,) = re.findall(r"The figures are as of token (\d+);", page.texts())
        if name == "layers":
            (told,) = re.findall(
                r"Not chosen by you: smallest \|h\| of this run up to token (\d+)\.", page.texts()
            )
            assert int(told) >= int(shown)
        assert watching.how_far(page.session.view)[1].endswith(" of 200")
        page.press("refresh").press("stop-card").wait_for("stopped")
        assert "The figures are as of token " not in page.texts()
        assert ("Not chosen by you: smallest |h| of this run." in page.texts()) == (name == "layers")

    def test_coordinates_that_were_not_kept_are_said_to_be_missing(self) -> None:
        page = at("layers")
        run = synthetic_run(6, 64, 4, vectors=False)
        page.session.open(run)
        page.run()
        assert "not kept or not saved" in page.texts()


class TestTakeAway:
    def test_a_patch_is_built_again_and_handed_over(self, tiny_folder: Path) -> None:
        page = Page(model=str(tiny_folder), tokens="3", update="stable", prompt="the and the and")
        page.press("generate").wait_for("done")
        turn_to(page, "layers")
        page.at.number_input("inspect_step").set_value(2)
        page.run().press("build_patch")
        request = page.session.patch
        assert request is not None
        page.wait(lambda: request.view.state in ("done", "failed"))
        assert request.view.state == "done", request.view.message
        names = [b.proto.label for b in page.at.get("download_button")]
        assert names == ["Patch (safetensors)", "Script that applies it", "PEFT adapter"]
        assert request.patch is not None
        assert request.patch.step == 2
        assert "AutoModelForCausalLM" in page.at.code[0].value
        assert f"MODEL = {request.patch.reference!r}" in page.at.code[0].value
        files = request.files
        page.run()
        assert request.files is files, "made once"

    def test_the_script_names_what_stock_transformers_loads(
        self, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        elsewhere = property(lambda _: "org/elsewhere")
        monkeypatch.setattr(loading.LoadedModel, "stock_reference", elsewhere)
        page = Page(model=str(tiny_folder), tokens="2", update="stable", prompt="the and the and")
        page.press("generate").wait_for("done")
        turn_to(page, "layers").press("build_patch")
        request = page.session.patch
        assert request is not None
        page.wait(lambda: request.view.state in ("done", "failed"))
        assert "MODEL = 'org/elsewhere'" in page.at.code[0].value
        assert request.files is not None
        adapter = zipfile.ZipFile(BytesIO(request.files.adapter))
        config = json.loads(adapter.read("adapter_config.json"))
        assert config["base_model_name_or_path"] == "org/elsewhere"

    def test_a_factored_patch_says_that_its_files_are_written(self, tiny_folder: Path) -> None:
        page = Page(
            model=str(tiny_folder), tokens="2", update="stable", arithmetic="factored", prompt="the and"
        )
        page.press("generate").wait_for("done")
        turn_to(page, "layers").press("build_patch")
        request = page.session.patch
        assert request is not None
        page.wait(lambda: request.view.state in ("done", "failed"))
        assert "ran its patch beside the weights" in page.texts()

    def test_reading_the_history_can_be_stopped(
        self, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        page = Page(model=str(tiny_folder), tokens="40", update="stable", prompt="the and the and")
        page.press("generate").wait_for("done")
        turn_to(page, "layers")
        page.at.number_input("inspect_step").set_value(39)
        take = jobs._Building.__next__
        monkeypatch.setattr(jobs._Building, "__next__", lambda self: (time.sleep(0.2), take(self))[1])
        page.run().press("build_patch")
        request = page.session.patch
        assert request is not None
        page.wait(lambda: request.view.state == "running").press("stop_patch")
        page.wait(lambda: request.view.state not in ("running", "queued", "loading"))
        assert "Stopped before the patch was built" in page.texts()
        assert request.patch is None

    def test_a_model_that_did_not_make_the_run_is_refused(self, tiny_folder: Path) -> None:
        page = at("layers", model=str(tiny_folder))
        page.press("build_patch")
        request = page.session.patch
        assert request is not None
        page.wait(lambda: request.view.state == "failed")
        assert "choose the model that made it" in page.texts()


class TestReplay:
    def test_it_says_what_the_replays_mean(self) -> None:
        page = at("replay")
        assert says(page, "The weights do not carry the context: TVD")
        assert "The weights do not carry the context: run" in page.texts()
        assert "bit for bit" in page.texts()
        assert len(cards(page)) == 4
        page = at("replay", variant="1")
        assert says(page, "The weights carry the context: TVD up to ")
        assert "The weights carry the context: even run" in page.texts()

    def test_a_run_without_replays_can_be_replayed(self, tiny_folder: Path) -> None:
        page = Page(model=str(tiny_folder), tokens="3", update="direct,stable", prompt="the and the and")
        page.press("generate").wait_for("done")
        before = page.session.view.run
        assert before is not None
        turn_to(page, "replay")
        assert "made without replays" in page.texts()
        page.press("again").wait_for("done", "failed")
        again = page.session.view.run
        assert again is not None
        assert again is not before
        assert again.replayed == ("same", "batch", "ulp")
        assert [again.token(k)[:5] for k in range(3)] == [before.token(k)[:5] for k in range(3)]
        for variant in range(2):
            assert np.array_equal(again.series("tvd", variant), before.series("tvd", variant))
            assert (again.replay("same", "shift", variant) == 0).all()
        page.press("back")
        assert page.session.view.run is before

    def test_another_model_is_refused_in_one_sentence(self, tiny_folder: Path) -> None:
        page = at("replay", model=str(tiny_folder))
        page.press("again").wait(lambda: page.state not in ("queued", "loading", "running"))
        assert "choose the model that made it" in page.texts()
        assert page.session.view.run is not None

    def test_a_factored_variant_has_nothing_to_replay(self) -> None:
        page = at("replay")
        page.session.open(synthetic_run(4, 16, 3, updates=("stable",), arithmetics=("factored",)))
        page.run()
        assert "nothing can be replayed" in page.texts()

    def test_nothing_chosen_or_nothing_written_is_said_and_not_begun(self) -> None:
        page = at("replay")
        assert not page.at.button("again").disabled
        page.at.button_group("again_kinds").set_value([])
        page.run()
        assert page.at.button("again").disabled
        assert "Nothing is chosen" in page.texts()
        page.at.toggle("again_budget").set_value(True)
        page.run()
        assert not page.at.button("again").disabled
        page.session.open(synthetic_run(4, 16, 3, updates=("stable",), arithmetics=("factored",)))
        page.run()
        assert page.at.button("again").disabled
        assert "no weights to run again" in page.texts()

    def test_a_token_to_hold_fits_a_shorter_run(self) -> None:
        page = at("replay")
        page.at.toggle("again_holds").set_value(True)
        page.run()
        page.at.number_input("again_hold").set_value(7)
        page.run()
        page.session.open(synthetic_run(6, 64, 3, replays=("same",)))
        page.run()
        assert page.at.number_input("again_hold").value == 2

    def test_a_tokens_text_is_beside_its_number_and_in_no_label(self) -> None:
        page = at("replay")
        page.session.open(synthetic_run(4, 16, 3, replays=("batch",), texts=(HOSTILE,)))
        page.run()
        page.at.number_input("replay_step").set_value(2)
        page.run()
        assert page.session.focus.step == 2
        assert f"“{HOSTILE[:20]}" in page.texts()
        widgets = [*page.at.number_input, *page.at.button, *page.at.toggle, *page.at.get("button_group")]
        assert "<img" not in " ".join(str(widget.proto) for widget in widgets)

    def test_the_live_settings_ask_for_replays(self, tiny_folder: Path) -> None:
        page = Page(
            model=str(tiny_folder), tokens="3", update="stable", replay="batch,ulp", hold="1", budget="yes"
        )
        page.at.text_area("prompt").set_value("the and the and")
        page.run().press("generate").wait_for("done", "failed")
        run = page.session.view.run
        assert run is not None
        assert run.replayed == ("batch", "ulp", "held")
        assert np.isfinite(run.reference("eager_tvd", "float32")).any()


class TestCompare:
    def test_the_first_view_has_the_lines_of_the_run_on_screen(self) -> None:
        assert titles(at("compare")) == ["Largest logit gap", "Total-variation distance"]

    def test_two_runs_side_by_side(self) -> None:
        page = at("compare")
        page.session.open(synthetic_run(6, 64, 6, seed=3))
        page.at.session_state["compare_view"] = "pair"
        page.run()
        assert len(cards(page)) == 1
        a, b = page.at.selectbox("pair_A"), page.at.selectbox("pair_B")
        assert (a.value, b.value) == ("Run 1", "Recorded")
        assert a.options == [
            "Run 1 · As a slightly irritable robot on… · 6 tokens",
            "Recorded · As a slightly irritable robot on… · replayed · 8 tokens",
        ]

    def test_runs_keep_their_names_and_the_one_on_screen_is_chosen_first(self) -> None:
        page = at("compare")
        first, second, third = (synthetic_run(6, 64, n, seed=n) for n in (3, 4, 5))
        page.session.open(first)
        page.session.open(second)
        page.run()
        assert page.at.selectbox("compare_run").value == "Run 2"
        page.at.session_state["compare_view"] = "pair"
        page.run()
        page.at.selectbox("pair_A").set_value("Run 1")
        page.run()
        page.session.open(third)
        page.run()
        assert page.at.selectbox("pair_A").value == "Run 1"
        found = collection.of_tab(page.session)
        assert list(found) == ["Run 3", "Run 2", "Run 1", "Recorded"]
        assert (found["Run 1"], found["Run 3"]) == (first, third)
        page.session.earlier.clear()
        assert list(collection.of_tab(page.session)) == ["Run 3", "Recorded"]

    def test_runs_opened_to_be_compared_are_few(self) -> None:
        page = at("compare")
        runs = [synthetic_run(4, 8, 2, seed=k) for k in range(COMPARED + 2)]
        for run in [*runs, runs[-1]]:
            page.session.compare(run)
        assert page.session.compared == runs[-COMPARED:]

    def test_a_cell_of_a_sweep_is_one_of_two_runs(self, own_sweeps: Path) -> None:
        cell = kept_cells(own_sweeps / "one", synthetic_run(4, 8, 3, seed=9))
        page = at("compare", view="pair")
        assert page.at.selectbox("pair_A").value == "Recorded"
        page.press("add_cell")
        assert "Run 1" in page.at.selectbox("pair_B").value
        assert len(collection.of_tab(page.session)["Run 1"]) == 3
        assert cell[0].stem in page.at.selectbox("cell_of_sweep").options
        cell[0].write_bytes(b"PK nonsense")
        page.press("add_cell")
        assert f"{cell[0].name}: " in page.texts()

    def test_what_is_compared_is_in_the_link_and_kept(self) -> None:
        page = at("compare", view="pair")
        assert len(cards(page)) == 1
        page.at.button_group("compare_view").set_value("rules")
        page.run()
        assert page.at.query_params["view"] == "rules"
        turn_to(turn_to(page, "layers"), "compare")
        assert page.at.query_params["view"] == "rules"
        assert "There is no sweep yet" in page.texts()

    def test_one_floor_is_shown_and_each_prompt_once(self, own_sweeps: Path) -> None:
        settings = {"updates": ("floored",), "dtypes": ("float32",)}
        runs = [
            with_floor(synthetic_run(4, 8, 3, seed=k, **settings), prompt, floor)
            for k, (prompt, floor) in enumerate([("a b", 0.1), ("a b", 0.6), ("a c", 0.1), ("a c", 0.6)])
        ]
        kept_cells(own_sweeps / "floors", *runs)
        page = at("compare", view="prompts")
        assert page.at.selectbox("compare_floor").options == ["0.1", "0.6"]
        page.at.selectbox("compare_floor").set_value("0.6")
        page.run()
        boxes, rates = cards(page)
        assert len(boxes["csv"].splitlines()) == 3
        assert "of 2 prompts and 1 variant" in boxes["alt"]
        assert "over 2 prompts. floored 0.6 float32: " in rates["alt"]

    def test_the_table_of_rules_is_taken_away_whole(
        self, own_sweeps: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        offered: dict[str, Any] = {}
        monkeypatch.setattr(st, "download_button", lambda words, **given: offered.update({words: given}))
        runs = [synthetic_run(4, 8, 3, updates=("direct", "floored")), synthetic_run(4, 8, 3, seed=1)]
        kept_cells(own_sweeps / "0123456789abcdef", *runs)
        page = at("compare", view="rules")
        assert str(own_sweeps / "0123456789abcdef") in page.texts()
        file = offered["Table (CSV)"]
        assert file["file_name"].startswith("synthetic-")
        assert file["file_name"].endswith("-sweep-012345-rules.csv")
        assert file["on_click"] == "ignore"
        rows = read_records(file["data"])
        cells = [(variant, run, i) for run in runs for i, variant in enumerate(run.variants)]
        expected = rule_table(cells)
        # Whole: with the first layer, which the page leaves out where there is one, and every digit.
        assert [row["first_layer"] for row in rows] == ["0"] * len(expected["rule"])
        assert [float(row["tvd_worst"]) for row in rows] == expected["tvd_worst"]

    def test_prompts_that_look_alike_are_numbered(self) -> None:
        prompts = ["the same beginning of a, one", "the same beginning of a, two", PRESETS[0].prompt]
        runs = [with_floor(synthetic_run(4, 8, 2), prompt, 0.6) for prompt in [*prompts, prompts[1]]]
        names = [name for name, _ in collection.named_by_prompt(runs)]
        assert names == [f"1 · {prompts[0]}", f"2 · {prompts[1]}", PRESETS[0].title, f"2 · {prompts[1]}"]

    def test_cells_beyond_the_limit_are_counted(
        self, own_sweeps: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        kept_cells(own_sweeps / "many", *(synthetic_run(4, 8, 2, seed=k) for k in range(4)))
        monkeypatch.setattr(collection, "KEPT", 3)
        page = at("compare", view="prompts")
        assert "The first 3 cells are shown; 1 are left out." in page.texts()

    def test_sweeps_of_ones_own_are_told_apart_by_what_they_are(self, own_sweeps: Path) -> None:
        title = readable(PROMPT, TITLE)
        for name in ("aaaaaa1", "bbbbbb2"):
            kept_cells(own_sweeps / name, synthetic_run(4, 8, 2), synthetic_run(4, 8, 2, seed=1))
        kept_cells(own_sweeps / "c", synthetic_run(4, 8, 2, updates=("stable",)))
        assert set(collection.sweep_titles().values()) == {
            f"made here · Synthetic · {title} · direct, stable · 2 cells · aaaaaa",
            f"made here · Synthetic · {title} · direct, stable · 2 cells · bbbbbb",
            f"made here · Synthetic · {title} · stable · 1 cell",
        }

    def test_a_sweep_of_ones_own_names_its_prompts_and_pictures(self, own_sweeps: Path) -> None:
        runs = [
            with_floor(synthetic_run(4, 8, 2), prompt, 0.6)
            for prompt in (PRESETS[0].prompt, PRESETS[0].prompt, HOSTILE, "the end")
        ]
        for run in runs[:2]:
            run.context = replace(run.context, images=(ImageSpan(1, 4),), image_sha256=("a" * 64,))
        paths = kept_cells(own_sweeps / "a", *runs)
        told = "made here · Synthetic · Mars forecast and 2 more"
        assert list(collection.sweep_titles().values()) == [f"{told} · 1 picture · direct, stable · 4 cells"]
        # What cannot be read is not named, and counted all the same.
        for path in paths:
            path.write_bytes(b"broken")
        assert list(collection.sweep_titles().values()) == ["made here · a · 4 cells"]

    def test_two_tabs_that_want_one_sweep_share_it(
        self, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        take = sweeping._Sweeping.__next__
        monkeypatch.setattr(sweeping._Sweeping, "__next__", lambda self: (time.sleep(0.1), take(self))[1])
        tabs = [at("compare", model=str(tiny_folder), prompt="the and", view="sweep") for _ in range(2)]
        for tab in tabs:
            tab.at.session_state["sweep_prompts"] = [sweep_form._MINE]
            tab.at.session_state["sweep_tokens"] = 4
            tab.run().press("start_sweep")
        first, second = (tab.session.sweep for tab in tabs)
        assert first is second
        assert first is not None
        tabs[1].wait(lambda: first.view.state in ("done", "failed"))
        assert (first.view.state, first.done, first.faults) == ("done", 1, [])
        assert "three minutes after its last tab is closed" in tabs[1].texts()

    @pytest.mark.parametrize("view", ["prompts", "layers", "rules"])
    def test_without_a_sweep_it_says_so(self, view: str) -> None:
        page = at("compare")
        page.at.session_state["compare_view"] = view
        assert "There is no sweep yet" in page.run().texts()

    def test_a_sweep_is_made_stopped_continued_and_shown(self, tiny_folder: Path) -> None:
        page = at("compare", model=str(tiny_folder), prompt="the and the and")
        page.at.session_state["compare_view"] = "sweep"
        page.run()
        page.at.session_state["sweep_prompts"] = [sweep_form._MINE]
        page.at.session_state["sweep_updates"] = ["direct", "stable"]
        page.at.session_state["sweep_layers"] = "all"
        page.at.session_state["sweep_tokens"] = 2
        page.run().press("start_sweep")
        request = page.session.sweep
        assert request is not None
        page.wait(lambda: request.done >= 1).press("stop_sweep")
        page.wait(lambda: request.view.state in ("stopped", "done", "failed"))
        assert request.view.state in ("stopped", "done")
        files = {path.name: path.stat().st_mtime_ns for path in request.folder.glob("*.ctxviz")}
        assert files
        page.press("start_sweep")
        again = page.session.sweep
        assert again is not None
        page.wait(lambda: again.view.state in ("done", "failed"))
        assert (again.view.state, again.done, again.total) == ("done", 4, 4)
        assert again.faults == []
        kept = {path.name: path.stat().st_mtime_ns for path in request.folder.glob("*.ctxviz")}
        assert len(kept) == 4
        assert all(kept[name] == when for name, when in files.items())
        rows = (request.folder / "summary.csv").read_text("utf-8-sig").splitlines()
        assert rows[0].startswith("cell,prompt,first_layer,rule")
        assert len(rows) == 1 + 4 * 2
        other = kept_cells(request.folder.parent / "later", synthetic_run(4, 8, 2))[0].parent
        os.utime(other, (2**32, 2**32))
        page.at.session_state["compare_view"] = "layers"
        page.run()
        assert page.at.selectbox("compare_sweep_layers").value == str(request.folder), "one's own first"
        page.at.selectbox("compare_sweep_layers").set_value(str(other))
        page.run()
        assert page.at.selectbox("compare_sweep_layers").value == str(other)
        page.at.selectbox("compare_sweep_layers").set_value(str(request.folder))
        page.run()
        assert len(cards(page)) == 4
        page.at.session_state["compare_view"] = "rules"
        page.run()
        assert len(page.at.dataframe[-1].value) == 8
        page.at.session_state["compare_view"] = "prompts"
        page.run()
        assert len(cards(page)) == 2

    def test_a_sweep_of_nothing_is_refused_before_it_starts(self) -> None:
        page = at("compare")
        page.at.session_state["compare_view"] = "sweep"
        page.run()
        page.at.session_state["sweep_updates"] = []
        assert "choose at least one" in page.run().texts()
        assert page.at.button("start_sweep").disabled

    def test_a_broken_cell_is_told_and_the_others_are_shown(self, own_sweeps: Path) -> None:
        folder = own_sweeps / "one"
        folder.mkdir(parents=True)
        save_run(synthetic_run(4, 8, 3), folder / "001-a.ctxviz", vectors=False)
        (folder / "002-b.ctxviz").write_bytes(b"PK nonsense")
        page = at("compare")
        page.at.session_state["compare_view"] = "prompts"
        page.run()
        assert "002-b.ctxviz" in page.texts()
        assert len(cards(page)) == 2

    def test_hostile_prompts_stay_text(self) -> None:
        page = at("compare")
        run = synthetic_run(4, 8, 2, texts=(HOSTILE,))
        page.session.open(run)
        page.at.session_state["compare_view"] = "pair"
        page.run()
        assert "<img" not in json.dumps([card["figure"] for card in cards(page)]).replace("&lt;img", "")


def test_what_is_looked_at_is_kept_from_page_to_page() -> None:
    page = at("layers", step="3", layer="2", variant="1")
    turn_to(page, "replay")
    assert page.session.focus.variant == 1
    turn_to(page, "live")
    assert (page.session.focus.step, page.session.focus.layer) == (3, 2)
    assert "Behind token 3," in turn_to(page, "layers").texts()


def test_the_files_of_a_patch_are_what_they_say(tiny_folder: Path, tmp_path: Path) -> None:
    """The patch that the page hands over is the one a run with kept patches has."""
    from ctxviz.engine import rebuild, stream
    from ctxviz.engine.rebuild import Rebuilt
    from ctxviz.models import load_model
    from ctxviz.records import Step
    from ctxviz.settings import RunSettings
    from ctxviz.store import adapter_zip, write_patch
    from tests.bundles import same

    model = load_model(str(tiny_folder))
    settings = RunSettings(("stable",), max_new_tokens=4)
    engine = stream(model, "the and the and", settings, keep_patches=True)
    run = Run(model.identity, engine.context, settings)
    kept = {}
    for item in engine:
        if isinstance(item, Step):
            run.append(item)
            kept[item.index] = item
    *shares, built = rebuild(model, run, 3, run.variants[0])
    assert isinstance(built, Rebuilt)
    assert shares == sorted(shares)
    assert same(built.patches, kept[3].variants[0].patches)
    assert (built.kept_ids, built.kept_positions) == (kept[3].kept_ids, kept[3].kept_positions)
    path = tmp_path / "p.safetensors"
    write_patch(
        path,
        built.patches,
        model="m",
        dtype="float32",
        step=3,
        position=built.position,
        context_ids=built.context_ids,
        kept_ids=built.kept_ids,
        kept_positions=built.kept_positions,
        update="stable",
        first_layer=0,
    )
    assert len(load_patch(path)[0]) == model.n_layers
    data = adapter_zip(built.patches, base_model="m", dtype="float32", stored_scales=built.stored_scales)
    assert "adapter_config.json" in zipfile.ZipFile(BytesIO(data)).namelist()


@pytest.mark.parametrize(("name", "query"), [("layers", {}), ("compare", {"view": "rules"})])
def test_an_empty_cell_of_a_table_is_empty(name: str, query: dict[str, str], own_sweeps: Path) -> None:
    """Streamlit would write None there, beside words that say what an empty cell means."""
    kept_cells(own_sweeps / "one", synthetic_run(4, 8, 3))
    found = at(name, **query).at.dataframe
    assert found
    for table in found:
        assert table.proto.HasField("placeholder")
        assert table.proto.placeholder == ""
