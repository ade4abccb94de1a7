"""Work in a process of its own: its answer, its limits, and how it is stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from ctxviz import apart
from ctxviz.apart import TaskError, call
from ctxviz.errors import ModelError

TASKS = "tests.apart_tasks"
ROOM = 200 << 20


def ask(name: str, *arguments: Any, seconds: float = 10, progress: Any = None) -> Any:
    return call(f"{TASKS}:{name}", *arguments, seconds=seconds, room_bytes=ROOM, progress=progress)


@pytest.fixture(autouse=True)
def warm() -> None:
    """The server is there, so that what a test measures is the task."""
    assert ask("double", 1) == 2


def test_the_answer_comes_back_and_what_is_reported_on_the_way() -> None:
    heard: list[tuple[str, float | None]] = []
    assert ask("count", 3, 0.01, progress=lambda *said: heard.append(said)) == 3
    assert list(dict.fromkeys(heard)) == [("step 0", 0.0), ("step 1", 1 / 3), ("step 2", 2 / 3)]


def test_a_sentence_for_people_comes_through_as_it_is() -> None:
    with pytest.raises(ModelError, match=r"^It is not a model; name another\.$"):
        ask("refuse")


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ("fail", "a list where a number is wanted: and more"),
        ("panic", "index out of bounds"),
        ("abort", "its process ended without an answer"),
        ("no_such_task", "no_such_task"),
    ],
)
def test_whatever_is_raised_is_told_in_a_few_words(task: str, words: str) -> None:
    with pytest.raises(TaskError, match=words):
        ask(task)


@pytest.mark.parametrize("task", ["sleep", "spin"])
def test_what_takes_too_long_is_ended(task: str) -> None:
    arguments = (60,) if task == "sleep" else ()
    began = time.monotonic()
    # The time for starting the server is granted once more, as it may have to import the task's module.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(apart._Server, "STARTING_SECONDS", 0.0)
        with pytest.raises(TaskError, match="takes over 1 seconds"):
            ask(task, *arguments, seconds=1)
    assert time.monotonic() - began < 10


def test_time_counts_from_the_last_report() -> None:
    assert ask("count", 4, 0.6, seconds=1.5) == 4


@pytest.mark.parametrize("size", [ROOM * 2, 1 << 40])
def test_what_takes_too_much_memory_is_ended(size: int) -> None:
    assert ask("take", ROOM // 4) == ROOM // 4
    with pytest.raises(TaskError, match="MB of memory"):
        ask("take", size)


def test_memory_is_watched_where_the_system_keeps_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    # The task is given room for all of it; its caller sees it take more than was meant.
    line = apart._Call.__init__

    def with_less(self: Any, connection: Any, seconds: float, room: int, progress: Any) -> None:
        line(self, connection, seconds, ROOM // 8, progress)

    monkeypatch.setattr(apart._Call, "__init__", with_less)
    with pytest.raises(TaskError, match="26 MB of memory"):
        ask("take", ROOM // 2)


def test_nothing_of_it_reaches_our_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    assert ask("shout") == "quiet"
    assert capfd.readouterr() == ("", "")


def test_an_answer_may_be_long_but_not_endless(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(ask("long_answer", 5_000_000)) == 5_000_000
    monkeypatch.setattr(apart, "ANSWER_BYTES", 1_000_000)
    with pytest.raises(TaskError, match="1 MB long"):
        ask("long_answer", 5_000_000)


def _written(mark: Path) -> int:
    deadline = time.monotonic() + 20
    while not (mark.exists() and mark.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return int(mark.read_text())


def _gone(process_id: int) -> bool:
    deadline = time.monotonic() + 10
    while psutil.pid_exists(process_id) and psutil.Process(process_id).status() != psutil.STATUS_ZOMBIE:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def test_whoever_raises_in_the_progress_stops_it() -> None:
    class StoppedError(Exception):
        pass

    began = time.monotonic()

    def stop_later(stage: str, fraction: float | None) -> None:
        if time.monotonic() - began > 0.5:
            raise StoppedError

    with pytest.raises(StoppedError):
        # One report, then silence: the caller is asked all the same.
        ask("count", 1, 60, seconds=90, progress=stop_later)
    assert time.monotonic() - began < 5


def test_a_task_that_is_over_leaves_no_process(tmp_path: Path) -> None:
    mark = tmp_path / "process"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(apart._Server, "STARTING_SECONDS", 0.0)
        with pytest.raises(TaskError, match="seconds"):
            ask("sleep", 60, str(mark), seconds=1)
    assert _gone(_written(mark))


def test_many_at_once() -> None:
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda n: ask("double", n), range(40)))
    assert answers == [2 * n for n in range(40)]


def test_a_server_that_was_killed_is_started_again() -> None:
    server = next(p for p in psutil.Process().children() if "ctxviz.apart_server" in p.cmdline())
    server.kill()
    server.wait(10)
    assert ask("double", 4) == 8


def test_it_ends_with_its_caller(tmp_path: Path) -> None:
    mark = tmp_path / "process"
    code = (
        "from ctxviz.apart import call\n"
        f"call('{TASKS}:sleep', 300, {str(mark)!r}, seconds=4, room_bytes=10**8)"
    )
    caller = subprocess.Popen([sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": os.getcwd()})
    task = _written(mark)
    server = psutil.Process(task).ppid()
    caller.send_signal(signal.SIGKILL)
    caller.wait(10)
    assert _gone(server)
    assert _gone(task)
