"""A picture covered square by square: what in it a token's patches carry."""

from __future__ import annotations

import base64
import io
from threading import Lock
from typing import Final

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from ctxviz.figures.card import FigureCard, Table, blank, column, join
from ctxviz.figures.palette import CIVIDIS, LIGHT, Theme
from ctxviz.figures.subject import described
from ctxviz.figures.text import counted, plain, quoted, sci
from ctxviz.no_number import all_computed, computed, numbers, only_numbers
from ctxviz.picture_findings import GREY, Colour, Occlusion
from ctxviz.pictures import Picture
from ctxviz.run import Run

HEIGHT: Final = 430
SHOWN_PIXELS: Final = 320
"""Sides of the picture inside the figure."""
WRITTEN: Final = 4
"""Squares a side up to which each shows its number."""
STARRED: Final = 8
"""Squares a side up to which a square has room for a star of full size."""
UNDER_STAR: Final = 0.7
"""Where in its square the number of the strongest stands, from the top."""
WORTH_WRITING: Final = 0.01
"""A distance that two decimals tell; where none is as large, no square shows its number."""
LEAST_TOP: Final = 0.1
"""The colours never end before this distance, so that a square which hardly matters is not a bright one."""
FAINT: Final = 1e-4
"""A distance below which no square is called the strongest: rounding reaches as far."""
MOST_ENCODED: Final = 8
"""Encoded pictures kept, a few hundred kilobytes each: a map is drawn again with every square."""
ON_BRIGHT, ON_DARK = "#000000", "#ffffff"

_ENCODED: Final[dict[str, str]] = {}
_LOCK: Final = Lock()


def card_of(found: Occlusion, run: Run) -> FigureCard:
    """The figure, saying which run, token and picture it is of."""
    of = {"step": found.step, "variant": run.variants.index(found.variant), "picture": found.picture}
    return described(occlusion(found, run.pictures[found.picture]), "occlusion", run, **of)


def occlusion(found: Occlusion, picture: Picture, theme: Theme = LIGHT) -> FigureCard:
    """The picture, and beside it the distance that covering each of its squares makes; ★ the strongest."""
    g, values = found.grid, field(found)
    figure = blank(theme, height=HEIGHT, x_title="", y_title="")
    _axes(figure, g)
    figure.add_layout_image(
        source=data_uri(picture), xref="x", yref="y", x=0, y=0, sizex=g, sizey=g, sizing="stretch",
        xanchor="left", yanchor="top", layer="below",
    )  # fmt: skip
    # A subplot without a trace is not drawn, nor is its picture.
    figure.add_trace(
        go.Scatter(x=[0], y=[0], mode="markers", marker={"opacity": 0}, hoverinfo="skip", showlegend=False)
    )
    for k in range(1, g):
        for ends in ({"x0": k, "x1": k, "y0": 0, "y1": g}, {"x0": 0, "x1": g, "y0": k, "y1": k}):
            figure.add_shape(
                type="line", xref="x", yref="y", line={"color": "rgba(127,127,127,0.7)", "width": 1}, **ends
            )
    figure.add_trace(_field(found, values, theme))
    best = strongest(values)
    _write(figure, values, best, theme)
    if best is not None:
        _mark(figure, best, values, theme)
    title = f"What the patches of token {found.step} carry of picture {found.picture + 1}"
    caption, more = _caption(found, values, picture), join([_how(found), _control(found)])
    return FigureCard(figure, title, caption, _alt(found, values), _table(found), more)


def field(found: Occlusion) -> NDArray[np.float64]:
    """Distances [grid, grid], NaN where not measured, infinite where there is no distribution."""
    values = np.full((found.grid, found.grid), np.nan)
    for square in found.squares:
        values[square.row, square.column] = square.tvd
    return values


def strongest(values: NDArray[np.float64]) -> tuple[int, int] | None:
    """Row and column of the largest distance that is a number; None where all are too small to tell."""
    known = only_numbers(values)
    if not (known > FAINT).any():
        return None
    row, column = divmod(int(np.nanargmax(known)), len(known))
    return row, column


def data_uri(picture: Picture) -> str:
    """The picture made square, as a model sees it, as a PNG inside an address; made once per checksum."""
    key = picture.sha256
    if not key:
        return _encoded(picture)
    with _LOCK:
        known = _ENCODED.pop(key, None)
    address = _encoded(picture) if known is None else known
    with _LOCK:
        # Put in anew, so that the one unused for longest comes first.
        _ENCODED[key] = address
        while len(_ENCODED) > MOST_ENCODED:
            del _ENCODED[next(iter(_ENCODED))]
    return address


