"""A sweep's cells and results as tables for people, and its cells as JSON lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from rich import box
from rich.table import Table

from ctxviz.cli.terminal import cell as table_cell
from ctxviz.cli.terminal import figure
from ctxviz.settings import REPLAY_KINDS
from ctxviz.sweep.cells import Cell
from ctxviz.sweep.summary import Row, replay_columns, replay_lost

KINDS: Final = 2
"""Kinds of replay side by side, so that a table fits 80 columns."""
DIGITS: Final = 2
FIGURES: Final = ("tvd_median", "tvd_p90", "tvd_worst", "largest_delta_m", "largest_scale_ratio")
HEADINGS: Final = ("median", "p90", "worst", "|Δm|", "ratio")


def cell_record(cell: Cell) -> dict[str, Any]:
    """A cell as plain data."""
    settings = cell.settings
    return {
        "cell": cell.stem,
        "prompt": cell.title,
        "pictures": list(cell.prompt.hashes),
        "first_layer": settings.first_layer,
        "floor": settings.floor if "floored" in settings.updates else None,
        "updates": list(settings.updates),
        "dtypes": list(settings.ordered_dtypes),
        "arithmetics": list(settings.arithmetics),
        "max_new_tokens": settings.max_new_tokens,
    }


def cell_table(cells: Sequence[Cell]) -> Table:
    """One row per cell."""
    table = _table("Cells")
    shown = ("pictures",) if any(cell.prompt.pictures for cell in cells) else ()
    for name in ("cell", *shown, "from layer", "floor", "rules", "dtypes"):
        table.add_column(name, overflow="fold")
    for cell in cells:
        record = cell_record(cell)
        names = ", ".join(picture.name for picture in cell.prompt.pictures)
        table.add_row(
            table_cell(cell.stem),
            *(table_cell(names) for _ in shown),
            str(record["first_layer"]),
            figure(record["floor"], DIGITS),
            " ".join(record["updates"]),
            " ".join(record["dtypes"]),
        )
    return table


def row_tables(rows: Sequence[Row]) -> list[Table]:
    """The rows while building, then replayed where they were."""
    built = _identified("While building: tokens that are the same, TVD, largest |Δm| and ‖Δm‖/‖m‖", rows)
    tied = any(row["ties"] for row in rows)
    for heading in ("same", *(("ties",) if tied else ()), *HEADINGS):
        built.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        same = (f"{row['match']}/{row['tokens']}", *((str(row["ties"]),) if tied else ()))
        built.add_row(*_identity(row), *same, *(figure(row[name], DIGITS) for name in FIGURES))
    kinds = [kind for kind in REPLAY_KINDS if replay_columns(kind)[0] in rows[0]]
    chunks = [kinds[k : k + KINDS] for k in range(0, len(kinds), KINDS)]
    return [built, *(_replayed(rows, chunk) for chunk in chunks)]


def _replayed(rows: Sequence[Row], kinds: Sequence[str]) -> Table:
    table = _identified("Replayed: TVD, median / worst", rows)
    for kind in kinds:
        table.add_column(kind, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*_identity(row), *(_pair(row, kind) for kind in kinds))
    return table


def _pair(row: Row, kind: str) -> str:
    """Median and worst TVD of a replay, and at how many tokens its logits were no numbers."""
    median, worst, measured = replay_columns(kind)
    lost = row[replay_lost(kind)]
    said = f"{figure(row[median], DIGITS)} / {figure(row[worst], DIGITS)}"
    return f"{said} ({lost} lost)" if row[measured] and lost else said


def _table(title: str) -> Table:
    return Table(title=title, box=box.SIMPLE_HEAD, padding=0, show_edge=False, title_justify="left")


def _identified(title: str, rows: Sequence[Row]) -> Table:
    """A table whose first columns say which cell and variant a row is."""
    kinds = sorted({row["arithmetic"] for row in rows})
    table = _table(f"\n{title} ({' and '.join(kinds)})")
    table.add_column("prompt", overflow="fold")
    table.add_column("from", justify="right", no_wrap=True)
    table.add_column("rule", no_wrap=True)
    table.add_column("dtype", no_wrap=True)
    return table


def _identity(row: Row) -> tuple[Any, str, str, str]:
    floor = "" if row["floor"] is None else f" {row['floor']:g}"
    dtype = row["dtype"] + ("" if row["arithmetic"] == "written" else f" {row['arithmetic']}")
    return table_cell(row["prompt"]), str(row["first_layer"]), f"{row['rule']}{floor}", dtype
