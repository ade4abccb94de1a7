"""What every figure comes with: a title, a sentence, a text alternative, and its data as CSV."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from ctxviz.figures.palette import FONT, Theme
from ctxviz.no_number import NO_NUMBER
from ctxviz.run import Run

Table = dict[str, list[Any]]
"""Columns of equal length; cells are text, numbers, booleans or None for what was not measured; an infinite
number stands for what is no number."""
BYTE_ORDER_MARK: Final = "\ufeff"

_FORMULA_STARTS: Final = ("=", "+", "-", "@", "＝", "＋", "－", "＠", "\t", "\r", "\n")
_SURROGATES: Final = re.compile("[\ud800-\udfff]")
WIDTH_OF_SPARSE_TICKS: Final = 32
"""About as many token labels as an axis holds without crowding."""
LOG_TICKS: Final = {
    "type": "log",
    "exponentformat": "power",
    "nticks": 4,
    "minorloglabels": "complete",
}
"""Of every logarithmic axis: whatever part of it is zoomed into, each gridline has its whole number.

Four are asked for, not more: between one decade and one and a half plotly else draws all nine digits."""


@dataclass(frozen=True, slots=True, eq=False)
class FigureCard:
    """A figure and the words around it.

    ``caption`` says in one line what the quantity means, and counts whatever is marked or left out; ``more``
    is how to read it, for those who ask. ``alt`` says what the figure shows, with its numbers; ``table`` is
    the data drawn. ``subject`` names what it is of, for a file that stands alone, and ``file_name`` is what
    that is called, without an ending; both are filled by :mod:`ctxviz.figures.subject`. The words are text,
    not HTML; those inside ``figure`` are already escaped for plotly.
    """

    figure: go.Figure
    title: str
    caption: str
    alt: str
    table: Table
    more: str = ""
    subject: str = ""
    file_name: str = ""


def to_csv(table: Table) -> str:
    """The table as CSV (RFC 4180, lines end in CRLF), to be encoded in UTF-8.

    Numbers in full precision, empty where not measured, ``no number`` where what was computed is none, text
    that no spreadsheet executes. It begins with a byte-order mark: without one Excel takes it for another
    encoding.
    """
    out = io.StringIO()
    out.write(BYTE_ORDER_MARK)
    writer = csv.writer(out)
    writer.writerow([_cell(name) for name in table])
    writer.writerows([_cell(value) for value in row] for row in zip(*table.values(), strict=True))
    return out.getvalue()


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (float, np.floating)):
        return _number(value)
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    text = _SURROGATES.sub("\ufffd", str(value))
    return "'" + text if text.lstrip(" ").startswith(_FORMULA_STARTS) else text


def _number(value: float | np.floating[Any]) -> str:
    if not math.isfinite(value):
        return "" if math.isnan(value) else NO_NUMBER
    return str(value) if isinstance(value, np.floating) else repr(float(value))


def column(values: NDArray[Any]) -> list[Any]:
    """An array as a table column: Python numbers, None where not measured; float32 keep their short form."""
    if values.dtype.kind != "f":
        return values.tolist()
    cells = list(values) if values.dtype == np.float32 else values.tolist()
    return [None if math.isnan(cell) else cell for cell in cells]


def new_texts(run: Run, steps: int) -> list[str]:
    """The text each step wrote, raw."""
    return [run.token(k)[4] for k in range(steps)]


def some_ticks(n: int, most: int = WIDTH_OF_SPARSE_TICKS) -> list[int]:
    """At most ``most`` of 0 .. n-1, every first, second, fifth, tenth, and so on."""
    return list(range(0, n, tick_step(n, most)))


def tick_step(n: int, most: int) -> int:
    """The smallest of 1, 2, 5, 10, 20, ... that cuts ``n`` into at most ``most``."""
    steps = (digit * 10**power for power in range(10) for digit in (1, 2, 5))
    return next(step for step in steps if step * most >= n)


def blank(theme: Theme, *, height: int, x_title: str, y_title: str) -> go.Figure:
    """An empty figure with the house's type, margins and quiet grid."""
    axis = {
        "gridcolor": theme.line,
        "linecolor": theme.line,
        "zeroline": False,
        "showline": False,
        "ticks": "",
        "tickfont": {"color": theme.soft, "size": 14},
        "automargin": True,
    }
    title = {"font": {"color": theme.soft, "size": 14}, "standoff": 10}
    return go.Figure(
        layout={
            "template": None,
            "height": height,
            "margin": {"l": 8, "r": 12, "t": 12, "b": 8, "pad": 4},
            "paper_bgcolor": theme.background,
            "plot_bgcolor": theme.background,
            "font": {"family": FONT, "size": 14, "color": theme.ink},
            "xaxis": axis | {"title": title | {"text": x_title}, "showgrid": False},
            "yaxis": axis | {"title": title | {"text": y_title}},
            "hoverlabel": {
                "bgcolor": theme.panel,
                "bordercolor": theme.line,
                "font": {"family": FONT, "size": 14, "color": theme.ink},
                "align": "left",
                "namelength": -1,
            },
            "legend": {"font": {"size": 14, "color": theme.soft}, "bgcolor": "rgba(0,0,0,0)"},
            "hovermode": "closest",
        }
    )


def note(figure: go.Figure, theme: Theme, text: str) -> go.Figure:
    """``figure`` with a sentence in its middle, for when there is nothing to draw."""
    figure.add_annotation(
        text=text,
        showarrow=False,
        xref="paper",
        yref="paper",
        x=0.5,
        y=0.5,
        font={"size": 15, "color": theme.soft},
    )
    return figure.update_xaxes(visible=False).update_yaxes(visible=False)


def join(parts: Sequence[str]) -> str:
    """Sentences that are not empty, in a row."""
    return " ".join(part for part in parts if part)
