"""Two runs side by side: TVD on the same axes, their ratio below, and where their texts part."""

from __future__ import annotations

from typing import Final

import numpy as np
import plotly.graph_objects as go

from ctxviz.figures.card import FigureCard, Table, blank, column, join, new_texts, note, tick_step
from ctxviz.figures.logaxis import LogAxis, are, below_plot, exact_zeros, mark_tokens, missing
from ctxviz.figures.lost import mark_lost, reach
from ctxviz.figures.metrics import Values
from ctxviz.figures.palette import LIGHT, NOISE_DASH, Style, Theme, label
from ctxviz.figures.subject import between
from ctxviz.figures.text import counted, plain, quoted, readable, sci
from ctxviz.no_number import is_measured, only_numbers
from ctxviz.run import Run

HEIGHT: Final = 520
MARKERS_SHOWN: Final = 14
MODEL_SHOWN: Final = 64
"""Characters of a model's name."""
STYLES: Final = (Style("#0072B2", "solid", "circle"), Style("#E69F00", "8px,3px", "diamond"))
FLOOR_DASHES: Final = (NOISE_DASH, "3px,6px")
LOWER: Final = (0.0, 0.27)
UPPER: Final = (0.37, 1.0)
"""Shares of the height that the ratio and the distances take."""


def diverge(left: Run, right: Run) -> int | None:
    """The first step whose next token ids differ; None if there is none among the steps both runs have.

    Prompts are not looked at: see :func:`same_prompt`.
    """
    both = range(min(len(left), len(right)))
    return next((k for k in both if left.token(k)[3] != right.token(k)[3]), None)


def same_prompt(left: Run, right: Run) -> bool:
    """Whether both runs start from the same token ids, or, of two models, from the same text and pictures."""
    if same_model(left, right):
        return left.context.token_ids == right.context.token_ids
    one, other = left.context, right.context
    return (one.prompt, one.image_sha256) == (other.prompt, other.image_sha256)


def same_model(left: Run, right: Run) -> bool:
    """Whether both runs are of the same weights: by hash, or by the models' keys where one has no hash."""
    one, other = left.model, right.model
    hashed = one.sha256 and other.sha256
    return one.sha256 == other.sha256 if hashed else one.key == other.key


def pair(
    left: Run,
    right: Run,
    left_variant: int,
    right_variant: int,
    theme: Theme = LIGHT,
    names: tuple[str, str] = ("A", "B"),
) -> FigureCard:
    """TVD per token of two runs, and below it the ratio of the second's to the first's in powers of ten.

    A ratio and not a difference: distances span many powers of ten, and a difference would show the larger
    alone. Where either is exactly 0 there is no ratio; such tokens are counted in the caption.
    """
    runs, variants = (left, right), (left_variant, right_variant)
    return between(_pair(runs, variants, theme, names), "two-runs", runs, variants)


def _pair(
    runs: tuple[Run, Run], variants: tuple[int, int], theme: Theme, names: tuple[str, str]
) -> FigureCard:
    shown, escaped = (tuple(words(name) for name in names) for words in (readable, plain))
    title = f"{shown[0]} and {shown[1]}, token by token"
    figure = blank(theme, height=HEIGHT, x_title="token", y_title="TVD")
    lengths = [len(run) for run in runs]
    if not max(lengths):
        return FigureCard(note(figure, theme, "no token yet"), title, "No token yet.", "No token yet.", {})
    tvd = [run.series("tvd", v)[:n] for run, v, n in zip(runs, variants, lengths, strict=True)]
    floors = [_floor(run, v, n) for run, v, n in zip(runs, variants, lengths, strict=True)]
    axis = LogAxis.around([*tvd, *floors])
    words = [label(run.variants[v], run.variants) for run, v in zip(runs, variants, strict=True)]
    labels = [f"{name}: {word}" for name, word in zip(escaped, words, strict=True)]
    for i, (run, values) in enumerate(zip(runs, tvd, strict=True)):
        if is_measured(floors[i]).any():
            figure.add_trace(_floor_trace(escaped[i], floors[i], STYLES[i], FLOOR_DASHES[i]))
        figure.add_trace(_line(labels[i], values, axis, new_texts(run, lengths[i]), STYLES[i]))
    counts = _mark(figure, runs, variants, tvd, axis, theme)
    ratio = _ratio(*tvd)
    figure.add_trace(_ratio_trace(ratio, escaped, theme))
    _axes(figure, axis, ratio, max(lengths), theme)
    axis.mark_zeros(figure, theme, np.concatenate([np.flatnonzero(v == 0) for v in (*tvd, *floors)]))
    parted = diverge(*runs) if same_model(*runs) else None
    if parted is not None:
        _name_parting(figure, runs, parted, theme)
    caption = join(
        [
            f"Above, each run's distance from its own baseline; below, {shown[1]} over {shown[0]}.",
            _parting(runs, parted, shown),
            counts,
            exact_zeros(tvd),
            missing(tvd),
            mark_lost(figure, theme, [*tvd, *floors]),
            _without_ratio(ratio),
        ]
    )
    table = _table(runs, tvd, ratio, shown)
    more = join(
        [
            f"The lower part is in powers of ten: above 0 {shown[1]} is further off than {shown[0]}.",
            _middle(ratio, shown),
        ]
    )
    return FigureCard(figure, title, caption, _alt(title, words, tvd, runs, parted, shown), table, more)


