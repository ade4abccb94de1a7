"""What lies behind one cell of the live map, as a browser is sent it."""

from __future__ import annotations

import base64
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ctxviz.figures.cell import Missing, find, where
from ctxviz.figures.coordinates import Coordinate, worst_table
from ctxviz.figures.text import equals, readable
from ctxviz.records import TopTokens
from ctxviz.run import Run
from ctxviz.ui import looked_at
from ctxviz.ui.delta import number
from ctxviz.ui.focus import Focus
from ctxviz.ui.views import View

WORST: Final = 10
NEXT: Final = 4
"""Most probable next tokens that are told of each model."""

Wire = float | str | None


@dataclass(frozen=True, slots=True)
class WorstRow:
    """One of the coordinates with the largest change; numbers as :func:`ctxviz.ui.delta.number` has them."""

    j: int
    h: Wire
    delta_v: Wire
    m: Wire
    delta_m: Wire
    dead: bool


@dataclass(frozen=True, slots=True)
class CellRecord:
    """One cell. ``h`` and ``delta_m`` are float32 [d], little-endian, in base64; infinite is no number.

    ``why`` says what the cell is where nobody picked its token; else it is empty.
    ``product`` is what is the same along a line of slope -1. ``reason`` says why there are no coordinates;
    ``context`` and ``patched`` are the most probable next tokens as [text, probability].
    """

    epoch: int
    step: int
    layer: int
    variant: int
    why: str
    title: str
    headline: str
    counts: str
    reason: str
    product: str
    h: str
    delta_m: str
    dead: list[int]
    worst: list[WorstRow]
    context: list[list[Any]]
    patched: list[list[Any]]


def answer(view: View, step: int | None, layer: int | None, variant: int) -> dict[str, Any]:
    """The cell that is picked, or where none is the worst one of a run that stands still.

    ``cell`` is None where there is nothing to open; a layer not given is the one with the smallest |h|.
    """
    now = view.snapshot()
    run = now.run
    if run is None or not len(run):
        return {"epoch": now.epoch, "cell": None}
    picked = Focus(step, layer, variant)
    focus = looked_at.inspected(run, picked, still=not view.active)
    if focus is None or focus.step is None or focus.layer is None:
        return {"epoch": now.epoch, "cell": None}
    why = "" if focus.step == step else looked_at.opened_by_itself(run, picked)
    record = describe(run, focus.step, focus.layer, focus.variant, epoch=now.epoch, why=why)
    return {"epoch": now.epoch, "cell": asdict(record)}


def describe(run: Run, step: int, layer: int, variant: int, *, epoch: int = 0, why: str = "") -> CellRecord:
    """The record of one cell of a run."""
    found = find(run, step, layer, variant)
    missing = isinstance(found, Missing)
    vectors = run.vectors(step, variant)
    worst = [] if missing or vectors is None else worst_table(vectors, layer, WORST)
    dtype = run.variants[variant].dtype
    return CellRecord(
        epoch=epoch,
        step=step,
        layer=layer,
        variant=variant,
        why=why,
        title=where(run, step, layer, variant),
        headline=_headline(run, step, layer, variant, worst),
        counts=looked_at.counts(run, step, layer, variant),
        reason=looked_at.missing(run) if vectors is None else found.reason if missing else "",
        product="|Δv|" if run.variants[variant].update == "direct" else "|h·Δm|",
        h="" if missing else _floats(found.h),
        delta_m="" if missing else _floats(found.delta_m),
        dead=[] if missing else np.flatnonzero(found.dead).tolist(),
        worst=[_row(coordinate) for coordinate in worst],
        context=_next(run.baseline(step, dtype).top),
        patched=_next(run.top(step, variant)),
    )


def _headline(run: Run, step: int, layer: int, variant: int, worst: list[Coordinate]) -> str:
    """The largest change and the smallest denominator of a cell, which need not be of one coordinate."""
    if not worst:
        return ""
    first, smallest = worst[0], int(run.field("h_argmin", variant)[layer, step])
    change = equals("|Δm|", abs(first.delta_m))
    if first.j == smallest or smallest < 0:
        return f"{change} where {equals('|h|', abs(first.h))}, coordinate {first.j}"
    low = equals("|h|", float(run.field("h_abs_min", variant)[layer, step]))
    return f"smallest {low}, coordinate {smallest}; largest {change}, coordinate {first.j}"


def _row(found: Coordinate) -> WorstRow:
    h, delta_v, m, delta_m = map(number, (found.h, found.delta_v, found.m, found.delta_m))
    return WorstRow(found.j, h, delta_v, m, delta_m, found.dead)


def _next(top: TopTokens) -> list[list[Any]]:
    pairs = zip(top.texts[:NEXT], top.probabilities[:NEXT].tolist(), strict=True)
    return [[readable(text), number(probability)] for text, probability in pairs]


def _floats(values: NDArray[np.floating[Any]]) -> str:
    with np.errstate(over="ignore"):
        return base64.b64encode(np.ascontiguousarray(values, "<f4").tobytes()).decode()
