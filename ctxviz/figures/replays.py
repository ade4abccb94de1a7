"""Finished weights run again: how far each replay is from the baseline, and how its error grows by layer."""

from __future__ import annotations

from typing import Final

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from ctxviz.figures.card import FigureCard, Table, blank, column, join, new_texts, note, tick_step
from ctxviz.figures.logaxis import LogAxis, are, below_plot, exact_zeros, mark_tokens, missing
from ctxviz.figures.lost import mark_lost, reach
from ctxviz.figures.metrics import Values
from ctxviz.figures.palette import LIGHT, NOISE_DASH, UNPATCHED_DASH, Style, Theme, label
from ctxviz.figures.replay_words import KIND_WORDS
from ctxviz.figures.subject import of_run
from ctxviz.figures.text import counted, plain, quoted, sci
from ctxviz.no_number import NO_NUMBER, is_lost, is_measured
from ctxviz.replaying import differs, measured, ties
from ctxviz.run import Run
from ctxviz.settings import HELD, REPLAYS

HEIGHT: Final = 360
MARKERS_SHOWN: Final = 14
BUILDING: Final = "building"


KIND_STYLES: Final = {
    "same": Style("#56B4E9", "2px,2px", "circle-open"),
    "batch": Style("#D55E00", "solid", "square"),
    "ulp": Style("#CC79A7", "8px,4px", "diamond"),
    "rounded": Style("#E69F00", "10px,3px,2px,3px", "triangle-up"),
    HELD: Style("#0072B2", "5px,2px", "star"),
}


@of_run("replay")
def replay_lines(run: Run, variant: int, theme: Theme = LIGHT) -> FigureCard:
    """TVD against the token: the building pass beside each replay of its weights, ``held`` apart."""
    title = f"Run again: {label(run.variants[variant], run.variants)}"
    kinds = [k for k in REPLAYS if measured(run, variant, k).any()]
    if not len(run) or not kinds:
        return _nothing(run, variant, theme, title, "replay")
    lead = "Where a line leaves the building pass, the weights held only for the sums they were built with."
    return _token_card(run, variant, kinds, theme, title, lead)


@of_run("held")
def held_lines(run: Run, variant: int, theme: Theme = LIGHT) -> FigureCard:
    """TVD of one token's weights kept for all later tokens, beside each token's own weights."""
    hold = run.settings.hold
    title = f"One token's weights kept: {label(run.variants[variant], run.variants)}"
    if hold is None or not measured(run, variant, HELD).any():
        return _nothing(run, variant, theme, title, "token that is held")
    lead = f"The weights of token {hold} {quoted(run.token(hold)[4])}, kept for every later token."
    more = "The theorem's weights belong to one token: at the next one they may be no better than no patch."
    return _token_card(run, variant, [HELD], theme, title, lead, more)


@of_run("drift")
def drift_lines(run: Run, step: int, variant: int, theme: Theme = LIGHT) -> FigureCard:
    """How far each replay of a token is from the building pass after every layer."""
    text = run.token(step)[4] if step < len(run) else ""
    name = label(run.variants[variant], run.variants)
    title = f"How a small difference grows, token {step} {quoted(text)}, {name}"
    columns = {k: run.field(f"drift_{k}", variant)[:, step : step + 1].ravel().astype(float) for k in REPLAYS}
    columns = {kind: values for kind, values in columns.items() if is_measured(values).any()}
    if not columns:
        return _nothing(run, variant, theme, title, "replay at this token")
    error = run.field("output_error", variant)[:, step].astype(float)
    axis = LogAxis.around([*columns.values(), error])
    figure = blank(theme, height=HEIGHT + 60, x_title="layer", y_title="‖Δx‖ / ‖x‖ after the layer")
    layers = np.arange(run.model.n_layers)
    figure.add_trace(
        _building(layers, axis.place(error), error, "error while building, against the context", theme)
    )
    for kind, values in columns.items():
        figure.add_trace(_kind_trace(kind, layers, axis.place(values), values, "layer %{x}"))
    axis.apply(figure, theme)
    axis.mark_zeros(figure, theme, np.concatenate([np.flatnonzero(v == 0) for v in columns.values()]))
    figure.update_xaxes(range=[-0.5, len(layers) - 0.5], tick0=0, dtick=tick_step(len(layers), 10))
    below_plot(figure, -0.22)
    growth = [_growth(kind, values) for kind, values in columns.items()]
    caption = join(
        [
            "Each replay's difference from the building pass after every layer; straight is steady growth.",
            exact_zeros(list(columns.values())),
            missing([*columns.values(), error]),
            mark_lost(figure, theme, [*columns.values(), error]),
        ]
    )
    table: Table = {"layer": layers.tolist(), "output_error": column(error)}
    table |= {f"drift_{kind}": column(values.astype(np.float32)) for kind, values in columns.items()}
    alt = join(
        [f"{title}: {counted(len(columns), 'replay')} over {len(layers)} layers, logarithmic.", *growth]
    )
    more = join(["The building pass corrects itself and stays low.", *growth])
    return FigureCard(figure, title, caption, alt, table, more)


