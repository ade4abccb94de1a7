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
from ctxviz.records import Flags
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
    if np.isnan(vectors.h[layer]).all():
        first = run.variants[variant].first_layer
        return Missing(
            "layer not patched", f"Layer {layer} is not patched; the first patched layer is {first}."
        )
    kept = (vectors.h, vectors.delta_v, vectors.scale, vectors.delta_scale, vectors.stored)
    h, delta_v, m, delta_m, w = (array[layer].astype(np.float64) for array in kept)
    flags = (m == 0, vectors.uncontrolled[layer], vectors.swallowed[layer])
    return Cell(run.variants[variant], h, delta_v, m, delta_m, w, *flags)


def where(run: Run, step: int, layer: int, variant: int) -> str:
    """``Layer 4, token 6 “⏎”, direct float32``: the start of a title."""
    name = label(run.variants[variant], run.variants)
    return f"Layer {layer}, token {step} {quoted(run.token(step)[4])}, {name}"


def epsilon_sentence(cell: Cell, drawn: bool) -> str:
    """How the denominators lie to the epsilon of the cell's dtype; ``drawn`` if the figure has its line."""
    epsilon = EPSILONS[cell.variant.dtype]
    name = f"the epsilon of {cell.variant.dtype}, {sci(epsilon)}"
    size = np.abs(cell.h[np.isfinite(cell.h)])
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
    """Counts of what a log-log plane cannot hold: exact zeros, drawn on its edge, and what is not finite."""
    zeros = int(((x == 0) | (y == 0)).sum())
    lost = int((~np.isfinite(x) | ~np.isfinite(y)).sum())
    lie = "lies" if zeros == 1 else "lie"
    return join(
        [
            f"{counted(zeros, 'coordinate')} with an exact 0 {lie} on the edge." if zeros else "",
            f"{counted(lost, 'coordinate')} not finite and left out." if lost else "",
        ]
    )


def extent(values: Floats) -> str:
    """``3·10⁻⁸ to 2.1``: the smallest and the largest finite value, in words."""
    finite = values[np.isfinite(values)]
    return f"{sci(float(finite.min()))} to {sci(float(finite.max()))}" if finite.size else "nothing finite"
