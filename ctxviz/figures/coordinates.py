"""One layer's coordinates at one token: the denominator |h_j| against the change |dm_j| it causes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from ctxviz.alarm_cells import BLOW_UP
from ctxviz.figures.card import FigureCard, blank, join
from ctxviz.figures.cell import (
    Cell,
    Missing,
    dead_sentence,
    edge_sentences,
    epsilon_sentence,
    extent,
    find,
    where,
)
from ctxviz.figures.frame import LABEL_WIDTH, NAMES_AT, Floats, Frame, decades, is_free
from ctxviz.figures.palette import LIGHT, Theme, variant_style
from ctxviz.figures.scatter import Look, add_flags, add_points, dead_look, log_axes, name_points
from ctxviz.figures.subject import of_run
from ctxviz.figures.text import counted, power_of_ten, sci
from ctxviz.records import LayerVectors
from ctxviz.run import Run
from ctxviz.settings import EPSILONS

HEIGHT: Final = 420
PRODUCT_WIDTH: Final = 0.24
"""Room that the name of a line takes, as a share of the plot's width."""
WORST: Final = 10
_CAPTION: Final = "Each dot is a coordinate: small denominators on the left, large changes at the top."


@dataclass(frozen=True, slots=True)
class Coordinate:
    """One row of the worst table; infinite where it is no number."""

    j: int
    h: float
    delta_v: float
    m: float
    delta_m: float
    dead: bool


def worst_table(vectors: LayerVectors, layer: int, n: int = WORST) -> list[Coordinate]:
    """The ``n`` coordinates of a layer with the largest |dm_j|; those with a denominator or change that is no
    number come first. None if it is unpatched."""
    kept = (vectors.h, vectors.delta_v, vectors.scale, vectors.delta_scale)
    h, delta_v, m, delta_m = (array[layer] for array in kept)
    return _worst(h, delta_v, m, delta_m, n)


def _worst(
    h: NDArray[Any], delta_v: NDArray[Any], m: NDArray[Any], delta_m: NDArray[Any], n: int
) -> list[Coordinate]:
    size = np.where(np.isfinite(h) & np.isfinite(delta_m), np.abs(delta_m), np.inf)
    order = np.argsort(-size, kind="stable")
    patched = ~(np.isnan(h) & np.isnan(delta_m))
    return [
        Coordinate(int(j), float(h[j]), float(delta_v[j]), float(m[j]), float(delta_m[j]), bool(m[j] == 0))
        for j in order[patched[order]][:n]
    ]


@of_run("coordinates")
def coordinates(run: Run, step: int, layer: int, variant: int, theme: Theme = LIGHT) -> FigureCard:
    """|h_j| against |dm_j| of one layer, token and variant on log-log axes, the worst ten named."""
    title = f"{where(run, step, layer, variant)}: {_what(run, step, layer, variant)}"
    figure = blank(
        theme, height=HEIGHT, x_title="|h|, the denominator", y_title="|Δm|, the change of the scale"
    )
    cell = find(run, step, layer, variant)
    if isinstance(cell, Missing):
        return cell.card(figure, title, theme)
    h, dm = np.abs(cell.h), np.abs(cell.delta_m)
    frame = Frame.around(h, dm)
    at = frame.place(h, dm)
    product = "|Δv|" if cell.variant.update == "direct" else "|h·Δm|"
    worst = _worst(cell.h, cell.delta_v, cell.m, cell.delta_m, WORST)
    line = _add_epsilon(figure, frame, cell, theme)
    busy = np.vstack([frame.share(*at), _along_epsilon(frame, cell)]) if line else frame.share(*at)
    _add_products(figure, frame, h * dm, busy, [c.j for c in worst], product, theme)
    if line:
        figure.update_layout(margin={"t": 30})
    hover = {"h": cell.h, "Δv": cell.delta_v, "m": cell.m, "Δm": cell.delta_m}
    live = Look("live", variant_style(cell.variant, variant).color)
    for chosen, look in ((~cell.dead, live), (cell.dead, dead_look(theme))):
        add_points(figure, at, cell, chosen, look, hover)
    flags = add_flags(figure, at, cell, theme)
    finite = (c for c in worst if np.isfinite(c.h) and np.isfinite(c.delta_m))
    name_points(figure, frame, at, {c.j: f"{c.j}{' ◇' if c.dead else ''}" for c in finite}, theme)
    log_axes(figure, frame)
    caption = join([_CAPTION, dead_sentence(cell), *flags, edge_sentences(h, dm)])
    more = join([_slope(product), epsilon_sentence(cell, line)])
    return FigureCard(figure, title, caption, _alt(title, h, dm, cell, worst[0]), cell.table(), more)


