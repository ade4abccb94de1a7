"""The Layers page: one run, layer by layer and coordinate by coordinate; the maps first."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import streamlit as st

from ctxviz import alarms
from ctxviz.alarms import Alarm
from ctxviz.figures.card import FigureCard, Table
from ctxviz.figures.coordinates import coordinates, worst_table
from ctxviz.figures.everywhere import everywhere
from ctxviz.figures.guilty import guilty, guilty_sentence
from ctxviz.figures.multiplier import multiplier
from ctxviz.figures.rounding import rounding
from ctxviz.figures.scales import scales
from ctxviz.figures.spectrum import spectrum
from ctxviz.figures.text import counted
from ctxviz.run import Run
from ctxviz.ui import (
    arrival,
    components,
    inspector,
    looked_at,
    messages,
    page,
    page_top,
    run_card,
    take_away,
)
from ctxviz.ui.fields import FieldsEvent, fields
from ctxviz.ui.number_columns import with_words
from ctxviz.ui.session import Session

ALARMS_SHOWN: Final = 500
SUSPECTS: Final = 6
_ALARM_COLUMNS: Final = {
    "kind": st.column_config.TextColumn("kind", width=110),
    "token": st.column_config.NumberColumn("token", width=58),
    "layer": st.column_config.NumberColumn("layer", width=58),
    "what": st.column_config.TextColumn("what", width=420),
    "j": st.column_config.NumberColumn("j", width=56),
    "value": st.column_config.NumberColumn("value", format="%.1e", width=80),
    "threshold": st.column_config.NumberColumn("threshold", format="%.1e", width=80),
}
"""What an alarm says stands before its numbers: a narrow window shows the first columns."""


def draw() -> None:
    """One run of the page's script."""
    session = page.begin()
    with st.sidebar:
        run_card.draw_sidebar(session)
    shown = page_top.draw("Layers", session)
    if shown is not None:
        _draw_run(session, *shown)
    page.end(session)


def _draw_run(session: Session, run: Run, variant: int) -> None:
    focus = looked_at.inspected(run, session.focus, still=True)
    assert focus is not None
    step, layer = focus.step or 0, focus.layer or 0
    with st.container(key="maps"):
        _draw_fields(session, step, layer, variant)
    inspector.draw_cell_choice(session, run, focus, _alarm_at(session))
    _draw_cell(run, step, layer, variant)
    _draw_everywhere(run, variant, step, layer)
    _draw_alarms(session, run)
    take_away.draw(session, run, step, variant)
    arrival.draw("maps", "inspector-head")


def _draw_fields(session: Session, step: int, layer: int, variant: int) -> None:
    """The two maps; what is picked in them is followed before the page is drawn again."""
    state = st.session_state

    def follow(event: FieldsEvent) -> None:
        state.left, state.right = event.metrics
        if event.picked is not None:
            session.pick(event.picked.step, event.picked.layer, variant)

    fields(
        session.view.id,
        variant=variant,
        selected=(step, layer),
        metrics=(state.left, state.right),
        told=follow,
    )


def _draw_cell(run: Run, step: int, layer: int, variant: int) -> None:
    """The coordinates behind the chosen cell, seen in five ways, and what was counted in it."""
    if run.vectors(step, variant) is None:
        messages.hint(looked_at.counts(run, step, layer, variant), "counts")
        messages.hint(looked_at.missing(run), "vectors")
        return
    cell = (run, step, layer, variant)
    with st.container(key="cell-figures"):
        left, right = st.columns(2, gap="medium")
        with left:
            _draw_figure(coordinates(*cell), "coordinates")
            _draw_figure(scales(*cell), "scales")
            if run.variants[variant].update != "direct":
                _draw_figure(multiplier(*cell), "multiplier")
        with right:
            _draw_figure(spectrum(*cell), "spectrum")
            _draw_figure(rounding(*cell), "rounding")
            inspector.draw_worst(run, step, layer, variant)
    messages.hint(looked_at.counts(run, step, layer, variant), "counts")


def _draw_figure(card: FigureCard, key: str) -> None:
    """A figure of the cell; the heading above names the cell, so its title says only what it shows."""
    what = card.title.rsplit(": ", 1)[-1]
    components.figure(replace(card, title=what[:1].upper() + what[1:]), key=key)


