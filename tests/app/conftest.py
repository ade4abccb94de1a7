"""The page without a browser: real scripts, an invented recorded run, a model of a few kilobytes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
from streamlit.testing.v1 import AppTest

from ctxviz.run import Run
from ctxviz.ui import collection, open_tabs
from ctxviz.ui import session as session_module
from ctxviz.ui import worker as worker_module
from ctxviz.ui.session import Session
from ctxviz.ui.shelf import Shelf
from ctxviz.ui.tab import Kept
from ctxviz.ui.worker import Worker
from tests.synthetic import synthetic_run
from tests.tiny_models import save_tiny_folder

MAIN = Path(__file__).parents[2] / "ctxviz" / "ui" / "main.py"
PATIENCE = 120.0
"""Seconds; a busy machine takes its time, and a test that waits goes on as soon as it can."""


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_folder(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def recorded() -> Run | None:
    """The run that stands in for the recorded one; a test may override it."""
    return synthetic_run(6, 64, 8)


@pytest.fixture(autouse=True)
def worker(monkeypatch: pytest.MonkeyPatch, recorded: Run | None) -> Iterator[Worker]:
    """A worker of its own for each test, joined at the end."""
    worker = Worker(Shelf(warm=lambda: None))
    monkeypatch.setattr(worker_module, "_WORKER", worker)
    # There is no server, and no tab that another was duplicated from.
    monkeypatch.setattr(open_tabs, "is_open", lambda _: False)
    for module in (session_module, collection):
        monkeypatch.setattr(module, "recorded_run", lambda *_: recorded)
    yield worker
    assert worker.shutdown(PATIENCE)


class Page:
    """One tab."""

    def __init__(self, kept: Kept | None = None, **query: str) -> None:
        self.at = AppTest.from_file(str(MAIN), default_timeout=PATIENCE)
        # What a browser says before anything is drawn.
        self.at.session_state["tab_kept"] = kept or Kept()
        for name, value in query.items():
            self.at.query_params[name.replace("_", "-")] = value
        self.run()

    def run(self) -> Page:
        self.at.run()
        assert not self.at.exception
        # As the browser does, which says in its address what the page tells it.
        told = [json.loads(e.proto.json) for e in self._components("ctxviz.tab")]
        self.at.query_params.clear()
        self.at.query_params.update(dict(parse_qsl(told[-1]["query"], keep_blank_values=True)))
        return self

    def _components(self, name: str) -> list[Any]:
        return [e for e in self.at.get("bidi_component") if e.proto.component_name == name]

    @property
    def session(self) -> Session:
        return self.at.session_state["session"]

    @property
    def state(self) -> str:
        return self.session.view.state

    def texts(self) -> str:
        """What is said in text, by the component for sentences, and by the page in the live view."""
        sentences = [
            json.loads(element.proto.json)["text"] for element in self._components("ctxviz.sentence")
        ]
        notes = [json.loads(element.proto.json)["note"] for element in self._components("ctxviz.live")]
        return "\n".join([*(text.value for text in self.at.text), *sentences, *notes])

    @property
    def live(self) -> dict[str, Any]:
        """What the page tells the live view."""
        return json.loads(self._components("ctxviz.live")[0].proto.json)

    def press(self, key: str) -> Page:
        self.at.button(key).click()
        return self.run()

    def wait(self, condition: Callable[[], object]) -> Page:
        """Until the condition holds; then the page is drawn again, as the browser would have it drawn."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, "it did not happen in time"
            time.sleep(0.01)
        return self.run()

    def wait_for(self, *states: str) -> Page:
        return self.wait(lambda: self.state in states)
