"""One layer's coordinates at one token: the denominator |h_j| against the change |dm_j| it causes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from ctxviz.figures.card import FigureCard, Table, blank, column, join, note
from ctxviz.figures.frame import LABEL_GAP, LABEL_WIDTH, NAMES_AT, Floats, Frame, decades, is_free
from ctxviz.figures.palette import LIGHT, Theme, label, variant_style
from ctxviz.figures.text import counted, power_of_ten, quoted, sci
from ctxviz.records import LayerVectors
from ctxviz.run import Run

HEIGHT: Final = 420
WORST: Final = 10


@dataclass(frozen=True, slots=True)
class Coordinate:
    """One row of the worst table; NaN where not finite."""

    j: int
    h: float
    delta_v: float
    m: float
    delta_m: float
    dead: bool


def worst_table(vectors: LayerVectors, layer: int, n: int = WORST) -> list[Coordinate]:
    """The ``n`` coordinates of a layer with the largest |dm_j|, non-finite first; none if it is unpatched."""
    dm, h = vectors.delta_scale[layer], vectors.h[layer]
    size = np.where(np.isfinite(dm), np.abs(dm), np.inf)
    order = np.argsort(-size, kind="stable")
    patched = ~(np.isnan(h) & np.isnan(dm))
    return [
        Coordinate(
            int(j),
            float(h[j]),
            float(vectors.delta_v[layer, j]),
            float(vectors.scale[layer, j]),
            float(dm[j]),
            bool(vectors.scale[layer, j] == 0),
        )
        for j in order[patched[order]][:n]
    ]


def coordinates(run: Run, step: int, layer: int, variant: int, theme: Theme = LIGHT) -> FigureCard:
    """|h_j| against |dm_j| of one layer, token and variant on log-log axes, the worst ten named."""
    text = run.token(step)[4]
    name = label(run.variants[variant], run.variants)
    title = f"Layer {layer}, token {step} {quoted(text)}, {name}: where it blows up"
    figure = blank(
        theme, height=HEIGHT, x_title="|h|, the denominator", y_title="|Δm|, the change of the scale"
    )
    vectors = run.vectors(step, variant)
    if vectors is None:
        reason = (
            "The coordinates of this token were not kept; the oldest are dropped once their memory is full."
        )
        return FigureCard(note(figure, theme, "coordinates not kept"), title, reason, reason, {})
    if np.isnan(vectors.h[layer]).all():
        reason = (
            f"Layer {layer} is not patched; the first patched layer is {run.variants[variant].first_layer}."
        )
        return FigureCard(note(figure, theme, "layer not patched"), title, reason, reason, {})
    h, dm = (np.abs(a[layer].astype(np.float64)) for a in (vectors.h, vectors.delta_scale))
    dead = vectors.scale[layer] == 0
    frame = Frame.around(h, dm)
    product = "|Δv|" if run.variants[variant].update == "direct" else "|h·Δm|"
    worst = worst_table(vectors, layer)
    _add_products(figure, frame, h, dm, [c.j for c in worst], product, theme)
    style = variant_style(run.variants[variant], variant)
    _add_points(figure, frame, vectors, layer, ~dead, "live", style.color, "circle")
    _add_points(figure, frame, vectors, layer, dead, "dead", theme.alarm, "diamond-open")
    _name_worst(figure, frame, h, dm, worst, theme)
    _finish(figure, frame)
    alt = _alt(title, h, dm, int(dead.sum()), worst)
    return FigureCard(figure, title, _caption(h, dm, dead, product), alt, _table(vectors, layer, dead))


def _add_products(
    figure: go.Figure, frame: Frame, h: Floats, dm: Floats, named: list[int], symbol: str, theme: Theme
) -> None:
    """Lines of slope -1 on which |h| times |dm| is one power of ten, each named where there is room."""
    low, high = decades(h * dm)
    step = max(1, round((high - low) / 4))
    (x0, x1), (y0, y1) = frame.x, frame.y
    points = frame.share(*frame.place(h, dm))
    taken = np.vstack([points, points[named] + np.array([LABEL_WIDTH / 2, 0])])
    for exponent in range(int(np.ceil(low)), int(np.floor(high)) + 1, step):
        start, end = max(x0, exponent - y1), min(x1, exponent - y0)
        if start >= end:
            continue
        name = f"{symbol} = {power_of_ten(exponent)}"
        figure.add_trace(
            go.Scatter(
                x=[10**start, 10**end],
                y=[10 ** (exponent - start), 10 ** (exponent - end)],
                name=name,
                mode="lines",
                line={"color": theme.line, "width": 1.5},
                hoverinfo="skip",
                showlegend=False,
                meta="product",
            )
        )
        for x in np.linspace(start, end, 24)[1:-4]:
            spot = frame.share(np.array([10**x]), np.array([10 ** (exponent - x)]))[0]
            if is_free(spot, taken, before=0):
                taken = np.vstack([taken, spot, spot + np.array([LABEL_WIDTH, 0])])
                figure.add_annotation(
                    x=x, y=exponent - x, text=name, showarrow=False, xanchor="left", yanchor="bottom",
                    xshift=4, font={"size": 12, "color": theme.soft},
                )  # fmt: skip
                break


def _add_points(
    figure: go.Figure,
    frame: Frame,
    vectors: LayerVectors,
    layer: int,
    chosen: NDArray[np.bool_],
    name: str,
    colour: str,
    symbol: str,
) -> None:
    js = np.flatnonzero(chosen)
    if not len(js):
        return
    columns = (vectors.h, vectors.delta_v, vectors.scale, vectors.delta_scale)
    rows = np.stack([a[layer, js] for a in columns]).T.astype(np.float64)
    x, y = frame.place(np.abs(rows[:, 0]), np.abs(rows[:, 3]))
    dead = name == "dead"
    figure.add_trace(
        go.Scatter(
            x=x,
            y=y,
            name=name,
            mode="markers",
            marker={
                "symbol": symbol,
                "color": colour,
                "size": 11 if dead else 7,
                "opacity": 1 if dead else 0.6,
                "line": {"width": 2.2 if dead else 0, "color": colour},
            },
            customdata=[[int(j), *(sci(v) for v in row)] for j, row in zip(js, rows.tolist(), strict=True)],
            hovertemplate="<b>coordinate %{customdata[0]}</b>" + (" (dead)" if dead else "") + "<br>"
            "h = %{customdata[1]}<br>Δv = %{customdata[2]}<br>m = %{customdata[3]}<br>Δm = %{customdata[4]}"
            "<extra></extra>",
            meta="points",
        )
    )


def _name_worst(
    figure: go.Figure, frame: Frame, h: Floats, dm: Floats, worst: list[Coordinate], theme: Theme
) -> None:
    """Each one's number beside its point, or in a column at the right where others are in the way."""
    everyone = frame.share(*frame.place(h, dm))
    drawn = [c for c in worst if np.isfinite(c.h) and np.isfinite(c.delta_m)]
    rivals = everyone[[c.j for c in drawn]]
    lowest_used = 1.1
    for c in sorted(drawn, key=lambda c: -everyone[c.j][1]):
        across, up = everyone[c.j]
        others = np.delete(everyone, c.j, axis=0)
        crossed = (
            (rivals[:, 0] < across + LABEL_WIDTH) & (np.abs(rivals[:, 1] - up) < 2 * LABEL_GAP)
        ).sum() > 1
        beside = not crossed and is_free(everyone[c.j], others, before=-1e-9)
        column_up = up if beside else min(up, lowest_used - LABEL_GAP)
        lowest_used = lowest_used if beside else column_up
        x, y = frame.at(across, up)
        tail_x, tail_y = frame.at(across + 0.03 if beside else NAMES_AT, column_up)
        figure.add_annotation(
            x=x, y=y, ax=tail_x, ay=tail_y, axref="x", ayref="y", text=f"{c.j}{' (dead)' if c.dead else ''}",
            xanchor="left", showarrow=True, arrowhead=0, arrowwidth=1, arrowcolor=theme.line, standoff=5,
            font={"size": 13, "color": theme.ink},
        )  # fmt: skip


