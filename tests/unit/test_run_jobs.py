"""Runs made by the worker: a long prompt's reading told and stopped, and the text without the context."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from ctxviz import engine
from ctxviz.engine import context_pass, reading
from ctxviz.errors import CtxvizError, PrecisionError
from ctxviz.models import load_model
from ctxviz.records import WithoutContext
from ctxviz.run import Run
from ctxviz.settings import RunSettings
from ctxviz.ui import without_context
from ctxviz.ui import worker as worker_module
from ctxviz.ui.jobs import replay_job, run_job
from ctxviz.ui.shelf import Shelf
from ctxviz.ui.views import View
from ctxviz.ui.worker import MAX_JOBS, Worker
from tests.tiny_models import save_tiny_folder, tiny_gemma3

PATIENT = 120.0
WINDOW: dict[str, Any] = {"max_position_embeddings": 8192, "num_hidden_layers": 2}
SETTINGS = RunSettings(("direct",), max_new_tokens=4)
PROMPT = "the robot and the dust"


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_tiny_folder(tmp_path_factory.mktemp("models") / "tiny", tiny_gemma3(seed=5, **WINDOW)))


@pytest.fixture(autouse=True)
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Worker]:
    worker = Worker(Shelf(warm=lambda: None))
    monkeypatch.setattr(worker_module, "_WORKER", worker)
    yield worker
    assert worker.shutdown(PATIENT)


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENT
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.002)


def asked(
    tiny: str, prompt: str = PROMPT, settings: RunSettings = SETTINGS, tokens: int | None = None
) -> View:
    view = View()
    worker_module.worker().submit(run_job(view, tiny, prompt, settings, tokens))
    return view


def run_of(view: View) -> Run:
    assert view.run is not None
    return view.run


def rested(view: View, *states: str) -> Run:
    """The run once its view is in one of these states and its text is written."""
    until(lambda: view.state in states)
    until(lambda: not without_context.is_written(run_of(view)))
    return run_of(view)


def length(found: WithoutContext | None) -> int:
    return 0 if found is None else len(found.ids)


class Gate:
    """Lets what it holds up happen so many times."""

    def __init__(self) -> None:
        self.let, self.passed = 0, 0

    def wait(self) -> None:
        until(lambda: self.let > self.passed)
        self.passed += 1


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """Holds up every part of a prompt before it is read."""
    gate, read = Gate(), context_pass.ContextPass.read
    monkeypatch.setattr(context_pass.ContextPass, "read", lambda self, ids: (gate.wait(), read(self, ids))[1])
    yield gate
    gate.let = 10**6


def test_how_far_a_long_prompt_is_read_is_told_and_a_run_is_shown_with_its_first_token(
    tiny: str, parts: Gate
) -> None:
    view = asked(tiny, "x" * 4000)
    for k in range(4):
        until(lambda k=k: view.stage == f"reading the prompt, {k} of 4 parts")
        assert (view.state, view.progress, view.run) == ("running", k / 4, None)
        parts.let += 1
    until(lambda: view.state == "done")
    assert (len(run_of(view)), view.stage, view.message) == (4, "", "")


def test_a_prompt_that_is_being_read_is_left_off_when_it_is_stopped(
    tiny: str, parts: Gate, worker: Worker
) -> None:
    view = asked(tiny, "x" * 4000)
    until(lambda: view.stage.startswith("reading the prompt, 1 of") or setattr(parts, "let", 1))
    worker.stop(view.id)
    parts.let = 10**6
    until(lambda: view.state == "stopped")
    assert parts.passed == 2, "the part in progress, and none after it"
    assert (view.run, view.stage, view.message) == (None, "", "")
    assert not worker.holds(view.id)
    assert not worker.rests(view.id)


def test_others_get_their_turn_while_a_long_prompt_is_read(
    tiny: str, parts: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = asked(tiny, "x" * 4000)
    until(lambda: long.stage.startswith("reading"))
    short = asked(tiny)
    # One part of the short prompt, two of the four of the long one, taken in turn.
    parts.let = 3
    until(lambda: short.run is not None)
    assert long.run is None
    assert parts.passed <= 3


def test_memory_that_runs_out_while_a_prompt_is_read_is_said(
    tiny: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(reading.ContextPass, "read", full)
    view = asked(tiny)
    until(lambda: view.state == "failed")
    assert "choose fewer dtypes, a shorter prompt" in view.message
    assert view.run is None


def test_a_run_is_done_before_its_model_is_asked_without_the_context(
    tiny: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, ask = Gate(), engine.without_context

    def held_up(*given: Any) -> Iterator[WithoutContext]:
        for text in ask(*given):
            gate.wait()
            yield text

    monkeypatch.setattr(engine, "without_context", held_up)
    view = asked(tiny)
    until(lambda: view.state == "done")
    run = run_of(view)
    for k in range(4):
        until(lambda k=k: length(run.without_context) == k)
        assert without_context.is_written(run)
        gate.let += 1
    until(lambda: not without_context.is_written(run))
    assert length(run.without_context) == 4


def test_a_paused_run_has_as_many_tokens_of_it_and_gets_more_as_it_goes_on(tiny: str, worker: Worker) -> None:
    view = asked(tiny, tokens=1)
    assert length(rested(view, "paused").without_context) == 1
    first = run_of(view).without_context
    worker.step(view.id)
    until(lambda: len(run_of(view)) == 2)
    assert length(rested(view, "paused").without_context) == 2
    worker.go_on(view.id)
    run = rested(view, "done")
    assert length(run.without_context) == 4
    whole = run.without_context
    assert whole is not None
    assert first is not None
    assert whole.ids[:1] == first.ids
    run.without_context = None
    *_, at_once = engine.without_context(load_model(tiny), run)
    assert whole == at_once


def test_a_stopped_run_has_it_too(tiny: str, worker: Worker) -> None:
    view = asked(tiny, settings=RunSettings(("direct",), max_new_tokens=500))
    until(lambda: view.run is not None and len(view.run) > 2)
    worker.stop(view.id)
    run = rested(view, "stopped")
    assert length(run.without_context) == min(len(run), engine.MOST_WITHOUT)


def test_a_run_made_again_keeps_the_text(tiny: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = rested(asked(tiny), "done")
    monkeypatch.setattr(engine, "without_context", None)
    view = View()
    worker_module.worker().submit(
        replay_job(view, tiny, run, RunSettings(("direct",), max_new_tokens=4, replays=("same",)))
    )
    again = rested(view, "done")
    assert again.without_context is run.without_context is not None
    assert again.replayed == ("same",)


def test_where_there_can_be_none_the_run_stays_done_and_it_is_said_why(
    tiny: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> Iterator[WithoutContext]:
        raise PrecisionError("Without the context nothing is a number; choose float32.")
        yield

    monkeypatch.setattr(engine, "without_context", refused)
    view = asked(tiny)
    run = rested(view, "done")
    assert (run.without_context, run.outcome, view.message) == (None, "finished", "")
    assert without_context.fault_of(run) == "Without the context nothing is a number; choose float32."
    assert without_context.fault_of(Run(run.model, run.context, run.settings)) == ""


def test_it_does_not_count_among_the_runs_that_are_under_way(tiny: str, worker: Worker, parts: Gate) -> None:
    run = rested(made(tiny, parts), "done")
    run.without_context = None
    others = [asked(tiny) for _ in range(MAX_JOBS)]
    without_context.ask(tiny, run)
    with pytest.raises(CtxvizError, match="under way"):
        asked(tiny)
    parts.let = 10**6
    until(lambda: all(view.state == "done" for view in others))
    assert length(rested(others[0], "done").without_context) == 4
    until(lambda: length(run.without_context) == 4)


def made(tiny: str, parts: Gate) -> View:
    """A run that is made while ``parts`` holds up what comes after it."""
    parts.let = 1
    return asked(tiny)
