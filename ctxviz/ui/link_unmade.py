"""What a link is about, where nobody has made that run here: a sentence, and the button that makes it."""

from __future__ import annotations

from typing import Final

import streamlit as st

from ctxviz.figures.text import counted, readable
from ctxviz.models.catalogue import CATALOGUE
from ctxviz.run import Run
from ctxviz.ui import controls, messages, page
from ctxviz.ui.picture_source import reads_pictures
from ctxviz.ui.run_words import TITLE
from ctxviz.ui.session import Session
from ctxviz.ui.url_state import Link

PROMPT_SHOWN: Final = 80
"""Characters of a prompt in the sentence."""


def draw(session: Session) -> None:
    """Nothing where a run of the tab is the link's, or where the reader went on from it."""
    shown, link = session.view.run, session.link
    if shown is None or link is None or not link.model or not _is_asked_for(link, session):
        return
    others = (view.run for view, _ in (*session.earlier, *session.later))
    runs = [shown, *others, *session.compared]
    if any(run is not None and _is_of(run, link, session) for run in runs):
        return
    with st.container(key="link-unmade"):
        messages.tell("note", _sentence(link, shown, session), "link-unmade")
        st.button("Generate", key="generate_link", on_click=page.attempt(session.generate))


def _is_asked_for(link: Link, session: Session) -> bool:
    """Whether the settings still ask for the link's run, so that the button makes that one; never true of an
    address that names none."""
    now, plain = controls.chosen(session.focus), Link()
    same = (now.prompt, now.model) == (link.prompt, link.model)
    if reads_pictures(link.model):
        same = same and now.scenes == link.scenes
    return same and (link.prompt, link.model, link.scenes) != (plain.prompt, plain.model, plain.scenes)


def _is_of(run: Run, link: Link, session: Session) -> bool:
    """Whether a run is of the link's model, prompt and pictures."""
    return not (session.other_model(run, link.model) or session.differs_from(run, link.model, link.prompt))


def _sentence(link: Link, shown: Run, session: Session) -> str:
    name = CATALOGUE[link.model].title if link.model in CATALOGUE else readable(link.model, TITLE)
    wanted = _words(name, link.prompt, len(session.used(link.model)))
    here = _words(shown.model.name, shown.context.prompt, len(shown.context.images))
    earlier = ", recorded earlier" if session.recorded else ""
    return f"This link is about {wanted}, which has not been run here yet; shown is {here}{earlier}."


def _words(model: str, prompt: str, pictures: int) -> str:
    shown = f" with {counted(pictures, 'picture')}" if pictures else ""
    return f"{readable(model, TITLE)}, “{readable(prompt, PROMPT_SHOWN)}”{shown}"
