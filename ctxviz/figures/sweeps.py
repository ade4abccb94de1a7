"""Many runs that differ in their rule and first patched layer, as lines, as a field, and as a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import plotly.graph_objects as go

from ctxviz.figures.card import FigureCard, Table, blank, column, join, note
from ctxviz.figures.heatmap import ON_BRIGHT, ON_DARK
from ctxviz.figures.logaxis import LogAxis, are, below_plot, exact_zeros, missing
from ctxviz.figures.lost import mark_lost
from ctxviz.figures.metrics import Values, largest_scale_ratio
from ctxviz.figures.palette import CIVIDIS, LIGHT, Theme, label, variant_style
from ctxviz.figures.statistics import quantile, wilson
from ctxviz.figures.subject import of_runs
from ctxviz.figures.text import counted, sci
from ctxviz.no_number import NO_NUMBER, NOT_MEASURED, is_lost, is_measured
from ctxviz.run import Run
from ctxviz.settings import Variant

Cells = Sequence[tuple[Variant, Run, int]]
"""Variant, the run it is in, and its index there."""
ONE_LINE: Final = 10
"""Columns up to which a cell's number stands on one line."""
SPREAD: Final = 0.08
"""Share of the gap between first layers by which lines are moved apart, to keep their whiskers apart."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """What a sweep draws: title, axis, a variant's values by token, and whether those are 0 or 1."""

    title: str
    axis: str
    values: Callable[[Run, int], Values]
    is_rate: bool = False


QUANTITIES: Final = {
    "match": Quantity("Same token", "share of tokens, %", lambda run, i: run.series("match", i), True),
    "tvd": Quantity("Total-variation distance", "TVD", lambda run, i: run.series("tvd", i)),
    "scale_ratio": Quantity("Patch over scale vector", "‖Δm‖ / ‖m‖, largest layer", largest_scale_ratio),
}


@dataclass(frozen=True, slots=True)
class _Point:
    """One rule from one first layer on: middle and ends (None where not measured, infinite where it is no
    number), over ``n`` tokens."""

    layer: int
    middle: float | None
    low: float | None
    high: float | None
    n: int


def _runs(cells: Cells) -> list[Run]:
    return [run for _, run, _ in cells]


@of_runs("by-first-layer", _runs)
def first_layer_lines(cells: Cells, quantity: str = "tvd", theme: Theme = LIGHT) -> FigureCard:
    """A quantity against the first patched layer, one line per rule and dtype, with whiskers.

    ``match`` has Wilson's 95 % interval, the others the median over tokens and the smallest and largest.
    """
    about, title = QUANTITIES[quantity], f"{QUANTITIES[quantity].title} by first patched layer"
    lead = _lead(about)
    figure = blank(theme, height=420, x_title="first patched layer", y_title=about.axis)
    pooled = _pooled(cells, about)
    rules = _rules(pooled)
    points = {rule: _points(pooled, rule, about) for rule in rules}
    if not any(point.middle is not None for line in points.values() for point in line):
        return _nothing(figure, theme, title, lead)
    ends = [_ends(line) for line in points.values()]
    axis = LogAxis.around(ends)
    layers = sorted({point.layer for line in points.values() for point in line})
    apart = SPREAD * min(np.diff(layers), default=1)
    middles: list[Values] = []
    places: list[Values] = []
    for i, (rule, line) in enumerate(points.items()):
        offset = (i - (len(points) - 1) / 2) * apart
        figure.add_trace(_line(rule, i, rules, line, about, axis, offset))
        middles.append(np.array([np.nan if p.middle is None else p.middle for p in line]))
        places.append(np.array([p.layer + offset for p in line]))
    if about.is_rate:
        least = min(point.low for line in points.values() for point in line if point.low is not None)
        figure.update_yaxes(range=[max(0, 100 * least - 3), 102])
    else:
        axis.apply(figure, theme)
    figure.update_xaxes(
        tickvals=layers, range=[layers[0] - 0.6, layers[-1] + max(0.6, 0.1 * (layers[-1] - layers[0]))]
    )
    below_plot(figure, -0.2)
    values = list(pooled.values())
    zeros = "" if about.is_rate else exact_zeros(values)
    lost = mark_lost(figure, theme, middles, places)
    tokens = sum(int(is_lost(v).sum()) for v in values)
    beyond = (
        f"{are(tokens, 'token')} {NO_NUMBER}; whiskers that reach up to it have no end." if tokens else ""
    )
    caption = join([lead, zeros, missing(values), lost, beyond, _ties(cells) if about.is_rate else ""])
    return FigureCard(figure, title, caption, _alt(title, points, rules, about), _line_table(points, rules))


