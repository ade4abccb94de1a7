"""What the browser's tab is called: the page, and the run that is on it."""

from __future__ import annotations

import streamlit as st

from ctxviz.ui import recorded
from ctxviz.ui.run_words import title_of

NAME = "ctxviz"


def of(page: str) -> str:
    """``Live · A Mars forecast · ctxviz``; without a run, page and program."""
    session = st.session_state.get("session")
    run = None if session is None else session.view.run
    title = "" if run is None else recorded.title(run) or title_of(run)
    return " · ".join(filter(None, (page, title, NAME)))
