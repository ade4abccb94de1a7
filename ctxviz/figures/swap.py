"""Two pictures in one place: how far apart their patches are, layer by layer, and whose answer each gives."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import plotly.graph_objects as go

from ctxviz.figures.card import FigureCard, Table, blank, column, join, note, some_ticks
from ctxviz.figures.logaxis import LogAxis, are, below_plot, exact_zeros
from ctxviz.figures.lost import mark_lost, reach
from ctxviz.figures.palette import LIGHT, Theme, label
from ctxviz.figures.subject import described
from ctxviz.figures.text import plain, quoted, readable, sci
from ctxviz.no_number import NO_NUMBER, NOT_MEASURED, is_lost, is_measured
from ctxviz.picture_findings import PARTS, Swap, Voice
from ctxviz.records import TopTokens
from ctxviz.run import Run

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
LONGEST_NAME: Final = 120
"""Characters of a picture's name; the longest caption of a scene has a few less."""


def cards(found: Swap, run: Run) -> dict[str, FigureCard]:
    """Both figures by the names of their files, each saying which run and which pictures it is of."""
    of = {"step": found.step, "variant": run.variants.index(found.variant), "picture": found.picture}
    made = {"swap-answers": crosswise(found), "swap-distances": swap_distances(found)}
    told = {name: described(card, name, run, **of) for name, card in made.items()}
    return {name: replace(card, subject=f"{card.subject}. {_who(found)}") for name, card in told.items()}


def swap_distances(found: Swap, theme: Theme = LIGHT) -> FigureCard:
    """Relative distance of A's and B's patches in every layer, one line per part of a patch."""
    figure = blank(theme, height=400, x_title="layer", y_title="‖ΔA − ΔB‖ / ‖ΔA‖")
    columns = [found.distances[part].astype(np.float64) for part in PARTS]
    layers = np.arange(len(columns[0]))
    axis = LogAxis.around(columns)
    for part, values in zip(PARTS, columns, strict=True):
        if not is_measured(values).any():
            continue
        colour, symbol, dash = _STYLES[part]
        figure.add_trace(
            go.Scatter(
                x=layers, y=axis.place(values), name=WORDS[part], mode="lines+markers",
                line={"color": colour, "dash": dash, "width": 2},
                marker={"symbol": symbol, "size": 9, "color": colour},
                customdata=[sci(float(v)) for v in values],
                hovertemplate=f"layer %{{x}}, {WORDS[part]}<br>%{{customdata}}<extra></extra>",
            )
        )  # fmt: skip
    axis.apply(figure, theme)
    mark_lost(figure, theme, columns)
    figure.update_xaxes(tickvals=some_ticks(len(layers)), range=[-0.5, len(layers) - 0.5])
    if any(np.isfinite(values).any() for values in columns):
        below_plot(figure, -0.2)
    else:
        note(figure, theme, "no distance could be measured")
    table: Table = {"layer": layers.tolist()} | _pictures(found, len(layers))
    table |= {part: column(found.distances[part]) for part in PARTS}
    title = f"How far the patches of B are from those of A, token {found.step}"
    more = join(
        [
            _who(found),
            f"Patches of {label(found.variant, [found.variant])}.",
            "Frobenius norm for the matrices, from their factors; Euclidean norm for the scale vector.",
        ]
    )
    return FigureCard(figure, title, _distance_words(found, columns), _distance_alt(columns), table, more)


def _distance_words(found: Swap, columns: list[np.ndarray]) -> str:
    return join(
        [
            "0: the same patch whichever picture; 1: the difference is as large as A's patch itself.",
            exact_zeros(columns),
            *_gap_words(found, columns),
        ]
    )


