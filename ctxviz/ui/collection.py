"""Stored runs that can be compared: those that come with ctxviz, sweeps, this tab's, and uploaded ones."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Final

from ctxviz.errors import BundleError
from ctxviz.figures.text import readable
from ctxviz.presets import PRESETS
from ctxviz.run import Run
from ctxviz.ui.recorded import recorded_run
from ctxviz.ui.session import Session

KEPT: Final = 256
"""Runs of sweeps that stay in memory."""
TITLE: Final = 32
"""Characters of a prompt that stand for it."""


def cells_in(folder: Path) -> tuple[list[Run], list[str]]:
    """The runs of a sweep's folder in the order of their names, and a sentence for each file that is none."""
    runs, faults = [], []
    for path in sorted(folder.glob("*.ctxviz")):
        try:
            about = path.stat()
            runs.append(_load(path, about.st_mtime_ns, about.st_size))
        except (BundleError, OSError) as error:
            faults.append(f"{path.name}: {error}")
    return runs, faults


@lru_cache(maxsize=KEPT)
def _load(path: Path, _mtime: int, _size: int) -> Run:
    from ctxviz.store import load_run

    return load_run(path)


def title_of(run: Run) -> str:
    """A preset's title, or the beginning of the prompt."""
    titles = {preset.prompt: preset.title for preset in PRESETS}
    return titles.get(run.context.prompt) or readable(run.context.prompt, TITLE)


def of_tab(session: Session) -> dict[str, Run]:
    """Runs to choose from, by a name that tells them apart."""
    found: dict[str, Run] = {}
    shown = session.view.run
    recorded = recorded_run()
    candidates = [("On screen", shown), ("Recorded", recorded)]
    candidates += [(f"Earlier {k}", view.run) for k, (view, _) in enumerate(reversed(session.earlier), 1)]
    candidates += [(f"Uploaded {k}", run) for k, run in enumerate(session.compared, 1)]
    for words, run in candidates:
        if run is not None and len(run) and all(run is not other for other in found.values()):
            found[f"{words}: {title_of(run)}, {run.model.name}"] = run
    return found
