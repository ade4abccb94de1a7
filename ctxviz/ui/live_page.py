"""The Live page: settings, prompt and buttons, the live view, and what lies behind a click."""

from __future__ import annotations

from typing import Final

import streamlit as st

from ctxviz.run import Run
from ctxviz.ui import (
    components,
    controls,
    fold_control,
    inspector,
    large,
    library,
    messages,
    page,
    picture_panel,
)
from ctxviz.ui.session import Session
from ctxviz.ui.url_state import Link
from ctxviz.ui.views import ACTIVE
from ctxviz.ui.worker import worker

SETTLE_SECONDS: Final = 1.0
"""The inspector comes so much later in a new tab: its libraries would hold up the live view."""
_RECORDED_MISSING: Final = (
    "Nothing to show yet: the recorded run is missing from assets. Type a prompt and press Generate."
)


def draw() -> None:
    """One run of the page's script."""
    session = page.begin()
    view, state, under_way = session.view, session.view.state, worker().has(session.view.id)
    changing = page.changes(view)
    with st.sidebar:
        _draw_settings(session)
    link = controls.chosen(session.focus)
    _draw_prompt(session, link, under_way)
    page.draw_notices(session)
    _draw_run(session, link)
    if session.settled:
        inspector.draw(session)
    else:
        _settle(session)
    library.draw(session)
    if session.settled:
        large.draw(session)
    page.end(session, state, changing)


def _draw_settings(session: Session) -> None:
    controls.draw_model()
    controls.draw_rules()
    model, prompt = controls.chosen_model(), st.session_state.get("prompt", "")
    adjusted = fold_control.draw(
        session.tokens_of(model, prompt),
        len(session.used(model)),
        ask=page.attempt(lambda link: session.ask_for_tokens(link.model, link.prompt)),
    )
    _draw_request(session)
    session.notices.extend(filter(None, (adjusted, controls.draw_numbers())))
    controls.draw_replays()


def _draw_request(session: Session) -> None:
    """How the reading of the prompt's tokens goes, while it goes."""
    request = session.request
    if request is None:
        return
    view, state = request.view, request.view.state
    if state in ACTIVE:
        messages.hint(view.stage or "reading the tokens", "request")
        page.watch(view, state)
    elif state == "failed":
        messages.tell("error", view.message, "request")


def _draw_prompt(session: Session, link: Link, under_way: bool) -> None:
    """The prompt and the three buttons."""
    goes_on = session.view.state == "paused" and session.goes_on(link)
    with st.container(horizontal=True, key="prompt-row"):
        controls.draw_prompt()
        st.button(
            "Continue" if goes_on else "Generate",
            type="primary",
            key="generate",
            on_click=page.attempt(session.generate),
        )
        st.button(
            "Step",
            key="step",
            on_click=page.attempt(session.step),
            help="Make exactly one token, then pause.",
        )
        st.button("Stop", key="stop", on_click=session.stop, disabled=not under_way)
    controls.draw_examples()
    picture_panel.draw(session, link.model)
    controls.draw_link_hint()


def _draw_run(session: Session, link: Link) -> None:
    """The live view, what it is where that is not plain, and what the reader did in it."""
    run = session.view.run
    other = "" if run is None else session.differs_from(run, link.model, link.prompt)
    if session.recorded:
        messages.hint(_RECORDED_MISSING if run is None else _recorded_line(run, other), "recorded")
    elif run is not None:
        model = session.other_model(run, link.model)
        made = [f"with another model ({model})" if model else "", f"from {other}" if other else ""]
        if any(made):
            how = " ".join(filter(None, made))
            messages.hint(f"The run below was made {how}; Generate makes a new one.", "other-inputs")
    event = components.live(session.view.id, focus=session.focus)
    session.notice(event)


def _recorded_line(run: Run, other: str) -> str:
    torch = dict(run.model.libraries).get("torch", "unknown")
    return (
        f"A run recorded earlier with {run.model.name} in {' and '.join(run.dtypes)} (torch {torch}, "
        f"{run.model.device}){f', from {other}' if other else ''}; Generate makes a new one on this machine."
    )


@st.fragment(run_every=SETTLE_SECONDS)
def _settle(session: Session) -> None:
    """Run the page again, once, when the live view has had time to be drawn."""
    if session.settled:
        st.rerun()
    session.settled = True
