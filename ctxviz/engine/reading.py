"""The prompt on its way into the context passes: part by part, so that a long one can be watched and left."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ctxviz.engine.context_pass import ContextPass
from ctxviz.errors import OutOfMemoryError, is_out_of_memory


@dataclass(frozen=True, slots=True)
class Reading:
    """How far a prompt is read; a part is one pass over some of its tokens in one dtype."""

    done: int
    total: int

    @property
    def words(self) -> str:
        return f"reading the prompt, {self.done} of {self.total} parts"

    @property
    def share(self) -> float:
        return self.done / self.total


class PromptReading:
    """Iterator of :class:`Reading`: reads ``ids`` in every pass, and tells before each part how far it is.

    Nothing is told where no pass takes more than one part.

    Raises on iteration:
        OutOfMemoryError: memory ran out.
    """

    def __init__(self, passes: Sequence[ContextPass], ids: Sequence[int]) -> None:
        self._seconds = 0.0
        self._ids = list(ids)
        self._parts = [(one, part) for one in passes for part in one.parts(len(ids))]
        self._told = len(self._parts) > len(passes)
        self._readings = self._read()

    def __iter__(self) -> Iterator[Reading]:
        return self

    def __next__(self) -> Reading:
        with memory_explained():
            return next(self._readings)

    def finish(self) -> float:
        """Read what is left, and say how many seconds all of it took; raises as iteration."""
        for _ in self:
            pass
        return self._seconds

    def _read(self) -> Iterator[Reading]:
        total = len(self._parts)
        for done, (context_pass, (start, end)) in enumerate(self._parts):
            if self._told:
                yield Reading(done, total)
            started = time.perf_counter()
            context_pass.read(self._ids[start:end])
            self._seconds += time.perf_counter() - started
        if self._told:
            yield Reading(total, total)


@contextmanager
def memory_explained() -> Iterator[None]:
    """Say what can be done where memory runs out in the middle of a run."""
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error) or isinstance(error, OutOfMemoryError):
            raise
        raise OutOfMemoryError(
            "Memory ran out during the run; the tokens made so far are kept, "
            "so choose fewer dtypes, a shorter prompt or a smaller model and generate again."
        ) from None
