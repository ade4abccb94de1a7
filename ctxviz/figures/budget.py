"""The error budget of a variant: every distance that can be told apart from zero, stacked for each token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import plotly.graph_objects as go

from ctxviz.figures.card import FigureCard, Table, blank, column, join, new_texts, note, some_ticks
from ctxviz.figures.logaxis import LogAxis, add_glyphs, are, below_plot, exact_zeros
from ctxviz.figures.lost import mark_lost
from ctxviz.figures.metrics import Values
from ctxviz.figures.palette import LIGHT, NOISE_DASH, UNPATCHED_DASH, Theme, label
from ctxviz.figures.replays import KIND_WORDS
from ctxviz.figures.statistics import quantile
from ctxviz.figures.subject import of_run
from ctxviz.figures.text import counted, plain, quoted, sci
from ctxviz.no_number import is_lost, is_measured
from ctxviz.replaying import SAME_WEIGHTS, measured
from ctxviz.run import Run

HEIGHT: Final = 460
MOST_COLUMNS: Final = 48
"""Tokens up to which each has its own columns; more are drawn as steps, since columns would be hairlines."""
WIDEST: Final = 0.92
NARROWEST: Final = 0.16
ROOM_FOR_MARKS: Final = 0.9
"""Decades above the data for ✗ and ≈."""
TICK_CHARACTERS: Final = 11
_ORDER: Final = (
    "From the front: what differs without any patch being at fault, the patch while it is built, its weights"
    " run again, and no patch at all."
)
_NOTHING: Final = (
    "No distance is a number at any token, so there is nothing to draw; where float16 overflows, bfloat16"
    " does not."
)


@dataclass(frozen=True, slots=True)
class _Source:
    """A source of difference: key in the table, words, colour (none: the theme's), dash of its steps."""

    key: str
    words: str
    colour: str | None
    dash: str


_SOURCES: Final = (
    _Source("unpatched_tvd", "no patch", None, UNPATCHED_DASH),
    _Source("worst_replay_tvd", "worst replay", "#D55E00", "solid"),
    _Source("tvd", "building the patch", "#009E73", "solid"),
    _Source("ulp_tvd", "with context at 1 ulp", "#E69F00", "2px,2px"),
    _Source("float64_tvd", "against float64", "#56B4E9", "8px,4px"),
    _Source("float32_tvd", "against float32", "#0072B2", "4px,3px"),
    _Source("eager_tvd", "eager against sdpa", "#CC79A7", "10px,3px,2px,3px"),
    _Source("noise_floor_tvd", "noise floor: cached against uncached", None, NOISE_DASH),
)
"""From the back to the front: the widest and quietest is what no patch costs, the narrowest the floor."""


@of_run("error-budget")
def budget(run: Run, variant: int, theme: Theme = LIGHT) -> FigureCard:
    """All TVDs of a variant's tokens on one logarithmic axis, as columns inside one another."""
    n = len(run)
    name = label(run.variants[variant], run.variants)
    title = f"Error budget: {name}"
    figure = blank(theme, height=HEIGHT, x_title="", y_title="TVD")
    if n == 0:
        return FigureCard(note(figure, theme, "no token yet"), title, "No token yet.", "No token yet.", {})
    every = _columns(run, variant, n)
    drawn = {key: values for key, values in every.items() if is_measured(values).any()}
    texts = new_texts(run, n)
    table: Table = {"step": list(range(n)), "token": list(texts)}
    table |= {key: column(values) for key, values in every.items()}
    table |= {m: [bool(v) for v in run.series(m, variant)[:n].tolist()] for m in ("match", "tie")}
    if not any(np.isfinite(values).any() for values in drawn.values()):
        figure = note(figure, theme, "nothing here is a number")
        return FigureCard(figure, title, _NOTHING, f"{title}: {_NOTHING}", table)
    axis = LogAxis.around(list(drawn.values()), ROOM_FOR_MARKS)
    _draw(figure, drawn, axis, texts, theme)
    axis.apply(figure, theme, boxed=True)
    zeros = np.concatenate([np.flatnonzero(v == 0) for v in drawn.values()])
    axis.mark_zeros(figure, theme, zeros, "diamond")
    marks = _mark(figure, run, variant, axis, n, theme)
    wanted = some_ticks(n)
    figure.update_xaxes(
        tickvals=wanted,
        ticktext=[plain(texts[k], TICK_CHARACTERS) for k in wanted],
        tickangle=-60 if n > 6 else 0,
        range=[-0.5, max(n, 2) - 0.5],
    )
    below_plot(figure, -0.24)
    caption = join(
        [
            "What of each distance was there anyway; the higher, the further from the model with context.",
            "" if n <= MOST_COLUMNS else f"More than {MOST_COLUMNS} tokens are drawn as steps.",
            *marks,
            mark_lost(figure, theme, list(drawn.values())),
            exact_zeros(list(drawn.values())),
        ]
    )
    more = join([_ORDER, _sparse(drawn, n), _worst_words(run, variant), _never(every)])
    return FigureCard(figure, title, caption, _alt(title, drawn, texts), table, more)


def worst_replay(run: Run, variant: int) -> Values:
    """The largest TVD among the replays of SAME_WEIGHTS, [steps]; NaN where none was measured, infinite where
    one is no number."""
    columns = [run.replay(kind, "tvd", variant) for kind in SAME_WEIGHTS]
    n = min(len(values) for values in columns)
    return np.fmax.reduce([values[:n] for values in columns])


def _columns(run: Run, variant: int, n: int) -> dict[str, Values]:
    dtype = run.variants[variant].dtype
    found: dict[str, Values] = {}
    for source in _SOURCES:
        if source.key == "tvd":
            found[source.key] = run.series("tvd", variant)[:n]
        elif source.key == "worst_replay_tvd":
            found[source.key] = worst_replay(run, variant)[:n]
        else:
            found[source.key] = run.reference(source.key, dtype)[:n]
    return found


def _draw(figure: go.Figure, drawn: dict[str, Values], axis: LogAxis, texts: list[str], theme: Theme) -> None:
    sources = [source for source in _SOURCES if source.key in drawn]
    widths = np.linspace(WIDEST, NARROWEST, len(sources)) if len(sources) > 1 else [WIDEST]
    shown = [plain(text) for text in texts]
    for source, width in zip(sources, widths, strict=True):
        values = drawn[source.key]
        common = {
            "x": np.arange(len(values)),
            "name": source.words,
            "customdata": [[text, sci(v)] for text, v in zip(shown, values.tolist(), strict=True)],
            "hovertemplate": f"<b>{source.words}</b><br>token %{{x}} “%{{customdata[0]}}”<br>"
            "TVD %{customdata[1]}<extra></extra>",
            "meta": source.key,
        }
        if len(values) <= MOST_COLUMNS:
            fill = source.colour or (theme.line if source.key == "unpatched_tvd" else theme.ink)
            marker = {"color": fill, "line": {"color": theme.background, "width": 1}}
            y = np.where(values > 0, values, np.nan)
            figure.add_trace(go.Bar(y=y, width=width, marker=marker, **common))
        else:
            colour = source.colour or (theme.soft if source.key == "unpatched_tvd" else theme.ink)
            line = {"color": colour, "dash": source.dash, "width": 2, "shape": "hvh"}
            gaps = source.key not in ("tvd", "worst_replay_tvd")
            y = axis.place(values)
            figure.add_trace(go.Scatter(y=y, mode="lines", line=line, connectgaps=gaps, **common))
    figure.update_layout(barmode="overlay")


def _mark(figure: go.Figure, run: Run, variant: int, axis: LogAxis, n: int, theme: Theme) -> list[str]:
    match, tie = run.series("match", variant)[:n], run.series("tie", variant)[:n]
    lost = is_lost(run.series("tvd", variant)[:n])
    wrong, tied = np.flatnonzero((match == 0) & (tie == 0) & ~lost), np.flatnonzero(tie == 1)
    sentences = []
    for glyph, meta, at, what in (
        ("✗", "differs", wrong, "another token"),
        ("≈", "tie", tied, "a tie inside the noise floor"),
    ):
        add_glyphs(figure, theme, glyph, meta, at, np.full(len(at), 10 ** (axis.high - 0.4)))
        if len(at):
            sentences.append(f"{glyph} at {counted(len(at), 'token')}: {what}.")
    return sentences or ([] if lost.any() else ["Every token is the baseline's."])


def _sparse(drawn: dict[str, Values], n: int) -> str:
    """Which columns exist at some tokens only, and at how many."""
    counts = {s.words: int(is_measured(drawn[s.key]).sum()) for s in _SOURCES if s.key in drawn}
    few: dict[int, list[str]] = {}
    for words, count in counts.items():
        if count < n:
            few.setdefault(count, []).append(words.split(":")[0])
    parts = [f"{', '.join(names)} at {count}" for count, names in few.items()]
    return f"Measured and drawn at some of the {n} tokens only: {'; '.join(parts)}." if parts else ""


def _never(every: dict[str, Values]) -> str:
    names = [s.words.split(":")[0] for s in _SOURCES if not is_measured(every[s.key]).any()]
    return f"Not measured: {', '.join(names)}." if names else ""


def _worst_words(run: Run, variant: int) -> str:
    """Which kinds the worst replay is taken from, and how often each is the worst."""
    kinds = [kind for kind in SAME_WEIGHTS if measured(run, variant, kind).any()]
    if not kinds:
        return ""
    names = ", ".join(KIND_WORDS[kind].short for kind in kinds)
    apart = "; weights rounded or held from another token are not among them" if _others(run, variant) else ""
    return f"The worst replay is the worst of {names}{apart}."


def _others(run: Run, variant: int) -> bool:
    return any(measured(run, variant, kind).any() for kind in run.replayed if kind not in SAME_WEIGHTS)


def _alt(title: str, drawn: dict[str, Values], texts: list[str]) -> str:
    parts = [f"{title}: TVD of {counted(len(texts), 'token')}, logarithmic."]
    for source in _SOURCES:
        if source.key not in drawn:
            continue
        values = drawn[source.key]
        worst = int(np.nanargmax(values))
        middle = quantile(values, 0.5)
        assert middle is not None
        parts.append(
            f"{source.words}: median {sci(middle)}, largest {sci(float(values[worst]))} at token {worst}"
            f" {quoted(texts[worst])} ({are(int(is_measured(values).sum()), 'token')} measured)."
        )
    return " ".join(parts)
