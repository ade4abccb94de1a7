"""Three line charts of a run: largest logit gap, total-variation distance, patch over scale vector."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import plotly.graph_objects as go

from ctxviz.figures.card import LOG_TICKS, FigureCard, Table, blank, column, join, new_texts, note, tick_step
from ctxviz.figures.logaxis import missing
from ctxviz.figures.lost import mark_lost, reach
from ctxviz.figures.metrics import Values, largest_scale_ratio
from ctxviz.figures.palette import FLOOR_STYLES, LIGHT, UNPATCHED_STYLES, Theme, label, variant_style
from ctxviz.figures.subject import of_run
from ctxviz.figures.text import counted, plain, quoted, sci
from ctxviz.no_number import is_measured, only_numbers
from ctxviz.run import Run

HEIGHT: Final = 300
ZERO_ROW: Final = 0.6
"""Decades below the smallest power of ten shown at which exact zeros are drawn."""
MARKERS_SHOWN: Final = 14
NOISE: Final = "noise floor"
NAME_ROOM: Final = 0.1
"""Share of the plot's height that the name of a reference line takes."""


@dataclass(frozen=True, slots=True)
class _Chart:
    title: str
    axis: str
    meaning: str
    column: str
    values: Callable[[Run, int], Values]
    noise: str | None
    unpatched: str | None


def _metric(name: str) -> Callable[[Run, int], Values]:
    return lambda run, variant: run.series(name, variant)


_LOGIT_GAP = _Chart(
    "Largest logit gap",
    "max |Δ logit|",
    "The largest difference of a logit between the model with context and the patched one; lower is closer.",
    "logit_linf",
    _metric("logit_linf"),
    "noise_floor_linf",
    "unpatched_linf",
)
_TVD = _Chart(
    "Total-variation distance",
    "TVD",
    "Half the summed difference of the two next-token distributions: 0 is the same, 1 is disjoint.",
    "tvd",
    _metric("tvd"),
    "noise_floor_tvd",
    "unpatched_tvd",
)
_PATCH = _Chart(
    "Patch over scale vector",
    "‖Δm‖ / ‖m‖",
    "The change of the scale vector beside the vector itself, in its largest layer; above 1 it outweighs it.",
    "scale_ratio",
    largest_scale_ratio,
    None,
    None,
)


@of_run("logit-gap")
def logit_gap_lines(run: Run, theme: Theme = LIGHT, *, legend: bool = True) -> FigureCard:
    """Largest logit gap against the token, one trace per variant, with the noise floor."""
    return _lines(run, _LOGIT_GAP, theme, legend)


@of_run("tvd")
def tvd_lines(run: Run, theme: Theme = LIGHT, *, legend: bool = True) -> FigureCard:
    """Total-variation distance against the token, with the noise floor and the unpatched model."""
    return _lines(run, _TVD, theme, legend)


@of_run("patch-ratio")
def patch_lines(run: Run, theme: Theme = LIGHT, *, legend: bool = True) -> FigureCard:
    """||dm||/||m||, largest over layers, against the token."""
    return _lines(run, _PATCH, theme, legend)


def _lines(run: Run, chart: _Chart, theme: Theme, legend: bool) -> FigureCard:
    n = len(run)
    figure = blank(theme, height=HEIGHT + (60 if legend else 0), x_title="token", y_title=chart.axis)
    names = [label(v, run.variants) for v in run.variants]
    if n == 0:
        return FigureCard(
            note(figure, theme, "no token yet"), chart.title, chart.meaning, "No token yet.", {}
        )
    texts = new_texts(run, n)
    series = {name: chart.values(run, i)[:n] for i, name in enumerate(names)}
    references = _references(run, chart, n)
    named = {f"{kind} {dtype}": values for (kind, dtype), values in references.items()}
    floor = _zero_row([*series.values(), *references.values()])
    shown = [plain(text) for text in texts]
    for i, (name, values) in enumerate(series.items()):
        figure.add_trace(_variant_trace(run, i, name, values, floor, shown, chart.axis))
    for (kind, dtype), values in references.items():
        figure.add_trace(_reference_trace(kind, dtype, values, floor, theme))
    _add_marks(figure, run, series, floor, theme)
    _add_zeros(figure, {**series, **named}, floor, theme)
    drawn = [*series.values(), *references.values()]
    _finish(figure, drawn, floor, n, legend)
    _name_references(figure, named, theme)
    lost = mark_lost(figure, theme, drawn)
    table: Table = {"step": list(range(n)), "token": list(texts)}
    table |= {f"{chart.column} {name}": column(values) for name, values in series.items()}
    table |= {name: column(values) for name, values in named.items()}
    return FigureCard(
        figure, chart.title, _caption(run, chart, series, named, lost), _alt(chart, series, texts), table
    )


