"""Marks and words on a log-log plane of coordinates: points, flags, an identity line, names, axes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import plotly.graph_objects as go

from ctxviz.figures.card import LOG_TICKS
from ctxviz.figures.cell import Cell
from ctxviz.figures.frame import LABEL_GAP, LABEL_WIDTH, NAMES_AT, Floats, Frame, is_free
from ctxviz.figures.palette import Theme
from ctxviz.figures.text import counted, sci
from ctxviz.records import Flags

_FLAGS: Final = {
    "uncontrolled": ("✕", "x-thin-open", 11, "the error Δv stays"),
    "swallowed": ("○", "circle-open", 14, "w + Δm rounds back to w"),
}
"""By name: glyph of the caption, plotly symbol, size in px, meaning."""

_VISIBLE: Final = float(np.log10(1.01))


@dataclass(frozen=True, slots=True)
class Look:
    """How one class of coordinates is drawn; ``strong`` marks are larger and opaque."""

    name: str
    colour: str
    symbol: str = "circle"
    strong: bool = False


def dead_look(theme: Theme) -> Look:
    """Dead coordinates look alike in every figure."""
    return Look("dead", theme.alarm, "diamond-open", strong=True)


def add_points(
    figure: go.Figure,
    at: tuple[Floats, Floats],
    cell: Cell,
    chosen: Flags,
    look: Look,
    hover: Mapping[str, Floats],
) -> None:
    """One trace for the ``chosen`` coordinates, none if there are none; ``hover`` names numbers to show."""
    js = np.flatnonzero(chosen)
    if not len(js):
        return
    flags = cell.flag_words
    rows = [[int(j), flags[j], *(sci(float(values[j])) for values in hover.values())] for j in js]
    lines = [f"<br>{name} = %{{customdata[{2 + i}]}}" for i, name in enumerate(hover)]
    figure.add_trace(
        go.Scatter(
            x=at[0][js],
            y=at[1][js],
            name=look.name,
            mode="markers",
            marker={
                "symbol": look.symbol,
                "color": look.colour,
                "size": 11 if look.strong else 7,
                "opacity": 1 if look.strong else 0.6,
                "line": {
                    "width": 2.2 if look.strong else 1.4 if look.symbol.endswith("-open") else 0,
                    "color": look.colour,
                },
            },
            customdata=rows,
            hovertemplate="<b>coordinate %{customdata[0]}</b>%{customdata[1]}"
            + "".join(lines)
            + "<extra></extra>",
            meta="points",
        )
    )


def add_flags(
    figure: go.Figure,
    at: tuple[Floats, Floats],
    cell: Cell,
    theme: Theme,
    names: tuple[str, ...] = tuple(_FLAGS),
) -> list[str]:
    """A mark over every uncontrolled and swallowed coordinate; returns sentences that count them."""
    sentences = []
    for name in names:
        glyph, symbol, size, meaning = _FLAGS[name]
        js = np.flatnonzero(getattr(cell, name))
        if not len(js):
            continue
        figure.add_trace(
            go.Scatter(
                x=at[0][js],
                y=at[1][js],
                name=name,
                mode="markers",
                marker={"symbol": symbol, "size": size, "color": theme.ink, "line": {"width": 1.6}},
                customdata=js.tolist(),
                hoverinfo="skip",
                showlegend=False,
                meta="flag",
            )
        )
        are = "is" if len(js) == 1 else "are"
        sentences.append(f"{glyph} {counted(len(js), 'coordinate')} {are} {name} ({meaning}).")
    return sentences


def add_line(
    figure: go.Figure,
    frame: Frame,
    at: tuple[Floats, Floats],
    text: str,
    theme: Theme,
    offset: float = 0.0,
) -> None:
    """The line y = 10**offset · x across the plane, named below it where the points leave room."""
    (x0, x1), (y0, y1) = frame.x, frame.y
    start, end = max(x0, y0 - offset), min(x1, y1 - offset)
    if start >= end:
        return
    figure.add_trace(
        go.Scatter(
            x=[10**start, 10**end],
            y=[10 ** (start + offset), 10 ** (end + offset)],
            name=text,
            mode="lines",
            line={"color": theme.soft, "width": 1.2},
            hoverinfo="skip",
            showlegend=False,
            meta="line",
        )
    )
    x, below = _room(frame, at, np.linspace(start, end, 30)[2:-2], offset)
    figure.add_annotation(
        x=x, y=x + offset, text=text, showarrow=False, xshift=6 if below else -6,
        xanchor="left" if below else "right", yanchor="top" if below else "bottom",
        font={"size": 14, "color": theme.soft},
    )  # fmt: skip


def _room(frame: Frame, at: tuple[Floats, Floats], places: Floats, offset: float) -> tuple[float, bool]:
    """Where along a rising line (decades of x) a label covers no point, and whether below or above it."""
    taken = frame.share(*at)
    spots = frame.share(10**places, 10 ** (places + offset))
    for below in (True, False):
        shift = np.array([0, -LABEL_GAP / 2]) if below else np.array([-LABEL_WIDTH, LABEL_GAP / 2])
        corners = spots + shift
        inside = (corners >= 0).all(axis=1) & (corners[:, 0] < NAMES_AT - LABEL_WIDTH) & (spots[:, 1] < 0.94)
        for x, corner, fits in zip(places, corners, inside, strict=True):
            if fits and is_free(corner, taken, -0.01):
                return float(x), below
    return float(places[-1]), True


def name_points(
    figure: go.Figure, frame: Frame, at: tuple[Floats, Floats], names: Mapping[int, str], theme: Theme
) -> None:
    """Each name beside its coordinate's point, or in a column at the right where others are in the way."""
    everyone = frame.share(*at)
    drawn = [j for j in names if np.isfinite(everyone[j]).all()]
    rivals = everyone[drawn]
    lowest_used = 1.1
    for j in sorted(drawn, key=lambda j: -everyone[j][1]):
        across, up = everyone[j]
        others = np.delete(everyone, j, axis=0)
        crossed = (
            (rivals[:, 0] < across + LABEL_WIDTH) & (np.abs(rivals[:, 1] - up) < 2 * LABEL_GAP)
        ).sum() > 1
        beside = not crossed and is_free(everyone[j], others, before=-1e-9)
        column_up = up if beside else min(up, lowest_used - LABEL_GAP)
        lowest_used = lowest_used if beside else column_up
        x, y = frame.at(across, up)
        tail_x, tail_y = frame.at(across + 0.03 if beside else NAMES_AT, column_up)
        figure.add_annotation(
            x=x, y=y, ax=tail_x, ay=tail_y, axref="x", ayref="y", text=names[j],
            xanchor="left", showarrow=True, arrowhead=0, arrowwidth=1, arrowcolor=theme.line, standoff=5,
            font={"size": 14, "color": theme.ink},
        )  # fmt: skip


def log_axes(figure: go.Figure, frame: Frame) -> None:
    """Both axes logarithmic over the frame, with few and quiet ticks."""
    figure.update_xaxes(range=frame.x, showgrid=False, **LOG_TICKS)
    figure.update_yaxes(range=frame.y, showgrid=False, **LOG_TICKS)
    figure.update_layout(showlegend=False)


def farthest(x: Floats, y: Floats, n: int) -> list[int]:
    """The ``n`` coordinates with the largest factor between x and y, either way; none within one percent."""
    usable = np.isfinite(x) & np.isfinite(y) & (x > 0) & (y > 0)
    away = np.full(len(x), -np.inf)
    away[usable] = np.abs(np.log10(y[usable]) - np.log10(x[usable]))
    return [int(j) for j in np.argsort(-away, kind="stable")[:n] if away[j] > _VISIBLE]
