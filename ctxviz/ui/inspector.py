"""What lies behind one cell of the maps, on the Layers page: which cell it is, and its worst coordinates."""

from __future__ import annotations

import math

import streamlit as st

from ctxviz.figures.coordinates import Coordinate, worst_table
from ctxviz.figures.text import readable, sci
from ctxviz.run import Run
from ctxviz.ui import looked_at, messages
from ctxviz.ui.focus import Focus
from ctxviz.ui.session import Session

_COLUMNS = {
    "j": st.column_config.TextColumn("j", help="Coordinate of the residual stream; ◇ dead", width=54),
    "h": st.column_config.TextColumn("h", help="The denominator", width=66),
    "delta_v": st.column_config.TextColumn("Δv", help="What the context adds here", width=66),
    "m": st.column_config.TextColumn("m", help="The scale before the patch", width=66),
    "delta_m": st.column_config.TextColumn("Δm", help="The patch of the scale", width=66),
}
"""Widths in pixels: all columns stand in half of a page 730 px wide, and on a telephone."""


def draw_cell_choice(session: Session, run: Run, focus: Focus, reason: str = "") -> None:
    """Which token and layer is opened, by keyboard too, and why: a ``reason``, or nobody's choice."""
    state = st.session_state
    state.inspect_step, state.inspect_layer = focus.step, focus.layer

    def follow() -> None:
        session.pick(int(state.inspect_step), int(state.inspect_layer), focus.variant)

    token = readable(run.token(focus.step or 0)[4])
    with st.container(horizontal=True, key="inspector-choice", vertical_alignment="center"):
        messages.heading(2, f"Behind token {focus.step}, “{token}”, in layer {focus.layer}", "inspector-head")
        if why := _opened(session, run) or reason:
            messages.hint(why, "opened")
        st.number_input("Token", 0, len(run) - 1, key="inspect_step", on_change=follow)
        st.number_input("Layer", 0, run.model.n_layers - 1, key="inspect_layer", on_change=follow)


def _opened(session: Session, run: Run) -> str:
    """What the cell that is opened is where the reader did not choose it; empty where they did."""
    what = looked_at.opened_by_itself(run, session.focus, still=not session.view.active)
    return f"Not chosen by you: {what[:1].lower()}{what[1:]}." if what else ""


def draw_worst(run: Run, step: int, layer: int, variant: int) -> None:
    """The ten coordinates with the largest changes, as a table; nothing where they were not kept."""
    vectors = run.vectors(step, variant)
    if vectors is None:
        return
    messages.heading(3, "The ten largest changes", "worst-head")
    worst = worst_table(vectors, layer)
    st.dataframe(
        {name: [_cell(row, name) for row in worst] for name in _COLUMNS},
        column_config=_COLUMNS,
        hide_index=True,
        placeholder="",
        alt=_alt(worst),
        key="worst",
    )


def _cell(row: Coordinate, name: str) -> str:
    if name == "j":
        return f"{row.j} ◇" if row.dead else str(row.j)
    return _number(getattr(row, name))


def _number(value: float) -> str:
    """Two digits, as in ``-7.1e-5``; in words where there are none."""
    if not math.isfinite(value):
        return sci(value)
    digits, exponent = f"{value:.1e}".split("e")
    return f"{digits}e{int(exponent)}"


def _alt(worst: list[Coordinate]) -> str:
    if not worst:
        return "No coordinate is patched in this layer."
    first = worst[0]
    return (
        f"Coordinates with the largest change. The first is {first.j}: h {_number(first.h)}, "
        f"change of m {_number(first.delta_m)}{', dead' if first.dead else ''}."
    )