def _references(run: Run, chart: _Chart, n: int) -> dict[tuple[str, str], Values]:
    """The reference lines that were measured at all, by kind and dtype."""
    kinds = ((NOISE, chart.noise), ("no patch", chart.unpatched))
    found = {
        (kind, dtype): run.reference(metric, dtype)[:n]
        for kind, metric in kinds
        if metric is not None
        for dtype in run.dtypes
    }
    return {key: values for key, values in found.items() if is_measured(values).any()}


def _zero_row(columns: list[Values]) -> float:
    """Where exact zeros are drawn: a stated row below everything that has a logarithm."""
    values = np.concatenate(columns)
    positive = values[np.isfinite(values) & (values > 0)]
    lowest = np.floor(np.log10(positive.min())) if positive.size else -8
    return float(10 ** (lowest - ZERO_ROW))


def _drawn(values: Values, floor: float) -> Values:
    return np.where(values == 0, floor, np.where(np.isfinite(values), values, np.nan))


def _variant_trace(
    run: Run, index: int, name: str, values: Values, floor: float, shown: list[str], axis: str
) -> go.Scatter:
    style = variant_style(run.variants[index], index)
    return go.Scatter(
        x=np.arange(len(values)),
        y=_drawn(values, floor),
        name=name,
        mode="lines+markers",
        line={"color": style.color, "dash": style.dash, "width": 2.2},
        marker={"symbol": style.symbol, "size": 7, "color": style.color, "maxdisplayed": MARKERS_SHOWN},
        customdata=[[text, sci(value)] for text, value in zip(shown, values.tolist(), strict=True)],
        hovertemplate=f"<b>{name}</b><br>token %{{x}} “%{{customdata[0]}}”<br>{axis} %{{customdata[1]}}"
        "<extra></extra>",
        meta="variant",
    )


def _reference_trace(kind: str, dtype: str, values: Values, floor: float, theme: Theme) -> go.Scatter:
    name = f"{kind} {dtype}"
    dash, width = (FLOOR_STYLES if kind == NOISE else UNPATCHED_STYLES)[dtype]
    return go.Scatter(
        x=np.arange(len(values)),
        y=np.where(values > 0, _drawn(values, floor), np.nan),
        name=name,
        mode="lines",
        connectgaps=True,
        line={"color": theme.soft, "dash": dash, "width": width},
        customdata=[sci(value) for value in values.tolist()],
        hovertemplate=f"{name}<br>token %{{x}}: %{{customdata}}<extra></extra>",
        meta="reference",
    )


def _name_references(figure: go.Figure, references: dict[str, Values], theme: Theme) -> None:
    """Each reference line's name at its right end; names of lines that lie close are moved apart."""
    low, high = figure.layout.yaxis.range
    ends: list[tuple[float, int, str]] = []
    for name, values in references.items():
        at = np.flatnonzero(np.isfinite(values) & (values > 0))
        if len(at):
            ends.append((float(np.log10(values[at[-1]])), int(at[-1]), name))
    room = NAME_ROOM * (high - low)
    highest = high
    for height, x, name in sorted(ends, reverse=True):
        highest = min(height, highest - room)
        figure.add_annotation(
            x=x, y=highest, text=name, showarrow=False, xanchor="right", yanchor="bottom", yshift=1,
            font={"size": 14, "color": theme.soft}, bgcolor=theme.background, opacity=0.85,
            borderpad=0, name="reference",
        )  # fmt: skip


