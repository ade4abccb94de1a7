"""Lets a browser tab find its runs again after a reload, and keeps its address as the page says.

A reload begins a new Streamlit session that knows nothing of the old one. What finds the runs again must not
be in the address, which people copy; so the tab keeps it in its own sessionStorage.

Streamlit's own way to change the address adds an entry to the browser's history each time, through which
a reader would have to go back; ours takes the place of the entry that is there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlencode

import streamlit as st
from streamlit.components.v2 import component

from ctxviz.ui.components import bootstrap

KEY: Final = "tab"
_tab = component("ctxviz.tab", js=bootstrap("tab.js"))


def remember(tab: str, query: Mapping[str, str], *, page: str, resume: Callable[[str], object]) -> None:
    """Have the browser keep the name ``tab``, and say ``query`` in the address of ``page``.

    ``resume`` gets the name that was kept before a reload.
    """
    state = st.session_state

    def call() -> None:
        kept = state[KEY].get("resume")
        if isinstance(kept, str):
            # Told to the browser, which else would see no change and keep the former name.
            state.tab_resumed = kept
            resume(kept)

    data = {
        "tab": tab,
        "query": urlencode(query),
        "page": page,
        "resumed": state.get("tab_resumed", ""),
    }
    _tab(key=KEY, data=data, on_resume_change=call)
