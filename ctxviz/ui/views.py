"""What each reader is looking at: an unguessable id, one run, and how it is going.

A worker thread writes a :class:`View`; the delta route and the page read it.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections import Counter
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from ctxviz.figures.text import readable
from ctxviz.no_number import is_measured
from ctxviz.run import REFERENCE_METRICS, Run

State = Literal["empty", "queued", "loading", "running", "paused", "done", "stopped", "failed"]

ACTIVE: Final = frozenset({"queued", "loading", "running"})
"""States in which a view changes by itself."""

LIMIT: Final = 64
BYTES: Final = 512 * 2**20
"""What the runs of all views may hold before those of closed tabs are given up."""
FINISHED: Final = frozenset({"empty", "done", "stopped", "failed"})
"""States in which nobody works on a view."""


MESSAGE: Final = 400
"""Characters of what a file says of how its run ended."""
STOPPED_EARLY: Final = "Stopped before the first token."
"""Said of what its reader stopped so early that nothing of it stays."""


def rest_of(run: Run) -> tuple[State, str]:
    """How a run that nobody works on ended, as its records say, and the sentence to it."""
    outcome = run.outcome or "stopped"
    kind, _, sentence = outcome.partition(": ")
    if kind == "failed":
        return "failed", sentence
    return ("stopped" if outcome == "stopped" else "done"), ""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The attributes of a view at one moment."""

    run: Run | None
    state: State
    stage: str
    message: str
    progress: float | None
    epoch: int
    references: ReferenceLog
    notes: tuple[str, ...]


class View:
    """One reader's run and how it is going.

    Attributes:
        id: unguessable name in the route's address.
        run: what is shown; None before there is anything.
        state: one of ``State``.
        stage: what is being done now in a few words, e.g. ``loading weights``.
        message: a sentence for the reader; empty when there is nothing to say.
        progress: 0 to 1 while it is known, else None.
        epoch: counts the runs shown; a browser holding another epoch starts afresh.
        revision: counts every change told here.
        references: which references have been noticed so far.
        notes: what a reader should know of the model that made the run.
        pieces: how much was found so far of an answer that the page's script draws piece by piece.
    """

    def __init__(self) -> None:
        # Hexadecimal: Streamlit refuses a component whose key holds two underlines.
        self.id = secrets.token_hex(24)
        self.run: Run | None = None
        self.state: State = "empty"
        self.stage = ""
        self.message = ""
        self.progress: float | None = None
        self.epoch = 0
        self.revision = 0
        self.references = ReferenceLog()
        self.notes: tuple[str, ...] = ()
        self.pieces = 0
        self.last_used = time.monotonic()
        self._lock = threading.Lock()

    @property
    def active(self) -> bool:
        return self.state in ACTIVE

    def snapshot(self) -> Snapshot:
        """All attributes together. Steps appended before a state was told are in ``run`` when it is read."""
        with self._lock:
            return Snapshot(
                self.run,
                self.state,
                self.stage,
                self.message,
                self.progress,
                self.epoch,
                self.references,
                self.notes,
            )

    def show(self, run: Run | None, state: State, notes: tuple[str, ...] = ()) -> None:
        """Replace what is shown; a browser drops the run that it held."""
        with self._lock:
            self.references = ReferenceLog()
            self.run = run
            self.notes = notes
            self.state = state
            self.stage, self.message, self.progress = "", "", None
            self.epoch += 1
            self.revision += 1

    def rest(self, run: Run, notes: tuple[str, ...] = ()) -> None:
        """Show a run on which nobody works."""
        state, message = rest_of(run)
        self.show(run, state, notes)
        if message:
            self.tell(message=readable(message, MESSAGE))

    def tell(
        self, state: State | None = None, *, stage: str = "", message: str = "", progress: float | None = None
    ) -> None:
        """Say how it is going. A stage, message or progress not given is cleared; the state stays if None."""
        with self._lock:
            self.stage, self.message, self.progress = stage, message, progress
            self.state = state or self.state
            self.revision += 1


class ReferenceLog:
    """The references of a run in the order in which they were noticed.

    References fill in values of steps that were sent long before. Comparing what is there now with what was
    there at the last look gives a list that only grows, whoever filled the values in; a browser that says how
    much of it it has read is sent the rest.
    """

    def __init__(self) -> None:
        self._entries: list[tuple[int, int]] = []
        self._seen = np.zeros((len(REFERENCE_METRICS), 1, 0), bool)
        self._lock = threading.Lock()

    def notice(self, run: Run) -> list[tuple[int, int]]:
        """Every (step, dtype index) with a value so far, again whenever one of its values is new."""
        with self._lock:
            n = len(run)
            now = np.stack(
                [[is_measured(run.reference(name, d)[:n]) for d in run.dtypes] for name in REFERENCE_METRICS]
            )
            before = np.zeros_like(now)
            before[..., : self._seen.shape[-1]] = self._seen
            fresh = (now & ~before).any(axis=0)
            self._entries.extend((int(step), int(dtype)) for step, dtype in np.argwhere(fresh.T))
            self._seen = now
            return self._entries


class Views:
    """All views of this process, at most ``limit``: the one unused for longest goes, those at work last.

    Where their runs hold more than ``room`` bytes, those unused for longest go too, but none at work. A tab
    that is open has its run itself, so only what no tab shows any more is freed.
    """

    def __init__(self, limit: int = LIMIT, room: int = BYTES) -> None:
        self._limit = limit
        self._room = room
        self._views: dict[str, View] = {}
        self._lock = threading.Lock()

    def create(self) -> View:
        view = View()
        with self._lock:
            while len(self._views) >= self._limit:
                oldest = min(self._views.values(), key=lambda v: (v.state not in FINISHED, v.last_used))
                del self._views[oldest.id]
            self._make_room()
            self._views[view.id] = view
        return view

    def _make_room(self) -> None:
        held: dict[int, int] = {}
        showing = Counter(id(view.run) for view in self._views.values())
        for run in (view.run for view in self._views.values()):
            if run is not None:
                held[id(run)] = run.nbytes + run.vector_bytes
        total = sum(held.values())
        for view in sorted(self._views.values(), key=lambda v: v.last_used):
            if total <= self._room:
                return
            # A run that several show, such as the recorded one, is not freed by giving up one of them.
            if view.run is not None and view.state in FINISHED and showing[id(view.run)] == 1:
                del self._views[view.id]
                total -= held[id(view.run)]

    def get(self, view_id: str) -> View | None:
        """The view of that id, which counts as used now, or None."""
        with self._lock:
            view = self._views.get(view_id)
        if view is not None:
            view.last_used = time.monotonic()
        return view

    def __len__(self) -> int:
        return len(self._views)


_VIEWS: Final = Views()


def views() -> Views:
    """The registry of this process; it outlives script reruns, since modules are imported once."""
    return _VIEWS
