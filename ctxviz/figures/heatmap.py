"""Layers x tokens of one per-layer metric, on a logarithmic cividis scale."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import plotly.graph_objects as go

from ctxviz.figures.card import FigureCard, blank, column, join, new_texts, note, some_ticks
from ctxviz.figures.lost import reach
from ctxviz.figures.metrics import METRICS, Metric, Values, metric_table
from ctxviz.figures.palette import CIVIDIS, LIGHT, Theme, label
from ctxviz.figures.subject import of_run
from ctxviz.figures.text import counted, plain, power_of_ten, quoted, sci
from ctxviz.no_number import NO_NUMBER, NOT_MEASURED, is_lost, only_numbers
from ctxviz.run import Run

MANY_CELLS: Final = 4000
"""Above this many marks a figure is drawn with WebGL, one node for all of them."""
FEW: Final = 64
"""Tokens or layers up to which cells stand apart and every differing token is named."""
TICK_CHARACTERS: Final = 11
ON_BRIGHT, ON_DARK = "#000000", "#ffffff"
"""Glyphs on a cell; the field looks the same in both themes."""
SLACK: Final = 1e-9
"""Decades by which rounding may put the field's own extremes past its scale."""


@of_run("heatmap")
def heatmap(
    run: Run,
    variant: int,
    metric: str = "h_abs_min",
    theme: Theme = LIGHT,
    *,
    limits: tuple[float, float] | None = None,
    selected: tuple[int, int] | None = None,
    clickable: bool = True,
) -> FigureCard:
    """One METRICS quantity of one variant, layers upwards and tokens to the right.

    ``limits`` fixes the scale's ends (both above 0), for example to compare variants; values past them are
    marked. ``selected`` is a (step, layer) to outline. ``clickable`` lays an unseen point with customdata
    ``[step, layer, value, token]`` over every cell, since a click on a heatmap does not reach the page.
    """
    about, n = METRICS[metric], len(run)
    figure = blank(
        theme, height=int(np.clip(170 + 17 * run.model.n_layers, 300, 720)), x_title="", y_title="layer"
    )
    title = f"{about.title}, by layer and token"
    if n == 0:
        return FigureCard(note(figure, theme, "no token yet"), title, about.meaning, "No token yet.", {})
    values = metric_table(run, variant, metric)[:, :n]
    texts = new_texts(run, n)
    low, high = _log_limits(values, limits)
    figure.add_trace(_field(values, low, high, about, theme))
    counts = _add_glyphs(figure, values, low, high, run.variants[variant].first_layer, theme)
    if clickable:
        figure.add_trace(_overlay(values, texts, about))
    if selected is not None:
        _outline(figure, selected, theme)
    _axes(figure, run, variant, texts)
    name = label(run.variants[variant], run.variants)
    table = {
        "step": np.tile(np.arange(n), len(values)).tolist(),
        "token": texts * len(values),
        "layer": np.repeat(np.arange(len(values)), n).tolist(),
        metric: column(values.astype(np.float32).ravel()),
    }
    caption = join([about.meaning, f"Drawn for {name}.", *counts])
    return FigureCard(figure, title, caption, _alt(values, about, name, texts), table)


def _log_limits(values: Values, limits: tuple[float, float] | None) -> tuple[float, float]:
    if limits is not None:
        return float(np.log10(limits[0])), float(np.log10(limits[1]))
    positive = values[np.isfinite(values) & (values > 0)]
    if not positive.size:
        return -1.0, 0.0
    low, high = np.log10(positive.min()), np.log10(positive.max())
    return float(low), float(max(high, low + 0.1))


def _logs(values: Values) -> Values:
    usable = np.isfinite(values) & (values > 0)
    return np.where(usable, np.log10(np.where(usable, values, 1)), np.nan)


def _field(values: Values, low: float, high: float, about: Metric, theme: Theme) -> go.Heatmap:
    step = max(1, round((high - low) / 5))
    decades = [e for e in range(int(np.ceil(low)), int(np.floor(high)) + 1) if e % step == 0]
    ticks = {float(e): power_of_ten(e) for e in decades} if len(decades) > 1 else {}
    ticks = ticks or {end: sci(float(10**end)) for end in (low, high)}
    gap = 1 if max(values.shape) <= FEW else 0
    return go.Heatmap(
        z=_logs(values),
        zmin=low,
        zmax=high,
        colorscale=list(CIVIDIS),
        hoverinfo="skip",
        xgap=gap,
        ygap=gap,
        colorbar={
            "title": {"text": about.symbol, "side": "right", "font": {"size": 14, "color": theme.soft}},
            "tickvals": list(ticks),
            "ticktext": list(ticks.values()),
            "tickfont": {"size": 14, "color": theme.soft},
            "thickness": 14,
            "outlinewidth": 0,
            "len": 1,
            "xpad": 8,
            "ypad": 0,
        },
    )