@of_runs("first-layer-by-rule", _runs)
def first_layer_field(cells: Cells, quantity: str = "tvd", theme: Theme = LIGHT) -> FigureCard:
    """First patched layer by rule: the median over tokens (``match``: the share), numbers in the cells."""
    about, title = QUANTITIES[quantity], f"{QUANTITIES[quantity].title}, first patched layer by rule"
    lead = (
        "The share of tokens that are the baseline's; colours run from 0 to 100 %."
        if about.is_rate
        else "The median over tokens; bright is large."
    )
    pooled = _pooled(cells, about)
    rules = _rules(pooled)
    figure = blank(theme, height=150 + 52 * max(len(rules), 2), x_title="first patched layer", y_title="")
    layers = sorted({variant.first_layer for variant in pooled})
    middles = np.full((len(rules), len(layers)), np.nan)
    for row, rule in enumerate(rules):
        for point in _points(pooled, rule, about):
            middles[row, layers.index(point.layer)] = np.nan if point.middle is None else point.middle
    if not is_measured(middles).any():
        return _nothing(figure, theme, title, lead)
    names = [label(rule, rules) for rule in rules]
    shades = 100 * middles if about.is_rate else _logs(middles)
    _draw_field(figure, shades, middles, about, theme)
    figure.update_xaxes(tickvals=list(range(len(layers))), ticktext=[str(x) for x in layers], showgrid=False)
    figure.update_yaxes(
        tickvals=list(range(len(names))), ticktext=names, range=[len(names) - 0.5, -0.5], showgrid=False
    )
    absent, zeros, lost = (int(hit.sum()) for hit in (np.isnan(middles), middles == 0, is_lost(middles)))
    said = [
        f"– {counted(absent, 'cell')} not measured." if absent else "",
        f"✕ {counted(lost, 'cell')} {NO_NUMBER}." if lost else "",
        f"{counted(zeros, 'cell')} exactly 0, without colour." if zeros and not about.is_rate else "",
    ]
    table: Table = {"rule": [name for name in names for _ in layers], "first_layer": layers * len(names)}
    table[quantity] = column(middles.ravel())
    alt = f"{title}: {counted(len(names), 'rule')} by {counted(len(layers), 'first layer')}, from "
    alt += f"{_number(float(np.nanmin(middles)), about)} to {_number(float(np.nanmax(middles)), about)}."
    return FigureCard(figure, title, join([lead, *said]), alt, table)


def _lead(about: Quantity) -> str:
    if about.is_rate:
        return (
            "The share of tokens that are the baseline's, patching from this layer on; bars are Wilson's 95 %"
            " interval."
        )
    return (
        "The median over tokens, patching from this layer on; whiskers reach the smallest and largest token."
    )


def _pooled(cells: Cells, about: Quantity) -> dict[Variant, Values]:
    """A quantity's values of all tokens of all runs, by variant, first layer included."""
    found: dict[Variant, list[Values]] = {}
    for variant, run, index in cells:
        found.setdefault(variant, []).append(about.values(run, index)[: len(run)])
    return {variant: np.concatenate(parts) for variant, parts in found.items()}


def _rules(pooled: dict[Variant, Values]) -> list[Variant]:
    """The variants without regard to their first layer, in the order of first appearance."""
    return list(dict.fromkeys(replace(variant, first_layer=0) for variant in pooled))


