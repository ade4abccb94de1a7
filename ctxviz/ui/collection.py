"""Stored runs that can be compared: the recorded one, this tab's, uploaded ones, and cells of sweeps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

from ctxviz.errors import BundleError
from ctxviz.figures.spread import NAME_CHARACTERS
from ctxviz.figures.text import counted, readable
from ctxviz.run import Run
from ctxviz.ui import sweeping
from ctxviz.ui.recorded import recorded_run
from ctxviz.ui.run_words import TITLE, prompt_title, title_of
from ctxviz.ui.run_words import described as described
from ctxviz.ui.session import Session

KEPT: Final = 256
"""Cells of a sweep that are read, and runs of sweeps that stay in memory."""
SUBJECTS: Final = 8192
"""Cells of which it is remembered what they are about."""
RECORDED: Final = "Recorded"


@dataclass(frozen=True, slots=True)
class CellsRead:
    """The runs of a sweep in the order of their names, a sentence for each file that is none, and how many
    files beyond KEPT were not read."""

    runs: list[Run]
    faults: list[str]
    left_out: int


def cell_paths(folder: Path) -> list[Path]:
    """The files of a sweep's cells, in the order of their names."""
    return sorted(folder.glob("*.ctxviz"))


def cells_in(folder: Path) -> CellsRead:
    """The first KEPT cells of a sweep's folder."""
    runs, faults, paths = [], [], cell_paths(folder)
    for path in paths[:KEPT]:
        try:
            runs.append(cell_at(path))
        except (BundleError, OSError) as error:
            faults.append(f"{path.name}: {error}")
    return CellsRead(runs, faults, max(0, len(paths) - KEPT))


def cell_at(path: Path) -> Run:
    """The run of one cell.

    Raises:
        BundleError, OSError: it cannot be read.
    """
    about = path.stat()
    return _load(path, about.st_mtime_ns, about.st_size)


def sweep_titles() -> dict[str, str]:
    """Every sweep's folder and its title; titles that are alike have the folder's name as well."""
    titles = {}
    for folder in sweeping.folders():
        shipped = folder.parent == sweeping.ASSETS
        titles[folder] = f"{folder.name} (comes with ctxviz)" if shipped else _own_title(folder)
    times = Counter(titles.values())
    return {
        str(folder): words if times[words] == 1 else f"{words} · {folder.name[:6]}"
        for folder, words in titles.items()
    }


def _own_title(folder: Path) -> str:
    """What a sweep of one's own is about: model, prompts, pictures, rules, and how many cells there are."""
    paths = cell_paths(folder)
    subjects = list(_subjects(paths[:KEPT]))
    about = _told(subjects) if subjects else [folder.name] if paths else []
    return " · ".join(["made here", *about, counted(len(paths), "cell")])


def _told(subjects: Sequence[_Subject]) -> list[str]:
    prompts = list(dict.fromkeys(prompt_title(subject.prompt) for subject in subjects))
    more = f" and {len(prompts) - 1} more" if len(prompts) > 1 else ""
    pictures = {sha256 for subject in subjects for sha256 in subject.pictures}
    shown = [counted(len(pictures), "picture")] if pictures else []
    return [subjects[0].model, f"{prompts[0]}{more}", *shown, subjects[0].rules]


@lru_cache(maxsize=KEPT)
def _load(path: Path, _mtime: int, _size: int) -> Run:
    from ctxviz.store import load_run

    return load_run(path)


class _Subject(NamedTuple):
    """What a cell is about."""

    model: str
    rules: str
    prompt: str
    pictures: tuple[str, ...]


def _subjects(paths: Sequence[Path]) -> Iterator[_Subject]:
    """Of the cells that can be read."""
    for path in paths:
        with suppress(BundleError, OSError):
            about = path.stat()
            yield _subject(path, about.st_mtime_ns, about.st_size)


@lru_cache(maxsize=SUBJECTS)
def _subject(path: Path, _mtime: int, _size: int) -> _Subject:
    from ctxviz.store import load_description

    read = load_description(path)
    rules = ", ".join(read.settings.updates)
    return _Subject(readable(read.model.name, TITLE), rules, read.context.prompt, read.context.image_sha256)


def about(runs: Sequence[Run]) -> str:
    """What a sweep's runs are, in a line."""
    model = runs[0].model
    torch = dict(model.libraries).get("torch", "unknown")
    return (
        f"{counted(len(runs), 'run')} of {model.name}, {counted(sum(map(len, runs)), 'token')} "
        f"in all (torch {torch}, {model.device}, {counted(model.threads, 'thread')})."
    )


def named_by_prompt(runs: Sequence[Run]) -> list[tuple[str, Run]]:
    """Runs under the title of their prompt; prompts whose titles look the same get a number before it.

    The same text with other pictures is another prompt.
    """
    keys = [(run.context.prompt, run.context.image_sha256) for run in runs]
    titles = {key: title_of(run) for key, run in zip(keys, runs, strict=True)}
    alike: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
    for key, title in titles.items():
        alike.setdefault(title[: NAME_CHARACTERS - 1], []).append(key)
    for same in alike.values():
        if len(same) > 1:
            titles |= {key: f"{k} · {titles[key]}" for k, key in enumerate(same, 1)}
    return [(titles[key], run) for key, run in zip(keys, runs, strict=True)]


def of_tab(session: Session) -> dict[str, Run]:
    """Runs to choose from by a name that each keeps: ``Run 3``; newest first, the recorded one last."""
    recorded = recorded_run()
    others = [view.run for view, _ in (*session.earlier, *session.later)]
    seen = [*others, session.view.run, *session.compared]
    own = {run: None for run in seen if run is not None and run is not recorded}
    numbers = {session.number_of(run): run for run in own if len(run)}
    found = {f"Run {k}": numbers[k] for k in sorted(numbers, reverse=True)}
    return found if recorded is None or not len(recorded) else {**found, RECORDED: recorded}


def name_of(session: Session, run: Run | None) -> str | None:
    """The name of a run among those of :func:`of_tab`; None where it is not one of them."""
    return next((name for name, other in of_tab(session).items() if other is run), None)
