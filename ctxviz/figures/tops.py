"""The most probable next tokens of both models, side by side."""

from __future__ import annotations

import math

import numpy as np
import plotly.graph_objects as go

from ctxviz.figures.card import FigureCard, blank, join, note
from ctxviz.figures.palette import LIGHT, Theme, label, variant_style
from ctxviz.figures.subject import of_run
from ctxviz.figures.text import counted, plain, quoted, sci
from ctxviz.records import TopTokens
from ctxviz.run import Run


@of_run("top-tokens")
def tops(run: Run, step: int, variant: int, theme: Theme = LIGHT) -> FigureCard:
    """Probabilities of both models' most probable tokens at one step, best of the context model first."""
    chosen = run.variants[variant]
    context, patched = run.baseline(step, chosen.dtype).top, run.top(step, variant)
    ours, theirs = _by_id(context), _by_id(patched)
    texts = {int(i): t for top in (context, patched) for i, t in zip(top.ids, top.texts, strict=True)}
    ids = sorted(texts, key=lambda i: (-ours.get(i, -1.0), -theirs.get(i, -1.0)))
    figure = blank(theme, height=90 + 44 * len(ids), x_title="probability of the next token", y_title="")
    name = label(chosen, run.variants)
    shown = [plain(texts[i]) for i in ids]
    colour = variant_style(chosen, variant).color
    sides = {"with context": ours, f"patched, {name}": theirs}
    for (who, found), fill in zip(sides.items(), (theme.soft, colour), strict=True):
        figure.add_trace(_bars(who, ids, found, shown, fill, theme, hollow=found is theirs))
    _axes(figure, shown, theme, max([*ours.values(), *theirs.values()], default=0.0))
    if not ids:
        note(figure, theme, "no distribution: the logits are no numbers")
    silent = [who for who, found in sides.items() if not found]
    absent = sum(i not in found for found in sides.values() if found for i in ids)
    caption = join(
        [
            "What each model would say next; bars of equal length mean that the patch carries the context.",
            f"{counted(absent, 'bar')} {'is' if absent == 1 else 'are'} missing: the token is not among that"
            " model's most probable."
            if absent
            else "",
            f"No distribution, since the logits are no numbers: {' and '.join(silent)}." if silent else "",
        ]
    )
    table = {
        "token_id": ids,
        "token": [texts[i] for i in ids],
        "with_context": _column(ids, ours),
        "patched": _column(ids, theirs),
    }
    title = f"Most probable next tokens at token {step}"
    return FigureCard(figure, title, caption, _alt(title, context, patched, name), table)


def _axes(figure: go.Figure, shown: list[str], theme: Theme, largest: float) -> None:
    figure.update_yaxes(
        tickvals=list(range(len(shown))),
        ticktext=shown,
        range=[len(shown) - 0.5, -0.5],
        showgrid=False,
        tickfont={"size": 15, "color": theme.ink},
    )
    # Room to the right of the longest bar for the number behind it.
    figure.update_xaxes(range=[0, 1.12 * largest or 1.0], nticks=6, showgrid=True)
    figure.update_layout(
        barmode="group",
        bargap=0.3,
        bargroupgap=0.05,
        legend={
            "orientation": "h",
            "x": 0,
            "y": 1.02,
            "xanchor": "left",
            "yanchor": "bottom",
            "traceorder": "normal",
        },
    )


def _column(ids: list[int], found: dict[int, float]) -> list[float | None]:
    """Probabilities; infinite, no number, where there is no distribution."""
    return [found.get(i) if found else math.inf for i in ids]


def _by_id(top: TopTokens) -> dict[int, float]:
    return {int(i): float(p) for i, p in zip(top.ids, top.probabilities, strict=True)}


def _bars(
    name: str,
    ids: list[int],
    found: dict[int, float],
    shown: list[str],
    colour: str,
    theme: Theme,
    *,
    hollow: bool,
) -> go.Bar:
    """Filled or outlined bars. No pattern: in a page whose address changes, SVG patterns lose their fill."""
    values, absent = [found.get(i) for i in ids], "not in its list" if found else "no distribution"
    return go.Bar(
        x=values,
        y=np.arange(len(ids)),
        orientation="h",
        name=name,
        marker={
            "color": "rgba(0,0,0,0)" if hollow else colour,
            "line": {"color": colour, "width": 2},
        },
        text=[absent if v is None else sci(v) for v in values],
        textposition="outside",
        constraintext="none",
        textangle=0,
        textfont={"size": 14, "color": theme.ink},
        cliponaxis=False,
        customdata=[
            [text, absent if v is None else f"{v:.6g}"] for text, v in zip(shown, values, strict=True)
        ],
        hovertemplate=f"{name}<br>“%{{customdata[0]}}” %{{customdata[1]}}<extra></extra>",
    )


def _alt(title: str, context: TopTokens, patched: TopTokens, name: str) -> str:
    return f"{title}. With context: {_spoken(context)}. Patched, {name}: {_spoken(patched)}."


def _spoken(top: TopTokens) -> str:
    pairs = zip(top.texts, top.probabilities.tolist(), strict=True)
    return ", ".join(f"{quoted(text)} {sci(p)}" for text, p in pairs) or "no distribution"
