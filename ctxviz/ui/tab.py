"""Lets a browser tab find its runs again after a reload, and keeps its address as the page says.

A reload begins a new Streamlit session that knows nothing of the old one. What finds the runs again must not
be in the address, which people copy; so the tab keeps it in its own sessionStorage, and is asked for it
before anything is drawn: what would stand there meanwhile is another run.

Streamlit's own way to change the address adds an entry to the browser's history each time, through which
a reader would have to go back; ours takes the place of the entry that is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import urlencode

import streamlit as st
from streamlit.components.v2 import component

from ctxviz.ui.components import bootstrap

KEY: Final = "tab"
GREETING: Final = "greeting"
_tab = component("ctxviz.tab", js=bootstrap("tab.js"))
_greet = component("ctxviz.greet", js=bootstrap("greet.js"))


class Kept(NamedTuple):
    """What a tab says of itself: the name under which its runs were noted, and whether it had any."""

    name: str = ""
    held: bool = False


def greet() -> bool:
    """Whether the browser has said what it kept; else it is asked, and the page is drawn once it has."""
    state = st.session_state
    if "tab_kept" in state:
        return True

    def hear() -> None:
        if "tab_kept" in state:
            # Drawn anew, as for another theme, it asked twice; the second answer comes when it is gone.
            return
        said = state.get(GREETING)
        told = None if said is None else said.get("kept")
        answer = told if isinstance(told, Mapping) else {}
        name = answer.get("name")
        state.tab_kept = Kept(name, bool(answer.get("held"))) if isinstance(name, str) else Kept()

    _greet(key=GREETING, data={}, on_kept_change=hear)
    return False


def kept() -> Kept:
    """What the browser said."""
    found: Kept = st.session_state.get("tab_kept") or Kept()
    return found


def remember(tab: str, query: Mapping[str, str], *, held: bool) -> None:
    """Have the browser keep the name ``tab``, and say ``query`` in the address; ``held`` says whether the
    tab has runs of its own."""
    _tab(key=KEY, data={"tab": tab, "query": urlencode(query), "held": held})
