"""Where a sweep keeps its cells: one finished run a file, one sweep at a time."""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import filelock

from ctxviz import __version__
from ctxviz.errors import BundleError, SettingsError
from ctxviz.run import END_OF_TEXT, Run
from ctxviz.store import load_run, save_run
from ctxviz.store.files import write_whole
from ctxviz.sweep.cells import DIGITS, SUFFIX, Cell
from ctxviz.sweep.values import place
from ctxviz.sweep.weights import Weights

LOCK: Final = ".ctxviz-sweep.lock"
FAILED: Final = ".failed.txt"
SUMMARY: Final = "summary.csv"
LIBRARIES: Final = ("torch", "transformers", "numpy")
"""A cell made with another version of one of these is made again."""
FINISHED: Final = ("finished", END_OF_TEXT)


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """A finished cell and its file, or why there is none although there is a file (empty: no file either)."""

    run: Run | None = None
    path: Path | None = None
    fault: str = ""


class SweepFolder:
    """A folder that belongs to this sweep inside ``with``; other files in it are left alone.

    Raises on entering:
        SettingsError: it cannot be made or written to, or another sweep is at work in it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = filelock.FileLock(path / LOCK, timeout=0, thread_local=False)
        self._files: defaultdict[str, list[Path]] = defaultdict(list)

    def __enter__(self) -> Self:
        name = place(self.path)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock.acquire()
            self._files.clear()
            for entry in sorted(self.path.iterdir()):
                if entry.suffix == SUFFIX:
                    self._files[entry.stem[-DIGITS:]].append(entry)
        except filelock.Timeout:
            raise SettingsError(
                f"Another sweep is at work in the folder {name}; wait until it ends, or choose another."
            ) from None
        except (OSError, ValueError, NotImplementedError) as error:
            self._lock.release()
            reason = getattr(error, "strerror", None) or error
            raise SettingsError(
                f"The folder {name} cannot be used for the sweep ({reason}); choose another."
            ) from None
        if not os.access(self.path, os.W_OK):
            self._lock.release()
            raise SettingsError(f"The folder {name} cannot be written to; choose another.")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    def find(self, cell: Cell, weights: Weights) -> Found:
        """The finished run of a cell, whatever number its file begins with; nothing in a file is trusted."""
        named = self.path / cell.file_name
        others = [path for path in self._files[cell.digest[:DIGITS]] if path != named]
        fault = ""
        for path in ([named] if named.exists() else []) + others:
            try:
                run = load_run(path)
            except BundleError:
                reason = "is no run that can be read"
            else:
                reason = _difference(run, cell, weights)
                if not reason:
                    return Found(run, path)
            fault = fault or f"{path.name} {reason}"
        return Found(fault=fault)

    def save(self, cell: Cell, run: Run) -> Path:
        """Write a finished cell, whole or not at all, and forget its earlier failure.

        Raises:
            OSError, BundleError: it cannot be written.
        """
        target = self.path / cell.file_name
        save_run(run, target)
        # Whatever number it had when it failed.
        for note in self.path.glob(f"*-{cell.digest[:DIGITS]}{FAILED}"):
            note.unlink(missing_ok=True)
        return target

    def fail(self, cell: Cell, sentence: str, details: str = "") -> None:
        """Note why a cell is not there.

        Raises:
            OSError: it cannot be written.
        """
        text = sentence + "\n" + (f"\n{details}" if details else "")
        write_whole(self._failure(cell), text.encode("utf-8", "backslashreplace"))

    def summarise(self, csv: str) -> None:
        """Write the summary.

        Raises:
            SettingsError: it cannot be written.
        """
        try:
            write_whole(self.path / SUMMARY, csv.encode("utf-8"))
        except OSError as error:
            raise SettingsError(
                f"The summary cannot be written to {place(self.path / SUMMARY)} "
                f"({error.strerror or error}); make room and run the sweep again."
            ) from None

    def _failure(self, cell: Cell) -> Path:
        return self.path / (cell.stem + FAILED)


def _difference(run: Run, cell: Cell, weights: Weights) -> str:
    """In what a run is not this cell's finished one; empty where it is."""
    model = run.model
    asked = run.context.prompt, run.context.image_sha256
    if (model.key, asked, run.settings) != (cell.model, cell.prompt.key, cell.settings):
        return "holds another run"
    if (model.revision, model.sha256) != (weights.revision, weights.sha256):
        return "was made with other weights"
    version = dict(model.libraries).get("ctxviz")
    if version != __version__:
        return f"was made by ctxviz {version or 'of an unknown version'}"
    # Replays show what a last bit can do, and another version may round otherwise.
    for library in LIBRARIES:
        if (made := dict(model.libraries).get(library)) != metadata.version(library):
            return f"was made with {library} {made or 'of an unknown version'}"
    short = run.outcome == FINISHED[0] and len(run) < run.settings.max_new_tokens
    if run.outcome not in FINISHED or short or not len(run):
        return "is not finished"
    return ""
