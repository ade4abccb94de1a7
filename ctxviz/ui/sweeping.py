"""A sweep that the worker makes for a page: its request, its turns, and the folders that sweeps leave."""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakValueDictionary

from ctxviz.errors import CtxvizError
from ctxviz.figures.card import to_csv
from ctxviz.models.cache import models_folder
from ctxviz.models.progress import silent
from ctxviz.sweep import summary
from ctxviz.sweep.cells import Cell, cells_of
from ctxviz.sweep.folder import SweepFolder
from ctxviz.sweep.runner import Event, Runner
from ctxviz.sweep.spec import SweepSpec
from ctxviz.sweep.weights import Weights, identify
from ctxviz.ui.turns import Job

if TYPE_CHECKING:
    from ctxviz.models import LoadedModel
    from ctxviz.ui.views import View

ASSETS: Final = Path(__file__).parents[2] / "assets" / "sweeps"


def sweeps_folder() -> Path:
    """Where sweeps made from the page are kept."""
    return models_folder().parent / "sweeps"


def folders() -> list[Path]:
    """Every folder with finished cells: those that come with ctxviz first, then one's own, newest first."""
    own = [folder for folder in _inside(sweeps_folder()) if any(folder.glob("*.ctxviz"))]
    shipped = [folder for folder in _inside(ASSETS) if any(folder.glob("*.ctxviz"))]
    return [*sorted(shipped), *sorted(own, key=lambda folder: -folder.stat().st_mtime)]


def short_name(folder: Path) -> str:
    """What a sweep's files are called by: the name of one that comes with ctxviz, else the first digits."""
    return folder.name if folder.parent == ASSETS else f"sweep-{folder.name[:6]}"


def _inside(place: Path) -> list[Path]:
    try:
        return [entry for entry in place.iterdir() if entry.is_dir()]
    except OSError:
        return []


class SweepRequest:
    """A sweep somebody asked for from the page; asked for again it goes on where it ended.

    ``done``, ``failed`` and ``total`` count cells, ``faults`` are sentences about those that failed.
    """

    def __init__(self, view: View, spec: SweepSpec) -> None:
        self.view = view
        self.spec = spec
        self.done = 0
        self.total = 0
        self.faults: list[str] = []
        _REQUESTS[self.folder.name] = self

    @property
    def folder(self) -> Path:
        """Named after what is asked for, so that the same sweep finds its cells again."""
        return folder_of(self.spec)

    def job(self) -> Job:
        return Job(
            self.view,
            self.spec.model,
            self.spec.settings.needed_dtypes,
            lambda model: _Sweeping(self, model),
        )


def folder_of(spec: SweepSpec) -> Path:
    """Where a sweep's cells are kept, or will be."""
    return sweeps_folder() / _name(spec)


def requested(spec: SweepSpec) -> SweepRequest | None:
    """What some tab asked for last, if it is this sweep and is still kept by a tab or by the worker."""
    return _REQUESTS.get(_name(spec))


def _name(spec: SweepSpec) -> str:
    asked: dict[str, Any] = {
        "model": spec.model,
        "prompts": [p.key if p.pictures else p.text for p in spec.prompts],
        "settings": asdict(spec.settings) | {"fold": str(spec.settings.fold)},
        "floors": spec.floors,
        "first_layers": spec.first_layers,
    }
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode("ascii")).hexdigest()[:16]


_REQUESTS: WeakValueDictionary[str, SweepRequest] = WeakValueDictionary()
"""Of this process, by the name of their folder: two tabs that want the same sweep share one."""


class _Sweeping:
    """One turn looks for one cell, or makes one token of one that is not there."""

    complete = True

    def __init__(self, request: SweepRequest, model: LoadedModel) -> None:
        self._request = request
        self._model = model
        self._weights: Weights = identify(request.spec.model, silent)
        cells = cells_of(request.spec, self._weights.key, self._weights.n_layers)
        request.total, request.done, request.faults = len(cells), 0, []
        self._sought = deque(cells)
        self._missing: list[Cell] = []
        self._rows: dict[int, list[summary.Row]] = {}
        self._runner: Runner | None = None
        self._folder = SweepFolder(request.folder)
        self._folder.__enter__()

    def __next__(self) -> bool:
        try:
            return self._turn()
        except BaseException:
            self.settle()
            raise

    def settle(self) -> None:
        """Let others into the folder; finished cells stay."""
        if self._runner is not None:
            self._runner.close()
        self._folder.__exit__(None, None, None)

    def _turn(self) -> bool:
        if self._sought:
            self._seek(self._sought.popleft())
            return False
        if self._runner is None:
            self._runner = Runner(self._missing, self._model, self._weights, self._folder)
        event = next(self._runner, None)
        if event is None:
            rows = [row for number in sorted(self._rows) for row in self._rows[number]]
            self._folder.summarise(to_csv(summary.table(rows)))
            raise StopIteration
        self._tell(event)
        return False

    def _seek(self, cell: Cell) -> None:
        found = self._folder.find(cell, self._weights)
        if found.run is None or found.path is None:
            self._missing.append(cell)
        else:
            self._rows[cell.number] = summary.rows(cell, found.run, found.path.stem)
            self._request.done += 1
        self._request.view.tell("running", stage=f"looking for cell {cell.number} of {self._request.total}")

    def _tell(self, event: Event) -> None:
        request, cell = self._request, event.cell
        if event.kind == "saved":
            assert event.run is not None
            self._rows[cell.number] = summary.rows(cell, event.run, cell.stem)
            request.done += 1
        elif event.kind == "failed":
            request.faults.append(f"{cell.stem} failed: {event.message}")
        finished = request.done + len(request.faults)
        stage = f"cell {cell.number} of {request.total}, {event.stage}"
        progress = min(1.0, (finished + event.share) / request.total)
        request.view.tell("running", stage=stage, progress=progress)


def checked(build: Callable[[], SweepSpec]) -> SweepSpec | str:
    """A specification, or the sentence that says why there is none."""
    try:
        return build()
    except CtxvizError as error:
        return str(error)
