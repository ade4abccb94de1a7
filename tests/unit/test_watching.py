"""What a browser is told of a view, and where Streamlit's front end looks for its server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from ctxviz.ui import probes, watching
from ctxviz.ui.views import View, views
from ctxviz.ui.worker import worker
from tests.synthetic import synthetic_run


def ask(address: str):
    with TestClient(Starlette(routes=[*watching.routes(), *probes.routes()])) as client:
        return client.get(address)


@pytest.fixture
def view() -> View:
    return views().create()


def test_a_view_says_its_state_and_counts_as_used(view: View) -> None:
    view.tell("loading", stage="reading weights", progress=0.25)
    view.last_used = 0.0
    answer = ask(f"/_ctxviz/state/{view.id}")
    assert answer.json() == {"mark": "loading", "share": 0.25, "words": "reading weights"}
    assert answer.headers["cache-control"] == "no-store"
    assert view.last_used > 0


def test_a_views_name_can_be_a_components() -> None:
    """Streamlit refuses a component whose key holds two underlines, as base64 does now and then."""
    assert not any("_" in View().id for _ in range(500))


def test_a_growing_run_says_which_token_is_made(view: View) -> None:
    run = synthetic_run(2, 16, 3, outcome=None)
    view.show(run, "running")
    wanted = run.settings.max_new_tokens
    said = ask(f"/_ctxviz/state/{view.id}").json()
    assert said == {
        "mark": "running, begun",
        "share": 3 / wanted,
        "words": f"token {min(4, wanted)} of {wanted}",
    }


def test_a_stopped_run_that_can_go_on_is_another_state(view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    view.tell("stopped")
    assert ask(f"/_ctxviz/state/{view.id}").json()["mark"] == "stopped"
    monkeypatch.setattr(type(worker()), "rests", lambda _, view_id: view_id == view.id)
    assert ask(f"/_ctxviz/state/{view.id}").json()["mark"] == "stopped, kept"


def test_an_unknown_view_is_gone_and_no_error() -> None:
    answer = ask("/_ctxviz/state/no-such-view")
    assert (answer.status_code, answer.json()["mark"]) == (200, watching.GONE)


@pytest.mark.parametrize("page", probes.PAGES)
def test_the_front_end_is_told_to_look_elsewhere_without_an_error(page: str) -> None:
    assert ask(f"/{page}/_stcore/health").status_code == 200
    answer = ask(f"/{page}/_stcore/host-config")
    assert (answer.status_code, answer.json()) == (200, None)


def test_every_page_with_a_path_is_known_to_the_probes() -> None:
    files = {path.stem for path in (Path(probes.__file__).parents[2] / "pages").glob("*.py")}
    assert set(probes.PAGES) == files - {"live"}


@pytest.fixture
def mounted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    found: list[tuple[str, dict[str, Any]]] = []
    monkeypatch.setattr(watching, "_watch", lambda *, key, data, **_: found.append((key, data)))
    return found


def test_a_change_while_the_page_is_drawn_is_not_missed(view: View, mounted) -> None:
    view.tell("running")
    watches = watching.Watches({"run": view})
    view.tell("done")
    watches.end()
    assert mounted == [("watch-run", {"view": view.id, "shown": "running", "progress": False})]
    assert ask(f"/_ctxviz/state/{view.id}").json()["mark"] != "running"


def test_what_rests_is_not_watched_and_what_has_a_bar_is_watched_once(view: View, mounted) -> None:
    view.tell("running")
    rests = views().create()
    watches = watching.Watches({"run": rests, "sweep": view})
    watches.bar(view)
    watches.end()
    assert mounted == [("watch-sweep", {"view": view.id, "shown": "running", "progress": True})]


def test_each_piece_of_an_answer_and_the_end_of_a_job_are_drawn(
    view: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    view.tell("running")
    marks = [watching.mark(view)]
    view.pieces += 1
    marks.append(watching.mark(view))
    monkeypatch.setattr(type(worker()), "holds", lambda _, view_id: view_id == view.id)
    view.tell("stopped")
    marks.append(watching.mark(view))
    monkeypatch.undo()
    marks.append(watching.mark(view))
    assert marks == ["running", "running, 1 found", "stopped, ending", "stopped"]


def test_no_part_of_a_page_runs_by_itself() -> None:
    """Streamlit asks for such a part even after the page has gone on without it, and logs that it is gone."""
    sources = Path(watching.__file__).parent.rglob("*.py")
    assert [path.name for path in sources if "run_every" in path.read_text(encoding="utf-8")] == []
