"""Work on somebody's file in a process of its own, with limits on time and memory, which can be stopped.

For what cannot be judged beforehand: a template that never ends, a tokenizer that doubles its text, a library
that panics on a damaged file, a network that does not answer. A server process (:mod:`ctxviz.apart_server`)
without threads imports what the work needs once; each call is a fork of it, so it begins in milliseconds and
leaves nothing behind. What goes to and fro is JSON. Nothing that the work writes reaches our terminal.

Where the system cannot fork, the work is done in the caller's process, without limits.
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import psutil

from ctxviz import errors
from ctxviz.errors import CtxvizError

Json = Any
"""What ``json`` writes and reads back: None, booleans, numbers, texts, lists, and objects with text keys."""
Report = Callable[[str, float | None], None]
"""As :data:`ctxviz.models.progress.Progress`."""
ANSWER_BYTES: Final = 64 << 20
"""The longest line that a task may send back."""
CAN_FORK: Final = hasattr(os, "fork") and hasattr(socket, "send_fds")
_TICK: Final = 0.1
_PARTING_SECONDS: Final = 1.0
_LIBRARY_THREADS: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class TaskError(Exception):
    """A task did not end well; ``str()`` says why in a few words, to be put into the caller's sentence."""


def call(
    task: str, *arguments: Json, seconds: float, room_bytes: int, progress: Report | None = None
) -> Json:
    """Run ``task`` on ``arguments`` in a process of its own, and return its answer.

    Args:
        task: ``module:function`` of ctxviz. The module is imported once, before the fork; the function is
            called with a :data:`Report` of its own and the arguments.
        arguments: JSON values.
        seconds: at most between two reports of the task, its answer being the last.
        room_bytes: of memory that the task may take beyond what the imported modules hold.
        progress: told what the task reports, and the same again a few times a second. Where it raises, the
            process is killed.

    Raises:
        CtxvizError: the kind that the task raised.
        TaskError: it raised anything else, or took too long or too much memory, or its process died.
    """
    if not CAN_FORK:
        module, _, name = task.partition(":")
        return getattr(import_module(module), name)(progress or _unheard, *arguments)
    request = {"task": task, "arguments": arguments, "seconds": seconds, "room_bytes": room_bytes}
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            _SERVER.hand_over(task.partition(":")[0], theirs)
        return _Call(ours, seconds, room_bytes, progress or _unheard).answer(request)


def _unheard(stage: str, fraction: float | None) -> None:
    """Nobody listens."""


class _Call:
    """One task under way, seen from the caller."""

    def __init__(self, line: socket.socket, seconds: float, room_bytes: int, progress: Report) -> None:
        self._line, self._seconds, self._room, self._progress = line, seconds, room_bytes, progress
        self._process: psutil.Process | None = None
        self._at_start = 0
        self._said: tuple[str, float | None] | None = None

    def answer(self, request: dict[str, Json]) -> Json:
        try:
            self._line.sendall(json.dumps(request).encode() + b"\n")
            return self._listen()
        except OSError:
            raise TaskError("its process ended without an answer") from None
        finally:
            self._kill()

    def _listen(self) -> Json:
        heard = bytearray()
        searched = 0
        deadline = time.monotonic() + _Server.STARTING_SECONDS + self._seconds
        self._line.settimeout(_TICK)
        while True:
            end = heard.find(b"\n", searched)
            if end < 0:
                searched = len(heard)
                heard += self._received(deadline)
                if len(heard) > ANSWER_BYTES:
                    raise TaskError(f"its answer is over {_megabytes(ANSWER_BYTES)} long")
                continue
            message, searched = json.loads(heard[:end]), 0
            del heard[: end + 1]
            deadline = time.monotonic() + self._seconds
            if "process" in message:
                self._begun(message["process"])
            elif "stage" in message:
                self._said = (message["stage"], message["fraction"])
                self._progress(*self._said)
            elif "answer" in message:
                return message["answer"]
            else:
                raise _raised(message)

    def _received(self, deadline: float) -> bytes:
        """What arrived within a tick; empty where nothing did. The limits are kept meanwhile."""
        try:
            data = self._line.recv(1 << 20)
        except TimeoutError:
            if self._taken() > self._room:
                raise TaskError(f"it takes over {_megabytes(self._room)} of memory") from None
            if time.monotonic() > deadline:
                raise TaskError(f"it takes over {self._seconds:g} seconds") from None
            if self._said is not None:
                self._progress(*self._said)
            return b""
        if not data:
            raise TaskError("its process ended without an answer")
        return data

    def _begun(self, process_id: int) -> None:
        with suppress(psutil.Error):
            self._process = psutil.Process(process_id)
            self._at_start = _own_bytes(self._process)

    def _taken(self) -> int:
        try:
            return 0 if self._process is None else _own_bytes(self._process) - self._at_start
        except psutil.Error:
            return 0

    def _kill(self) -> None:
        if self._process is not None:
            with suppress(psutil.Error):
                self._process.kill()


def _own_bytes(process: psutil.Process) -> int:
    """Resident memory without the pages of mapped files, where the system tells them apart."""
    info = process.memory_info()
    return info.rss - getattr(info, "shared", 0)


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.0f} MB"


def _raised(message: dict[str, Any]) -> Exception:
    kind = getattr(errors, str(message.get("kind")), None)
    if isinstance(kind, type) and issubclass(kind, CtxvizError):
        return kind(message["words"])
    return TaskError(message["words"])


class _Server:
    """The process that forks; started when first needed, and again should it have died."""

    STARTING_SECONDS = 60.0
    """For starting Python and importing what a task needs, on a busy machine."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self._end)

    def hand_over(self, module: str, line: socket.socket) -> None:
        """Have a fork of the server talk on ``line``; ``module`` is imported before."""
        with self._lock:
            for attempt in (1, 2):
                if self._control is None:
                    self._control = self._started()
                try:
                    socket.send_fds(self._control, [module.encode() + b"\n"], [line.fileno()])
                    return
                except OSError:
                    self._end()
                    if attempt == 2:
                        raise TaskError("no process can be started for it") from None

    def _started(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        root = str(Path(__file__).parents[1])
        environment = os.environ | dict.fromkeys(_LIBRARY_THREADS, "1")
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
        # Graphics cards are none of its business, and what it writes is nobody's.
        environment["CUDA_VISIBLE_DEVICES"] = ""
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "ctxviz.apart_server", str(theirs.fileno())],
                env=environment,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                # Ctrl-C is for us; the server ends when its line to us does.
                start_new_session=True,
            )
        return ours

    def _end(self) -> None:
        if self._control is None or self._process is None:
            return
        self._control.close()
        self._control = None
        try:
            self._process.wait(_PARTING_SECONDS)
        except subprocess.TimeoutExpired:
            # It still imports something, or does not answer.
            self._process.kill()
            self._process.wait()


_SERVER: Final = _Server()
