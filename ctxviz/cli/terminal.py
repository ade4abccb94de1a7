"""What people read: plain text safe for a terminal, a bar on stderr, tables."""

from __future__ import annotations

import contextlib
import math
import os
import sys
import unicodedata
from collections.abc import Callable, Iterator
from typing import Final, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from ctxviz.errors import CtxvizError
from ctxviz.no_number import NO_NUMBER

KEPT_FORMATS: Final = frozenset("\u200c\u200d")
"""The joiners that Arabic, Indic scripts and emoji need."""


class OutputError(CtxvizError):
    """Standard output cannot be written to any more."""


class ReaderGoneError(Exception):
    """Whoever read our stdout has closed it, as ``head`` does."""


def visible(text: str, *, keep: str = "\n\t") -> str:
    """Text whose controls, escapes and changes of direction are spelt out, those of ``keep`` excepted."""
    return "".join(
        c
        if c.isprintable() or c in keep or c in KEPT_FORMATS or unicodedata.category(c) == "Zs"
        else c.encode("unicode_escape").decode("ascii")
        for c in text
    )


def sentence(error: object) -> str:
    """An error as one line."""
    return visible(" ".join(str(error).split()), keep="")


def write(text: str) -> None:
    """Put text on stdout now.

    Raises:
        ReaderGoneError: nobody reads it any more.
        OutputError: it is full, or broken in another way; what is written later is lost without a word.
    """
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
        raise ReaderGoneError from None
    except OSError as error:
        _discard_output()
        raise OutputError(
            f"The output cannot be written ({error.strerror or error}); send it where there is room."
        ) from None


def _discard_output() -> None:
    # Later writes, the interpreter's own flush at exit among them, must not fail again.
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def show(table: Table) -> None:
    """Put a table on stdout."""
    console = Console(file=sys.stdout)
    with console.capture() as captured:
        console.print(table)
    write(captured.get())


def cell(text: str) -> Text:
    """A table cell that is taken as it stands: no markup, no control characters."""
    return Text(visible(text, keep=""))


def figure(value: float | None, digits: int = 3) -> str:
    """A number in a table: ``-`` where nothing was measured."""
    if value is None:
        return "-"
    return f"{value:.{digits}g}" if math.isfinite(value) else NO_NUMBER


def tolerate(stream: TextIO) -> None:
    """Let a stream write what its encoding lacks as escapes, rather than fail."""
    reconfigure: Callable[..., None] | None = getattr(stream, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")


class Bar:
    """Stages and their progress on stderr; it vanishes when done. Does nothing where it is not wanted."""

    def __init__(self, wanted: bool) -> None:
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._known = False
        if wanted and sys.stderr.isatty():
            self._progress = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TextColumn("{task.fields[share]}", markup=False),
                TimeElapsedColumn(),
                console=Console(stderr=True),
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )

    def __call__(self, stage: str, fraction: float | None) -> None:
        """Show a stage and how much of it is done, 0 to 1, or None where that is not known."""
        if self._progress is None:
            return
        description, known = visible(stage, keep=""), fraction is not None
        share = f"{fraction:.0%}" if known else ""
        if self._task is None or self._known != known:
            self._progress.start()
            if self._task is not None:
                self._progress.remove_task(self._task)
            # Without a total the bar pulses; a task cannot go back to having none.
            self._task = self._progress.add_task(description, total=1.0 if known else None, share=share)
            self._known = known
        self._progress.update(self._task, description=description, completed=fraction or 0.0, share=share)

    def say(self, text: str) -> None:
        """Put a line on stderr, above the bar."""
        line = f"ctxviz: {sentence(text)}"
        if self._progress is None:
            print(line, file=sys.stderr, flush=True)
        else:
            self._progress.console.print(Text(line), soft_wrap=True)

    def close(self) -> None:
        if self._progress is not None:
            self._progress.stop()


@contextlib.contextmanager
def bar(wanted: bool) -> Iterator[Bar]:
    """A :class:`Bar` that is gone afterwards, whatever happens."""
    shown = Bar(wanted)
    try:
        yield shown
    finally:
        shown.close()
