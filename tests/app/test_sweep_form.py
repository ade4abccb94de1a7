"""The form that makes a sweep: its pictures, how it says that it ended, and the way to the results."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from ctxviz.presets import PRESETS
from ctxviz.settings import RunSettings
from ctxviz.shapes.gallery import GALLERY
from ctxviz.shapes.recognition import scene_picture
from ctxviz.shapes.writing import write
from ctxviz.store import load_run
from ctxviz.sweep.prompts import Prompt
from ctxviz.sweep.spec import SweepSpec
from ctxviz.sweep.words import how_it_ended
from ctxviz.ui import sweep_form, sweeping
from ctxviz.ui.sweeping import SweepRequest
from tests.app.conftest import Page
from tests.app.test_numerics_pages import at, cards

SCENE = GALLERY[0].scene
QUESTION = "Describe the picture."


@pytest.fixture(autouse=True)
def own_sweeps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Sweeps of these tests stay out of the user's cache, and those that are shipped out of the tests."""
    monkeypatch.setattr(sweeping, "sweeps_folder", lambda: tmp_path / "sweeps")
    monkeypatch.setattr(sweeping, "ASSETS", tmp_path / "assets")
    return tmp_path / "sweeps"


def form(model: str, prompt: str, **query: str) -> Page:
    """The form with the tab's own prompt chosen and little to do."""
    page = at("compare", view="sweep", model=model, prompt=prompt, **query)
    state = page.at.session_state
    state["sweep_prompts"], state["sweep_updates"] = [sweep_form._MINE], ["direct"]
    state["sweep_tokens"], state["sweep_replays"] = 2, []
    return page.run()


def asked(page: Page) -> SweepRequest:
    request = page.session.sweep
    assert request is not None
    return request


def test_a_prompt_brings_its_pictures_where_the_model_reads_them() -> None:
    page = form("tiny-shapes", QUESTION, scene=write(SCENE))
    assert "The prompt of the Live page brings its 1 picture." in page.texts()
    page.press("start_sweep")
    request = asked(page)
    (prompt,) = request.spec.prompts
    shown = scene_picture(SCENE).sha256
    assert prompt.key == (QUESTION, (shown,))
    page.wait(lambda: request.view.state in ("done", "failed"))
    assert (request.view.state, request.faults) == ("done", [])
    (cell,) = request.folder.glob("*.ctxviz")
    assert load_run(cell).context.image_sha256 == (shown,)
    # The control: a model that reads text only is asked without them.
    plain = at("compare", view="sweep", model="gemma-3-270m", prompt=QUESTION, scene=write(SCENE))
    assert "brings its" not in plain.texts()
    assert plain.at.session_state["sweep_prompts"] == [PRESETS[0].title]


def test_whoever_shows_a_picture_is_offered_to_ask_about_it() -> None:
    page = at("compare", view="sweep", model="tiny-shapes", prompt=QUESTION, scene=write(SCENE))
    assert page.at.session_state["sweep_prompts"] == [sweep_form._MINE]


def test_sweeps_of_other_pictures_are_kept_apart_and_text_alone_stays_where_it_was() -> None:
    settings = RunSettings(vector_budget=0)
    shown = [(), (scene_picture(SCENE),), (scene_picture(GALLERY[1].scene),)]
    names = [sweeping._name(SweepSpec("m", (Prompt("a", pictures),), settings)) for pictures in shown]
    assert len(set(names)) == 3
    # What the folder of this sweep was called when sweeps could carry no pictures.
    assert names[0] == "0b7a94d686470795"


def test_no_prompt_is_no_sweep(tiny_folder: Path) -> None:
    page = form(str(tiny_folder), "the and")
    page.at.session_state["sweep_prompts"] = []
    assert "No prompt is chosen; choose at least one." in page.run().texts()
    assert page.at.button("start_sweep").disabled


@pytest.mark.parametrize(
    ("changes", "view", "figures"),
    [
        ({"sweep_layers": "all"}, "layers", 4),
        ({"sweep_prompts": [sweep_form._MINE, PRESETS[3].title]}, "prompts", 2),
        ({}, "rules", 0),
    ],
)
def test_one_click_leads_to_the_results(
    tiny_folder: Path, changes: dict[str, object], view: str, figures: int
) -> None:
    page = form(str(tiny_folder), "the and the")
    for key, value in changes.items():
        page.at.session_state[key] = value
    page.run().press("start_sweep")
    request = asked(page)
    assert f"kept in {request.folder}" in page.texts()
    page.wait(lambda: request.view.state in ("done", "failed"))
    assert f"{request.total} cells are done" in page.texts() or request.total == 1
    page.press("sweep_results")
    assert page.at.session_state["compare_view"] == view
    assert page.at.selectbox(f"compare_sweep_{view}").value == str(request.folder)
    assert len(cards(page)) == figures
    # Whoever came for another sweep there can still choose it.
    page.at.session_state["compare_view"] = "sweep"
    page.run()
    assert page.at.button("sweep_results")


def test_a_sweep_that_is_stopped_says_after_how_many_cells(
    tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = sweeping._Sweeping.__next__
    monkeypatch.setattr(sweeping._Sweeping, "__next__", lambda self: (time.sleep(0.05), take(self))[1])
    page = form(str(tiny_folder), "the and")
    page.at.session_state["sweep_layers"] = "all"
    page.run().press("start_sweep")
    request = asked(page)
    page.wait(lambda: request.done == 1).press("stop_sweep")
    page.wait(lambda: request.view.state == "stopped")
    assert f"Stopped after {request.done} of 4 cells; start it again to go on." in page.run().texts()
    assert request.done < 4
    assert page.at.button("sweep_results")


@pytest.mark.parametrize(
    ("done", "failed", "total", "stopped", "sentence"),
    [
        (2, 0, 12, True, "Stopped after 2 of 12 cells; start it again to go on."),
        (2, 1, 12, True, "Stopped after 2 of 12 cells, 1 failed; start it again to go on."),
        (0, 0, 12, True, "Stopped before its first cell was done; start it again to go on."),
        (0, 0, 0, True, "Stopped before its first cell was done; start it again to go on."),
        (12, 0, 12, False, "All 12 cells are done."),
        (1, 0, 1, False, "The cell is done."),
        (10, 2, 12, False, "10 of 12 cells done, 2 failed; start it again to try what failed once more."),
    ],
)
def test_how_it_ended(done: int, failed: int, total: int, stopped: bool, sentence: str) -> None:
    assert how_it_ended(done, failed, total, stopped=stopped, again="start it again") == sentence
