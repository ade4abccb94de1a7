"""The answers to one question with a picture, without it, and with patches in its place, token by token."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import plotly.graph_objects as go

from ctxviz.figures.card import FigureCard, Table, blank, join, note
from ctxviz.figures.palette import LIGHT, Theme, label
from ctxviz.figures.subject import of_run
from ctxviz.figures.text import counted, plain, readable
from ctxviz.picture_findings import WithoutPictures, folded_pictures
from ctxviz.run import Run

MOST_ROWS: Final = 48
"""Tokens drawn; the CSV holds all."""
ROW_PIXELS: Final = 27
LONGEST_ANSWER: Final = 600
"""Characters of an answer's card."""
OPEN, CLOSE = "⟦", "⟧"
COLUMN_CHARACTERS: Final = 14
SILENT: Final = "no distribution"
"""Stands where the logits are no numbers, so that nothing is said."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One model's answer: its tokens, and which of them are not the run's at the same place."""

    title: str
    texts: tuple[str | None, ...]
    """None where there is no distribution."""
    differs: tuple[bool, ...]
    length: int
    """Tokens of the run."""
    whole: str
    """``the picture`` or ``the pictures`` of the run."""
    ended: bool
    """Whether no token is to come."""

    @property
    def silent(self) -> int:
        """How many of its tokens have no distribution."""
        return self.texts.count(None)

    @property
    def marked(self) -> str:
        """The answer as text, tokens that differ between ⟦ and ⟧; cut where it is very long."""
        parts: list[str] = []
        told = [f"⟨{SILENT}⟩" if text is None else text for text in self.texts]
        for k, (text, differs) in enumerate(zip(told, self.differs, strict=True)):
            before = k > 0 and self.differs[k - 1]
            if differs and not before and k:
                # The space that begins a word stays outside.
                parts.append(" " * (len(text) - len(text.lstrip(" "))))
                text = text.lstrip(" ")
            parts.append(
                f"{OPEN if differs and not before else ''}{CLOSE if before and not differs else ''}{text}"
            )
        if self.differs and self.differs[-1]:
            parts.append(CLOSE)
        return readable("".join(parts).strip(), LONGEST_ANSWER)

    @property
    def agreement(self) -> str:
        """``3 of 5 tokens as with the picture``, of those that the run has, and how far this one has come."""
        written = len(self.texts)
        parts = [f"{self.differs.count(False)} of {counted(self.length, 'token')} as with {self.whole}"]
        if written < self.length:
            parts.append(f"ended after {written}" if self.ended else f"{written} so far")
        if self.silent:
            parts.append(f"{self.silent} without a distribution")
        return ", ".join(parts)


def answers(run: Run, variant: int, found: WithoutPictures | None) -> tuple[Answer, ...]:
    """With the picture, without it (once ``found``), and patched without it."""
    n, pictures = len(run), len(run.context.images)
    whole = "the picture" if pictures <= 1 else "the pictures"
    dropped = folded_pictures(run.context) if found is None else found.dropped
    without = dropped_words(dropped, pictures)
    ids = [run.token(k)[3] for k in range(n)]
    ended = run.outcome is not None
    written = tuple(run.token(k)[4] for k in range(n))
    made = [Answer(f"With {whole}", written, (False,) * n, n, whole, ended)]
    if found is not None:
        differs = tuple(k >= n or ids[k] != i for k, i in enumerate(found.ids))
        made.append(Answer(f"Without {without}", found.texts, differs, n, whole, found.ended))
    tops = [run.top(k, variant) for k in range(n)]
    said = tuple(top.texts[0] if len(top.ids) else None for top in tops)
    differs = tuple(not len(top.ids) or int(top.ids[0]) != i for top, i in zip(tops, ids, strict=True))
    name = label(run.variants[variant], run.variants)
    made.append(Answer(f"Patched, without {without} ({name})", said, differs, n, whole, ended))
    return tuple(made)


def dropped_words(dropped: Sequence[int], pictures: int) -> str:
    """``the picture`` or ``the pictures`` where every one is dropped, their numbers where others stay."""
    if pictures <= 1:
        return "the picture"
    if len(dropped) in (0, pictures):
        return "the pictures"
    *first, last = (str(k + 1) for k in dropped)
    return f"pictures {', '.join(first)} and {last}" if first else f"picture {last}"