def _gap_words(found: Swap, columns: list[np.ndarray]) -> list[str]:
    """Why there is no point: layers that are not patched, updates that are not made, and the rest."""
    first = min(found.variant.first_layer, len(columns[0]))
    made = [found.made[part][first:] for part in PARTS]
    absent = [WORDS[part] for part, flags in zip(PARTS, made, strict=True) if not flags.any()]
    some = sum(int((~flags).sum()) for flags in made if flags.any())
    lost = sum(int(is_lost(values).sum()) for values in columns)
    words = []
    if first:
        words.append(f"Layers before {first} are not patched.")
    if absent and first < len(columns[0]):
        words.append(f"These patches have no {', no '.join(absent)} for both pictures.")
    if some:
        words.append(f"{are(some, 'value')} missing, where A or B gives no such update in that layer.")
    if lost:
        zero = "where A's update is zero or one is no number itself"
        words.append(f"✗ on the top row: {are(lost, 'value')} {NO_NUMBER}, {zero}.")
    return words


def _distance_alt(columns: list[np.ndarray]) -> str:
    parts = []
    for part, values in zip(PARTS, columns, strict=True):
        if is_measured(values).any():
            parts.append(f"{WORDS[part]} {reach(values, 'layer')}")
    return "Relative distance of two pictures' patches by layer: " + ("; ".join(parts) or NOT_MEASURED) + "."


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
        theme, height=110 + 100 * max(len(ids), 1), x_title="probability of the next token", y_title=""
    )
    for row in rows:
        values = [row.probabilities.get(i) for i in ids]
        fill = "rgba(0,0,0,0)" if row.hollow else row.colour
        figure.add_trace(
            go.Bar(
                x=values, y=np.arange(len(ids)), orientation="h", name=row.name,
                marker={"color": fill, "line": {"color": row.colour, "width": 2}},
                # Where there is no bar there is no place for words either: the caption tells.
                text=["" if v is None else f"{row.short}  {sci(v)}" for v in values],
                textposition="outside", textangle=0, textfont={"size": 14, "color": theme.ink},
                constraintext="none",
                cliponaxis=False, hovertemplate=f"{row.name}<br>%{{x:.6g}}<extra></extra>",
            )
        )  # fmt: skip
    figure.update_layout(barmode="group", bargap=0.25, bargroupgap=0.08)
    figure.update_yaxes(
        tickvals=list(range(len(ids))), ticktext=[plain(texts[i]) for i in ids], showgrid=False,
        range=[len(ids) - 0.5, -0.5], tickfont={"size": 15, "color": theme.ink},
    )  # fmt: skip
    figure.update_xaxes(range=[0, 1.4], tickvals=[0, 0.25, 0.5, 0.75, 1])
    if ids:
        below_plot(figure, -60 / (110 + 100 * len(ids)) - 0.04)
    else:
        note(figure, theme, "no distribution: the logits are no numbers")
    return FigureCard(
        figure,
        f"Whose answer the patches give, token {found.step}",
        _cross_words(rows, ids),
        f"{_who(found)} {_cross_alt(rows)}",
        _cross_table(found, ids, texts, rows),
        _cross_more(found),
    )


def verdict(found: Swap) -> str:
    """What each picture's patches say, in a sentence."""
    a, b = found.voices
    if _best(a.patched) is None and _best(b.patched) is None:
        return "Neither picture's patches give a distribution: their logits are no numbers."
    if _best(a.patched) == _best(b.patched):
        said = f"Both pictures' patches say {_saying(a.patched)}"
    else:
        # Two tokens may look alike, be it only because they are cut.
        alike = _saying(a.patched) == _saying(b.patched)
        one, other = (_saying(voice.patched, number=alike) for voice in found.voices)
        said = f"A's patches {_verb(a)} {one} and B's {_verb(b)} {other}"
    return f"{said}: {_rightness(found)}."


def _rightness(found: Swap) -> str:
    """Whether each says what the model says with that picture, as far as both have a distribution."""
    right: dict[str, bool] = {}
    lost: list[str] = []
    for name, voice in zip("AB", found.voices, strict=True):
        if _best(voice.patched) is not None and _best(voice.context) is not None:
            right[name] = _best(voice.patched) == _best(voice.context)
        elif _best(voice.context) is None:
            lost.append(f"the model gives no distribution with {name}")
    if len(right) < 2:
        told = [f"{k}'s {'as' if yes else 'not as'} the model does with {k}" for k, yes in right.items()]
        return "; ".join([*told, *lost])
    end = {2: "each as the model does with that picture", 0: "neither as the model does with that picture"}
    return end.get(
        sum(right.values()), f"only {'A' if right['A'] else 'B'}'s as the model does with that picture"
    )