def _add_marks(figure: go.Figure, run: Run, series: dict[str, Values], floor: float, theme: Theme) -> None:
    """A cross where a variant said another token, an approximate sign where that was a tie."""
    marks = (("differs", "✗", "middle center"), ("tie", "≈", "top center"))
    for kind, glyph, place in marks:
        xs, ys = [], []
        for i, values in enumerate(series.values()):
            tie, match = run.series("tie", i)[: len(values)], run.series("match", i)[: len(values)]
            hit = np.flatnonzero((match == 0) & ((tie == 1) == (kind == "tie")) & np.isfinite(values))
            xs.extend(hit.tolist())
            ys.extend(_drawn(values, floor)[hit].tolist())
        if xs:
            figure.add_trace(
                go.Scatter(
                    x=xs,
                    y=ys,
                    name=kind,
                    mode="text",
                    text=[f"<b>{glyph}</b>"] * len(xs),
                    textposition=place,
                    textfont={"size": 20, "color": theme.ink},
                    cliponaxis=False,
                    hoverinfo="skip",
                    showlegend=False,
                    meta=kind,
                )
            )


def _add_zeros(figure: go.Figure, columns: dict[str, Values], floor: float, theme: Theme) -> None:
    xs = np.concatenate([np.flatnonzero(values == 0) for values in columns.values()])
    if not len(xs):
        return
    figure.add_hline(y=floor, line={"color": theme.line, "width": 1, "dash": "dot"})
    figure.add_annotation(
        text="exactly 0", xref="paper", x=1, y=np.log10(floor), xanchor="right", yanchor="bottom",
        showarrow=False, font={"size": 14, "color": theme.soft},
    )  # fmt: skip
    figure.add_trace(
        go.Scatter(
            x=xs,
            y=np.full(len(xs), floor),
            name="exactly 0",
            mode="markers",
            marker={"symbol": "line-ew-open", "size": 13, "color": theme.ink, "line": {"width": 2}},
            hoverinfo="skip",
            showlegend=False,
            meta="zero",
        )
    )


def _finish(figure: go.Figure, columns: list[Values], floor: float, n: int, legend: bool) -> None:
    values = np.concatenate(columns)
    positive = values[np.isfinite(values) & (values > 0)]
    low = np.log10(floor) - 0.3 if (values == 0).any() else np.log10(positive.min(initial=1e-1)) - 0.3
    high = max(np.log10(positive.max(initial=floor)) + 0.5, low + 1)
    figure.update_yaxes(range=[low, high], **LOG_TICKS)
    figure.update_xaxes(range=[-0.5, max(n, 2) - 0.5], tick0=0, dtick=tick_step(n, 8))
    figure.update_layout(
        showlegend=legend,
        legend={"orientation": "h", "x": 0, "y": -0.26, "yanchor": "top", "xanchor": "left"},
    )


def _caption(
    run: Run, chart: _Chart, series: dict[str, Values], references: dict[str, Values], lost: str
) -> str:
    n = len(next(iter(series.values())))
    zeros = sum(int((values == 0).sum()) for values in (*series.values(), *references.values()))
    drawn = np.stack([np.isfinite(values) for values in series.values()])
    match = np.stack([run.series("match", i)[:n] for i in range(len(series))])
    tie = np.stack([run.series("tie", i)[:n] for i in range(len(series))])
    marks = [
        "✗ marks another token." if ((match == 0) & (tie == 0) & drawn).any() else "",
        "≈ marks a tie inside the noise floor." if (tie == 1).any() else "",
    ]
    one = len(series) == 1 and not any((values == 0).any() for values in references.values())
    return join(
        [
            chart.meaning,
            f"{_are(zeros, 'token' if one else 'value')} exactly 0." if zeros else "",
            missing(list(series.values())),
            lost,
            *marks,
        ]
    )


def _are(n: int, noun: str) -> str:
    return f"{counted(n, noun)} {'is' if n == 1 else 'are'}"


def _alt(chart: _Chart, series: dict[str, Values], texts: list[str]) -> str:
    kinds = counted(len(series), "variant")
    parts = [f"{chart.title} ({chart.axis}) of {kinds} over {counted(len(texts), 'token')}, logarithmic."]
    for name, values in series.items():
        finite = only_numbers(values)
        if np.isnan(finite).all():
            parts.append(f"{name}: {reach(values)}.")
            continue
        worst = int(np.nanargmax(finite))
        parts.append(f"{name}: {reach(values)}, largest at token {worst} {quoted(texts[worst])}.")
    return " ".join(parts)
