"""What storing the changed scale in the model's dtype costs in the layer's output."""

from __future__ import annotations

from typing import Final

import numpy as np

from ctxviz.figures.card import FigureCard, blank, join
from ctxviz.figures.cell import Cell, Missing, dead_sentence, edge_sentences, find, where
from ctxviz.figures.frame import Floats, Frame
from ctxviz.figures.palette import LIGHT, Theme, variant_style
from ctxviz.figures.scatter import Look, add_flags, add_line, add_points, dead_look, log_axes, name_points
from ctxviz.figures.subject import of_run
from ctxviz.figures.text import counted, sci
from ctxviz.no_number import all_computed
from ctxviz.run import Run
from ctxviz.settings import EPSILONS

HEIGHT: Final = 420
NAMED: Final = 3


def round_to(values: Floats, dtype: str) -> Floats:
    """``values`` rounded to the nearest number of ``dtype``, ties to even, back in float64.

    Half precisions are reached through float32, as torch does it. Too large a value becomes infinite.
    """
    with np.errstate(over="ignore", under="ignore"):
        if dtype == "float64":
            return values.astype(np.float64)
        single = values.astype(np.float32)
        if dtype == "bfloat16":
            single = _bfloat16(single)
        elif dtype == "float16":
            single = single.astype(np.float16)
        return single.astype(np.float64)


def _bfloat16(single: np.ndarray) -> np.ndarray:
    """float32 rounded to the upper half of its bits."""
    bits = single.view(np.uint32)
    # Just under half of what is cut off, and one more where the last bit kept is odd: ties go to even.
    rounded = (bits + np.uint32(0x7FFF) + (bits >> 16 & 1)) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(single), single, rounded.view(np.float32))


def stored_error(w: Floats, delta_m: Floats, dtype: str) -> Floats:
    """round(w + dm) - (w + dm) for each coordinate, the sum formed in float64 as the engine does.

    What float64 itself loses in the sum is part of the error.
    """
    total = w + delta_m
    with np.errstate(invalid="ignore"):
        back = total - w
        lost = (w - (total - back)) + (delta_m - back)
        return (round_to(total, dtype) - total) - lost


@of_run("rounding")
def rounding(run: Run, step: int, layer: int, variant: int, theme: Theme = LIGHT) -> FigureCard:
    """|rounding error of w + dm| times |h| against |w + dm|, log-log, the worst three named.

    The product is what rounding the scale costs in the layer's output, in the unit of the residual stream.
    """
    title = f"{where(run, step, layer, variant)}: what rounding the scale costs"
    figure = blank(
        theme,
        height=HEIGHT,
        x_title="|w + Δm|, as it should be stored",
        y_title="|rounding error · h|, in the layer's output",
    )
    cell = find(run, step, layer, variant)
    if not isinstance(cell, Missing):
        cell = _usable(cell)
    if isinstance(cell, Missing):
        return cell.card(figure, title, theme)
    error = stored_error(cell.w, cell.delta_m, cell.variant.dtype)
    with np.errstate(invalid="ignore"):
        x, cost = np.abs(cell.w + cell.delta_m), all_computed(np.abs(error * cell.h), np.float64)
    frame = Frame.around(x, cost)
    at = frame.place(x, cost)
    half = float(np.log10(EPSILONS[cell.variant.dtype] / 2))
    add_line(figure, frame, at, "½ε·|w + Δm|", theme, half)
    hover = {"w": cell.w, "Δm": cell.delta_m, "error": error, "h": cell.h, "|error · h|": cost}
    live = Look("live", variant_style(cell.variant, variant).color)
    for chosen, look in ((~cell.dead, live), (cell.dead, dead_look(theme))):
        add_points(figure, at, cell, chosen, look, hover)
    flags = add_flags(figure, at, cell, theme, ("swallowed",))
    order = np.argsort(-np.where(np.isfinite(cost), cost, -1), kind="stable")[:NAMED]
    named = [int(j) for j in order if np.isfinite(cost[j]) and cost[j] > 0]
    name_points(figure, frame, at, {j: str(j) for j in named}, theme)
    log_axes(figure, frame)
    caption = join(
        [
            f"What storing the scale in {cell.variant.dtype} moves in the layer's output.",
            dead_sentence(cell),
            *flags,
            edge_sentences(x, cost),
        ]
    )
    more = (
        f"The patch rounds w + Δm to {cell.variant.dtype} (Gemma stores w and applies m = 1 + w); times h,"
        " that error is what the layer's output is off by, at most the line's value times |h|."
    )
    table = cell.table(w=cell.w, error=error, cost=cost)
    return FigureCard(figure, title, caption, _alt(title, cell, cost, named), table, more)


def _usable(cell: Cell) -> Cell | Missing:
    if cell.variant.arithmetic == "factored":
        return Missing(
            "nothing is rounded",
            "A factored patch runs beside the weights: nothing is rounded into w, so there is no such error.",
        )
    if np.isnan(cell.w).all():
        return Missing(
            "w not stored in this run",
            "The scale w as the model stores it was not stored in this run; run it again to see this.",
        )
    return cell


def _alt(title: str, cell: Cell, cost: Floats, named: list[int]) -> str:
    worst = ", ".join(f"coordinate {j} ({sci(float(cost[j]))})" for j in named)
    exact = int((cost == 0).sum())
    ending = f"Costliest: {worst}." if named else "Nothing is lost."
    return f"{title}. {counted(len(cell), 'coordinate')}, {exact} at no cost, log-log. {ending}"
