"""The post-norm's scale before and after the patch, coordinate by coordinate."""

from __future__ import annotations

from typing import Final

import numpy as np

from ctxviz.figures.card import FigureCard, blank, join
from ctxviz.figures.cell import Missing, dead_sentence, edge_sentences, find, where
from ctxviz.figures.frame import Floats, Frame
from ctxviz.figures.palette import LIGHT, Theme, variant_style
from ctxviz.figures.scatter import (
    Look,
    add_flags,
    add_line,
    add_points,
    dead_look,
    farthest,
    log_axes,
    name_points,
)
from ctxviz.figures.subject import of_run
from ctxviz.figures.text import counted, sci
from ctxviz.records import Flags
from ctxviz.run import Run

HEIGHT: Final = 420
NAMED: Final = 5


@of_run("scales")
def scales(run: Run, step: int, layer: int, variant: int, theme: Theme = LIGHT) -> FigureCard:
    """|m_j| against |m_j + dm_j| of one layer, token and variant, log-log, with the line of no change.

    The farthest five from that line are named, by the ratio of the two; dead coordinates have none.
    """
    title = f"{where(run, step, layer, variant)}: the scale before and after"
    figure = blank(
        theme, height=HEIGHT, x_title="|m|, the scale", y_title="|m + Δm|, the scale after the patch"
    )
    cell = find(run, step, layer, variant)
    if isinstance(cell, Missing):
        return cell.card(figure, title, theme)
    after = cell.m + cell.delta_m
    x, y = np.abs(cell.m), np.abs(after)
    frame = Frame.around(x, np.concatenate([y, x[x > 0]]))
    at = frame.place(x, y)
    turned = cell.m * after < 0
    add_line(figure, frame, at, "no change", theme)
    colour = variant_style(cell.variant, variant).color
    hover = {"m": cell.m, "Δm": cell.delta_m, "m + Δm": after, "h": cell.h}
    for chosen, look in (
        (~turned & ~cell.dead, Look("same sign", colour)),
        (turned, Look("sign changed", colour, "triangle-up")),
        (cell.dead, dead_look(theme)),
    ):
        add_points(figure, at, cell, chosen, look, hover)
    flags = add_flags(figure, at, cell, theme, ("swallowed",))
    named = farthest(x, y, NAMED)
    name_points(figure, frame, at, {j: str(j) for j in named}, theme)
    log_axes(figure, frame)
    caption = join(
        [
            "Each mark is a coordinate of the post-norm's scale; on the line the patch leaves it as it is.",
            _turned_sentence(turned),
            dead_sentence(cell),
            *flags,
            edge_sentences(x, y),
        ]
    )
    return FigureCard(figure, title, caption, _alt(title, cell.m, after, named), cell.table())


def _turned_sentence(turned: Flags) -> str:
    n = int(turned.sum())
    return f"▲ {counted(n, 'coordinate')} {'changes' if n == 1 else 'change'} sign." if n else ""


def _alt(title: str, m: Floats, after: Floats, named: list[int]) -> str:
    far = ", ".join(f"coordinate {j} (m = {sci(float(m[j]))}, then {sci(float(after[j]))})" for j in named)
    ending = f"Farthest from no change: {far}." if named else "None changes by more than one percent."
    return f"{title}. {counted(len(m), 'coordinate')}, log-log. {ending}"
