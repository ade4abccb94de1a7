"""The runs of one tab: the one on screen, those before it, those opened beside it, and their numbers.

A reload begins a new session that knows nothing of the old one. What a tab held is therefore noted here under
its unguessable name, by the ids of views: to be noted keeps no run alive.
"""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final
from weakref import WeakKeyDictionary

from ctxviz.run import Run
from ctxviz.ui import open_tabs
from ctxviz.ui.sweeping import SweepRequest
from ctxviz.ui.views import FINISHED, View, views

COMPARED: Final = 4
"""Runs opened to be compared that a tab keeps."""
KEPT_RUNS: Final = 8
"""Earlier runs of a tab that it can return to."""
NOTED: Final = 64
"""Tabs whose runs are noted; beyond that the one unseen for longest is forgotten."""


@dataclass(frozen=True, slots=True)
class Noted:
    """What a tab held. Views by their ids, and whether each shows a recorded run; the one on screen last.

    ``later`` were gone back from, ``beside`` were opened to be compared; ``numbers`` are those of the runs in
    the views.
    """

    shown: tuple[tuple[str, bool], ...]
    later: tuple[tuple[str, bool], ...]
    beside: tuple[str, ...]
    numbers: dict[str, int]
    numbered: int
    sweep: SweepRequest | None
    session: str
    """The session that noted it."""


@dataclass(kw_only=True)
class TabRuns:
    """What a tab can show or compare."""

    tab: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    """The tab's unguessable name, another one after each reload."""
    earlier: list[tuple[View, bool]] = field(default_factory=list)
    """Views that were on screen before, and whether each showed a recorded run; the latest last."""
    later: list[tuple[View, bool]] = field(default_factory=list)
    """The same of those that were gone back from, the one to go on to last."""
    beside: list[View] = field(default_factory=list)
    """Views of runs opened to be compared."""
    numbers: WeakKeyDictionary[Run, int] = field(default_factory=WeakKeyDictionary)
    numbered: int = 0
    """How many numbers were given."""

    @property
    def compared(self) -> list[Run]:
        """Runs opened to be compared, the latest last."""
        return [view.run for view in self.beside if view.run is not None]

    def compare(self, run: Run) -> None:
        """Have a run among those of the tab; of those opened to be compared the oldest goes for it."""
        others = [view for view in self.beside if view.run is not run]
        for forgotten in others[: 1 - COMPARED]:
            forgotten.show(None, "empty")
        view = views().create()
        view.rest(run)
        self.beside[:] = [*others, view][-COMPARED:]

    def put_aside(self, view: View, *, recorded: bool) -> None:
        """Keep a view to return to; of too many the oldest is forgotten, and its run freed.

        Those that were gone back from come before it: nothing that was made is lost by going back.
        """
        self.earlier += self.later
        self.later.clear()
        if view.run is not None:
            self.earlier.append((view, recorded))
        for forgotten, _ in self.earlier[:-KEPT_RUNS]:
            forgotten.show(None, "empty")
        del self.earlier[:-KEPT_RUNS]

    def number_of(self, run: Run) -> int:
        """The number by which this tab knows a run, the same for good."""
        if run not in self.numbers:
            self.numbered += 1
            self.numbers[run] = self.numbered
        return self.numbers[run]

    def own(self, shown: View, *, recorded: bool) -> list[View]:
        """The views of runs that did not come with ctxviz."""
        every = [*self.earlier, (shown, recorded), *self.later]
        return [*(view for view, recorded in every if not recorded), *self.beside]

    def note(self, shown: View, *, recorded: bool, sweep: SweepRequest | None) -> None:
        """Note what the tab holds; its views count as used."""
        on_screen = [*self.earlier, (shown, recorded)]
        every = [*on_screen, *self.later]
        own = [*(view for view, recorded in every if not recorded), *self.beside]
        for view in own:
            if view.run is not None and len(view.run):
                self.number_of(view.run)
        for view in (*(view for view, _ in every), *self.beside):
            views().get(view.id)
        held = Noted(
            shown=_ids(on_screen),
            later=_ids(self.later),
            beside=tuple(view.id for view in self.beside),
            numbers={v.id: self.numbers[run] for v in own if (run := v.run) and run in self.numbers},
            numbered=self.numbered,
            sweep=sweep,
            session=open_tabs.own(),
        )
        _TABS.note(self.tab, held)

    def take_back(self, noted: Noted) -> tuple[View, bool] | None:
        """Hold what another session of this tab held, as far as it is still there; the view to be shown.

        Where the other is open still, as after a tab was duplicated, its views stay its own: what it makes,
        stops or gives up is nothing to this one, which gets views of the same finished runs.
        """
        find = _copy if open_tabs.is_open(noted.session) else views().get
        shown = [(view, recorded) for id, recorded in noted.shown if (view := find(id))]
        if not shown:
            return None
        self.earlier[:] = shown[:-1]
        self.later[:] = [(view, recorded) for id, recorded in noted.later if (view := find(id))]
        self.beside[:] = [view for id in noted.beside if (view := find(id))]
        runs = {id: view.run for id in noted.numbers if (view := views().get(id)) and view.run is not None}
        for id, run in runs.items():
            self.numbers[run] = noted.numbers[id]
        self.numbered = noted.numbered
        return shown[-1]


def _ids(held: list[tuple[View, bool]]) -> tuple[tuple[str, bool], ...]:
    return tuple((view.id, recorded) for view, recorded in held)


def _copy(id: str) -> View | None:
    """A view of its own of what another tab shows, if that stands still."""
    other = views().get(id)
    if other is None or other.run is None or other.state not in FINISHED:
        return None
    view = views().create()
    view.rest(other.run, other.notes)
    return view


def noted(tab: str) -> Noted | None:
    """What the tab of that name held, or None."""
    return _TABS.get(tab)


class _Tabs:
    """What tabs held, the one seen last at the end."""

    def __init__(self) -> None:
        self._noted: OrderedDict[str, Noted] = OrderedDict()
        self._lock = threading.Lock()

    def note(self, tab: str, noted: Noted) -> None:
        with self._lock:
            self._noted[tab] = noted
            self._noted.move_to_end(tab)
            while len(self._noted) > NOTED:
                self._noted.popitem(last=False)

    def get(self, tab: str) -> Noted | None:
        with self._lock:
            return self._noted.get(tab)


_TABS: Final = _Tabs()
