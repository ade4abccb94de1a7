"""Two pictures in one place: how far apart their patches are, layer by layer, and whose answer each gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import plotly.graph_objects as go

from ctxviz.figures.card import FigureCard, Table, blank, column, join, some_ticks
from ctxviz.figures.logaxis import LogAxis, are, below_plot, exact_zeros
from ctxviz.figures.palette import LIGHT, Theme, label
from ctxviz.figures.text import plain, quoted, sci
from ctxviz.picture_findings import PARTS, Swap
from ctxviz.records import TopTokens

WORDS: Final = {"gate": "ΔW_gate", "up": "ΔW_up", "down": "ΔW_down", "scale": "Δm (scale)"}
_STYLES: Final = {
    "gate": ("#0072B2", "circle", "solid"),
    "up": ("#E69F00", "square", "6px,4px"),
    "down": ("#009E73", "diamond", "10px,3px,2px,3px"),
    "scale": ("#CC79A7", "triangle-up", "2px,3px"),
}
COLOURS: Final = ("#0072B2", "#D55E00")
"""Of A and B."""
SHOWN: Final = 4
"""Most probable tokens of each."""


def swap_distances(found: Swap, theme: Theme = LIGHT) -> FigureCard:
    """Relative distance of A's and B's patches in every layer, one line per part of a patch."""
    figure = blank(theme, height=400, x_title="layer", y_title="‖ΔA − ΔB‖ / ‖ΔA‖")
    columns = [found.distances[part].astype(np.float64) for part in PARTS]
    layers = np.arange(len(columns[0]))
    axis = LogAxis.around(columns)
    for part, values in zip(PARTS, columns, strict=True):
        if not np.isfinite(values).any():
            continue
        colour, symbol, dash = _STYLES[part]
        figure.add_trace(
            go.Scatter(
                x=layers, y=axis.place(values), name=WORDS[part], mode="lines+markers",
                line={"color": colour, "dash": dash, "width": 2},
                marker={"symbol": symbol, "size": 9, "color": colour},
                customdata=["not measured" if not np.isfinite(v) else sci(float(v)) for v in values],
                hovertemplate=f"layer %{{x}}, {WORDS[part]}<br>%{{customdata}}<extra></extra>",
            )
        )  # fmt: skip
    axis.apply(figure, theme)
    figure.update_xaxes(tickvals=some_ticks(len(layers)), range=[-0.5, len(layers) - 0.5])
    below_plot(figure, -0.2)
    table: Table = {"layer": layers.tolist()}
    table |= {part: column(found.distances[part]) for part in PARTS}
    title = f"How far the patches of B are from those of A, token {found.step}"
    return FigureCard(figure, title, _distance_words(found, columns), _distance_alt(columns), table)


def _distance_words(found: Swap, columns: list[np.ndarray]) -> str:
    gaps = sum(int((~np.isfinite(values)).sum()) for values in columns)
    return join(
        [
            "0: the same patch whichever picture; 1: the difference is as large as A's patch itself."
            " Frobenius norm for the matrices, from their factors; Euclidean norm for the scale vector.",
            f"Patches of {label(found.variant, [found.variant])}.",
            exact_zeros(columns),
            f"{are(gaps, 'value')} missing, where the rule makes no such update or A's is zero."
            if gaps
            else "",
        ]
    )


def _distance_alt(columns: list[np.ndarray]) -> str:
    parts = []
    for part, values in zip(PARTS, columns, strict=True):
        finite = values[np.isfinite(values)]
        if finite.size:
            parts.append(f"{WORDS[part]} from {sci(float(finite.min()))} to {sci(float(finite.max()))}")
    return (
        "Relative distance of two pictures' patches by layer: " + ("; ".join(parts) or "not measured") + "."
    )


@dataclass(frozen=True, slots=True)
class _Row:
    """One of the four that speak."""

    name: str
    short: str
    top: TopTokens
    colour: str
    hollow: bool

    @property
    def probabilities(self) -> dict[int, float]:
        return {int(i): float(p) for i, p in zip(self.top.ids, self.top.probabilities, strict=True)}


def _rows(found: Swap) -> list[_Row]:
    rows: list[_Row] = []
    for name, voice, colour in zip("AB", found.voices, COLOURS, strict=True):
        rows += [
            _Row(f"model with picture {name}", name, voice.context, colour, False),
            _Row(f"patches of {name}, no picture", f"Δ{name}", voice.patched, colour, True),
        ]
    return rows


def crosswise(found: Swap, theme: Theme = LIGHT) -> FigureCard:
    """What the model says with each picture, and what each picture's written patches say with none."""
    rows = _rows(found)
    ids = _tokens(found)
    texts = {int(i): t for row in rows for i, t in zip(row.top.ids, row.top.texts, strict=True)}
    figure = blank(
        theme, height=110 + 92 * max(len(ids), 1), x_title="probability of the next token", y_title=""
    )
    for row in rows:
        values = [row.probabilities.get(i) for i in ids]
        fill = "rgba(0,0,0,0)" if row.hollow else row.colour
        figure.add_trace(
            go.Bar(
                x=values, y=np.arange(len(ids)), orientation="h", name=row.name,
                marker={"color": fill, "line": {"color": row.colour, "width": 2}},
                text=[f"{row.short}  {'not in its list' if v is None else sci(v)}" for v in values],
                textposition="outside", textangle=0, textfont={"size": 12, "color": theme.ink},
                cliponaxis=False, hovertemplate=f"{row.name}<br>%{{x:.6g}}<extra></extra>",
            )
        )  # fmt: skip
    figure.update_layout(barmode="group", bargap=0.25, bargroupgap=0.08)
    figure.update_yaxes(
        tickvals=list(range(len(ids))), ticktext=[plain(texts[i]) for i in ids], showgrid=False,
        range=[len(ids) - 0.5, -0.5], tickfont={"size": 15, "color": theme.ink},
    )  # fmt: skip
    figure.update_xaxes(range=[0, 1.4], tickvals=[0, 0.25, 0.5, 0.75, 1])
    below_plot(figure, -60 / (110 + 92 * max(len(ids), 1)) - 0.04)
    return FigureCard(
        figure,
        f"Whose answer the patches give, token {found.step}",
        _cross_words(found),
        _cross_alt(rows),
        _cross_table(found, ids, texts, rows),
    )


