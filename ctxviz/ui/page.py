"""What every page does before and after it draws: this tab's session, its view, its address, its reload."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import streamlit as st

from ctxviz.errors import CtxvizError
from ctxviz.ui import controls, fold_control, messages, picture_jobs, tab
from ctxviz.ui.recorded import recorded_run
from ctxviz.ui.session import Session
from ctxviz.ui.url_state import Link, fits_in_link, from_query, to_query, unseen_scenes
from ctxviz.ui.views import ACTIVE, View, views
from ctxviz.ui.worker import worker

WARM_DELAY_SECONDS: Final = 3.0
"""The first page is on screen by then; importing torch would have held it up."""
WATCH_SECONDS: Final = 1.0


def begin() -> Session:
    """This tab's session, with a view on screen; a new tab takes its settings from the address."""
    state = st.session_state
    if "session" not in state:
        session = Session.begin()
        link, problems = from_query(st.query_params.to_dict())
        controls.seed(link)
        session.notices.extend(filter(None, (*problems, unseen_scenes(link))))
        session.take(link)
        state.session = session
    session: Session = state.session
    session.leave_what_never_began()
    session.revive()
    picture_jobs.tidy(session)
    return session


def changes(view: View) -> bool:
    """Whether a view may change by itself. A job that was stopped ends with its token in progress."""
    return worker().holds(view.id) or view.state in ACTIVE


def end(session: Session, shown: str, changing: bool) -> None:
    """Say in the address what is looked at, let a reload find the run, and draw again when it has changed.

    ``shown`` is the state the page was begun with: a change while it was drawn must not be missed.
    """
    link = session.described(controls.chosen(session.focus))
    fold = fold_control.for_link(link.fold, len(session.used(link.model)), len(link.scenes))
    _write_link(replace(link, fold=fold))
    tab.remember(session.view.id, keep=session.view.run is not recorded_run(), resume=_resume)
    if changing:
        watch(session.view, shown)
    if session.sweep is not None and worker().holds(session.sweep.view.id):
        # This goes on while its reader looks at another page, but not for a tab that is gone.
        watch(session.sweep.view, session.sweep.view.state)
    for request in session.looks.values():
        if request.view.state in ACTIVE:
            watch(request.view, request.view.state)
    worker().warm(WARM_DELAY_SECONDS)


def attempt(action: Callable[[Link], None]) -> Callable[[], None]:
    """A button's callback: what cannot be done becomes a sentence, and nothing else changes."""

    def call() -> None:
        session: Session = st.session_state.session
        session.notices.clear()
        try:
            action(controls.chosen(session.focus))
        except CtxvizError as error:
            session.notices.append(str(error))

    return call


def draw_notices(session: Session) -> None:
    """Sentences about what was last asked for."""
    for k, notice in enumerate(session.notices):
        messages.tell("error", notice, f"notice{k}")


@st.fragment(run_every=WATCH_SECONDS)
def watch(view: View, shown: str) -> None:
    """Run the page again once the view is in another state than it was drawn for; keeps the view in use."""
    views().get(view.id)
    if view.state != shown:
        st.rerun()


def _resume(view_id: str) -> None:
    """Show what this tab showed before it was reloaded, with a prompt that the address had no room for."""
    session: Session = st.session_state.session
    run = session.view.run if session.resume(view_id) else None
    if session.pictures and session.link is not None:
        # Without its pictures the page had to let go of a fold that is about them.
        fold_control.seed(session.link.fold)
    if run is not None and not fits_in_link(run.context.prompt):
        st.session_state.prompt = run.context.prompt


def _write_link(link: Link) -> None:
    query = to_query(link)
    if st.query_params.to_dict() != query:
        st.query_params.from_dict(query)
