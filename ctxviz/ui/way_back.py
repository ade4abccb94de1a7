"""The ways from the run on screen to the one before it and to the one after it."""

from __future__ import annotations

import streamlit as st

from ctxviz.ui.session import Session

BACK = "← Previous run"
FORWARD = "Next run →"


def draw(session: Session) -> None:
    """A button for each way that there is."""
    if session.earlier:
        st.button(BACK, key="back", on_click=session.go_back, help="The run that was on screen before.")
    if session.later:
        st.button(
            FORWARD, key="forward", on_click=session.go_forward, help="The run that you came back from."
        )
