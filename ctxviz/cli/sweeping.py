"""A sweep from the command line: every cell that is not there yet, then a summary of all."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ctxviz.cli import sweep_tables
from ctxviz.cli.inputs import require_pictures, tell_notes
from ctxviz.cli.lines import finite
from ctxviz.cli.stopping import Asked, asking_to_stop
from ctxviz.cli.terminal import Bar, ReaderGoneError, bar, show, write
from ctxviz.errors import SettingsError
from ctxviz.models.sources import resolve
from ctxviz.sweep import summary
from ctxviz.sweep.cells import Cell, cells_of
from ctxviz.sweep.folder import FAILED, SweepFolder
from ctxviz.sweep.runner import Event, Runner
from ctxviz.sweep.spec import SweepSpec, read_spec
from ctxviz.sweep.values import place as quoted
from ctxviz.sweep.weights import Weights, identify
from ctxviz.sweep.words import how_it_ended

if TYPE_CHECKING:
    from ctxviz.models import LoadedModel

SPEC_SUFFIX = ".toml"
SOME_FAILED = 1


@dataclass(frozen=True, slots=True)
class Request:
    """What ``sweep`` was asked for; what is None is as the specification says."""

    spec: Path
    out: Path | None
    as_json: bool
    dry_run: bool
    threads: int | None
    device: str | None
    with_bar: bool


@dataclass(slots=True)
class _Outcome:
    """What became of the cells: each finished one's rows by its number, and the numbers of the failed."""

    rows: dict[int, list[summary.Row]]
    failed: list[int]

    @property
    def in_order(self) -> list[summary.Row]:
        return [row for number in sorted(self.rows) for row in self.rows[number]]


def run_sweep(request: Request) -> int:
    """Do it, or with ``dry_run`` say what would be done.

    Returns:
        The exit status: 0 where every cell is there, 1 where some failed, 128 and the number of the signal
        that stopped it: 130 after Ctrl-C.

    Raises:
        CtxvizError: a bad specification or model, or a folder that cannot be used.
    """
    spec = read_spec(request.spec)
    source = resolve(spec.model)
    if pictures := {p.sha256: p for prompt in spec.prompts for p in prompt.pictures}:
        require_pictures(source)
        tell_notes(pictures.values())
    place = _place(request, spec)
    if request.dry_run:
        with bar(request.with_bar) as progress:
            cells = _planned(spec, progress)
        return _list_cells(cells, place, as_json=request.as_json)
    with bar(request.with_bar) as progress:
        weights = identify(spec.model, progress)
        cells = cells_of(spec, weights.key, weights.n_layers)
        with SweepFolder(place) as folder:
            outcome = _Outcome({}, [])
            status = _follow(request, spec, cells, weights, folder, outcome, progress)
            progress.close()
            if status:
                Bar(False).say(
                    how_it_ended(
                        len(outcome.rows),
                        len(outcome.failed),
                        len(cells),
                        stopped=True,
                        again="run the sweep again",
                    )
                )
                return status
            _finish(folder, outcome, as_json=request.as_json)
    if not outcome.failed:
        return 0
    Bar(False).say(
        f"{len(outcome.failed)} of {len(cells)} cells failed; the {FAILED} files in {quoted(place)} say "
        "why, and running the sweep again tries them again."
    )
    return SOME_FAILED


def _place(request: Request, spec: SweepSpec) -> Path:
    """The folder the cells go to."""
    if request.out is not None:
        return request.out
    if spec.output is not None:
        return request.spec.parent / spec.output
    if request.spec.suffix != SPEC_SUFFIX:
        raise SettingsError(
            f"The sweep {quoted(request.spec)} does not end in {SPEC_SUFFIX}, so no folder is named "
            "after it; name one with --out."
        )
    return request.spec.with_suffix("")


def _planned(spec: SweepSpec, progress: Bar) -> tuple[Cell, ...]:
    """The cells; the model is made ready only where its layers are to be counted."""
    if spec.first_layers is None:
        weights = identify(spec.model, progress)
        return cells_of(spec, weights.key, weights.n_layers)
    return cells_of(spec, resolve(spec.model).key)


def _list_cells(cells: Sequence[Cell], place: Path, *, as_json: bool) -> int:
    with suppress(ReaderGoneError):
        if as_json:
            for cell in cells:
                write(json.dumps(sweep_tables.cell_record(cell)) + "\n")
        else:
            show(sweep_tables.cell_table(cells))
            tokens = cells[0].settings.max_new_tokens
            where = quoted(place)
            write(f"\n{len(cells)} cells of at most {tokens} tokens, into {where}; nothing was run.\n")
    return 0


def _follow(
    request: Request,
    spec: SweepSpec,
    cells: Sequence[Cell],
    weights: Weights,
    folder: SweepFolder,
    outcome: _Outcome,
    progress: Bar,
) -> int:
    """Find what is there, run the rest, and note both; returns the status a signal asked for, or 0."""
    asked = Asked()
    with asking_to_stop(asked):
        missing = _missing(cells, weights, folder, outcome, progress, asked)
    if asked.status or not missing:
        return asked.status
    model = _load(request, spec, progress)
    runner = Runner(missing, model, weights, folder)
    with asking_to_stop(asked):
        for event in runner:
            _take(event, len(cells), outcome, progress)
            if asked.status:
                break
    runner.close()
    return asked.status


def _missing(
    cells: Sequence[Cell],
    weights: Weights,
    folder: SweepFolder,
    outcome: _Outcome,
    progress: Bar,
    asked: Asked,
) -> list[Cell]:
    """The cells that are to be run; the rows of the others are noted."""
    missing: list[Cell] = []
    for cell in cells:
        if asked.status:
            break
        progress(f"looking for cell {cell.number} of {len(cells)}", cell.number / len(cells))
        found = folder.find(cell, weights)
        if found.run is not None and found.path is not None:
            outcome.rows[cell.number] = summary.rows(cell, found.run, found.path.stem)
            continue
        if found.fault:
            progress.say(f"{found.fault}, so the cell is run again.")
        missing.append(cell)
    return missing


def _load(request: Request, spec: SweepSpec, progress: Bar) -> LoadedModel:
    progress("importing torch and transformers", None)
    from ctxviz.models import load_model

    model = load_model(
        spec.model,
        dtypes=spec.settings.needed_dtypes,
        device=request.device or spec.device,
        progress=progress,
        threads=request.threads if request.threads is not None else spec.threads,
    )
    for warning in model.warnings:
        progress.say(warning)
    return model


def _take(event: Event, cells: int, outcome: _Outcome, progress: Bar) -> None:
    cell = event.cell
    if event.kind == "failed":
        outcome.failed.append(cell.number)
        progress.say(f"{cell.stem} failed: {event.message}")
    elif event.kind == "saved":
        assert event.run is not None
        outcome.rows[cell.number] = summary.rows(cell, event.run, cell.stem)
    done = len(outcome.rows) + len(outcome.failed)
    if event.kind in ("started", "reading", "token"):
        progress(f"cell {cell.number} of {cells}, {event.stage}", (done + event.share) / cells)


def _finish(folder: SweepFolder, outcome: _Outcome, *, as_json: bool) -> None:
    from ctxviz.figures.card import to_csv

    rows = outcome.in_order
    folder.summarise(to_csv(summary.table(rows)))
    with suppress(ReaderGoneError):
        if as_json:
            for row in rows:
                write(json.dumps(finite(row), allow_nan=False) + "\n")
        elif rows:
            for table in sweep_tables.row_tables(rows):
                show(table)