def verdict(found: Swap) -> str:
    """What each picture's patches say, in a sentence."""
    one, other = (_best(voice.patched) for voice in found.voices)
    right = [_best(v.patched) == _best(v.context) for v in found.voices]
    same = "both pictures' patches say" if one == other else ""
    said = f"{same} {one}" if same else f"A's patches say {one} and B's say {other}"
    end = {2: "each as the model does with that picture", 0: "neither as the model does with that picture"}
    last = end.get(sum(right), f"only {'A' if right[0] else 'B'}'s as the model does with that picture")
    return f"{said[0].upper()}{said[1:]}: {last}."


def _best(top: TopTokens) -> str:
    return quoted(top.texts[0]) if top.texts else "nothing"


def _tokens(found: Swap) -> list[int]:
    """The most probable tokens of all four, those of A first."""
    ids: dict[int, None] = {}
    for voice in found.voices:
        for top in (voice.context, voice.patched):
            ids |= dict.fromkeys(int(i) for i in top.ids[:SHOWN])
    return list(ids)


def _cross_words(found: Swap) -> str:
    a, b = found.voices
    return join(
        [
            "Filled, A and B: the model reads that picture. Outlined, ΔA and ΔB: the written patches of that"
            " picture run on a stock copy of the model that has no picture.",
            f"TVD of A's patches to the model with A {sci(a.tvd_own)}, with B {sci(a.tvd_other)};"
            f" of B's patches to the model with B {sci(b.tvd_own)}, with A {sci(b.tvd_other)};"
            f" of the two models {sci(found.context_tvd)}.",
        ]
    )


def _cross_alt(rows: list[_Row]) -> str:
    def said(top: TopTokens) -> str:
        pairs = zip(top.texts[:SHOWN], top.probabilities.tolist(), strict=False)
        return ", ".join(f"{quoted(text)} {sci(p)}" for text, p in pairs) or "no distribution"

    return " ".join(f"{row.name}: {said(row.top)}." for row in rows)


def _cross_table(found: Swap, ids: list[int], texts: dict[int, str], rows: list[_Row]) -> Table:
    table: Table = {"token_id": list(ids), "token": [texts[i] for i in ids]}
    for row in rows:
        table[row.name] = [row.probabilities.get(i) for i in ids]
    for name, voice in zip("AB", found.voices, strict=True):
        other = "B" if name == "A" else "A"
        table[f"tvd patches {name}, model {name}"] = _repeat(voice.tvd_own, ids)
        table[f"tvd patches {name}, model {other}"] = _repeat(voice.tvd_other, ids)
    return table


def _repeat(value: float, ids: list[int]) -> list[float | None]:
    return column(np.full(len(ids), value))
