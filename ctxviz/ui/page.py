"""What every page does before and after it draws: this tab's session, its view, its address, its reload."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import streamlit as st

from ctxviz.errors import CtxvizError
from ctxviz.ui import controls, fold_control, messages, picture_jobs, tab
from ctxviz.ui.session import Session
from ctxviz.ui.url_state import VIEWS, Link, fits_in_link, from_query, to_query, unseen_scenes
from ctxviz.ui.views import STOPPED_EARLY
from ctxviz.ui.watching import Watches
from ctxviz.ui.worker import worker

_LOST: Final = (
    "The runs of this tab are gone: the server was started again, or needed their room. Make them anew, or "
    "open their files."
)
WARM_DELAY_SECONDS: Final = 3.0
"""The first page is on screen by then; importing torch would have held it up."""


def begin() -> Session:
    """This tab's session, with a view on screen; a new tab takes its settings from the address."""
    state = st.session_state
    if "session" not in state:
        session = Session.begin()
        link, problems = from_query(st.query_params.to_dict())
        controls.seed(link)
        session.take(link)
        state.session = session
        if (kept := tab.kept()).name:
            _resume(kept)
        session.notices.extend(filter(None, (*problems, unseen_scenes(link))))
    session: Session = state.session
    session.leave_what_never_began()
    session.revive()
    picture_jobs.tidy(session)
    session.watches = Watches(session.shown())
    return session


def end(session: Session) -> None:
    """Say in the address what is looked at, let a reload find the run, and draw again when it has changed."""
    link = session.described(controls.chosen(session.focus))
    fold = fold_control.for_link(link.fold, len(session.used(link.model)), len(link.scenes))
    page = st.session_state.get("page", "")
    # Which of its views Compare shows is nothing to the other pages.
    view = link.view if page == "Compare" else VIEWS[0]
    session.note(session.view, recorded=session.recorded, sweep=session.sweep)
    query = to_query(replace(link, fold=fold, view=view))
    tab.remember(session.tab, query, held=session.holds_own())
    session.watches.end()
    worker().warm(WARM_DELAY_SECONDS)


def attempt(action: Callable[[Link], None]) -> Callable[[], None]:
    """A button's callback: what cannot be done becomes a sentence, and nothing else changes."""

    def call() -> None:
        session: Session = st.session_state.session
        session.hush()
        try:
            action(controls.chosen(session.focus))
        except CtxvizError as error:
            session.notices.append(str(error))

    return call


def draw_notices(session: Session) -> None:
    """Sentences about what was last asked for."""
    if session.announcement:
        messages.tell("note", session.announcement, "announcement")
    for k, notice in enumerate(session.notices):
        # What its reader stopped has not failed.
        messages.tell("note" if notice == STOPPED_EARLY else "error", notice, f"notice{k}")


def _resume(kept: tab.Kept) -> None:
    """Show what this tab showed before it was reloaded, with a prompt that the address had no room for."""
    session: Session = st.session_state.session
    found = session.resume(kept.name)
    if kept.held and not found:
        session.notices.append(_LOST)
    run = session.view.run if found else None
    if session.pictures and session.link is not None:
        # Without its pictures the page had to let go of a fold that is about them.
        fold_control.seed(session.link.fold)
    if run is not None and not fits_in_link(run.context.prompt):
        st.session_state.prompt = run.context.prompt
