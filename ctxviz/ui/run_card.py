"""Which run a page is about: its name in the sidebar, its variant, and what to do where there is none."""

from __future__ import annotations

import streamlit as st

from ctxviz.figures.palette import label
from ctxviz.figures.text import counted, readable
from ctxviz.run import Run
from ctxviz.ui import messages, way_back
from ctxviz.ui.session import Session
from ctxviz.ui.views import ACTIVE

PROMPT_SHOWN = 160
"""Characters of the prompt in the sidebar."""


def draw_sidebar(session: Session) -> None:
    """The run on screen in a few lines, the way back to the earlier one, and how a growing one goes."""
    run = session.view.run
    with st.container(key="run-card"):
        messages.heading(3, "The run on screen", "run-card-head")
        if run is None:
            coming = session.view.state in ACTIVE
            words = "On its way." if coming else "No run yet; make one on the Live page."
            messages.hint(words, "run-card")
        else:
            about = f"{run.model.name}, {counted(len(run), 'token')}, {' and '.join(run.dtypes)}"
            messages.hint(f"{about}{', recorded earlier' if session.recorded else ''}.", "run-card")
            shown = len(run.context.images)
            pictures = f", with {counted(shown, 'picture')}" if shown else ""
            messages.hint(f"“{readable(run.context.prompt, PROMPT_SHOWN)}”{pictures}", "run-prompt")
        if session.view.state in ACTIVE:
            session.watches.bar(session.view)
            st.button("Stop", key="stop-card", on_click=session.stop)
        way_back.draw(session)
        if not session.recorded:
            st.button("Show the recorded run", key="recorded", on_click=session.show_recorded)


def finished(session: Session) -> Run | None:
    """The run on screen if it has a token; else a sentence in its place."""
    run = session.view.run
    if run is not None and len(run):
        if session.view.state in ACTIVE:
            _say_how_far(len(run))
        return run
    if session.view.state in ACTIVE:
        messages.tell("note", "The first token is on its way; it appears here when it is made.", "waiting")
    else:
        messages.tell("note", "There is nothing to look at yet: make a run on the Live page.", "empty")
    return None


def _say_how_far(tokens: int) -> None:
    """What the figures of a growing run hold, and a way to have the rest before it stands still."""
    with st.container(horizontal=True, key="how-far", vertical_alignment="center"):
        messages.hint(
            f"The figures are as of token {tokens - 1}; the rest follows when the run stands still.",
            "how-far",
        )
        st.button("Refresh", key="refresh", type="tertiary")


def draw_variant(session: Session, run: Run) -> int:
    """Which variant is looked at, as on the other pages."""
    names = [label(variant, run.variants) for variant in run.variants]
    chosen = session.focus.variant if session.focus.variant < len(names) else 0
    state = st.session_state
    state.page_variant = chosen
    st.segmented_control(
        "Variant",
        range(len(names)),
        format_func=names.__getitem__,
        key="page_variant",
        on_change=lambda: session.look_at_variant(
            chosen if state.page_variant is None else int(state.page_variant)
        ),
    )
    return chosen
