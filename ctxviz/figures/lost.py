"""What is no number in a figure: the mark off the scale, and the words that count it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike

from ctxviz.figures.metrics import Values
from ctxviz.figures.palette import Theme
from ctxviz.figures.text import counted, sci
from ctxviz.no_number import NO_NUMBER, NOT_MEASURED, is_lost, numbers

GLYPH: Final = "✗"
ROW: Final = 0.14
"""Height of the row above the scale, as a share of the scale's."""


def reach(values: Values, noun: str = "token") -> str:
    """``from 3·10⁻⁸ to 2.1, no number at 3 tokens``; else ``no number`` alone, or ``not measured``."""
    known, lost = numbers(values), int(is_lost(values).sum())
    if not known.size:
        return NO_NUMBER if lost else NOT_MEASURED
    ends = f"from {sci(float(known.min()))} to {sci(float(known.max()))}"
    return f"{ends}, {NO_NUMBER} at {counted(lost, noun)}" if lost else ends


def mark_lost(
    figure: go.Figure, theme: Theme, columns: Sequence[Values], places: Sequence[ArrayLike] | None = None
) -> str:
    """✗ on a row of its own above the scale for each value that is no number; says how many there are.

    The vertical axis, logarithmic and with its range set, grows by that row. ``places`` are the columns'
    horizontal positions; without them they are counted from 0.
    """
    at = [np.arange(len(values)) for values in columns] if places is None else map(np.asarray, places)
    xs = np.concatenate([np.empty(0), *(x[is_lost(v)] for x, v in zip(at, columns, strict=True))])
    if not len(xs):
        return ""
    low, high = figure.layout.yaxis.range
    row = high + ROW / 2 * (high - low)
    figure.update_layout(yaxis={"range": [low, high + ROW * (high - low)]})
    figure.add_shape(
        type="line", xref="paper", x0=0, x1=1, yref="y", y0=10.0**row, y1=10.0**row, layer="below",
        line={"color": theme.line, "width": 1, "dash": "dot"}, name=NO_NUMBER,
    )  # fmt: skip
    figure.add_annotation(
        text=NO_NUMBER, xref="paper", x=1, yref="y", y=row, xanchor="right", yanchor="bottom",
        showarrow=False, font={"size": 14, "color": theme.soft}, name=NO_NUMBER,
    )  # fmt: skip
    figure.add_trace(
        go.Scatter(
            x=xs, y=np.full(len(xs), 10.0**row), name=NO_NUMBER, mode="text",
            text=[f"<b>{GLYPH}</b>"] * len(xs), textposition="middle center",
            textfont={"size": 18, "color": theme.ink}, cliponaxis=False, showlegend=False, meta="lost",
            hovertemplate=f"%{{x:.0f}}: {NO_NUMBER}<extra></extra>",
        )
    )  # fmt: skip
    are = "is" if len(xs) == 1 else "are"
    return f"{GLYPH} on the top row: {counted(len(xs), 'value')} {are} {NO_NUMBER}."
