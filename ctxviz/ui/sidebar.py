"""The sidebar of the Live page: how a new run is to be made, and how the one on screen was made otherwise."""

from __future__ import annotations

import streamlit as st

from ctxviz.ui import controls, fold_control, messages, page, run_settings
from ctxviz.ui.session import Session
from ctxviz.ui.views import ACTIVE


def draw(session: Session) -> None:
    """Everything that decides a run besides prompt and pictures; what a class never touches is under More."""
    _draw_difference(session)
    controls.draw_model()
    controls.draw_rules()
    model, prompt = controls.chosen_model(), st.session_state.get("prompt", "")
    adjusted = fold_control.draw(
        session.tokens_of(model, prompt),
        len(session.used(model)),
        ask=page.attempt(lambda link: session.ask_for_tokens(link.model, link.prompt)),
    )
    _draw_request(session)
    session.notices.extend(filter(None, (adjusted, controls.draw_tokens())))
    controls.draw_more()


def _draw_difference(session: Session) -> None:
    """A quiet line where the run on screen was made with other settings, and a way to have them."""
    run = session.view.run
    if run is None:
        return
    other = run_settings.difference(session, controls.chosen(session.focus), run)
    if other:
        with st.container(key="difference"):
            messages.hint(f"On screen: {'; '.join(other)}.", "difference")
            st.button(
                "Use this run's settings",
                key="use_settings",
                type="tertiary",
                on_click=page.attempt(lambda _: run_settings.use(session, run)),
            )


def _draw_request(session: Session) -> None:
    """How the reading of the prompt's tokens goes, while it goes."""
    request = session.request
    if request is None:
        return
    view, state = request.view, request.view.state
    if state in ACTIVE:
        messages.hint(view.stage or "reading the tokens", "request")
    elif state == "failed":
        messages.tell("error", view.message, "request")
