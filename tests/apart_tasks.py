"""Tasks for the tests of ctxviz.apart: each does one thing that somebody's file may do."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from ctxviz.errors import ModelError

Report = Any


def double(report: Report, number: int) -> int:
    return 2 * number


def count(report: Report, steps: int, pause: float) -> int:
    for step in range(steps):
        report(f"step {step}", step / steps)
        time.sleep(pause)
    return steps


def refuse(report: Report) -> None:
    raise ModelError("It is not a model; name another.")


def fail(report: Report) -> None:
    raise TypeError("a list where a number is wanted:\nand more")


class PanicException(BaseException):
    """As libraries written in Rust raise."""


def panic(report: Report) -> None:
    raise PanicException("index out of bounds")


def abort(report: Report) -> None:
    os.abort()


def sleep(report: Report, seconds: float, mark: str = "") -> None:
    if mark:
        with open(mark, "w", encoding="utf-8") as file:
            file.write(str(os.getpid()))
    time.sleep(seconds)


def spin(report: Report) -> None:
    # Inside one call of C code, which no Python signal handler interrupts.
    sum(range(10**14))


def take(report: Report, size: int) -> int:
    held = bytearray(size)
    held[::4096] = b"x" * len(held[::4096])
    time.sleep(1)
    return len(held)


def shout(report: Report) -> str:
    os.write(2, b"on stderr\n")
    os.write(1, b"on stdout\n")
    print("on both", file=sys.stderr)
    return "quiet"


def long_answer(report: Report, size: int) -> str:
    return "x" * size