def _add_glyphs(
    figure: go.Figure, values: Values, low: float, high: float, first_layer: int, theme: Theme
) -> list[str]:
    """A mark, besides the colour, on every cell the scale cannot tell; returns sentences that count them."""
    logs = _logs(values)
    unpatched = np.zeros(values.shape, bool)
    if first_layer and np.isnan(values[:first_layer]).all():
        unpatched[:first_layer] = True
        _name_band(figure, first_layer, values.shape[1], theme)
    past = (logs < low - SLACK) | (logs > high + SLACK)
    kinds = (
        ("exactly 0", "circle-open", values == 0, "○"),
        ("past the scale", "triangle-up-open", past, "△"),
        (NO_NUMBER, "x-thin-open", is_lost(values), "✕"),
        (NOT_MEASURED, "line-ew-open", np.isnan(values) & ~unpatched, "–"),
    )
    ground = np.where(np.isnan(logs), theme.ink, np.where(logs > (low + high) / 2, ON_BRIGHT, ON_DARK))
    sentences = []
    for name, symbol, cells, glyph in kinds:
        if not cells.any():
            continue
        layers, steps = np.nonzero(cells)
        trace = go.Scatter if len(layers) <= MANY_CELLS else go.Scattergl
        figure.add_trace(
            trace(
                x=steps,
                y=layers,
                name=name,
                mode="markers",
                marker={"symbol": symbol, "size": 8, "color": ground[cells].tolist(), "line": {"width": 1.6}},
                hoverinfo="skip",
                showlegend=False,
                meta="glyph",
            )
        )
        count = len(layers)
        sentences.append(f"{glyph} {counted(count, 'cell')} {'is' if count == 1 else 'are'} {name}.")
    return sentences


def _name_band(figure: go.Figure, first_layer: int, steps: int, theme: Theme) -> None:
    which = "layer 0 is" if first_layer == 1 else f"layers 0 to {first_layer - 1} are"
    figure.add_annotation(
        text=f"{which} not patched",
        x=(steps - 1) / 2,
        y=(first_layer - 1) / 2,
        showarrow=False,
        font={"size": 14, "color": theme.soft},
    )


def _overlay(values: Values, texts: list[str], about: Metric) -> go.Scatter | go.Scattergl:
    layers, steps = (index.ravel() for index in np.indices(values.shape))
    shown = [plain(text) for text in texts]
    # JSON has no number for what is none; its words stand beside it.
    data: list[list[Any]] = [
        [int(s), int(y), v if math.isfinite(v) else None, shown[s], sci(v)]
        for s, y, v in zip(steps, layers, values.astype(np.float32).ravel().tolist(), strict=True)
    ]
    trace = go.Scatter if values.size <= MANY_CELLS else go.Scattergl
    return trace(
        x=steps,
        y=layers,
        name="cells",
        mode="markers",
        marker={"symbol": "square", "size": 14, "opacity": 0},
        customdata=data,
        hovertemplate="layer %{customdata[1]}, token %{customdata[0]} “%{customdata[3]}”<br>"
        f"{about.symbol} = %{{customdata[4]}}<extra></extra>",
        showlegend=False,
        meta="cells",
    )


def _outline(figure: go.Figure, selected: tuple[int, int], theme: Theme) -> None:
    step, layer = selected
    for colour, width in ((theme.background, 5), (theme.ink, 2.5)):
        figure.add_shape(
            type="rect", x0=step - 0.5, x1=step + 0.5, y0=layer - 0.5, y1=layer + 0.5,
            line={"color": colour, "width": width}, fillcolor="rgba(0,0,0,0)",
        )  # fmt: skip


def _axes(figure: go.Figure, run: Run, variant: int, texts: list[str]) -> None:
    n = len(texts)
    match, tie = run.series("match", variant), run.series("tie", variant)
    marks = ["" if match[k] else "≈ " if tie[k] else "✗ " for k in range(n)]
    wanted = (
        sorted({*some_ticks(n), *(k for k in range(n) if marks[k] == "✗ ")}) if n <= FEW else some_ticks(n)
    )
    figure.update_xaxes(
        tickvals=wanted,
        ticktext=[marks[k] + plain(texts[k], TICK_CHARACTERS) for k in wanted],
        tickangle=-60 if n > 6 else 0,
        range=[-0.5, n - 0.5],
        showgrid=False,
    )
    layers = run.model.n_layers
    rows = some_ticks(layers, 10)
    figure.update_yaxes(
        tickvals=rows, ticktext=[str(r) for r in rows], range=[-0.5, layers - 0.5], showgrid=False
    )
    figure.update_layout(hoverdistance=30)


def _alt(values: Values, about: Metric, name: str, texts: list[str]) -> str:
    size = f"{counted(len(values), 'layer')} by {counted(len(texts), 'token')}"
    lost = is_lost(values)
    nowhere = ""
    if lost.any():
        step = int(lost.any(axis=0).argmax())
        layer = int(lost[:, step].argmax())
        nowhere = f" No number first in layer {layer} at token {step} {quoted(texts[step])}."
    finite = only_numbers(values)
    if np.isnan(finite).all():
        return f"{about.title} of {name} over {size}: {reach(values, 'cell')}.{nowhere}"
    find = np.nanargmin if about.small_is_bad else np.nanargmax
    layer, step = np.unravel_index(int(find(finite)), finite.shape)
    extreme = "smallest" if about.small_is_bad else "largest"
    return (
        f"{about.title} ({about.symbol}) of {name} over {size}, logarithmic, {reach(values, 'cell')};"
        f" {extreme} in layer {layer} at token {step} {quoted(texts[step])}.{nowhere}"
    )
