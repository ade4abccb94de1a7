"""Running the cells of a sweep one token at a time, so that others can take turns and a stop is honoured."""

from __future__ import annotations

import gc
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from ctxviz.errors import CtxvizError, is_out_of_memory
from ctxviz.errors import OutOfMemoryError as NoMemory
from ctxviz.records import Step
from ctxviz.run import Run
from ctxviz.sweep.cells import Cell
from ctxviz.sweep.weights import Weights

if TYPE_CHECKING:
    from ctxviz.engine import Stream
    from ctxviz.models import LoadedModel

OUT_OF_MEMORY: Final = (
    "Memory ran out in this cell; choose fewer dtypes, a shorter prompt or a smaller model, "
    "and run the sweep again."
)


_UNDER_WAY: Final = ("started", "reading", "token", "reference")


@dataclass(frozen=True, slots=True, eq=False)
class Event:
    """What one turn did: began a cell, is to read a part of its prompt, made a token or a reference of it,
    saved it, or gave it up."""

    kind: Literal["started", "reading", "token", "reference", "saved", "failed"]
    cell: Cell
    tokens: int = 0
    """Made so far, of the cell's ``settings.max_new_tokens``."""
    run: Run | None = None
    """The run as far as it is; whole where saved."""
    message: str = ""
    """Why it failed, in a sentence."""
    reading: str = ""
    """How far its prompt is read, in words."""

    @property
    def stage(self) -> str:
        """What the cell is at, in words."""
        wanted = self.cell.settings.max_new_tokens
        return self.reading or f"token {min(self.tokens + 1, wanted)} of {wanted}"

    @property
    def share(self) -> float:
        """Of the cell's tokens made; 0 where it is over."""
        return self.tokens / self.cell.settings.max_new_tokens if self.kind in _UNDER_WAY else 0.0


class Results(Protocol):
    """Where finished cells go; :class:`~ctxviz.sweep.folder.SweepFolder` is one."""

    def save(self, cell: Cell, run: Run) -> Any: ...

    def fail(self, cell: Cell, sentence: str, details: str = "") -> None: ...


class Runner:
    """Iterator of events: one ``next()`` is one token at most, and a failing cell does not end it.

    ``model`` is loaded in the dtypes the cells need (``RunSettings.needed_dtypes``). Whoever stops asking
    loses the tokens of the cell under way and nothing else.
    """

    def __init__(self, cells: Sequence[Cell], model: LoadedModel, weights: Weights, results: Results) -> None:
        self._waiting = deque(cells)
        self._model = model
        self._results = results
        self._sha256 = weights.sha256
        self._cell: Cell | None = None
        self._stream: Stream | None = None
        self._run: Run | None = None

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        if self._cell is None:
            if not self._waiting:
                raise StopIteration
            self._cell = self._waiting.popleft()
            return self._guarded(self._cell, self._begin)
        return self._guarded(self._cell, self._advance)

    def close(self) -> None:
        """Let go of the cell under way."""
        self._cell = self._stream = self._run = None

    def _guarded(self, cell: Cell, work: Callable[[Cell], Event]) -> Event:
        try:
            return work(cell)
        except Exception as error:
            sentence, details = explain(error)
        self.close()
        # What the failed cell held goes before the next one asks for memory.
        gc.collect()
        with suppress(OSError):  # the event tells it all the same
            self._results.fail(cell, sentence, details)
        return Event("failed", cell, message=sentence)

    def _begin(self, cell: Cell) -> Event:
        from ctxviz.engine import stream

        started = stream(self._model, cell.prompt.text, cell.settings, pictures=cell.prompt.pictures)
        identity = replace(started.identity, sha256=self._sha256)
        self._stream = started
        self._run = Run(identity, started.context, cell.settings, started.pictures)
        return Event("started", cell, run=self._run)

    def _advance(self, cell: Cell) -> Event:
        assert self._stream is not None
        assert self._run is not None
        run = self._run
        if (reading := next(self._stream.reading, None)) is not None:
            return Event("reading", cell, run=run, reading=reading.words)
        item = next(self._stream, None)
        if isinstance(item, Step):
            run.append(item)
            return Event("token", cell, len(run), run)
        if item is not None:
            run.refer(item)
            return Event("reference", cell, len(run), run)
        run.outcome = self._stream.outcome
        self._results.save(cell, run)
        self.close()
        return Event("saved", cell, len(run), run)


def explain(error: Exception) -> tuple[str, str]:
    """Why a cell failed: a sentence, and the traceback where it is a bug."""
    if isinstance(error, NoMemory) or is_out_of_memory(error):
        return OUT_OF_MEMORY, ""
    if isinstance(error, CtxvizError):
        return str(error), ""
    if isinstance(error, OSError):
        return (
            f"The cell cannot be written ({error.strerror or error}); make room and run the sweep again.",
            "",
        )
    details = "".join(traceback.format_exception(error))
    return (
        f"This is a bug of ctxviz ({type(error).__name__}); the .failed.txt file of the cell has the details "
        "to report."
    ), details
