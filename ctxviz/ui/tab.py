"""Lets a browser tab find its run again after a reload.

A reload begins a new Streamlit session that knows nothing of the old one. The run's id must not be in the
address, which people copy. So the tab keeps it in its own sessionStorage and hands it back once after a
reload, but not where a link was pasted into the same tab.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import streamlit as st
from streamlit.components.v2 import component

KEY: Final = "tab"
_SCRIPT: Final = """
const NAME = "ctxviz-view";
export default function ({ data, setTriggerValue }) {
  const page = document.documentElement.dataset;
  const arrival = performance.getEntriesByType("navigation")[0]?.type;
  const kept = sessionStorage.getItem(NAME);
  const first = !page.ctxvizArrived;
  page.ctxvizArrived = "1";
  if (first && kept && kept !== data.view && (arrival === "reload" || arrival === "back_forward")) {
    setTriggerValue("resume", kept);
  } else if (data.keep) {
    sessionStorage.setItem(NAME, data.view);
  } else {
    sessionStorage.removeItem(NAME);
  }
}
"""
_tab = component("ctxviz.tab", js=_SCRIPT)


def remember(view_id: str, *, keep: bool, resume: Callable[[str], object]) -> None:
    """Have the tab keep ``view_id``, or nothing; ``resume`` gets the id that it kept before a reload."""

    def call() -> None:
        kept = st.session_state[KEY].get("resume")
        if isinstance(kept, str):
            resume(kept)

    _tab(key=KEY, data={"view": view_id, "keep": keep}, on_resume_change=call)
