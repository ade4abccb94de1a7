"""A logarithmic axis for measured distances: where exact zeros go, what range to show, what was left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import plotly.graph_objects as go
from numpy.typing import ArrayLike, NDArray

from ctxviz.figures.card import LOG_TICKS
from ctxviz.figures.metrics import Values
from ctxviz.figures.palette import Theme
from ctxviz.figures.text import counted
from ctxviz.no_number import is_measured

ZERO_ROW: Final = 0.6
"""Decades below the smallest power of ten shown at which exact zeros are drawn."""
MANY_GLYPHS: Final = 40
"""Marks above which they are drawn smaller, so that neighbours stay apart."""


@dataclass(frozen=True, slots=True)
class LogAxis:
    """The drawn range in decades, and the value at which exact zeros are drawn."""

    low: float
    high: float
    zero: float
    has_zeros: bool

    @classmethod
    def around(cls, columns: Sequence[Values], room: float = 0.5) -> LogAxis:
        """The axis that holds every finite value of ``columns``, with ``room`` decades above them."""
        values = np.concatenate([*columns, np.empty(0)])
        positive = values[np.isfinite(values) & (values > 0)]
        zeros = bool((values == 0).any())
        smallest = np.log10(positive.min()) if positive.size else -8.0
        zero = float(np.floor(smallest) - ZERO_ROW)
        low = zero - 0.3 if zeros else float(smallest) - 0.3
        top = float(np.log10(positive.max())) if positive.size else zero
        return cls(low, max(top + room, low + 1), float(10**zero), zeros)

    def place(self, values: Values) -> Values:
        """Heights to draw at: exact zeros on their row, what is not finite left out."""
        return np.where(values == 0, self.zero, np.where(np.isfinite(values), values, np.nan))

    def apply(self, figure: go.Figure, theme: Theme, *, boxed: bool = False) -> None:
        """Make the figure's vertical axis this one, exact zeros named (``boxed``: over columns)."""
        figure.update_layout(yaxis={"range": [self.low, self.high], **LOG_TICKS})
        if self.has_zeros:
            figure.add_shape(
                type="line", xref="paper", x0=0, x1=1, yref="y", y0=self.zero, y1=self.zero,
                line={"color": theme.line, "width": 1, "dash": "dot"}, layer="below",
            )  # fmt: skip
            figure.add_annotation(
                text="exactly 0", xref="paper", x=1, yref="y", y=np.log10(self.zero), xanchor="right",
                yanchor="bottom", showarrow=False, font={"size": 14, "color": theme.soft},
                bgcolor=theme.background if boxed else None,
            )  # fmt: skip

    def mark_zeros(self, figure: go.Figure, theme: Theme, x: ArrayLike, symbol: str = "line-ew-open") -> None:
        """A mark on the row of zeros at each of ``x``."""
        at = np.asarray(x)
        if len(at):
            line = {"width": 2, "color": theme.ink}
            colour = theme.ink if symbol.endswith("open") else theme.background
            marker = {"symbol": symbol, "size": 13, "color": colour, "line": line}
            figure.add_trace(
                go.Scatter(
                    x=at, y=np.full(len(at), self.zero), name="exactly 0", mode="markers", marker=marker,
                    hoverinfo="skip", showlegend=False, meta="zero",
                )
            )  # fmt: skip


def add_glyphs(
    figure: go.Figure, theme: Theme, glyph: str, meta: str, x: ArrayLike, y: ArrayLike, *, size: int = 18
) -> None:
    """A glyph such as ✗ or ≈ at each place; nothing where there is none."""
    at = np.asarray(x)
    if len(at):
        figure.add_trace(
            go.Scatter(
                x=at, y=y, name=meta, mode="text", text=[f"<b>{glyph}</b>"] * len(at),
                textposition="middle center" if glyph == "✗" else "top center",
                textfont={"size": size, "color": theme.ink}, cliponaxis=False, hoverinfo="skip",
                showlegend=False, meta=meta,
            )
        )  # fmt: skip


def mark_tokens(
    figure: go.Figure,
    theme: Theme,
    axis: LogAxis,
    columns: Sequence[tuple[Values, NDArray[np.bool_], NDArray[np.bool_]]],
) -> str:
    """✗ on tokens that differ, ≈ on those of them that are ties, for (values, differs, tie); counts them."""
    kinds = (("✗", "differs", "another token"), ("≈", "tie", "a tie inside the noise floor"))
    sentences = []
    for glyph, meta, what in kinds:
        hits = [differs & (tie == (meta == "tie")) & np.isfinite(values) for values, differs, tie in columns]
        xs = np.concatenate([np.flatnonzero(hit) for hit in hits])
        ys = np.concatenate([axis.place(c[0])[hit] for c, hit in zip(columns, hits, strict=True)])
        add_glyphs(figure, theme, glyph, meta, xs, ys, size=18 if len(xs) <= MANY_GLYPHS else 11)
        if len(xs):
            sentences.append(f"{glyph} marks {what} ({len(xs)}).")
    return " ".join(sentences)


def exact_zeros(columns: Sequence[Values]) -> str:
    """A sentence on the exact zeros of ``columns``; empty where there are none."""
    zeros = sum(int((values == 0).sum()) for values in columns)
    return f"{are(zeros, 'value')} exactly 0." if zeros else ""


def missing(columns: Sequence[Values], why: str = "not measured and left out") -> str:
    """A sentence on the values of ``columns`` that were not measured; empty where there are none.

    What is no number is counted by :func:`ctxviz.figures.lost.mark_lost`, which marks it.
    """
    gaps = sum(int((~is_measured(values)).sum()) for values in columns)
    return f"{are(gaps, 'value')} {why}." if gaps else ""


def are(n: int, noun: str) -> str:
    """``1 value is``, ``3 values are``."""
    return f"{counted(n, noun)} {'is' if n == 1 else 'are'}"


def above_plot(figure: go.Figure) -> None:
    """The legend over the plot, in rows: under it long names of places would lie across."""
    figure.update_layout(
        showlegend=True,
        legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "xanchor": "left"},
    )


def below_plot(figure: go.Figure, y: float = -0.26) -> None:
    """The legend under the plot, in rows."""
    figure.update_layout(
        showlegend=True,
        legend={"orientation": "h", "x": 0, "y": y, "yanchor": "top", "xanchor": "left"},
    )
