"""Which coordinates keep having the largest change of the scale or the smallest denominator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ctxviz.figures.frame import Floats
from ctxviz.figures.text import equals
from ctxviz.run import Run

STANDS_OUT: Final = 0.1
"""Share of all cells from which a coordinate is said to stand out."""
FEWEST: Final = 3
"""Cells it must have at least, whatever their share."""


@dataclass(frozen=True, slots=True)
class Guilty:
    """How often one coordinate is the extreme one of its cell (layer, token), and its worst change.

    ``worst`` is the largest |dm_j| among the cells where it is the largest of all, at ``layer`` and ``step``;
    all three are None where it never is.
    """

    coordinate: int
    smallest_h: int
    largest_change: int
    worst: float | None
    layer: int | None
    step: int | None


def guilty(run: Run, variant: int, n: int = 8) -> list[Guilty]:
    """The ``n`` coordinates that most often have the largest |dm| of a patched cell, most often first.

    Counted from the per-layer statistics alone, so it covers tokens whose coordinates were dropped. Cells
    without any change count for no coordinate. Ties go to the smaller |h| in more cells, then to the lower
    number.
    """
    largest, smallest, change = _extremes(run, variant)
    changes, lows = _count(largest), _count(smallest)
    order = sorted({*changes, *lows}, key=lambda j: (-changes.get(j, 0), -lows.get(j, 0), j))
    found = []
    for j in order[:n]:
        worst, layer, step = _worst(j, largest, change)
        found.append(Guilty(j, lows.get(j, 0), changes.get(j, 0), worst, layer, step))
    return found


def guilty_sentence(run: Run, variant: int) -> str:
    """Which coordinates stand out by how often they have the largest change, or that none does."""
    largest, _, _ = _extremes(run, variant)
    cells = int((largest >= 0).sum())
    if cells == 0:
        return "No cell (layer, token) is patched and changed, so no coordinate can be named."
    most = [g for g in guilty(run, variant, 3) if g.largest_change]
    least = max(FEWEST, STANDS_OUT * cells)
    standing = [g for g in most if g.largest_change >= least]
    first, *others = standing or most[:1]
    in_cells = f"in {first.largest_change} of {cells} cells (layer, token)"
    layers = int((largest == first.coordinate).any(axis=1).sum())
    spread = f"all in layer {first.layer}" if layers == 1 else f"over {layers} layers"
    if not standing:
        return (
            f"No coordinate stands out: {first.coordinate}, the most frequent, has the largest change"
            f" {in_cells}, {spread}."
        )
    more = ", ".join(f"{g.coordinate} in {g.largest_change}" for g in others)
    worst = (
        ""
        if first.worst is None
        else (f"; its worst is {equals('|Δm|', first.worst)} in layer {first.layer} at token {first.step}")
    )
    then = f". Next: {more}" if more else ""
    return f"Coordinate {first.coordinate} has the largest change {in_cells}, {spread}{worst}{then}."


def _extremes(run: Run, variant: int) -> tuple[NDArray[Any], NDArray[Any], Floats]:
    """(j of the largest |dm|, j of the smallest |h|, largest |dm|), [n_layers, steps]; j is -1 for none."""
    n = len(run)
    change = run.field("scale_max_abs", variant)[:, :n].astype(np.float64)
    largest = np.where(change > 0, run.field("scale_argmax", variant)[:, :n], -1)
    return largest, run.field("h_argmin", variant)[:, :n], change


def _count(table: NDArray[Any]) -> dict[int, int]:
    js, counts = np.unique(table[table >= 0], return_counts=True)
    return dict(zip(js.tolist(), counts.tolist(), strict=True))


def _worst(j: int, largest: NDArray[Any], change: Floats) -> tuple[float | None, int | None, int | None]:
    own = np.where(largest == j, change, -1.0)
    layer, step = np.unravel_index(int(own.argmax()), own.shape)
    if own[layer, step] < 0:
        return None, None, None
    return float(own[layer, step]), int(layer), int(step)