def _finish(figure: go.Figure, frame: Frame) -> None:
    common = {
        "type": "log",
        "exponentformat": "power",
        "nticks": 7,
        "tickfont_size": 11,
        "minorloglabels": "none",
        "showgrid": False,
    }
    figure.update_xaxes(range=frame.x, **common)
    figure.update_yaxes(range=frame.y, **common)
    figure.update_layout(showlegend=False)


def _caption(h: Floats, dm: Floats, dead: NDArray[np.bool_], product: str) -> str:
    line = (
        "along a line |Δv| is the same, so the smaller the denominator the larger the change: slope −1"
        if product == "|Δv|"
        else "along a line the change times its denominator is the same: slope −1"
    )
    zeros = int(((h == 0) | (dm == 0)).sum())
    lost = int((~np.isfinite(h) | ~np.isfinite(dm)).sum())
    n = int(dead.sum())
    return join(
        [
            f"Each dot is a coordinate; {line}.",
            f"◇ {counted(n, 'coordinate')} {'is' if n == 1 else 'are'} dead (m = 0)." if n else "",
            f"{counted(zeros, 'coordinate')} with an exact 0 {'lies' if zeros == 1 else 'lie'} on the edge."
            if zeros
            else "",
            f"{counted(lost, 'coordinate')} not finite and left out." if lost else "",
        ]
    )


def _alt(title: str, h: Floats, dm: Floats, dead: int, worst: list[Coordinate]) -> str:
    first = worst[0]
    return (
        f"{title}. {counted(len(h), 'coordinate')}, {dead} dead, log-log;"
        f" |h| from {_range(h)}, |Δm| from {_range(dm)}."
        f" Worst: coordinate {first.j}, h = {sci(first.h)}, Δm = {sci(first.delta_m)}."
    )


def _range(values: Floats) -> str:
    finite = values[np.isfinite(values)]
    return f"{sci(float(finite.min()))} to {sci(float(finite.max()))}" if finite.size else "nothing finite"


def _table(vectors: LayerVectors, layer: int, dead: NDArray[np.bool_]) -> Table:
    return {
        "coordinate": list(range(len(dead))),
        "h": column(vectors.h[layer]),
        "delta_v": column(vectors.delta_v[layer]),
        "m": column(vectors.scale[layer]),
        "delta_m": column(vectors.delta_scale[layer]),
        "dead": dead.tolist(),
    }
