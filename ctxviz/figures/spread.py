"""Many prompts at once: how TVD spreads over tokens, and how often the token is the baseline's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import plotly.graph_objects as go

from ctxviz.figures.card import FigureCard, Table, blank, join, note
from ctxviz.figures.logaxis import LogAxis, above_plot, exact_zeros, missing
from ctxviz.figures.lost import mark_lost
from ctxviz.figures.metrics import Values
from ctxviz.figures.palette import LIGHT, Theme, label, variant_style
from ctxviz.figures.statistics import wilson
from ctxviz.figures.subject import of_runs
from ctxviz.figures.text import counted, plain, readable, sci
from ctxviz.no_number import is_lost, is_measured
from ctxviz.run import Run
from ctxviz.settings import Variant

Named = Sequence[tuple[str, Run]]
"""Runs under the name of their prompt: runs of one name are of one prompt, and their tokens are pooled."""
QUARTILES: Final = ("min", "q1", "median", "q3", "max")
NAME_CHARACTERS: Final = 18
GROUP_WIDTH: Final = 0.8
"""Share of a prompt's place that its boxes take."""


def _runs(named: Named) -> list[Run]:
    return [run for _, run in named]


@of_runs("tvd-boxes", _runs)
def tvd_boxes(runs: Named, theme: Theme = LIGHT, floor: float | None = None) -> FigureCard:
    """A box of TVD over tokens per prompt and variant, whiskers to the extremes, on a logarithmic axis.

    With a ``floor`` the floored variants of other floors are left out.
    """
    title = "Spread of the total-variation distance"
    lead = "One box per prompt and variant: the middle half of its tokens, median, whiskers to the extremes."
    figure = blank(theme, height=420, x_title="prompt", y_title="TVD")
    names, variants, every = _names(runs), _variants(runs, floor), _samples(runs, floor)
    samples = {key: values for key, values in every.items() if is_measured(values).any()}
    if not samples:
        reason = "There is no token to compare; choose runs with at least one token."
        return FigureCard(note(figure, theme, "no token yet"), title, lead, reason, {})
    axis = LogAxis.around(list(samples.values()))
    width = GROUP_WIDTH / len(variants)
    offsets = [(i - (len(variants) - 1) / 2) * width for i in range(len(variants))]
    for i, variant in enumerate(variants):
        mine = {p: values for (p, v), values in samples.items() if v == variant}
        figure.add_trace(_box(variant, i, variants, mine, offsets[i], width, axis))
    axis.apply(figure, theme)
    places = [np.full(len(values), p + offsets[variants.index(v)]) for (p, v), values in samples.items()]
    lost = mark_lost(figure, theme, list(samples.values()), places)
    _name_prompts(figure, names)
    above_plot(figure)
    columns = list(every.values())
    beyond = f"{lost} A box or whisker that reaches up to it has no end." if lost else ""
    caption = join([lead, _zeros(columns), missing(columns), beyond])
    alt = join(
        [
            f"{title} of {counted(len(names), 'prompt')} and {counted(len(variants), 'variant')}.",
            *_alt(samples, names, variants),
        ]
    )
    return FigureCard(figure, title, caption, alt, _box_table(samples, names, variants))


