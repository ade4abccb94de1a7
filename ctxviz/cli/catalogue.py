"""The ``models`` and ``fetch`` commands."""

from __future__ import annotations

from pathlib import Path

from rich import box
from rich.table import Table

from ctxviz.cli.terminal import ReaderGoneError, bar, cell, show, visible, write
from ctxviz.models.catalogue import CATALOGUE
from ctxviz.models.memory import free_bytes, gigabytes
from ctxviz.models.preparing import estimate, prepare, ready_folder
from ctxviz.models.sources import resolve

SHOWN_DTYPES = ("float32", "bfloat16")


def list_models() -> None:
    """Print the catalogue."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), collapse_padding=True)
    table.add_column("key", no_wrap=True)
    table.add_column("what")
    table.add_column("ready", no_wrap=True)
    for dtype in SHOWN_DTYPES:
        table.add_column(dtype, justify="right", no_wrap=True)
    folders: dict[str, Path] = {}
    licences: dict[tuple[str, str], list[str]] = {}
    for entry in CATALOGUE.values():
        needs = [estimate(entry.key, (dtype,)).need_bytes for dtype in SHOWN_DTYPES]
        folder = ready_folder(entry)
        if folder is not None:
            folders[entry.key] = folder
        ready = "yes" if folder is not None else "no, gated" if entry.gated else "no"
        table.add_row(
            entry.key,
            cell(entry.description),
            ready,
            *("unknown" if need is None else gigabytes(need) for need in needs),
        )
        licences.setdefault((entry.licence, entry.licence_url), []).append(entry.key)
    try:
        show(table)
        write(f"float32, bfloat16: memory needed; {gigabytes(free_bytes('cpu'))} are free now.\n")
        write(
            "What is not ready is made so by fetch KEY or the first run; "
            "gated: needs a Hub token and an accepted licence.\n"
        )
        for key, folder in folders.items():
            write(f"{key} lies in {_shown(folder)}\n")
        for (licence, url), keys in licences.items():
            write(f"Licence of {', '.join(keys)}: {licence}, {url}\n")
    except ReaderGoneError:
        return


def fetch_model(reference: str, *, with_bar: bool) -> None:
    """Download or convert a model, so that later starts find it ready.

    Raises:
        CtxvizError: it cannot be had, or is no model.
    """
    source = resolve(reference)
    with bar(with_bar) as progress:
        ready = prepare(source, progress)
    write(f"{visible(ready.title, keep='')} is ready in {_shown(ready.folder)}\n")


def _shown(folder: Path) -> str:
    """A folder, from the home folder on where it lies in it."""
    home = Path.home()
    inside = folder.is_relative_to(home) and home != Path(home.anchor)
    return visible(str(Path("~") / folder.relative_to(home)) if inside else str(folder), keep="")