def _token_card(
    run: Run, variant: int, kinds: list[str], theme: Theme, title: str, lead: str, more: str = ""
) -> FigureCard:
    n = len(run)
    built = run.series("tvd", variant)[:n]
    replays = {kind: run.replay(kind, "tvd", variant)[:n] for kind in kinds}
    references = _references(run, variant, n)
    texts = new_texts(run, n)
    axis = LogAxis.around([built, *replays.values(), *references.values()])
    figure = blank(theme, height=HEIGHT, x_title="token", y_title="TVD")
    x, shown = np.arange(n), [plain(text) for text in texts]
    for name, values in references.items():
        figure.add_trace(_reference(name, x, values, theme))
    figure.add_trace(_building(x, axis.place(built), built, BUILDING, theme, shown))
    for kind, values in replays.items():
        figure.add_trace(_kind_trace(kind, x, axis.place(values), values, "token %{x}", shown))
    tie = ties(run, variant)[:n]
    marked = [(values, differs(run, variant, kind)[:n], tie) for kind, values in replays.items()]
    counts = mark_tokens(figure, theme, axis, marked)
    axis.apply(figure, theme)
    drawn = [built, *replays.values(), *references.values()]
    axis.mark_zeros(figure, theme, np.concatenate([np.flatnonzero(values == 0) for values in drawn]))
    figure.update_xaxes(range=[-0.5, max(n, 2) - 0.5], tick0=0, dtick=tick_step(n, 8))
    below_plot(figure)
    unmeasured = _unmeasured(run, variant, kinds, n)
    measured_only = [values[measured(run, variant, kind)[:n]] for kind, values in replays.items()]
    lost = mark_lost(figure, theme, drawn)
    caption = join([lead, counts, exact_zeros(drawn), unmeasured, missing([built, *measured_only]), lost])
    table: Table = {"step": list(range(n)), "token": list(texts), "tvd building": column(built)}
    for kind, values in replays.items():
        match = run.replay(kind, "match", variant)[:n]
        table[f"tvd {kind}"] = column(values)
        table[f"match {kind}"] = [None if np.isnan(m) else bool(m) for m in match.tolist()]
    table |= {name: column(values) for name, values in references.items()}
    ranges = [_range(BUILDING, built), *(_range(KIND_WORDS[k].short, v) for k, v in replays.items())]
    alt = join([f"{title}: TVD over {counted(n, 'token')}, logarithmic.", *ranges])
    return FigureCard(figure, title, caption, alt, table, more)


def _references(run: Run, variant: int, n: int) -> dict[str, Values]:
    dtype = run.variants[variant].dtype
    kinds = (("noise floor", "noise_floor_tvd"), ("no patch", "unpatched_tvd"))
    found = {name: run.reference(metric, dtype)[:n] for name, metric in kinds}
    return {name: values for name, values in found.items() if is_measured(values).any()}


