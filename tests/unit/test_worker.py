"""The worker with invented jobs: turns, stop, step, failures, models kept. No model is loaded."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest

from ctxviz.errors import CtxvizError, MemoryRefusedError, ModelError
from ctxviz.ui.shelf import Shelf
from ctxviz.ui.turns import Job
from ctxviz.ui.views import View
from ctxviz.ui.worker import MAX_JOBS, MAX_PARKED, Worker

PATIENT = 10.0
ENDLESS = [True] * 40_000
"""Longer than any test: turns take half a millisecond."""


class Model:
    """Stands in for a loaded model."""

    def __init__(self, reference: str) -> None:
        self.reference = reference
        self.closed = False
        self.dtypes: list[str] = []

    def in_dtype(self, name: str, progress: Callable[[str, float | None], None]) -> None:
        progress(f"reading {name}", None)
        self.dtypes.append(name)

    def close(self) -> None:
        self.closed = True


class Loader:
    """Stands in for ``load_model``; ``hold`` keeps a load going until it is set."""

    def __init__(self) -> None:
        self.loaded: list[Model] = []
        self.hold = threading.Event()
        self.hold.set()
        self.refusals: list[Exception] = []

    def __call__(
        self, reference: str, dtypes: object, progress: Callable[[str, float | None], None]
    ) -> Model:
        progress("reading", 0.0)
        if self.refusals:
            raise self.refusals.pop(0)
        while not self.hold.wait(0.005):
            progress("reading", 0.5)
        assert dtypes == ("float32",)
        self.loaded.append(Model(reference))
        return self.loaded[-1]


class Turns:
    """Invented turns: a list of what each is, or an exception to raise there."""

    def __init__(
        self, name: str, plan: list[bool | BaseException], log: list[str], gate: threading.Event
    ) -> None:
        self.name, self.plan, self.log, self.gate = name, deque(plan), log, gate
        self.settled = 0

    @property
    def complete(self) -> bool:
        return True not in self.plan

    def __next__(self) -> bool:
        if not self.plan:
            raise StopIteration
        assert self.gate.wait(PATIENT)
        turn = self.plan.popleft()
        if isinstance(turn, BaseException):
            raise turn
        time.sleep(0.0005)
        self.log.append(self.name if turn else self.name.lower())
        return turn

    def settle(self) -> None:
        self.settled += 1


class Stage:
    """A worker, a loader and a log of whose turn it was."""

    def __init__(self, **options: float) -> None:
        self.loader = Loader()
        self.worker = Worker(Shelf(load=self.loader, warm=lambda: self.log.append("warm")), **options)
        self.log: list[str] = []
        self.gate = threading.Event()
        self.gate.set()
        self.turns: dict[str, Turns] = {}

    def job(
        self, name: str, plan: list[bool | BaseException], tokens: int | None = None, model: str = "m"
    ) -> View:
        view = View()

        def begin(_model: object) -> Turns:
            self.turns[name] = Turns(name, plan, self.log, self.gate)
            return self.turns[name]

        self.worker.submit(Job(view, model, ("float32",), begin, tokens))
        return view


@pytest.fixture
def stage() -> Iterator[Stage]:
    stage = Stage()
    yield stage
    stage.gate.set()
    stage.loader.hold.set()
    assert stage.worker.shutdown(PATIENT)


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENT
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.002)


def test_two_jobs_take_turns_token_by_token(stage: Stage) -> None:
    stage.gate.clear()
    a = stage.job("A", [True] * 6)
    b = stage.job("B", [True] * 6)
    stage.gate.set()
    until(lambda: a.state == b.state == "done")
    first = stage.log.index("B")
    shared = stage.log[first - 1 : 2 * (6 - stage.log[:first].count("A")) + first]
    assert len(shared) > 8
    assert all(x != y for x, y in pairwise(shared))
    assert len(stage.loader.loaded) == 1


def test_a_long_job_does_not_hold_up_a_short_one(stage: Stage) -> None:
    long = stage.job("L", ENDLESS)
    until(lambda: len(stage.log) > 50)
    short = stage.job("S", [True] * 3)
    until(lambda: short.state == "done")
    start = stage.log.index("S")
    assert stage.log[start : start + 5] == ["S", "L", "S", "L", "S"]
    stage.worker.stop(long.id)


def test_stop_acts_within_one_token(stage: Stage) -> None:
    view = stage.job("A", ENDLESS)
    until(lambda: len(stage.log) > 3)
    stage.gate.clear()
    time.sleep(0.02)
    made = len(stage.log)
    stage.worker.stop(view.id)
    stage.gate.set()
    until(lambda: view.state == "stopped")
    assert len(stage.log) <= made + 1
    assert stage.turns["A"].settled == 1
    assert not stage.worker.has(view.id)


def test_stop_while_loading_is_shown_at_once_and_ends_the_load(stage: Stage) -> None:
    stage.loader.hold.clear()
    view = stage.job("A", [True])
    until(lambda: view.stage == "reading")
    stage.worker.stop(view.id)
    assert view.state == "stopped"
    until(lambda: not stage.worker._jobs)
    assert stage.loader.loaded == []
    assert stage.log == []


def test_stop_of_a_waiting_job_needs_no_turn(stage: Stage) -> None:
    stage.gate.clear()
    first = stage.job("A", [True] * 3)
    second = stage.job("B", [True] * 3)
    assert "1 run is under way" in second.message
    stage.worker.stop(second.id)
    assert second.state == "stopped"
    stage.gate.set()
    until(lambda: first.state == "done")
    assert "B" not in stage.log


def test_step_makes_exactly_one_token_and_pauses(stage: Stage) -> None:
    view = stage.job("A", [True, False, True, True], tokens=1)
    until(lambda: view.state == "paused")
    assert stage.log == ["A"]
    assert stage.turns["A"].settled == 1
    stage.worker.step(view.id)
    until(lambda: stage.log == ["A", "a", "A"] and view.state == "paused")
    stage.worker.go_on(view.id)
    until(lambda: view.state == "done")
    assert stage.log == ["A", "a", "A", "A"]


def test_step_of_a_running_job_pauses_it(stage: Stage) -> None:
    view = stage.job("A", ENDLESS)
    until(lambda: len(stage.log) > 3)
    stage.worker.step(view.id)
    until(lambda: view.state == "paused")
    made = len(stage.log)
    time.sleep(0.05)
    assert len(stage.log) == made


def test_the_last_step_ends_the_job_instead_of_pausing(stage: Stage) -> None:
    view = stage.job("A", [True, False], tokens=1)
    until(lambda: view.state == "done")
    assert stage.log == ["A", "a"]


def test_a_stop_is_told_before_what_is_in_progress_is_done(stage: Stage) -> None:
    view = stage.job("A", ENDLESS)
    until(lambda: "A" in stage.log)
    stage.gate.clear()
    stage.worker.stop(view.id)
    assert (view.state, view.stage) == ("running", "stopping")
    stage.gate.set()
    until(lambda: view.state == "stopped")
    assert view.stage == ""


def test_a_paused_job_can_be_stopped(stage: Stage) -> None:
    view = stage.job("A", [True] * 5, tokens=1)
    until(lambda: view.state == "paused")
    stage.worker.stop(view.id)
    until(lambda: not stage.worker.has(view.id) and view.state == "stopped")
    assert stage.log == ["A"]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ModelError("The folder is empty; choose another."), "The folder is empty; choose another."),
        (MemoryError(), "Memory ran out"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), "Memory ran out"),
    ],
)
def test_what_a_reader_can_act_on_is_one_sentence_and_nobody_else_notices(
    stage: Stage, error: Exception, words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    stage.gate.clear()
    bad = stage.job("A", [True, error, True])
    good = stage.job("B", [True] * 4)
    stage.gate.set()
    until(lambda: good.state == "done")
    assert bad.state == "failed"
    assert words in bad.message
    assert stage.log.count("A") == 1
    assert "Traceback" not in capfd.readouterr().err


def test_a_bug_is_called_one_and_the_next_run_works(stage: Stage, capfd: pytest.CaptureFixture[str]) -> None:
    bad = stage.job("A", [True, ZeroDivisionError("division by zero")])
    until(lambda: bad.state == "failed")
    assert "bug of ctxviz (ZeroDivisionError)" in bad.message
    assert "ZeroDivisionError: division by zero" in capfd.readouterr().err
    good = stage.job("B", [True])
    until(lambda: good.state == "done")


def test_torchs_own_out_of_memory_error_is_known_by_name(stage: Stage) -> None:
    class OutOfMemoryError(RuntimeError):
        pass

    view = stage.job("A", [OutOfMemoryError("CUDA out of memory")])
    until(lambda: view.state == "failed")
    assert "Memory ran out" in view.message


def test_too_many_jobs_are_refused_and_harm_nobody(stage: Stage) -> None:
    stage.gate.clear()
    views = [stage.job(str(k), [True]) for k in range(MAX_JOBS)]
    with pytest.raises(CtxvizError, match="under way"):
        stage.job("late", [True])
    stage.gate.set()
    until(lambda: all(view.state == "done" for view in views))
    late = stage.job("late", [True])
    until(lambda: late.state == "done")


def test_a_job_nobody_asks_about_is_stopped() -> None:
    stage = Stage(patience=0.5)
    watched = stage.job("W", ENDLESS)
    left = stage.job("L", ENDLESS)
    paused = stage.job("P", [True] * 10, tokens=1)

    def look() -> bool:
        watched.last_used = time.monotonic()
        return left.state == "stopped" and paused.state == "stopped"

    until(look)
    assert watched.state == "running"
    assert stage.worker.shutdown(PATIENT)


def test_shutdown_joins_the_thread_and_closes_the_models() -> None:
    stage = Stage()
    running = stage.job("A", ENDLESS)
    until(lambda: len(stage.log) > 3)
    assert stage.worker.shutdown(PATIENT)
    assert running.state == "stopped"
    assert stage.loader.loaded[0].closed
    with pytest.raises(CtxvizError, match="shutting down"):
        stage.job("B", [True])


def test_shutdown_of_a_worker_that_never_worked() -> None:
    assert Worker().shutdown(0.0)


def test_shutdown_does_not_wait_for_a_load(stage: Stage) -> None:
    stage.loader.hold.clear()
    view = stage.job("A", [True])
    until(lambda: view.stage == "reading")
    assert stage.worker.shutdown(PATIENT)
    assert view.state == "stopped"


def test_models_are_kept_least_recently_used_first(stage: Stage) -> None:
    for name in ("one", "two", "one", "three", "one"):
        view = stage.job(name, [True], model=name)
        until(lambda view=view: view.state == "done")
    assert [model.reference for model in stage.loader.loaded] == ["one", "two", "three"]
    assert [model.closed for model in stage.loader.loaded] == [False, True, False]
    assert stage.worker.is_loaded("one")
    assert not stage.worker.is_loaded("two")


def test_an_idle_model_makes_room_where_memory_is_short(stage: Stage) -> None:
    until_done = stage.job("A", [True], model="old")
    until(lambda: until_done.state == "done")
    stage.loader.refusals = [MemoryRefusedError("too little")]
    view = stage.job("B", [True], model="new")
    until(lambda: view.state == "done")
    assert stage.loader.loaded[0].closed
    stage.loader.refusals = [MemoryRefusedError("too little")] * 3
    refused = stage.job("C", [True], model="huge")
    until(lambda: refused.state == "failed")
    assert refused.message == "too little"


def test_a_model_in_use_is_not_taken_away(stage: Stage) -> None:
    paused = stage.job("A", [True, True], tokens=1, model="old")
    until(lambda: paused.state == "paused")
    stage.loader.refusals = [MemoryRefusedError("too little")] * 2
    refused = stage.job("B", [True], model="new")
    until(lambda: refused.state == "failed")
    assert not stage.loader.loaded[0].closed


def test_warming_waits_and_happens_once(stage: Stage) -> None:
    stage.worker.warm(0.05)
    stage.worker.warm(0.0)
    until(lambda: stage.log == ["warm"])
    stage.worker.warm(0.0)
    view = stage.job("A", [True])
    until(lambda: view.state == "done")
    assert stage.log == ["warm", "A"]


def test_a_closed_job_is_stopped_only_once(stage: Stage) -> None:
    view = stage.job("A", [True])
    until(lambda: view.state == "done")
    stage.worker.stop(view.id)
    stage.worker.step(view.id)
    stage.worker.go_on(view.id)
    stage.worker.stop("no such view")
    assert view.state == "done"


def test_two_quick_steps_make_two_tokens(stage: Stage) -> None:
    stage.gate.clear()
    view = stage.job("A", [True] * 6, tokens=1)
    stage.worker.step(view.id)
    stage.gate.set()
    until(lambda: view.state == "paused")
    assert stage.log == ["A", "A"]
    stage.gate.clear()
    stage.worker.step(view.id)
    stage.worker.step(view.id)
    stage.gate.set()
    until(lambda: len(stage.log) == 4 and view.state == "paused")


def test_a_stopped_job_is_held_until_it_is_settled_and_told_so_only_then(stage: Stage) -> None:
    view = stage.job("A", ENDLESS)
    until(lambda: len(stage.log) > 3)
    stage.gate.clear()
    stage.worker.stop(view.id)
    assert view.state == "running"
    assert not stage.worker.has(view.id)
    assert stage.worker.holds(view.id)
    settled: list[int] = []
    tell = view.tell
    view.tell = lambda *a, **k: (settled.append(stage.turns["A"].settled), tell(*a, **k))[1]  # type: ignore[method-assign]
    stage.gate.set()
    until(lambda: view.state == "stopped" and not stage.worker.holds(view.id))
    assert settled == [1]


def made(stage: Stage, name: str) -> int:
    return stage.log.count(name)


def test_a_stopped_job_rests_and_goes_on_where_it_was(stage: Stage) -> None:
    view = stage.job("A", [True] * 400)
    until(lambda: made(stage, "A") > 3)
    stage.worker.stop(view.id)
    until(lambda: stage.worker.rests(view.id))
    assert view.state == "stopped"
    assert not stage.worker.has(view.id)
    assert not stage.worker.holds(view.id)
    before = made(stage, "A")
    time.sleep(0.02)
    assert made(stage, "A") == before < 400
    stage.worker.go_on(view.id)
    until(lambda: view.state == "done")
    assert made(stage, "A") == 400
    assert not stage.worker.rests(view.id)


def test_a_stopped_job_can_be_stepped(stage: Stage) -> None:
    view = stage.job("A", ENDLESS)
    until(lambda: made(stage, "A") > 3)
    stage.worker.stop(view.id)
    until(lambda: stage.worker.rests(view.id))
    before = made(stage, "A")
    stage.worker.step(view.id)
    until(lambda: view.state == "paused")
    assert made(stage, "A") == before + 1


def test_a_stop_before_the_first_token_leaves_nothing_to_go_on_with(stage: Stage) -> None:
    view = stage.job("A", [False] * 400 + [True])
    until(lambda: made(stage, "a") > 3)
    stage.worker.stop(view.id)
    until(lambda: view.state == "stopped" and not stage.worker.holds(view.id))
    assert not stage.worker.rests(view.id)
    stage.worker.go_on(view.id)
    time.sleep(0.02)
    assert "A" not in stage.log


def test_a_stop_after_the_last_token_ends_the_job(stage: Stage) -> None:
    view = stage.job("A", [True] + [False] * 40_000)
    until(lambda: made(stage, "a") > 3)
    stage.worker.stop(view.id)
    until(lambda: view.state == "stopped" and not stage.worker.holds(view.id))
    assert not stage.worker.rests(view.id)


def test_a_job_at_rest_is_ended_for_good(stage: Stage) -> None:
    view = stage.job("A", ENDLESS)
    until(lambda: made(stage, "A") > 3)
    stage.worker.stop(view.id)
    until(lambda: stage.worker.rests(view.id))
    stage.worker.end(view.id)
    until(lambda: not stage.worker._jobs)
    assert (view.state, view.message) == ("stopped", "")


def parked(stage: Stage, name: str, **how: int) -> View:
    view = stage.job(name, [True] * 10, tokens=1, **how)
    until(lambda: view.state == "paused")
    return view


def test_parked_jobs_take_no_ones_place(stage: Stage) -> None:
    views = [parked(stage, str(k)) for k in range(MAX_PARKED)]
    stage.gate.clear()
    busy = [stage.job(f"busy{k}", [True]) for k in range(MAX_JOBS)]
    with pytest.raises(CtxvizError, match="under way"):
        stage.job("late", [True])
    stage.gate.set()
    until(lambda: all(view.state == "done" for view in busy))
    assert all(view.state == "paused" for view in views)


def test_of_too_many_parked_jobs_the_first_is_given_up_with_a_sentence(stage: Stage) -> None:
    views = [parked(stage, str(k)) for k in range(MAX_PARKED)]
    stage.worker.step(views[0].id)
    until(lambda: made(stage, "0") == 2 and views[0].state == "paused")
    last = parked(stage, "last")
    until(lambda: views[1].state == "stopped")
    assert "cannot go on" in views[1].message
    assert [view.state for view in (views[0], *views[2:], last)] == ["paused"] * MAX_PARKED


def test_a_stopped_job_gives_way_where_memory_is_short(stage: Stage) -> None:
    resting = stage.job("A", ENDLESS, model="old")
    until(lambda: made(stage, "A") > 3)
    stage.worker.stop(resting.id)
    until(lambda: stage.worker.rests(resting.id))
    stage.loader.refusals = [MemoryRefusedError("too little")] * 2
    view = stage.job("B", [True], model="new")
    until(lambda: view.state == "done")
    assert stage.loader.loaded[0].closed
    assert not stage.worker.rests(resting.id)
    assert "memory" in resting.message


def test_a_job_nobody_asks_about_is_told_why_it_cannot_go_on(stage: Stage) -> None:
    view = stage.job("A", ENDLESS)
    until(lambda: made(stage, "A") > 3)
    stage.worker.stop(view.id)
    until(lambda: stage.worker.rests(view.id))
    view.last_used -= 1000.0
    until(lambda: not stage.worker._jobs)
    assert view.state == "stopped"
    assert "no page has shown it for 180 seconds" in view.message