def _draw_everywhere(run: Run, variant: int, step: int, layer: int) -> None:
    """One coordinate in all layers and tokens; the usual suspects are a click away."""
    suspects = [found.coordinate for found in guilty(run, variant) if found.largest_change]
    vectors = run.vectors(step, variant)
    worst = worst_table(vectors, layer, 1) if vectors is not None else []
    first = suspects[0] if suspects else worst[0].j if worst else 0
    state = st.session_state
    chosen = state.chosen_coordinate
    j = chosen if chosen is not None and chosen < run.model.width else first
    state.coordinate = j
    with st.container(horizontal=True, key="suspects", vertical_alignment="center"):
        messages.heading(2, "The same coordinate everywhere", "everywhere-head")
        st.number_input(
            "Coordinate",
            0,
            run.model.width - 1,
            key="coordinate",
            on_change=lambda: _look_at(int(state.coordinate)),
        )
        if suspects:
            messages.hint("Most often the largest change:", "suspects")
        for suspect in suspects[:SUSPECTS]:
            st.button(
                str(suspect), key=f"suspect{suspect}", type="tertiary", on_click=_look_at, args=(suspect,)
            )
    components.figure(_everywhere(run, j, variant), key="everywhere")
    messages.hint(guilty_sentence(run, variant), "guilty")


def _everywhere(run: Run, j: int, variant: int) -> FigureCard:
    """The figure, drawn again only where it would be another."""
    state, wanted = st.session_state, (len(run), j, variant)
    kept = state.get("everywhere_card")
    if kept is None or kept[0] is not run or kept[1] != wanted:
        kept = state.everywhere_card = (run, wanted, everywhere(run, j, variant))
    return kept[2]


def _look_at(coordinate: int) -> None:
    st.session_state.chosen_coordinate = coordinate


def _draw_alarms(session: Session, run: Run) -> None:
    """What deserves a look, by kind; a row that is chosen is looked at."""
    messages.heading(2, "Alarms", "alarms-head")
    counts = alarms.count(run)
    fired = [kind for kind in alarms.KINDS if counts[kind]]
    if not fired:
        messages.hint("No alarm fires in this run.", "alarms")
        return
    state = st.session_state
    state.alarm_kinds = [kind for kind in state.get("alarm_kinds") or () if kind in fired]
    chosen = st.pills(
        "Kinds",
        fired,
        selection_mode="multi",
        format_func=lambda kind: f"{kind} · {counts[kind]}",
        key="alarm_kinds",
        label_visibility="collapsed",
        persist_state="session",
    )
    for kind in chosen:
        about = alarms.KINDS[kind]
        messages.hint(f"{kind}: {about.meaning}. Fires at: {about.threshold}.", f"alarm-{kind}")
    kinds = chosen or fired
    shown, total = alarms.find(run, kinds, limit=ALARMS_SHOWN), sum(counts[kind] for kind in kinds)
    if total > len(shown):
        messages.hint(f"The first {len(shown)} of {counted(total, 'alarm')} are listed.", "alarm-count")
    _draw_list(session, shown, f"alarms-{session.view.id}-{'-'.join(kinds)}-{len(run)}-{total}")


def _draw_list(session: Session, shown: list[Alarm], key: str) -> None:
    """The alarms as a table; ``key`` is another one where the list is another one."""
    st.session_state.alarms_shown = shown
    rows: Table = {
        "kind": [a.kind for a in shown],
        "token": [a.step for a in shown],
        "layer": [a.layer for a in shown],
        "j": [a.coordinate for a in shown],
        "value": [a.value for a in shown],
        "threshold": [a.threshold for a in shown],
        "what": [a.sentence for a in shown],
    }
    rows, columns = with_words(rows, _ALARM_COLUMNS)
    st.dataframe(
        rows,
        column_config=columns,
        column_order=list(_ALARM_COLUMNS),
        hide_index=True,
        placeholder="",
        on_select=lambda: _follow(session, key),
        selection_mode="single-row",
        key=key,
        alt=f"{counted(len(shown), 'alarm')}; the first: {shown[0].sentence}",
    )
    messages.hint("Choose a row to be taken to its place in the maps.", "alarm-rows")


def _follow(session: Session, key: str) -> None:
    """Look at the place of the alarm that was chosen just now; nothing where a choice was undone."""
    state = st.session_state
    rows, shown, run = state[key].selection.rows, state.alarms_shown, session.view.run
    if run is None or not rows or rows[0] >= len(shown):
        return
    alarm = shown[rows[0]]
    now = looked_at.inspected(run, session.focus, still=True)
    if now is None:
        return
    step = now.step if alarm.step is None else alarm.step
    variant = now.variant if alarm.variant is None else alarm.variant
    session.pick(step or 0, alarm.layer, variant)
    if alarm.coordinate is not None:
        _look_at(alarm.coordinate)
    state.alarm_followed = ((session.view.id, session.focus), alarm.sentence)
    arrival.ask()


def _alarm_at(session: Session) -> str:
    """What the alarm says that led to what is looked at; empty where the reader has gone on since."""
    place, sentence = st.session_state.get("alarm_followed", (None, ""))
    return sentence if place == (session.view.id, session.focus) else ""