@of_run("before-after")
def before_after(
    run: Run, variant: int, found: WithoutPictures | None = None, theme: Theme = LIGHT
) -> FigureCard:
    """The answers beside each other, one row per token; ✗ and a box mark what differs from the run."""
    columns = answers(run, variant, found)
    longest = max(len(answer.texts) for answer in columns)
    rows = min(longest, MOST_ROWS)
    figure = blank(theme, height=70 + ROW_PIXELS * max(rows, 3), x_title="", y_title="token")
    title = "The answers, token by token"
    if not longest:
        return FigureCard(note(figure, theme, "no token yet"), title, "", "No token yet.", {})
    for x, answer in enumerate(columns):
        _add_column(figure, theme, x, answer, rows)
    figure.update_xaxes(
        tickvals=list(range(len(columns))),
        ticktext=[answer.title.split(" (")[0].replace(", ", ",<br>", 1) for answer in columns],
        side="top", range=[-0.5, len(columns) - 0.5], fixedrange=True,
        tickfont={"size": 14, "color": theme.ink},
    )  # fmt: skip
    figure.update_yaxes(
        range=[rows - 0.4, -0.6], fixedrange=True, showgrid=False,
        tickvals=list(range(0, rows, 1 if rows <= 16 else 5)),
    )  # fmt: skip
    caption = _caption(columns, rows, longest)
    return FigureCard(figure, title, caption, _alt(columns), _table(run, columns))


def _add_column(figure: go.Figure, theme: Theme, x: int, answer: Answer, rows: int) -> None:
    texts, differs = answer.texts[:rows], answer.differs[:rows]
    shown = [
        f"✗ <i>{SILENT}</i>"
        if text is None
        else f"✗ <b>{plain(text, COLUMN_CHARACTERS)}</b>"
        if other
        else plain(text, COLUMN_CHARACTERS)
        for text, other in zip(texts, differs, strict=True)
    ]
    figure.add_trace(
        go.Scatter(
            x=[x] * len(texts), y=list(range(len(texts))), mode="text", text=shown, name=answer.title,
            textfont={"size": 14, "color": theme.ink}, showlegend=False,
            customdata=[SILENT if text is None else f"“{plain(text)}”" for text in texts],
            hovertemplate=f"token %{{y}}, {plain(answer.title, 60)}<br>%{{customdata}}<extra></extra>",
        )
    )  # fmt: skip
    for y, other in enumerate(differs):
        if other:
            figure.add_shape(
                type="rect", x0=x - 0.46, x1=x + 0.46, y0=y - 0.42, y1=y + 0.42, layer="below",
                line={"color": theme.alarm, "width": 1.5}, fillcolor="rgba(0,0,0,0)",
            )  # fmt: skip


def _caption(columns: Sequence[Answer], rows: int, longest: int) -> str:
    shorter = [a for a in columns if len(a.texts) < longest]
    return join(
        [
            f"✗ and a box mark a token other than the one written with {columns[0].whole} at the same place.",
            f"“{columns[1].title}” follows its own words; the patched model follows the run's."
            if len(columns) > 2
            else "",
            *(
                f"“{a.title}” ended after {counted(len(a.texts), 'token')}."
                if a.ended
                else f"“{a.title}”: {counted(len(a.texts), 'token')} so far."
                for a in shorter
            ),
            *(
                f"“{a.title}” has no distribution at {counted(a.silent, 'token')}, where its logits are no"
                " numbers."
                for a in columns
                if a.silent
            ),
            f"The first {rows} of {longest} tokens are drawn; the CSV holds all." if rows < longest else "",
        ]
    )


def _alt(columns: Sequence[Answer]) -> str:
    return " ".join(
        f"{answer.title}: “{answer.marked}”{'' if k == 0 else f', {answer.agreement}'}."
        for k, answer in enumerate(columns)
    )


def _table(run: Run, columns: Sequence[Answer]) -> Table:
    longest = max(len(answer.texts) for answer in columns)
    table: Table = {"step": list(range(longest))}
    for answer in columns:
        gap = [None] * (longest - len(answer.texts))
        table[answer.title] = [*(SILENT if text is None else text for text in answer.texts), *gap]
        if answer is not columns[0]:
            same = [
                math.inf if text is None else not differs
                for text, differs in zip(answer.texts, answer.differs, strict=True)
            ]
            table[f"{answer.title}: same"] = [*same, *gap]
    for k, variant in enumerate(run.variants):
        tops = [run.top(step, k) for step in range(len(run))]
        said = [top.texts[0] if top.texts else SILENT for top in tops]
        table[f"patched, {variant.label}"] = [*said, *[None] * (longest - len(said))]
    return table