def _encoded(picture: Picture) -> str:
    file = io.BytesIO()
    picture.image.resize((SHOWN_PIXELS, SHOWN_PIXELS)).save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def _axes(figure: go.Figure, g: int) -> None:
    across = {"range": [0, g], "showgrid": False, "visible": False, "constrain": "domain", "fixedrange": True}
    down = across | {"range": [g, 0]}
    figure.update_layout(
        xaxis=across | {"domain": [0, 0.485]},
        yaxis=down | {"scaleanchor": "x", "domain": [0, 0.93]},
        xaxis2=across | {"domain": [0.515, 1], "anchor": "y2"},
        yaxis2=down | {"scaleanchor": "x2", "domain": [0, 0.93], "anchor": "x2"},
    )
    for axis, words in (("x", "the picture"), ("x2", "covered here")):
        figure.add_annotation(
            text=words, xref=axis, x=g / 2, yref="y" + axis[1:], y=0, yshift=14, showarrow=False,
            font={"size": 14},
        )  # fmt: skip


def _field(found: Occlusion, values: NDArray[np.float64], theme: Theme) -> go.Heatmap:
    g = found.grid
    centres = np.arange(g) + 0.5
    by_place = {(s.row, s.column): s for s in found.squares}
    hover = [
        [
            "not measured"
            if (s := by_place.get((r, c))) is None
            else f"TVD {sci(s.tvd)}<br>probability of “{plain(found.token)}” {sci(computed(s.probability))}"
            f"<br>most probable “{plain(s.says)}”"
            for c in range(g)
        ]
        for r in range(g)
    ]
    return go.Heatmap(
        x=centres, y=centres, z=only_numbers(values), xaxis="x2", yaxis="y2",
        zmin=0, zmax=_top(values),
        colorscale=list(CIVIDIS), xgap=1, ygap=1, customdata=hover,
        hovertemplate="%{customdata}<extra></extra>",
        colorbar={
            "title": {"text": "TVD", "side": "bottom", "font": {"size": 14, "color": theme.soft}},
            "tickfont": {"size": 14, "color": theme.soft},
            "orientation": "h", "thickness": 12, "outlinewidth": 0, "len": 0.485, "x": 1, "xanchor": "right",
            "y": 0, "yanchor": "top", "ypad": 6,
            "nticks": 5, "exponentformat": "power",
        },
    )  # fmt: skip


def _top(values: NDArray[np.float64]) -> float:
    """Where the colours end."""
    return max(LEAST_TOP, float(numbers(values).max(initial=0.0)))


def _ink(value: float, values: NDArray[np.float64]) -> str:
    """What can be read on a square of this value."""
    return ON_BRIGHT if value > _top(values) / 2 else ON_DARK


def _write(
    figure: go.Figure, values: NDArray[np.float64], best: tuple[int, int] | None, theme: Theme
) -> None:
    """Numbers on the squares where there is room, lower under the star; a dash on those not measured, ✕ where
    it is no number."""
    largest = float(numbers(values).max(initial=0.0))
    written = len(values) <= WRITTEN and largest >= WORTH_WRITING
    rows, columns = np.nonzero(np.ones_like(values, bool) if written else ~np.isfinite(values))
    if not len(rows):
        return
    shown = values[rows, columns]
    starred = np.zeros(len(rows), bool) if best is None else (rows == best[0]) & (columns == best[1])
    colours = [_ink(v, values) if np.isfinite(v) else theme.ink for v in shown]
    figure.add_trace(
        go.Scatter(
            x=columns + 0.5, y=rows + np.where(starred, UNDER_STAR, 0.5), xaxis="x2", yaxis="y2",
            mode="text", meta="numbers", text=[short(v) for v in shown],
            textfont={"size": 14, "color": colours}, hoverinfo="skip", showlegend=False,
        )
    )  # fmt: skip


def short(value: float) -> str:
    """A distance in four characters, the exact one is in the hover text and the CSV."""
    if not np.isfinite(value):
        return "–" if np.isnan(value) else "✕"
    return "<.01" if 0 < value < 0.005 else f"{value:.2f}"