@of_runs("match-rates", _runs)
def match_rates(runs: Named, theme: Theme = LIGHT, floor: float | None = None) -> FigureCard:
    """Share of tokens that are the baseline's, per variant over all prompts, with Wilson's 95 % interval.

    With a ``floor`` the floored variants of other floors are left out.
    """
    title = "How often the token is the same"
    lead = "Share of tokens that are the baseline's, over all prompts; the bar is Wilson's 95 % interval."
    variants = _variants(runs, floor)
    counts = {variant: _counts(runs, variant) for variant in variants}
    counts = {variant: found for variant, found in counts.items() if found[2]}
    figure = blank(theme, height=150 + 44 * max(len(counts), 3), x_title="share of tokens, %", y_title="")
    if not counts:
        reason = "There is no token to compare; choose runs with at least one token."
        return FigureCard(note(figure, theme, "no token yet"), title, lead, reason, {})
    names = [label(variant, variants) for variant in counts]
    for row, (variant, (same, ties, n)) in enumerate(counts.items()):
        for trace in _rate_traces(row, variant, variants.index(variant), names[row], same, ties, n, theme):
            figure.add_trace(trace)
    lows = [100 * wilson(same, n)[0] for same, _, n in counts.values()]
    figure.update_xaxes(range=[max(0, min(lows) - 3), 101.5], showgrid=True)
    rows = list(range(len(names)))
    figure.update_yaxes(tickvals=rows, ticktext=names, range=[len(names) - 0.4, -0.6], showgrid=False)
    figure.update_layout(showlegend=False)
    ties = sum(found[1] for found in counts.values())
    tied = (
        f"○ adds the ties inside the noise floor ({counted(ties, 'tie')})." if ties else "There are no ties."
    )
    sentences = [
        f"{name}: {same} of {n}" + (f" and {counted(tie, 'tie')}" if tie else "")
        for name, (same, tie, n) in zip(names, counts.values(), strict=True)
    ]
    alt = f"{title} over {counted(len(_names(runs)), 'prompt')}. {'; '.join(sentences)}."
    more = "The interval takes tokens for independent of each other."
    return FigureCard(figure, title, join([lead, tied]), alt, _rate_table(names, counts), more)


def _names(runs: Named) -> list[str]:
    """The prompts, in the order of first appearance."""
    return list(dict.fromkeys(name for name, _ in runs))


def _variants(runs: Named, floor: float | None) -> list[Variant]:
    """Every variant of every run, in the order of first appearance; floored ones of ``floor`` alone."""
    every = dict.fromkeys(variant for _, run in runs for variant in run.variants)
    return [variant for variant in every if floor is None or variant.floor in (None, floor)]


def _samples(runs: Named, floor: float | None) -> dict[tuple[int, Variant], Values]:
    """TVD over tokens by (prompt, variant): prompt by prompt, variants in their order."""
    found: dict[tuple[int, Variant], list[Values]] = {}
    for p, prompt in enumerate(_names(runs)):
        mine = [run for name, run in runs if name == prompt]
        for variant in _variants(runs, floor):
            parts = [
                run.series("tvd", run.variants.index(variant))[: len(run)]
                for run in mine
                if variant in run.variants
            ]
            if parts:
                found[p, variant] = parts
    return {key: np.concatenate(parts) for key, parts in found.items()}


def five(values: Values) -> tuple[float, ...]:
    """Minimum, quartiles and maximum, each a measured value; what is no number is larger than any."""
    known = values[is_measured(values)]
    return tuple(np.quantile(known, [0, 0.25, 0.5, 0.75, 1], method="inverted_cdf").tolist())


def _box(
    variant: Variant,
    index: int,
    among: list[Variant],
    mine: dict[int, Values],
    offset: float,
    width: float,
    axis: LogAxis,
) -> go.Box:
    """Quartiles are values that were measured, so that a logarithm never has to average a zero."""
    style, name = variant_style(variant, index), label(variant, among)
    ends = np.array([five(values) for values in mine.values()])
    # What is no number lies beyond the scale: a box that holds it runs to the edge.
    low, q1, median, q3, high = np.where(is_lost(ends), 10**axis.high, axis.place(ends)).T
    return go.Box(
        x=np.array(list(mine)) + offset,
        lowerfence=low,
        q1=q1,
        median=median,
        q3=q3,
        upperfence=high,
        name=name,
        width=width * 0.82,
        line={"color": style.color, "width": 2},
        fillcolor=_clear(style.color) if style.dash == "solid" else "rgba(0,0,0,0)",
        hoverinfo="name" if is_lost(ends).any() else "y+name",
        meta="box",
    )


def _clear(colour: str) -> str:
    red, green, blue = (int(colour[k : k + 2], 16) for k in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.3)"


