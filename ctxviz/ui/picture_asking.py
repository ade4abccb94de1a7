"""Asking something about the pictures of the run on screen: the button, how far it is, what was found."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from ctxviz.pictures import Picture
from ctxviz.run import Run
from ctxviz.ui import messages, page, picture_jobs
from ctxviz.ui.picture_jobs import PictureRequest, Question
from ctxviz.ui.references import reference_of
from ctxviz.ui.session import Session
from ctxviz.ui.views import ACTIVE
from ctxviz.ui.worker import worker


def draw(
    session: Session,
    run: Run,
    question: Question,
    words: str,
    cost: str,
    show: Callable[[PictureRequest], None] = lambda _: None,
    other: Picture | None = None,
) -> None:
    """A button with what it costs; then how far it is, with a way to stop; then what was found."""
    reference = reference_of(run)
    request = session.answer_to(question, run)
    state = None if request is None else request.view.state
    if request is None or state in ("failed", "stopped"):
        st.button(
            words,
            key=f"ask-{question.kind}",
            on_click=page.attempt(lambda _: picture_jobs.ask(session, reference, question, other)),
        )
        messages.hint(cost, f"cost-{question.kind}")
    if request is None:
        return
    if state in ACTIVE:
        with st.container(horizontal=True, key=f"going-{question.kind}", vertical_alignment="center"):
            session.watches.bar(request.view)
            st.button("Stop", key=f"stop-{question.kind}", on_click=lambda: worker().stop(request.view.id))
    elif state == "failed":
        messages.tell("error", request.view.message, f"ask-{question.kind}")
    elif state == "stopped":
        messages.tell("note", "Stopped before it was finished; what was found so far stays.", question.kind)
    show(request)