def _floor(run: Run, variant: int, n: int) -> Values:
    return run.reference("noise_floor_tvd", run.variants[variant].dtype)[:n]


def _ratio(left: Values, right: Values) -> Values:
    """log10 of right over left at the steps both have; infinite, no number, where either is 0 or none itself,
    NaN where either was not measured."""
    n = min(len(left), len(right))
    a, b = left[:n], right[:n]
    usable = np.isfinite(a) & np.isfinite(b) & (a > 0) & (b > 0)
    none = np.where(is_measured(a) & is_measured(b), np.inf, np.nan)
    return np.where(usable, np.log10(np.where(usable, b, 1)) - np.log10(np.where(usable, a, 1)), none)


def _line(name: str, values: Values, axis: LogAxis, texts: list[str], style: Style) -> go.Scatter:
    return go.Scatter(
        x=np.arange(len(values)),
        y=axis.place(values),
        name=name,
        mode="lines+markers",
        line={"color": style.color, "dash": style.dash, "width": 2.4},
        marker={"symbol": style.symbol, "size": 8, "color": style.color, "maxdisplayed": MARKERS_SHOWN},
        customdata=[[plain(text), sci(v)] for text, v in zip(texts, values.tolist(), strict=True)],
        hovertemplate=f"<b>{name}</b><br>token %{{x}} “%{{customdata[0]}}”<br>"
        "TVD %{customdata[1]}<extra></extra>",
        meta="variant",
    )


def _floor_trace(name: str, values: Values, style: Style, dash: str) -> go.Scatter:
    return go.Scatter(
        x=np.arange(len(values)),
        y=np.where(values > 0, values, np.nan),
        name=f"noise floor {name}",
        mode="lines",
        connectgaps=True,
        line={"color": style.color, "dash": dash, "width": 2},
        hoverinfo="skip",
        meta="reference",
    )


def _ratio_trace(ratio: Values, names: tuple[str, ...], theme: Theme) -> go.Bar:
    worse = np.where(ratio > 0, STYLES[1].color, STYLES[0].color)
    hatch = np.where(ratio > 0, "/", "")
    return go.Bar(
        x=np.arange(len(ratio)),
        y=only_numbers(ratio),
        yaxis="y2",
        name="ratio",
        showlegend=False,
        marker={
            "color": worse.tolist(),
            "line": {"width": 0},
            "pattern": {"shape": hatch.tolist(), "fgcolor": theme.background, "size": 6, "solidity": 0.25},
        },
        customdata=[sci(float(10**r)) if np.isfinite(r) else "" for r in ratio],
        hovertemplate=f"token %{{x}}: {names[1]} is %{{customdata}} times {names[0]}<extra></extra>",
        meta="ratio",
    )


def _mark(
    figure: go.Figure,
    runs: tuple[Run, Run],
    variants: tuple[int, int],
    tvd: list[Values],
    axis: LogAxis,
    theme: Theme,
) -> str:
    columns = []
    for run, variant, values in zip(runs, variants, tvd, strict=True):
        match, tie = (run.series(metric, variant)[: len(values)] for metric in ("match", "tie"))
        columns.append((values, match == 0, tie == 1))
    return mark_tokens(figure, theme, axis, columns)


