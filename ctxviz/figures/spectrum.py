"""All denominators |h_j| of one layer and token, smallest first."""

from __future__ import annotations

from typing import Final

import numpy as np
import plotly.graph_objects as go

from ctxviz.figures.card import LOG_TICKS, FigureCard, blank, join
from ctxviz.figures.cell import Cell, Missing, dead_sentence, epsilon_sentence, extent, find, where
from ctxviz.figures.frame import LABEL_GAP, Floats, decades
from ctxviz.figures.palette import LIGHT, Theme, variant_style
from ctxviz.figures.scatter import Look, add_flags, add_points, dead_look
from ctxviz.figures.subject import of_run
from ctxviz.figures.text import counted, sci
from ctxviz.no_number import NO_NUMBER
from ctxviz.run import Run
from ctxviz.settings import EPSILONS

HEIGHT: Final = 380
NAMED: Final = 3
REACH: Final = 4.0
"""Decades beyond the data up to which a reference line still widens the plot."""
_ROOM: Final = 0.22
"""Share of the plot's height under the data, where the smallest are named."""


@of_run("spectrum")
def spectrum(run: Run, step: int, layer: int, variant: int, theme: Theme = LIGHT) -> FigureCard:
    """|h_j| of one layer, token and variant, ascending on a log axis over the rank; the smallest three named.

    Reference lines: the threshold under which |h| counts as small, the epsilon of the dtype where it lies
    within what is drawn, and tau of the floored rule.
    """
    title = f"{where(run, step, layer, variant)}: its denominators in order"
    figure = blank(
        theme, height=HEIGHT, x_title="rank, smallest first", y_title="|h|, the denominator (RMS 1)"
    )
    cell = find(run, step, layer, variant)
    if isinstance(cell, Missing):
        return cell.card(figure, title, theme)
    h = np.abs(cell.h)
    order = np.argsort(h, kind="stable")
    rank = np.empty(len(h))
    rank[order] = np.arange(len(h))
    small, floor = run.settings.small_h, cell.variant.floor
    low, high, zero = _range(h, (small,) if floor is None else (small, floor))
    at = rank, np.where(h == 0, 10**zero, np.where(np.isfinite(h), h, np.nan))
    drawn = _add_lines(figure, cell, small, floor, ((zero if (h == 0).any() else low), high), theme)
    hover = {"h": cell.h, "m": cell.m, "Δm": cell.delta_m, "rank": rank}
    live = Look("live", variant_style(cell.variant, variant).color)
    for chosen, look in ((~cell.dead, live), (cell.dead, dead_look(theme))):
        add_points(figure, at, cell, chosen, look, hover)
    flags = add_flags(figure, at, cell, theme, ("uncontrolled",))
    named = [int(j) for j in order[:NAMED] if np.isfinite(h[j])]
    _name(figure, named, at[1], (low, high), theme)
    figure.update_yaxes(range=[low, high], **LOG_TICKS)
    figure.update_xaxes(range=[-0.02 * len(h) - 0.5, 1.02 * len(h)], nticks=8)
    figure.update_layout(showlegend=False)
    caption = join(
        [
            f"Every denominator of this layer, smallest first; {_below(h, small)}.",
            dead_sentence(cell),
            *flags,
            _edges(h),
        ]
    )
    more = join([_floor_sentence(h, floor, "τ" in drawn), epsilon_sentence(cell, "ε" in drawn)])
    table = cell.table(rank=rank.astype(np.int64))
    return FigureCard(figure, title, caption, _alt(title, h, named), table, more)


def _range(h: Floats, references: tuple[float, ...]) -> tuple[float, float, float]:
    """Lowest and highest decade drawn, and the decade where exact zeros go."""
    low, high = decades(h)
    reach = [d for d in np.log10(references).tolist() if low - REACH <= d <= high + REACH]
    low, high = min(low, *reach, high), max(high, *reach, low)
    zero = low - 0.1 * (high - low)
    bottom = zero if (h == 0).any() else low
    return bottom - _ROOM * (high - low), high + 0.05 * (high - low), zero


def _add_lines(
    figure: go.Figure,
    cell: Cell,
    small: float,
    floor: float | None,
    within: tuple[float, float],
    theme: Theme,
) -> set[str]:
    """The reference lines that lie ``within`` these decades; returns the symbols of those drawn."""
    lines = [
        ("small", small, f"counted as small, {sci(small)}", "2px,3px", "top"),
        ("ε", EPSILONS[cell.variant.dtype], f"ε {cell.variant.dtype}", "4px,4px", "bottom"),
    ]
    if floor is not None:
        lines.append(("τ", floor, f"floor τ = {floor:g}", "solid", "top"))
    drawn = set()
    for symbol, value, text, dash, anchor in lines:
        at = float(np.log10(value))
        if not within[0] < at < within[1]:
            continue
        drawn.add(symbol)
        figure.add_shape(
            type="line", x0=0, x1=1, xref="paper", y0=value, y1=value, layer="below", name=symbol,
            line={"color": theme.soft, "width": 1.2, "dash": dash},
        )  # fmt: skip
        figure.add_annotation(
            x=1, xref="paper", y=at, text=text, showarrow=False, xanchor="right", yanchor=anchor,
            font={"size": 14, "color": theme.soft},
        )  # fmt: skip
    return drawn


def _name(figure: go.Figure, named: list[int], y: Floats, within: tuple[float, float], theme: Theme) -> None:
    """Names to the lower right of their points: the curve rises, so nothing is drawn there."""
    low, high = within
    lowest_used = 1.1
    for rank, j in reversed(list(enumerate(named))):
        up = (float(np.log10(y[j])) - low) / (high - low)
        lowest_used = min(up - LABEL_GAP, lowest_used - LABEL_GAP)
        figure.add_annotation(
            x=rank, y=float(np.log10(y[j])), ax=rank + 0.06 * len(y), ay=low + lowest_used * (high - low),
            axref="x", ayref="y", text=str(j), xanchor="left", showarrow=True, arrowhead=0, arrowwidth=1,
            arrowcolor=theme.line, standoff=5, font={"size": 14, "color": theme.ink},
        )  # fmt: skip


def _below(h: Floats, small: float) -> str:
    n = int((h < small).sum())
    return f"{n or 'none'} of {len(h)} {'is' if n <= 1 else 'are'} below {sci(small)}"


def _floor_sentence(h: Floats, floor: float | None, drawn: bool) -> str:
    if floor is None:
        return ""
    line = "the solid line" if drawn else "outside the plot"
    smallest = sci(float(h.min()))
    return f"The floored rule aims at |h| of at least τ = {floor:g} ({line}); the smallest is {smallest}."


def _edges(h: Floats) -> str:
    zeros, lost = int((h == 0).sum()), int((~np.isfinite(h)).sum())
    are = "is" if zeros == 1 else "are"
    return join(
        [
            f"{counted(zeros, 'coordinate')} {are} exactly 0, drawn on the lowest row." if zeros else "",
            f"{counted(lost, 'coordinate')} {'is' if lost == 1 else 'are'} {NO_NUMBER} and left out."
            if lost
            else "",
        ]
    )


def _alt(title: str, h: Floats, named: list[int]) -> str:
    smallest = ", ".join(f"coordinate {j} ({sci(float(h[j]))})" for j in named)
    return f"{title}. {counted(len(h), 'coordinate')}, |h| from {extent(h)}, log axis. Smallest: {smallest}."
