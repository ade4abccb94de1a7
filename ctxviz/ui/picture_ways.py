"""The way out of the Pictures page where the run on screen has no picture: one click to one that has."""

from __future__ import annotations

from typing import Final

import streamlit as st

from ctxviz.shapes.gallery import GALLERY
from ctxviz.ui import controls, picture_source, recorded
from ctxviz.ui.picture_source import scene_picture
from ctxviz.ui.session import Session

MODEL: Final = "tiny-shapes"
"""Small, and taught with drawn shapes: its answer is there in seconds."""
RECORDED: Final = "figure5-tiny-shapes"


def draw(session: Session) -> None:
    """A sample picture to make a run of, and a run that was made."""
    with st.container(horizontal=True, key="picture-ways-out"):
        st.button(
            "Begin with a sample picture",
            key="sample_run",
            type="primary",
            help=f"Chooses {MODEL} and a drawn scene, and goes to the Live page; press Generate there.",
            on_click=_begin,
            args=(session,),
        )
        if RECORDED in recorded.available():
            st.button(
                "Show a recorded run with a picture",
                key="recorded_picture",
                on_click=session.show_recorded,
                args=(RECORDED,),
            )


def _begin(session: Session) -> None:
    session.hush()
    if not session.pictures:
        picture_source.show(session, [scene_picture(GALLERY[0].scene)])
    controls.choose_model(MODEL)
    st.session_state.go_to = "pages/live.py"