def _mark(figure: go.Figure, at: tuple[int, int], values: NDArray[np.float64], theme: Theme) -> None:
    """A double outline on both sides and a star, which no colour is needed to see."""
    row, column = at
    small, tiny = len(values) > WRITTEN, len(values) > STARRED
    for axis in ("", "2"):
        for colour, width in ((theme.background, 5 - tiny), (theme.ink, 2.5 - tiny)):
            figure.add_shape(
                type="rect", xref=f"x{axis}", yref=f"y{axis}", x0=column, x1=column + 1, y0=row, y1=row + 1,
                line={"color": colour, "width": width}, fillcolor="rgba(0,0,0,0)",
            )  # fmt: skip
    figure.add_trace(
        go.Scatter(
            x=[column + 0.5], y=[row + (0.5 if small else 0.22)], xaxis="x2", yaxis="y2", mode="markers",
            marker={"symbol": "star", "size": 9 if tiny else 14, "color": _ink(values[at], values)},
            meta="strongest", hoverinfo="skip", showlegend=False,
        )
    )  # fmt: skip


def _caption(found: Occlusion, values: NDArray[np.float64], picture: Picture) -> str:
    g = found.grid
    best = strongest(values)
    lost = sum(not np.isfinite(s.tvd) for s in found.squares)
    waiting = g * g - len(found.squares)
    wide, high = picture.image.size
    return join(
        [
            "The colour tells how far the answer moves (TVD) when this square is covered.",
            _strongest_words(found, best),
            "The picture is drawn square, as the model sees it." if wide != high else "",
            f"✕ {counted(lost, 'square')} gave no distribution." if lost else "",
            f"– {counted(waiting, 'square')} not covered yet." if waiting else "",
        ]
    )


def _how(found: Occlusion) -> str:
    return (
        f"Each square in turn was covered with {cover_words(found.colour)} and the patches were made anew,"
        " after the same history; the total-variation distance (TVD, 0 to 1) is between what these say and"
        " what the patches of the whole picture say."
    )


def cover_words(colour: Colour) -> str:
    """What squares are covered with: mid grey, or else the picture's ground."""
    if colour == GREY:
        return "mid grey (127)"
    return f"the picture's ground (red {colour[0]}, green {colour[1]}, blue {colour[2]})"


def _strongest_words(found: Occlusion, best: tuple[int, int] | None) -> str:
    if best is None:
        if not any(np.isfinite(s.tvd) for s in found.squares):
            return ""
        so_far = " covered so far" if len(found.squares) < found.grid**2 else ""
        lost = any(not np.isfinite(s.tvd) for s in found.squares)
        so_far += " whose patches give a distribution" if lost else ""
        return f"No square{so_far} moves anything by more than {sci(FAINT)}."
    square = next(s for s in found.squares if (s.row, s.column) == best)
    says = "" if square.says == found.token else f" and they say {quoted(square.says)}"
    before, after = sci(found.probability), sci(square.probability)
    moved = f"stays {before}" if before == after else f"goes from {before} to {after}"
    return (
        f"★ the strongest: row {square.row + 1}, column {square.column + 1}, TVD {sci(square.tvd)}; without"
        f" it the probability of {quoted(found.token)} {moved}{says}."
    )


def _control(found: Occlusion) -> str:
    if not found.squares:
        return ""
    both = np.array([(s.tvd, s.context_tvd) for s in found.squares], dtype=np.float64)
    compared = np.isfinite(both).all(1)
    control = "Control: the distances of the model that has the picture in its context"
    if not compared.any():
        return f"{control} cannot be compared with these for any square."
    gap = float(np.abs(both[compared, 0] - both[compared, 1]).max())
    lost = int((~compared).sum())
    rest = f"; {counted(lost, 'square')} could not be compared" if lost else ""
    return f"{control} differ from these by at most {sci(gap)}{rest}."


def _alt(found: Occlusion, values: NDArray[np.float64]) -> str:
    rows = "; ".join(f"row {r + 1}: " + ", ".join(sci(v) for v in row) for r, row in enumerate(values))
    size = f"{found.grid} by {found.grid} squares"
    return f"{size}, TVD after covering each, {rows}. {_strongest_words(found, strongest(values))}".rstrip()


def _table(found: Occlusion) -> Table:
    squares = found.squares
    n = len(squares)

    def numbers(name: str) -> list[float | None]:
        # Each square was computed, so what is missing of it is no number.
        return column(all_computed([getattr(s, name) for s in squares], np.float64))

    return {
        "row": [s.row + 1 for s in squares],
        "column": [s.column + 1 for s in squares],
        "tvd": numbers("tvd"),
        "tvd_with_context": numbers("context_tvd"),
        "token": [found.token] * n,
        "probability_whole": column(all_computed(np.full(n, found.probability), np.float64)),
        "probability": numbers("probability"),
        "probability_whole_with_context": column(
            all_computed(np.full(n, found.context_probability), np.float64)
        ),
        "probability_with_context": numbers("context_probability"),
        "most_probable": [s.says for s in squares],
    }
