"""One cell of a run (token, layer, variant): its coordinates in float64, or words for why there are none."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from ctxviz.figures.card import FigureCard, Table, column, join, note
from ctxviz.figures.frame import Floats
from ctxviz.figures.palette import Theme, label
from ctxviz.figures.text import counted, quoted, sci
from ctxviz.no_number import NO_NUMBER, is_lost, numbers
from ctxviz.records import Flags
from ctxviz.records import Floats as Floats32
from ctxviz.run import Run
from ctxviz.settings import EPSILONS, Variant


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """One layer's coordinates at one token, each [d]; symbols as in the glossary of ARCHITECTURE.md."""

    variant: Variant
    h: Floats
    delta_v: Floats
    m: Floats
    delta_m: Floats
    w: Floats
    """As the model stores it; NaN in runs that did not keep it."""
    dead: Flags
    uncontrolled: Flags
    swallowed: Flags

    def __len__(self) -> int:
        return len(self.h)

    @property
    def flag_words(self) -> list[str]:
        """For each coordinate its flags in brackets, empty where it has none."""
        flags = {"dead": self.dead, "uncontrolled": self.uncontrolled, "swallowed": self.swallowed}
        return [
            f" ({', '.join(named)})" if (named := [n for n, flag in flags.items() if flag[j]]) else ""
            for j in range(len(self))
        ]

    def table(self, **more: NDArray[np.generic]) -> Table:
        """Every coordinate's record, one row each, and ``more`` columns."""
        kept = {"h": self.h, "delta_v": self.delta_v, "m": self.m, "delta_m": self.delta_m}
        return {
            "coordinate": list(range(len(self))),
            **{name: column(values.astype(np.float32)) for name, values in kept.items()},
            "dead": self.dead.tolist(),
            "uncontrolled": self.uncontrolled.tolist(),
            "swallowed": self.swallowed.tolist(),
            **{name: column(values) for name, values in more.items()},
        }


@dataclass(frozen=True, slots=True)
class Missing:
    """Why there is nothing to draw: a few words for the figure and a sentence for its caption."""

    words: str
    reason: str

    def card(self, figure: go.Figure, title: str, theme: Theme, table: Table | None = None) -> FigureCard:
        """The empty state: ``figure`` without axes, the words in its middle."""
        return FigureCard(note(figure, theme, self.words), title, self.reason, self.reason, table or {})


def find(run: Run, step: int, layer: int, variant: int) -> Cell | Missing:
    """The cell, or why its coordinates are not there."""
    vectors = run.vectors(step, variant)
    if vectors is None:
        return Missing(
            "coordinates not kept",
            "The coordinates of this token were not kept; the oldest are dropped once their memory is full.",
        )
    first = run.variants[variant].first_layer
    if layer < first:
        return Missing(
            "layer not patched", f"Layer {layer} is not patched; the first patched layer is {first}."
        )
    if not np.isfinite(vectors.h[layer]).any():
        return _without_numbers(run, layer, variant, vectors.h[layer])
    kept = (vectors.h, vectors.delta_v, vectors.scale, vectors.delta_scale, vectors.stored)
    h, delta_v, m, delta_m, w = (array[layer].astype(np.float64) for array in kept)
    flags = (m == 0, vectors.uncontrolled[layer], vectors.swallowed[layer])
    return Cell(run.variants[variant], h, delta_v, m, delta_m, w, *flags)


def _without_numbers(run: Run, layer: int, variant: int, h: Floats32) -> Missing:
    lost, dtype = int(is_lost(h).sum()), run.variants[variant].dtype
    if not lost:
        return Missing("coordinates not kept", f"The coordinates of layer {layer} were not kept.")
    return Missing(
        NO_NUMBER,
        f"Layer {layer} was computed, and h is no number at {counted(lost, 'coordinate')} of {len(h)}: it or"
        f" a layer before it overflowed in {dtype}.",
    )


def where(run: Run, step: int, layer: int, variant: int) -> str:
    """``Layer 4, token 6 “⏎”, direct float32``: the start of a title."""
    name = label(run.variants[variant], run.variants)
    return f"Layer {layer}, token {step} {quoted(run.token(step)[4])}, {name}"


def epsilon_sentence(cell: Cell, drawn: bool) -> str:
    """How the denominators lie to the epsilon of the cell's dtype; ``drawn`` if the figure has its line."""
    epsilon = EPSILONS[cell.variant.dtype]
    name = f"the epsilon of {cell.variant.dtype}, {sci(epsilon)}"
    size = np.abs(numbers(cell.h))
    below = int((size < epsilon).sum())
    if drawn:
        who = f"{counted(below, 'coordinate')} {'has' if below == 1 else 'have'}" if below else "none has"
        return f"The dashed line is {name}; {who} a smaller |h|."
    if below == size.size:
        return f"All |h| lie below {name}."
    if below:
        return f"All |h| lie above {name}, except {counted(below, 'exact zero')}."
    return f"All |h| lie above {name}."


def dead_sentence(cell: Cell) -> str:
    """``◇ 7 coordinates are dead (m = 0).``, or nothing where none is."""
    n = int(cell.dead.sum())
    return f"◇ {counted(n, 'coordinate')} {'is' if n == 1 else 'are'} dead (m = 0)." if n else ""


def edge_sentences(x: Floats, y: Floats) -> str:
    """Counts of what a log-log plane cannot hold: exact zeros, drawn on its edge, and what is no number."""
    zeros = int(((x == 0) | (y == 0)).sum())
    lost = int((~np.isfinite(x) | ~np.isfinite(y)).sum())
    lie = "lies" if zeros == 1 else "lie"
    return join(
        [
            f"{counted(zeros, 'coordinate')} with an exact 0 {lie} on the edge." if zeros else "",
            f"{counted(lost, 'coordinate')} {'is' if lost == 1 else 'are'} {NO_NUMBER} and left out."
            if lost
            else "",
        ]
    )


def extent(values: Floats) -> str:
    """``3·10⁻⁸ to 2.1``: the smallest and the largest number, in words."""
    known = numbers(values)
    return f"{sci(float(known.min()))} to {sci(float(known.max()))}" if known.size else NO_NUMBER
