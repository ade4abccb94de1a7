"""One coordinate over all layers and tokens: its denominator and the change of its scale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import plotly.graph_objects as go

from ctxviz.errors import SettingsError
from ctxviz.figures.card import FigureCard, blank, column, join, new_texts, note, some_ticks
from ctxviz.figures.frame import Floats
from ctxviz.figures.lost import reach
from ctxviz.figures.palette import CIVIDIS, LIGHT, Theme, label
from ctxviz.figures.subject import of_run
from ctxviz.figures.text import counted, equals, plain, power_of_ten, quoted, sci
from ctxviz.no_number import NO_NUMBER, is_lost, only_numbers
from ctxviz.records import Flags
from ctxviz.run import Run

CELL_GAPS_UP_TO: Final = 48
TICKS: Final = 16
BAR_SHARE: Final = 0.7
"""Share of a panel's width that its colour bar takes, above it; the panel's name stands before it."""
MANY_MARKS: Final = 2000
"""Above this many marks a panel draws them with WebGL."""


@dataclass(frozen=True, slots=True)
class _Panel:
    """One of the two heatmaps: its symbol, values [n_layers, steps], and where it stands."""

    symbol: str
    values: Floats
    axis: str
    domain: tuple[float, float]


@of_run("everywhere")
def everywhere(run: Run, coordinate: int, variant: int, theme: Theme = LIGHT) -> FigureCard:
    """|h_j| (left) and |dm_j| (right) of one coordinate, layers upwards and tokens to the right.

    Raises:
        SettingsError: the model has no such coordinate.
    """
    if not 0 <= coordinate < run.model.width:
        raise SettingsError(
            f"There is no coordinate {coordinate}; choose one from 0 to {run.model.width - 1}."
        )
    n, layers = len(run), run.model.n_layers
    name = label(run.variants[variant], run.variants)
    title = f"Coordinate {coordinate} in every layer and token, {name}"
    figure = blank(theme, height=int(np.clip(190 + 17 * layers, 300, 720)), x_title="", y_title="layer")
    kept = np.array([run.vectors(step, variant) is not None for step in range(n)], bool)
    if not kept.any():
        reason = "No token yet." if n == 0 else "The coordinates of no token were kept."
        return FigureCard(note(figure, theme, reason[:-1].lower()), title, reason, reason, {})
    h, change = _gather(run, coordinate, variant, n)
    patched = np.arange(layers) >= run.variants[variant].first_layer
    panels = _Panel("|h|", h, "", (0.0, 0.46)), _Panel("|Δm|", change, "2", (0.54, 1.0))
    texts = new_texts(run, n)
    _axes(figure, panels, texts, layers)
    counts = [_draw(figure, panel, kept, patched, texts, theme) for panel in panels]
    caption = join(
        [
            "Left its denominator, dark where small; right the change of its scale, bright where large.",
            *_sentences(counts, kept, run.variants[variant].first_layer),
        ]
    )
    table = {
        "step": np.tile(np.arange(n), layers).tolist(),
        "token": texts * layers,
        "layer": np.repeat(np.arange(layers), n).tolist(),
        "abs_h": column(h.astype(np.float32).ravel()),
        "abs_delta_m": column(change.astype(np.float32).ravel()),
    }
    return FigureCard(figure, title, caption, _alt(title, panels, texts), table)


def _gather(run: Run, coordinate: int, variant: int, n: int) -> tuple[Floats, Floats]:
    """|h_j| and |dm_j|, [n_layers, n]; NaN where not kept or not patched."""
    h, change = (np.full((run.model.n_layers, n), np.nan) for _ in range(2))
    for step in range(n):
        vectors = run.vectors(step, variant)
        if vectors is not None:
            h[:, step] = np.abs(vectors.h[:, coordinate])
            change[:, step] = np.abs(vectors.delta_scale[:, coordinate])
    return h, change


def _axes(figure: go.Figure, panels: tuple[_Panel, ...], texts: list[str], layers: int) -> None:
    n = len(texts)
    shown, rows = some_ticks(n, TICKS), some_ticks(layers, 10)
    left = figure.to_dict()["layout"]
    figure.update_layout(xaxis2=left["xaxis"], yaxis2=left["yaxis"], margin={"t": 56})
    figure.update_layout(yaxis2_title_text="")
    for panel in panels:
        figure.layout[f"xaxis{panel.axis}"].update(
            domain=panel.domain,
            anchor=f"y{panel.axis}",
            tickvals=shown,
            ticktext=[plain(texts[k], 11) for k in shown],
            tickangle=-60 if n > 6 else 0,
            range=[-0.5, n - 0.5],
        )
        figure.layout[f"yaxis{panel.axis}"].update(
            anchor=f"x{panel.axis}",
            tickvals=rows,
            ticktext=[str(row) for row in rows],
            range=[-0.5, layers - 0.5],
            showgrid=False,
        )


def _draw(
    figure: go.Figure, panel: _Panel, kept: Flags, patched: Flags, texts: list[str], theme: Theme
) -> dict[str, int]:
    """A panel's field, its name above, and a mark on every cell without a colour; returns their counts."""
    values = panel.values
    logs = np.log10(np.where(np.isfinite(values) & (values > 0), values, np.nan))
    figure.add_trace(_field(panel, logs, kept, patched, texts, theme))
    figure.add_annotation(
        text=panel.symbol, x=panel.domain[0], xref="paper", y=1, yref="paper", yanchor="bottom",
        xanchor="left", yshift=6, showarrow=False, font={"size": 14, "color": theme.ink},
    )  # fmt: skip
    known = patched[:, None] & kept[None, :]
    if not patched.all():
        first = int(patched.argmax()) if patched.any() else len(patched)
        figure.add_annotation(
            text="not patched", x=(len(texts) - 1) / 2, y=(first - 1) / 2, xref=f"x{panel.axis}",
            yref=f"y{panel.axis}", showarrow=False, font={"size": 14, "color": theme.soft},
        )  # fmt: skip
    kinds = {
        "zero": ("circle-open", values == 0),
        "not kept": ("line-ew-open", patched[:, None] & ~kept[None, :]),
        NO_NUMBER: ("x-thin-open", known & is_lost(values)),
    }
    for name, (symbol, cells) in kinds.items():
        _add_glyphs(figure, panel, name, symbol, cells, theme)
    return {name: int(cells.sum()) for name, (_, cells) in kinds.items()}


