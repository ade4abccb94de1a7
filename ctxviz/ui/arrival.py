"""Takes a reader who chose something in one part of a page to what it opened in another."""

from __future__ import annotations

from typing import Final

import streamlit as st
from streamlit.components.v2 import component

from ctxviz.ui.components import bootstrap

_COUNT: Final = "arrivals"
_arrival = component("ctxviz.arrival", js=bootstrap("arrival.js"))


def ask() -> None:
    """Have the next drawing of the page bring what was opened into view; for callbacks."""
    st.session_state[_COUNT] = st.session_state.get(_COUNT, 0) + 1


def draw(place: str, heading: str) -> None:
    """Bring the container ``place`` into view and its ``heading`` into focus, once for each :func:`ask`.

    Both are keys of containers of the page. Where the window is too low for the place down to its heading,
    the heading alone is brought into view. Call it after both were drawn, in every script run.
    """
    data = {"count": st.session_state.get(_COUNT, 0), "place": place, "heading": heading}
    _arrival(key="arrival", data=data)