def _kind_trace(
    kind: str, x: NDArray[np.int_], y: Values, values: Values, place: str, shown: list[str] | None = None
) -> go.Scatter:
    style, words = KIND_STYLES[kind], KIND_WORDS[kind]
    texts = [f" “{text}”" for text in shown] if shown else [""] * len(values)
    return go.Scatter(
        x=x,
        y=y,
        name=words.short,
        mode="lines+markers",
        line={"color": style.color, "dash": style.dash, "width": 2.2},
        marker={
            "symbol": style.symbol,
            "size": 12 if style.symbol.endswith("open") else 8,
            "color": style.color,
            "line": {"width": 2 if style.symbol.endswith("open") else 0, "color": style.color},
            "maxdisplayed": MARKERS_SHOWN,
        },
        customdata=[[text, sci(value)] for text, value in zip(texts, values.tolist(), strict=True)],
        hovertemplate=f"<b>run again {words.phrase}</b><br>{place}%{{customdata[0]}}: %{{customdata[1]}}"
        "<extra></extra>",
        meta=kind,
    )


def _building(
    x: NDArray[np.int_], y: Values, values: Values, name: str, theme: Theme, shown: list[str] | None = None
) -> go.Scatter:
    texts = [f" “{text}”" for text in shown] if shown else [""] * len(values)
    return go.Scatter(
        x=x,
        y=y,
        name=name,
        mode="lines",
        line={"color": theme.ink, "width": 3.2},
        customdata=[[text, sci(value)] for text, value in zip(texts, values.tolist(), strict=True)],
        hovertemplate=f"<b>{name}</b><br>%{{x}}%{{customdata[0]}}: %{{customdata[1]}}<extra></extra>",
        meta=BUILDING,
    )


def _reference(name: str, x: NDArray[np.int_], values: Values, theme: Theme) -> go.Scatter:
    return go.Scatter(
        x=x,
        y=np.where(values > 0, values, np.nan),
        name=name,
        mode="lines",
        connectgaps=True,
        line={
            "color": theme.soft,
            "dash": NOISE_DASH if name == "noise floor" else UNPATCHED_DASH,
            "width": 2,
        },
        customdata=[sci(value) for value in values.tolist()],
        hovertemplate=f"{name}<br>token %{{x}}: %{{customdata}}<extra></extra>",
        meta="reference",
    )


def _unmeasured(run: Run, variant: int, kinds: list[str], n: int) -> str:
    gaps = sum(int((~measured(run, variant, kind)[:n]).sum()) for kind in kinds)
    return f"{are(gaps, 'token')} not replayed." if gaps else ""


def _growth(kind: str, values: Values) -> str:
    """From which difference to which, and the factor of one layer, over the layers with a difference."""
    name = KIND_WORDS[kind].short
    at = np.flatnonzero(np.isfinite(values) & (values > 0))
    lost = int(is_lost(values).sum())
    nowhere = f", {NO_NUMBER} in {counted(lost, 'layer')}" if lost else ""
    if not len(at):
        return f"{name[0].upper()}{name[1:]}: no difference in any layer{nowhere}."
    first, last = int(at[0]), int(at[-1])
    start, end = float(values[first]), float(values[last])
    factor = f", {sci((end / start) ** (1 / (last - first)))} times a layer" if last > first else ""
    ends = f"{sci(start)} after layer {first}, {sci(end)} after layer {last}"
    return f"{name[0].upper()}{name[1:]}: {ends}{factor}{nowhere}."


def _range(name: str, values: Values) -> str:
    return f"{name}: {reach(values)}."


def _nothing(run: Run, variant: int, theme: Theme, title: str, what: str) -> FigureCard:
    figure = blank(theme, height=HEIGHT, x_title="", y_title="")
    if not len(run):
        return FigureCard(note(figure, theme, "no token yet"), title, "No token yet.", "No token yet.", {})
    if run.variants[variant].arithmetic != "written":
        reason = "Only written weights are run again; a factored update leaves no weights behind."
    else:
        reason = f"There is no {what}; choose one before the run."
    return FigureCard(note(figure, theme, f"no {what}"), title, reason, reason, {})