def _points(pooled: dict[Variant, Values], rule: Variant, about: Quantity) -> list[_Point]:
    mine = {v.first_layer: values for v, values in pooled.items() if replace(v, first_layer=0) == rule}
    return [_point(layer, mine[layer], about) for layer in sorted(mine)]


def _point(layer: int, values: Values, about: Quantity) -> _Point:
    known = values[is_measured(values)]
    if not known.size:
        return _Point(layer, None, None, None, 0)
    if about.is_rate:
        same = int((known == 1).sum())
        return _Point(layer, same / known.size, *wilson(same, known.size), known.size)
    return _Point(layer, quantile(known, 0.5), float(known.min()), float(known.max()), known.size)


def _ends(line: list[_Point]) -> Values:
    numbers = [[p.low, p.middle, p.high] for p in line if p.middle is not None]
    return np.array(numbers, float).ravel()


def _line(
    rule: Variant,
    index: int,
    rules: list[Variant],
    line: list[_Point],
    about: Quantity,
    axis: LogAxis,
    offset: float,
) -> go.Scatter:
    style, name = variant_style(rule, index), label(rule, rules)
    low, middle, high = (
        np.array([getattr(p, end) for p in line], float) for end in ("low", "middle", "high")
    )
    if about.is_rate:
        low, middle, high = 100 * low, 100 * middle, 100 * high
    else:
        # A whisker to what is no number runs off the scale.
        high = np.where(is_lost(high), 10**axis.high, axis.place(high))
        low, middle = axis.place(low), axis.place(middle)
    data = [
        [p.layer, _number(p.middle, about), _number(p.low, about), _number(p.high, about), p.n] for p in line
    ]
    return go.Scatter(
        x=[p.layer + offset for p in line],
        y=middle,
        name=name,
        mode="lines+markers",
        line={"color": style.color, "dash": style.dash, "width": 2.2},
        marker={"symbol": style.symbol, "size": 9, "color": style.color},
        error_y={
            "array": high - middle, "arrayminus": middle - low, "symmetric": False,
            "color": style.color, "thickness": 1.6, "width": 5,
        },
        customdata=data,
        hovertemplate=f"<b>{name}</b><br>from layer %{{customdata[0]}} on: %{{customdata[1]}}<br>"
        "%{customdata[2]} to %{customdata[3]}, %{customdata[4]} tokens<extra></extra>",
        meta="rule",
    )  # fmt: skip


def _logs(values: Values) -> Values:
    usable = np.isfinite(values) & (values > 0)
    return np.where(usable, np.log10(np.where(usable, values, 1)), np.nan)