def _name_prompts(figure: go.Figure, names: list[str]) -> None:
    rows = list(range(len(names)))
    figure.update_xaxes(
        tickvals=rows,
        ticktext=[plain(name, NAME_CHARACTERS) for name in names],
        tickangle=-35 if len(names) > 5 else 0,
        range=[-0.5, len(names) - 0.5],
    )


def _zeros(columns: list[Values]) -> str:
    said = exact_zeros(columns)
    return f"{said} A box or whisker that ends at the dotted row ends there." if said else ""


def _alt(samples: dict[tuple[int, Variant], Values], names: list[str], variants: list[Variant]) -> list[str]:
    sentences = []
    for (p, variant), values in samples.items():
        low, _, median, _, high = (sci(v) for v in five(values))
        name = f"{readable(names[p], NAME_CHARACTERS)}, {label(variant, variants)}"
        sentences.append(f"{name}: median {median}, from {low} to {high}.")
    return sentences


def _box_table(
    samples: dict[tuple[int, Variant], Values], names: list[str], variants: list[Variant]
) -> Table:
    counts = ("tokens", "zeros", "missing", "no number")
    table: Table = {name: [] for name in ("prompt", "variant", *counts, *QUARTILES)}
    for (p, variant), values in samples.items():
        row = [
            names[p],
            label(variant, variants),
            len(values),
            int((values == 0).sum()),
            int((~is_measured(values)).sum()),
            int(is_lost(values).sum()),
            *five(values),
        ]
        for cells, value in zip(table.values(), row, strict=True):
            cells.append(value)
    return table


def _counts(runs: Named, variant: Variant) -> tuple[int, int, int]:
    """(matches, ties, tokens) of a variant over all runs that have it."""
    same = ties = n = 0
    for _, run in runs:
        if variant in run.variants:
            i, steps = run.variants.index(variant), len(run)
            same += int((run.series("match", i)[:steps] == 1).sum())
            ties += int((run.series("tie", i)[:steps] == 1).sum())
            n += steps
    return same, ties, n


def _rate_traces(
    row: int, variant: Variant, index: int, name: str, same: int, ties: int, n: int, theme: Theme
) -> list[go.Scatter]:
    style, rate = variant_style(variant, index), 100 * same / n
    low, high = (100 * end for end in wilson(same, n))
    counts = f"{same} of {counted(n, 'token')}, {counted(ties, 'tie')}"
    words = f"<b>{name}</b><br>{counts}<br>95 %: {low:.1f} to {high:.1f} %"
    traces = [
        go.Scatter(
            x=[rate],
            y=[row],
            name=name,
            mode="markers+text",
            text=[f"{same} of {n}"],
            textposition="top left",
            textfont={"size": 14, "color": theme.ink},
            marker={"symbol": style.symbol, "size": 11, "color": style.color},
            error_x={
                "array": [high - rate], "arrayminus": [rate - low], "symmetric": False,
                "color": style.color, "thickness": 2.5, "width": 7,
            },
            hovertemplate=f"{words}<extra></extra>",
            cliponaxis=False,
            meta="rate",
        )
    ]  # fmt: skip
    if ties:
        marker = {"symbol": "circle-open", "size": 15, "color": theme.ink, "line": {"width": 2}}
        both = 100 * (same + ties) / n
        traces.append(
            go.Scatter(
                x=[both], y=[row], name="with ties", mode="markers", marker=marker, cliponaxis=False,
                hovertemplate=f"{name}<br>with ties {both:.1f} %<extra></extra>", meta="tie",
            )
        )  # fmt: skip
    return traces


def _rate_table(names: list[str], counts: dict[Variant, tuple[int, int, int]]) -> Table:
    ends = [wilson(same, n) for same, _, n in counts.values()]
    return {
        "variant": names,
        "tokens": [n for _, _, n in counts.values()],
        "matches": [same for same, _, _ in counts.values()],
        "ties": [ties for _, ties, _ in counts.values()],
        "rate": [same / n for same, _, n in counts.values()],
        "low": [low for low, _ in ends],
        "high": [high for _, high in ends],
    }
