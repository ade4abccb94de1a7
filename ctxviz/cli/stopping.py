"""The first Ctrl-C ends a token, not the program: what is under way is finished and kept."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType

INTERRUPTED = 130
STOPPING = tuple(
    number for name in ("SIGINT", "SIGTERM", "SIGHUP") if (number := getattr(signal, name, None)) is not None
)


@dataclass(slots=True)
class Asked:
    """The exit status that a signal asked for; 0 where none came."""

    status: int = 0


@contextlib.contextmanager
def asking_to_stop(asked: Asked) -> Iterator[None]:
    """The first Ctrl-C, SIGTERM or SIGHUP is noted, so that the token under way is finished; not a second."""
    before = {number: signal.getsignal(number) for number in STOPPING}
    # Not those that whoever started us ignores, and none where they are not ours to handle.
    ours = [n for n in STOPPING if before[n] in (signal.SIG_DFL, signal.default_int_handler)]
    if threading.current_thread() is not threading.main_thread():
        ours = []

    def restore() -> None:
        for number in ours:
            signal.signal(number, before[number])

    def ask(number: int, _frame: FrameType | None) -> None:
        restore()
        asked.status = 128 + number

    for number in ours:
        signal.signal(number, ask)
    try:
        yield
    finally:
        restore()
