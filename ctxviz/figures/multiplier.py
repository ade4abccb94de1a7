"""The change of the scale against what the solver's multiplier says it should be: dm_j = lambda / m_j."""

from __future__ import annotations

from typing import Final

import numpy as np
import plotly.graph_objects as go

from ctxviz.figures.card import FigureCard, blank, join
from ctxviz.figures.cell import Cell, Missing, edge_sentences, find, where
from ctxviz.figures.frame import Floats, Frame
from ctxviz.figures.palette import LIGHT, Theme, variant_style
from ctxviz.figures.scatter import Look, add_line, add_points, farthest, log_axes, name_points
from ctxviz.figures.subject import of_run
from ctxviz.figures.text import counted, sci
from ctxviz.records import SOLVER_CASES, Flags
from ctxviz.run import Run
from ctxviz.settings import EPSILONS

HEIGHT: Final = 420
NAMED: Final = 3
ON_FLOOR: Final = 1e-3
"""Relative distance above tau within which |h_j| counts as on the floor; the dtype's epsilon where larger."""


@of_run("multiplier")
def multiplier(run: Run, step: int, layer: int, variant: int, theme: Theme = LIGHT) -> FigureCard:
    """|dm_j| against |lambda / m_j| of one layer, token and variant, log-log, with the line of equality.

    For stable the two are equal in exact arithmetic; for floored on the coordinates above the floor. Dead
    coordinates have no quotient and are left out and counted.
    """
    title = f"{where(run, step, layer, variant)}: the change against λ / m"
    figure = blank(
        theme, height=HEIGHT, x_title="|λ / m|, what λ says", y_title="|Δm|, the change of the scale"
    )
    cell = find(run, step, layer, variant)
    if isinstance(cell, Missing):
        return cell.card(figure, title, theme)
    lam = float(run.field("multiplier", variant)[layer, step])
    case = SOLVER_CASES[int(run.field("solver_case", variant)[layer, step])]
    missing = _missing(cell, lam, case)
    if missing is not None:
        return missing.card(figure, title, theme, cell.table())
    predicted = np.full(len(cell), np.nan)
    np.divide(lam, cell.m, out=predicted, where=~cell.dead)
    x, y = np.abs(predicted), np.abs(cell.delta_m)
    frame = Frame.around(x, np.concatenate([y[~cell.dead], x[x > 0]]))
    at = frame.place(x, y)
    free = _free(cell)
    add_line(figure, frame, at, "Δm = λ / m", theme)
    _add_classes(figure, at, cell, predicted, free, variant_style(cell.variant, variant).color)
    named = farthest(np.where(free, x, np.nan), y, NAMED)
    name_points(figure, frame, at, {j: str(j) for j in named}, theme)
    log_axes(figure, frame)
    opposed = int((predicted * cell.delta_m < 0).sum())
    caption = join(
        [
            f"λ = {sci(lam)}, {case} case; what lies off the line was moved by rounding.",
            _on_floor(cell, free),
            f"▲ {counted(opposed, 'coordinate')} {_has(opposed)} the opposite sign." if opposed else "",
            _left_out(int(cell.dead.sum())),
            edge_sentences(x[~cell.dead], y[~cell.dead]),
        ]
    )
    more = f"In exact arithmetic every dot{_of_floored(cell)} lies on the line Δm = λ / m."
    table = cell.table(lambda_over_m=predicted, free=free & ~cell.dead)
    return FigureCard(figure, title, caption, _alt(title, lam, x, y, free & ~cell.dead, named), table, more)


def _missing(cell: Cell, lam: float, case: str) -> Missing | None:
    rule = cell.variant.update
    if rule == "direct":
        return Missing("direct has no λ", "The direct rule divides by h as it is; it has no λ.")
    if rule == "rescaled":
        # n = (g / m) / s on the sphere, so dm = g / n - m = (s - 1) m, whatever j.
        live = ~cell.dead & np.isfinite(cell.delta_m)
        ratio = cell.delta_m[live] / cell.m[live]
        middle = f" (median Δm / m here: {sci(float(np.median(ratio)))})" if ratio.size else ""
        return Missing(
            "rescaled has no λ for m",
            "The rescaled rule stretches the scale by one factor until λ is 0, so Δm = λ / m does not hold;"
            f" in exact arithmetic Δm is the same multiple of m everywhere{middle}.",
        )
    if np.isinf(lam):
        return Missing(
            f"λ is no number: {case}",
            f"λ of this layer and token was computed and is no number (case: {case}).",
        )
    if np.isnan(lam):
        return Missing(f"no λ: {case}", f"The solver gave no λ for this layer and token (case: {case}).")
    if lam == 0:
        largest = sci(float(np.abs(cell.delta_m[~cell.dead]).max(initial=0)))
        return Missing(
            "λ = 0",
            f"λ = 0, {case} case: the scale reaches the goal as it is and Δm is rounding alone,"
            f" at most {largest} where m ≠ 0.",
        )
    return None


def _free(cell: Cell) -> Flags:
    """Coordinates above the floor; all of them where the rule has none."""
    if cell.variant.floor is None:
        return np.ones(len(cell), bool)
    slack = max(ON_FLOOR, EPSILONS[cell.variant.dtype])
    return np.abs(cell.h) > cell.variant.floor * (1 + slack)


def _add_classes(
    figure: go.Figure, at: tuple[Floats, Floats], cell: Cell, predicted: Floats, free: Flags, colour: str
) -> None:
    opposed = predicted * cell.delta_m < 0
    hover = {"Δm": cell.delta_m, "λ / m": predicted, "m": cell.m, "h": cell.h}
    for above, place, hollow in ((True, "free", ""), (False, "on the floor", "-open")):
        for against, sign, symbol in ((False, "same sign", "circle"), (True, "opposite sign", "triangle-up")):
            chosen = (free == above) & (opposed == against) & ~cell.dead
            add_points(figure, at, cell, chosen, Look(f"{place}, {sign}", colour, symbol + hollow), hover)


def _of_floored(cell: Cell) -> str:
    return "" if cell.variant.floor is None else " above the floor"


def _on_floor(cell: Cell, free: Flags) -> str:
    n = int((~free & ~cell.dead).sum())
    if cell.variant.floor is None or n == 0:
        return ""
    are = "sits" if n == 1 else "sit"
    return (
        f"Hollow: {counted(n, 'coordinate')} {are} on the floor, |h| = {cell.variant.floor:g},"
        " where the change need not follow λ."
    )


def _has(n: int) -> str:
    return "has" if n == 1 else "have"


def _left_out(dead: int) -> str:
    return f"{counted(dead, 'dead coordinate')} (m = 0) left out." if dead else ""


def _alt(title: str, lam: float, x: Floats, y: Floats, free: Flags, named: list[int]) -> str:
    with np.errstate(divide="ignore", invalid="ignore"):
        near = int((np.abs(y - x)[free] <= 0.01 * x[free]).sum())
    far = ", ".join(f"coordinate {j} ({sci(float(y[j]))} for {sci(float(x[j]))})" for j in named)
    ending = f" Farthest: {far}." if named else ""
    return (
        f"{title}. λ = {sci(lam)}; {near} of {int(free.sum())} coordinates within one percent of λ / m"
        f" in size, log-log.{ending}"
    )