def _axes(figure: go.Figure, axis: LogAxis, ratio: Values, n: int, theme: Theme) -> None:
    second = figure.to_dict()["layout"]["yaxis"]
    finite = ratio[np.isfinite(ratio)]
    reach = max(1.0, 1.15 * float(np.abs(finite).max())) if finite.size else 1.0
    second |= {"domain": LOWER, "anchor": "x", "range": [-reach, reach], "nticks": 5}
    second["tickfont"] = {"size": 14, "color": theme.soft}
    second["title"] = second["title"] | {"text": "log₁₀ ratio"}
    second |= {"zeroline": True, "zerolinecolor": theme.soft, "zerolinewidth": 1}
    figure.update_layout(yaxis2=second, yaxis={"domain": UPPER})
    axis.apply(figure, theme)
    figure.update_xaxes(range=[-0.5, max(n, 2) - 0.5], tick0=0, dtick=tick_step(n, 8), anchor="y2")
    below_plot(figure, -0.14)


def _name_parting(figure: go.Figure, runs: tuple[Run, Run], step: int, theme: Theme) -> None:
    figure.add_shape(
        type="line", xref="x", x0=step, x1=step, yref="paper", y0=0, y1=1,
        line={"color": theme.accent, "width": 1.5, "dash": "6px,3px"}, layer="below",
    )  # fmt: skip
    first, second = (plain(run.token(step)[4]) for run in runs)
    late = step > max(len(run) for run in runs) / 2
    figure.add_annotation(
        x=step, xref="x", y=(LOWER[1] + UPPER[0]) / 2, yref="paper", yanchor="middle",
        xanchor="right" if late else "left", xshift=-6 if late else 6, showarrow=False,
        text=f"the texts part: “{first}” | “{second}”", font={"size": 14, "color": theme.accent},
    )  # fmt: skip


def _without_ratio(ratio: Values) -> str:
    none = int((~np.isfinite(ratio)).sum())
    return (
        f"No ratio at {counted(none, 'token')}, where a distance is 0, no number or missing." if none else ""
    )


def _middle(ratio: Values, names: tuple[str, ...]) -> str:
    finite = ratio[np.isfinite(ratio)]
    if not finite.size:
        return ""
    return f"At the median {names[1]} is {sci(float(10 ** np.median(finite)))} times {names[0]}."


def _parting(runs: tuple[Run, Run], step: int | None, names: tuple[str, ...]) -> str:
    """Where the two texts part, or that they do not; and whether model and prompt are the same."""
    both = min(len(run) for run in runs)
    sentences = []
    one_model = same_model(*runs)
    others = ["models"] * (not one_model) + ["prompts"] * (not same_prompt(*runs))
    if others:
        what = " and the ".join(others)
        sentences.append(f"The {what} differ, so token numbers do not stand for the same place in a text.")
    if not one_model:
        models = (
            f"{name} is {readable(run.model.name, MODEL_SHOWN)}"
            for name, run in zip(names, runs, strict=True)
        )
        sentences.append(f"The texts of two models are not compared ({', '.join(models)}).")
    if step is not None:
        first, second = (quoted(run.token(step)[4]) for run in runs)
        sentences.append(
            f"The texts part at token {step}: {names[0]} wrote {first}, {names[1]} {second};"
            " from the next token on the distances belong to different texts."
        )
    elif both and one_model:
        which = "the one token" if both == 1 else f"all {both} tokens"
        sentences.append(f"The texts are the same for {which} that both have.")
    longer = 0 if len(runs[0]) > len(runs[1]) else 1
    extra = len(runs[longer]) - both
    if extra:
        sentences.append(f"{are(extra, 'token')} of {names[longer]} alone.")
    return join(sentences)


def _table(runs: tuple[Run, Run], tvd: list[Values], ratio: Values, names: tuple[str, ...]) -> Table:
    n = max(len(values) for values in tvd)
    heads = names if names[0] != names[1] else (f"{names[0]} (1)", f"{names[1]} (2)")
    table: Table = {"step": list(range(n))}
    for head, run, values in zip(heads, runs, tvd, strict=True):
        padding = [None] * (n - len(values))
        table[f"token {head}"] = [*new_texts(run, len(values)), *padding]
        table[f"tvd {head}"] = [*column(values), *padding]
    table["log10 ratio"] = [*column(ratio), *([None] * (n - len(ratio)))]
    return table


def _alt(
    title: str,
    labels: list[str],
    tvd: list[Values],
    runs: tuple[Run, Run],
    step: int | None,
    names: tuple[str, ...],
) -> str:
    parts = [f"{title}: TVD, logarithmic, and the ratio below."]
    for name, word, values in zip(names, labels, tvd, strict=True):
        parts.append(f"{name}, {word}: {counted(len(values), 'token')}, {reach(values)}.")
    return join([*parts, _parting(runs, step, names)])
