"""The Live page: settings, prompt and buttons, the live view, and what lies behind a click."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import streamlit as st

from ctxviz.errors import CtxvizError
from ctxviz.run import Run
from ctxviz.ui import components, controls, inspector, large, library, messages, tab
from ctxviz.ui.session import Session
from ctxviz.ui.url_state import Link, fits_in_link, from_query, to_query
from ctxviz.ui.views import ACTIVE, View, views
from ctxviz.ui.worker import worker

WARM_DELAY_SECONDS: Final = 3.0
"""The first page is on screen by then; importing torch would have held it up."""
WATCH_SECONDS: Final = 1.0
SETTLE_SECONDS: Final = 1.0
"""The inspector comes so much later in a new tab: its libraries would hold up the live view."""
_RECORDED_MISSING: Final = (
    "Nothing to show yet: the recorded run is missing from assets. Type a prompt and press Generate."
)


def draw() -> None:
    """One run of the page's script."""
    session = _session()
    session.leave_what_never_began()
    session.revive()
    view, state, under_way = session.view, session.view.state, worker().has(session.view.id)
    # A job that was stopped is in the books until its token in progress is made.
    changes = worker().holds(view.id) or state in ACTIVE
    with st.sidebar:
        _draw_settings(session)
    link = controls.chosen(session.focus)
    _draw_prompt(session, link, under_way)
    for k, notice in enumerate(session.notices):
        messages.tell("error", notice, f"notice{k}")
    _draw_run(session)
    if session.settled:
        inspector.draw(session)
    else:
        _settle(session)
    library.draw(session)
    if session.settled:
        large.draw(session)
    _write_link(session.described(controls.chosen(session.focus)))
    tab.remember(session.view.id, keep=not session.recorded, resume=_resume)
    if changes:
        # The state the page was begun with: a change while it was drawn must not be missed.
        _watch(view, state)
    worker().warm(WARM_DELAY_SECONDS)


def _session() -> Session:
    """This tab's session; a new one takes its settings from the address."""
    state = st.session_state
    if "session" not in state:
        session = Session.begin()
        link, problems = from_query(st.query_params.to_dict())
        controls.seed(link)
        session.notices.extend(problems)
        session.follow(link)
        state.session = session
    return state.session


def _resume(view_id: str) -> None:
    """Show what this tab showed before it was reloaded, with a prompt that the address had no room for."""
    session: Session = st.session_state.session
    run = session.view.run if session.resume(view_id) else None
    if run is not None and not fits_in_link(run.context.prompt):
        st.session_state.prompt = run.context.prompt


def _attempt(action: Callable[[Link], None]) -> Callable[[], None]:
    """A button's callback: what cannot be done becomes a sentence, and nothing else changes."""

    def call() -> None:
        session: Session = st.session_state.session
        session.notices.clear()
        try:
            action(controls.chosen(session.focus))
        except CtxvizError as error:
            session.notices.append(str(error))

    return call


def _draw_settings(session: Session) -> None:
    controls.draw_model()
    controls.draw_rules()
    model, prompt = controls.chosen_model(), st.session_state.get("prompt", "")
    adjusted = controls.draw_fold(
        session.tokens_of(model, prompt),
        ask=_attempt(lambda link: session.ask_for_tokens(link.model, link.prompt)),
    )
    _draw_request(session)
    session.notices.extend(filter(None, (adjusted, controls.draw_numbers())))


def _draw_request(session: Session) -> None:
    """How the reading of the prompt's tokens goes, while it goes."""
    request = session.request
    if request is None:
        return
    view, state = request.view, request.view.state
    if state in ACTIVE:
        messages.hint(view.stage or "reading the tokens", "request")
        _watch(view, state)
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
            on_click=_attempt(session.generate),
        )
        st.button(
            "Step", key="step", on_click=_attempt(session.step), help="Make exactly one token, then pause."
        )
        st.button("Stop", key="stop", on_click=session.stop, disabled=not under_way)
    controls.draw_examples()
    controls.draw_link_hint()


def _draw_run(session: Session) -> None:
    """The live view, and what the reader did in it."""
    run = session.view.run
    if session.recorded:
        messages.hint(_RECORDED_MISSING if run is None else _recorded_line(run), "recorded")
    event = components.live(session.view.id, focus=session.focus)
    session.notice(event)


def _recorded_line(run: Run) -> str:
    torch = dict(run.model.libraries).get("torch", "unknown")
    return (
        f"A run recorded earlier with {run.model.name} in {' and '.join(run.dtypes)} (torch {torch}, "
        f"{run.model.device}); Generate makes a new one on this machine."
    )


@st.fragment(run_every=WATCH_SECONDS)
def _watch(view: View, shown: str) -> None:
    """Run the page again once the view is in another state than it was drawn for; keeps the view in use."""
    views().get(view.id)
    if view.state != shown:
        st.rerun()


@st.fragment(run_every=SETTLE_SECONDS)
def _settle(session: Session) -> None:
    """Run the page again, once, when the live view has had time to be drawn."""
    if session.settled:
        st.rerun()
    session.settled = True


def _write_link(link: Link) -> None:
    query = to_query(link)
    if st.query_params.to_dict() != query:
        st.query_params.from_dict(query)