def _best(top: TopTokens) -> int | None:
    return int(top.ids[0]) if len(top.ids) else None


def _verb(voice: Voice) -> str:
    return "give" if _best(voice.patched) is None else "say"


def _saying(top: TopTokens, *, number: bool = False) -> str:
    if not len(top.ids):
        return "no distribution"
    return quoted(top.texts[0]) + (f" (token id {_best(top)})" if number else "")


def _who(found: Swap) -> str:
    """Which pictures A and B are."""
    a, b = (
        f"“{readable(name, LONGEST_NAME)}”" if name else "a picture without a name" for name in found.names
    )
    return f"A is {a}, B is {b}."


def _pictures(found: Swap, rows: int) -> Table:
    """Columns with the names of both pictures."""
    return {f"picture {which}": [name] * rows for which, name in zip("AB", found.names, strict=True)}


def _tokens(found: Swap) -> list[int]:
    """The most probable tokens of all four, those of A first."""
    ids: dict[int, None] = {}
    for voice in found.voices:
        for top in (voice.context, voice.patched):
            ids |= dict.fromkeys(int(i) for i in top.ids[:SHOWN])
    return list(ids)


def _cross_more(found: Swap) -> str:
    a, b = found.voices
    return join(
        [
            _who(found),
            "Outlined are the written patches of that picture, run on a stock copy of the model that has no"
            " picture.",
            f"TVD of A's patches to the model with A {sci(a.tvd_own)}, with B {sci(a.tvd_other)};"
            f" of B's patches to the model with B {sci(b.tvd_own)}, with A {sci(b.tvd_other)};"
            f" of the two models {sci(found.context_tvd)}.",
        ]
    )


def _cross_words(rows: list[_Row], ids: list[int]) -> str:
    silent = [row.name for row in rows if not len(row.top.ids)]
    barless = sum(i not in row.probabilities for row in rows if len(row.top.ids) for i in ids)
    return join(
        [
            "Filled, A and B: the model reads that picture; outlined, ΔA and ΔB: its patches alone.",
            f"{are(barless, 'bar')} missing, where a token is not among the most probable ones that are kept"
            " of each."
            if barless
            else "",
            f"No distribution, since the logits are no numbers: {'; '.join(silent)}." if silent else "",
        ]
    )


def _cross_alt(rows: list[_Row]) -> str:
    def said(top: TopTokens) -> str:
        pairs = zip(top.texts[:SHOWN], top.probabilities.tolist(), strict=False)
        return ", ".join(f"{quoted(text)} {sci(p)}" for text, p in pairs) or "no distribution"

    return " ".join(f"{row.name}: {said(row.top)}." for row in rows)


def _cross_table(found: Swap, ids: list[int], texts: dict[int, str], rows: list[_Row]) -> Table:
    table: Table = {"token_id": list(ids), "token": [texts[i] for i in ids]} | _pictures(found, len(ids))
    for row in rows:
        # Infinite, no number, where there is no distribution.
        table[row.name] = [row.probabilities.get(i) if len(row.top.ids) else math.inf for i in ids]
    for name, voice in zip("AB", found.voices, strict=True):
        other = "B" if name == "A" else "A"
        table[f"tvd patches {name}, model {name}"] = _repeat(voice.tvd_own, ids)
        table[f"tvd patches {name}, model {other}"] = _repeat(voice.tvd_other, ids)
    table["tvd model A, model B"] = _repeat(found.context_tvd, ids)
    return table


def _repeat(value: float, ids: list[int]) -> list[float | None]:
    return column(np.full(len(ids), value))
