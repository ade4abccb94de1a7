"""The Live page: settings, prompt and buttons, and the live view, where all that is measured is seen."""

from __future__ import annotations

from typing import Final

import streamlit as st

from ctxviz.run import Run
from ctxviz.ui import components, controls, library, page, picture_panel, sidebar
from ctxviz.ui.focus import Did
from ctxviz.ui.session import Session
from ctxviz.ui.url_state import Link
from ctxviz.ui.worker import worker

_RECORDED_MISSING: Final = (
    "Nothing to show yet: the recorded run is missing from assets. Type a prompt and press Generate."
)


def draw() -> None:
    """One run of the page's script."""
    session = page.begin()
    view, under_way = session.view, worker().has(session.view.id)
    with st.sidebar:
        sidebar.draw(session)
    link = controls.chosen(session.focus)
    _draw_prompt(session, link, under_way)
    page.draw_notices(session)
    components.live(
        view.id,
        focus=session.focus,
        heard=session.heard,
        note=_note(session, link),
        did=lambda did: _follow(session, did),
    )
    page.end(session)


def _follow(session: Session, did: Did) -> None:
    """What the reader did in the live view, before anything is drawn."""
    session.notice(did)
    if did.layers:
        st.session_state.go_to = "pages/layers.py"


def _draw_prompt(session: Session, link: Link, under_way: bool) -> None:
    """The prompt and the three buttons, and under them what else a run can begin with."""
    goes_on = session.may_continue(link)
    with st.container(horizontal=True, key="prompt-row"):
        controls.draw_prompt()
        st.button(
            "Continue" if goes_on else "Generate",
            type="primary",
            key="generate",
            on_click=page.attempt(session.generate),
            help="Ctrl+Enter in the prompt does the same.",
        )
        st.button(
            "Step",
            key="step",
            on_click=page.attempt(session.step),
            help="Make exactly one token, then pause.",
        )
        st.button("Stop", key="stop", on_click=session.stop, disabled=not under_way)
    with st.container(horizontal=True, key="ways", vertical_alignment="center"):
        if goes_on:
            st.button(
                "Start over",
                type="tertiary",
                key="start_over",
                on_click=page.attempt(session.start),
                help="A new run of the same prompt and settings; this one stays to return to.",
            )
        controls.draw_examples()
        picture_panel.draw(session, link.model)
        library.draw(session)
    controls.draw_link_hint()


def _note(session: Session, link: Link) -> str:
    """Where the run on screen comes from, where that is not plain."""
    run = session.view.run
    other = "" if run is None else _other_inputs(session.differs_from(run, link.model, link.prompt))
    if session.recorded:
        return _RECORDED_MISSING if run is None else _recorded_line(run, other)
    if run is None:
        return ""
    model = session.other_model(run, link.model)
    made = [f"with another model ({model})" if model else "", other]
    return f"Made {' '.join(filter(None, made))}; Generate makes a new one." if any(made) else ""


def _other_inputs(words: tuple[str, ...]) -> str:
    """``from another prompt and other pictures``, ``from another prompt and with a picture``."""
    alone = [word for word in words if word.startswith("with")]
    others = " and ".join(word for word in words if word not in alone)
    return " and ".join(filter(None, (f"from {others}" if others else "", *alone)))


def _recorded_line(run: Run, other: str) -> str:
    what = f"{run.model.name}{f', {other}' if other else ''}"
    return f"A run recorded earlier with {what}; Generate makes a new one."