def _draw_field(figure: go.Figure, shades: Values, middles: Values, about: Quantity, theme: Theme) -> None:
    finite = shades[np.isfinite(shades)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (-1.0, 0.0)
    low, high = (0.0, 100.0) if about.is_rate else (low, max(high, low + 0.1))
    figure.add_trace(
        go.Heatmap(
            z=shades, zmin=low, zmax=high, colorscale=list(CIVIDIS), showscale=False, xgap=2, ygap=2,
            hoverinfo="skip", meta="field",
        )
    )  # fmt: skip
    rows, columns = (index.ravel() for index in np.indices(shades.shape))
    on = np.where(np.isnan(shades), theme.ink, np.where(shades > (low + high) / 2, ON_BRIGHT, ON_DARK))
    figure.add_trace(
        go.Scatter(
            x=columns, y=rows, mode="text", hoverinfo="skip", showlegend=False, meta="numbers",
            text=[_in_cell(float(v), about, middles.shape[1]) for v in middles.ravel()],
            textfont={"size": 14, "color": on.ravel().tolist()},
        )
    )  # fmt: skip


def _in_cell(value: float, about: Quantity, columns: int) -> str:
    """A number that fits into a cell: on two lines where there are many columns."""
    if not np.isfinite(value):
        return "–" if np.isnan(value) else "✕"
    number = _number(value, about)
    return number.replace("·", "·<br>") if columns > ONE_LINE else number


def _number(value: float | None, about: Quantity) -> str:
    if value is None or np.isnan(value):
        return NOT_MEASURED
    return f"{100 * value:.3g} %" if about.is_rate else sci(value)


def _ties(cells: Cells) -> str:
    ties = sum(int((run.series("tie", index)[: len(run)] == 1).sum()) for _, run, index in cells)
    return f"{counted(ties, 'tie')} inside the noise floor, not among the same." if ties else ""


def _alt(title: str, points: dict[Variant, list[_Point]], rules: list[Variant], about: Quantity) -> str:
    parts = [f"{title}: {counted(len(points), 'line')}."]
    for rule, line in points.items():
        said = [f"{_number(p.middle, about)} from layer {p.layer}" for p in line]
        parts.append(f"{label(rule, rules)}: {', '.join(said)}.")
    return " ".join(parts)


def _line_table(points: dict[Variant, list[_Point]], rules: list[Variant]) -> Table:
    rows = [(label(rule, rules), p) for rule, line in points.items() for p in line]
    table: Table = {"rule": [name for name, _ in rows]}
    table |= {"first_layer": [p.layer for _, p in rows], "tokens": [p.n for _, p in rows]}
    return table | {end: [getattr(p, end) for _, p in rows] for end in ("low", "middle", "high")}


def _nothing(figure: go.Figure, theme: Theme, title: str, lead: str) -> FigureCard:
    reason = "There is nothing to draw; the sweep has no token with this quantity yet."
    return FigureCard(note(figure, theme, "no token yet"), title, lead, reason, {})


def rule_table(cells: Cells) -> Table:
    """One row per rule, dtype and first layer, over all tokens of all its runs; None where not measured,
    infinite where it is no number.

    Columns: rule, dtype, first_layer, tokens, match (share), ties, TVD median and worst, largest |dm| and
    ||dm||/||m||, and the median and worst TVD of the replays in a batch of two and after one ulp.
    """
    groups: dict[Variant, list[tuple[Run, int]]] = {}
    for variant, run, index in cells:
        groups.setdefault(variant, []).append((run, index))
    rules = [replace(variant, dtype="", first_layer=0) for variant in groups]
    rows = [
        {
            "rule": " ".join(label(rule, rules).split()),
            "dtype": variant.dtype,
            "first_layer": variant.first_layer,
        }
        | _row(group)
        for rule, (variant, group) in zip(rules, groups.items(), strict=True)
    ]
    return {name: [row[name] for row in rows] for name in rows[0]} if rows else {}


def _row(group: list[tuple[Run, int]]) -> dict[str, float | None]:
    def pooled(values: Callable[[Run, int], Values]) -> Values:
        return np.concatenate([values(run, i)[: len(run)] for run, i in group])

    def replayed(kind: str) -> Values:
        return pooled(lambda run, i: run.replay(kind, "tvd", i))

    match, tvd = pooled(lambda run, i: run.series("match", i)), pooled(lambda run, i: run.series("tvd", i))
    changes = [run.field("scale_max_abs", i)[:, : len(run)].ravel().astype(float) for run, i in group]
    row: dict[str, float | None] = {"tokens": len(match)}
    row["match"] = float((match == 1).mean()) if len(match) else None
    row["ties"] = int((pooled(lambda run, i: run.series("tie", i)) == 1).sum())
    row |= {"tvd_median": quantile(tvd, 0.5), "tvd_worst": quantile(tvd, 1)}
    row["largest_change"] = quantile(np.concatenate(changes), 1)
    row["scale_ratio"] = quantile(pooled(largest_scale_ratio), 1)
    for kind in ("batch", "ulp"):
        row |= {f"{kind}_median": quantile(replayed(kind), 0.5), f"{kind}_worst": quantile(replayed(kind), 1)}
    return row
