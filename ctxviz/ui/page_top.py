"""The one line above a page's figures: its name, and which variant of the run on screen it shows."""

from __future__ import annotations

import streamlit as st

from ctxviz.run import Run
from ctxviz.ui import link_unmade, messages, page, run_card
from ctxviz.ui.session import Session


def draw(title: str, session: Session) -> tuple[Run, int] | None:
    """The line, and what the reader is to know first; the run and its variant, or None without a token."""
    run = session.view.run
    with st.container(horizontal=True, key="page-top", vertical_alignment="center"):
        messages.heading(2, title, "page-head")
        variant = run_card.draw_variant(session, run) if run is not None and len(run) else 0
    page.draw_notices(session)
    link_unmade.draw(session)
    finished = run_card.finished(session)
    return None if finished is None else (finished, variant)