def _field(
    panel: _Panel, logs: Floats, kept: Flags, patched: Flags, texts: list[str], theme: Theme
) -> go.Heatmap:
    finite = logs[np.isfinite(logs)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (-1.0, 0.0)
    high = max(high, low + 0.1)
    step = max(1, round((high - low) / 2))
    decades = [e for e in range(int(np.ceil(low)), int(np.floor(high)) + 1) if e % step == 0]
    ticks = {float(e): power_of_ten(e) for e in decades} if len(decades) > 1 else {}
    ticks = ticks or {end: sci(float(10**end)) for end in (low, high)}
    gap = 1 if max(logs.shape) <= CELL_GAPS_UP_TO else 0
    return go.Heatmap(
        z=logs,
        zmin=low,
        zmax=high,
        colorscale=list(CIVIDIS),
        xaxis=f"x{panel.axis}",
        yaxis=f"y{panel.axis}",
        xgap=gap,
        ygap=gap,
        text=_hover_texts(panel, kept, patched, texts),
        hovertemplate="%{text}<extra></extra>",
        hoverongaps=True,
        colorbar={
            "orientation": "h",
            "x": panel.domain[1],
            "xanchor": "right",
            "y": 1,
            "yanchor": "bottom",
            "len": BAR_SHARE * (panel.domain[1] - panel.domain[0]),
            "tickvals": list(ticks),
            "ticktext": list(ticks.values()),
            "tickangle": 0,
            "tickfont": {"size": 14, "color": theme.soft},
            "thickness": 12,
            "outlinewidth": 0,
            "xpad": 0,
            "ypad": 6,
        },
        name=panel.symbol,
        meta="field",
    )


def _hover_texts(panel: _Panel, kept: Flags, patched: Flags, texts: list[str]) -> list[list[str]]:
    shown = [plain(text) for text in texts]

    def words(layer: int, step: int) -> str:
        if not patched[layer]:
            value = "not patched"
        elif not kept[step]:
            value = "not kept"
        else:
            value = equals(panel.symbol, float(panel.values[layer, step]))
        return f"layer {layer}, token {step} “{shown[step]}”<br>{value}"

    return [[words(layer, step) for step in range(len(texts))] for layer in range(len(patched))]


def _add_glyphs(figure: go.Figure, panel: _Panel, name: str, symbol: str, cells: Flags, theme: Theme) -> None:
    """Marks on the figure's own ground: none of these cells has a colour."""
    if not cells.any():
        return
    layers, steps = np.nonzero(cells)
    trace = go.Scatter if len(layers) <= MANY_MARKS else go.Scattergl
    figure.add_trace(
        trace(
            x=steps,
            y=layers,
            xaxis=f"x{panel.axis}",
            yaxis=f"y{panel.axis}",
            name=name,
            mode="markers",
            marker={
                "symbol": symbol,
                "size": 4 if symbol.startswith("line") else 7,
                "color": theme.soft,
                "line": {"width": 1.5},
            },
            hoverinfo="skip",
            showlegend=False,
            meta="glyph",
        )
    )


def _sentences(counts: list[dict[str, int]], kept: Flags, first_layer: int) -> list[str]:
    zeros = [count["zero"] for count in counts]
    lost = [count[NO_NUMBER] for count in counts]
    dropped = int((~kept).sum())
    were = "was" if dropped == 1 else "were"
    before = "layer 0 is" if first_layer == 1 else f"layers 0 to {first_layer - 1} are"
    return [
        f"○ exactly 0: {counted(zeros[0], 'cell')} on the left, {zeros[1]} on the right."
        if any(zeros)
        else "",
        f"✕ {NO_NUMBER}: {counted(lost[0], 'cell')} on the left, {lost[1]} on the right."
        if any(lost)
        else "",
        f"– {counted(dropped, 'token')} {were} not kept." if dropped else "",
        f"{before[0].upper()}{before[1:]} not patched." if first_layer else "",
    ]


def _alt(title: str, panels: tuple[_Panel, ...], texts: list[str]) -> str:
    parts = []
    for panel, word, find in zip(panels, ("smallest", "largest"), (np.nanargmin, np.nanargmax), strict=True):
        finite = only_numbers(panel.values)
        if np.isnan(finite).all():
            parts.append(f"{panel.symbol}: {reach(panel.values)}.")
            continue
        layer, step = np.unravel_index(int(find(finite)), finite.shape)
        parts.append(
            f"{panel.symbol} {reach(panel.values, 'cell')}, {word} in layer {layer} at token {step}"
            f" {quoted(texts[step])}."
        )
    return f"{title}, logarithmic. {' '.join(parts)}"