def _what(run: Run, step: int, layer: int, variant: int) -> str:
    """A blow-up is called one where the alarm of that name fires, or where the ratio is no number."""
    ratio = float(run.field("scale_ratio", variant)[layer, step])
    return "where it blows up" if ratio > BLOW_UP else "changes and their denominators"


def _add_epsilon(figure: go.Figure, frame: Frame, cell: Cell, theme: Theme) -> bool:
    """A vertical line at the epsilon of the dtype; False where it lies outside what is drawn."""
    epsilon = EPSILONS[cell.variant.dtype]
    at = float(np.log10(epsilon))
    left = frame.zero_h if (cell.h == 0).any() else frame.x[0]
    if not left < at < frame.x[1]:
        return False
    figure.add_shape(
        type="line", x0=epsilon, x1=epsilon, y0=0, y1=1, yref="paper", layer="below", name="epsilon",
        line={"color": theme.soft, "width": 1.2, "dash": "4px,4px"},
    )  # fmt: skip
    figure.add_annotation(
        x=at, y=1, yref="paper", text=f"ε {cell.variant.dtype}", showarrow=False, yanchor="bottom",
        yshift=8, font={"size": 14, "color": theme.soft},
    )  # fmt: skip
    return True


def _along_epsilon(frame: Frame, cell: Cell) -> Floats:
    """Places along the epsilon's line, close enough together that no label fits between."""
    up = np.linspace(0, 1, 40)
    x = np.full(len(up), EPSILONS[cell.variant.dtype])
    across = frame.share(x, np.ones(len(up)))[:, 0]
    return np.stack([across, up], axis=1)


def _add_products(
    figure: go.Figure,
    frame: Frame,
    products: Floats,
    busy: Floats,
    named: list[int],
    symbol: str,
    theme: Theme,
) -> None:
    """Lines of slope -1 on which |h| times |dm| is one power of ten, each named where nothing is drawn.

    ``busy`` are places in use, the points first, as shares of the plot.
    """
    low, high = decades(products)
    step = max(1, round((high - low) / 4))
    (x0, x1), (y0, y1) = frame.x, frame.y
    taken = np.vstack([busy, busy[named] + np.array([LABEL_WIDTH / 2, 0])])
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
            if spot[0] < NAMES_AT - PRODUCT_WIDTH and is_free(spot, taken, 0, PRODUCT_WIDTH):
                ends = np.linspace(0, PRODUCT_WIDTH, 5)[:, None] * np.array([1, 0])
                taken = np.vstack([taken, spot + ends])
                figure.add_annotation(
                    x=x, y=exponent - x, text=name, showarrow=False, xanchor="left", yanchor="bottom",
                    xshift=4, font={"size": 14, "color": theme.soft},
                )  # fmt: skip
                break


def _slope(product: str) -> str:
    if product == "|Δv|":
        return (
            "Along a line |Δv| is the same, so the smaller the denominator the larger the change: slope −1."
        )
    return "Along a line the change times its denominator is the same: slope −1."


def _alt(title: str, h: Floats, dm: Floats, cell: Cell, first: Coordinate) -> str:
    return (
        f"{title}. {counted(len(h), 'coordinate')}, {int(cell.dead.sum())} dead, log-log;"
        f" |h| from {extent(h)}, |Δm| from {extent(dm)}."
        f" Worst: coordinate {first.j}, h = {sci(first.h)}, Δm = {sci(first.delta_m)}."
    )
