"""A sweep in numbers: one row per cell and variant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ctxviz.figures.statistics import summary
from ctxviz.run import Run
from ctxviz.sweep.cells import Cell

Row = dict[str, Any]
"""Text, numbers, or None where nothing was measured; infinite where it is no number."""

COLUMNS: Final = (
    "cell",
    "prompt",
    "first_layer",
    "rule",
    "floor",
    "dtype",
    "arithmetic",
    "tokens",
    "match",
    "ties",
    "tvd_median",
    "tvd_p90",
    "tvd_worst",
    "tvd_tokens",
    "largest_delta_m",
    "largest_scale_ratio",
    "device",
    "threads",
)


def replay_columns(kind: str) -> tuple[str, str, str]:
    """The names of a replay's columns."""
    return f"replay_{kind}_tvd_median", f"replay_{kind}_tvd_worst", f"replay_{kind}_tokens"


def replay_lost(kind: str) -> str:
    """The name of the column that counts a replay's tokens whose logits were no numbers."""
    return f"replay_{kind}_lost"


def rows(cell: Cell, run: Run, name: str) -> list[Row]:
    """The rows of a finished cell, in the order of its variants; ``name`` is its file's.

    ``match`` and ``ties`` are numbers of tokens; ``tvd_tokens`` and ``replay_*_tokens`` say at how many of
    them the distance is a number. Medians and worst values count the other measured ones as larger than any.
    ``largest_delta_m`` is the largest |dm_j|, ``largest_scale_ratio`` the largest ||dm|| / ||m||, over all
    patched layers and tokens.
    """
    return [_row(cell, run, name, k) for k in range(len(run.variants))]


def table(found: Sequence[Row]) -> dict[str, list[Any]]:
    """Rows as columns; a sweep without any finished cell has empty ones."""
    names = found[0] if found else dict.fromkeys(COLUMNS)
    return {name: [row[name] for row in found] for name in names}


def _row(cell: Cell, run: Run, name: str, k: int) -> Row:
    variant, measured = run.variants[k], summary(run, k)
    row: Row = {
        "cell": name,
        "prompt": cell.title,
        "first_layer": variant.first_layer,
        "rule": variant.update,
        "floor": variant.floor,
        "dtype": variant.dtype,
        "arithmetic": variant.arithmetic,
        "tokens": measured.n,
        "match": measured.matches,
        "ties": measured.ties,
        "tvd_median": measured.tvd_median,
        "tvd_p90": measured.tvd_p90,
        "tvd_worst": measured.tvd_worst,
        "tvd_tokens": _count(run.series("tvd", k)),
        "largest_delta_m": measured.largest_change,
        "largest_scale_ratio": measured.scale_ratio,
        "device": run.model.device,
        "threads": run.model.threads,
    }
    for kind in run.settings.replay_kinds:
        replay = measured.replay(kind)
        worth = (None, None) if replay is None else (replay.tvd_median, replay.tvd_worst)
        figures = (*worth, _count(run.replay(kind, "tvd", k)))
        row |= dict(zip(replay_columns(kind), figures, strict=True))
        row[replay_lost(kind)] = _count(run.replay(kind, "match", k)) - _count(run.replay(kind, "tvd", k))
    return row


def _count(values: NDArray[np.float64]) -> int:
    return int(np.isfinite(values).sum())
