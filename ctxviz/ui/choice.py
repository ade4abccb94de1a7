"""A select box that has a choice of its own until the reader makes one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import streamlit as st

_CHOSEN: Final = "chosen_"


def choose(
    words: str,
    options: Iterable[str],
    key: str,
    shown: Callable[[str], str] = str,
    first: str | None = None,
) -> str:
    """A select box that shows ``first`` until the reader chooses, and again where the choice is gone.

    What it offers is drawn as text and never read as Markdown.
    """
    state, names = st.session_state, list(options)
    if not (state.get(_CHOSEN + key) and state.get(key) in names):
        state[key], state[_CHOSEN + key] = first if first in names else names[0], False
    chosen = st.selectbox(
        words,
        names,
        format_func=shown,
        key=key,
        on_change=lambda: state.update({_CHOSEN + key: True}),
        persist_state="session",
    )
    return str(chosen)


def make(key: str, option: str) -> None:
    """Choose in the reader's place, for good; call before the select box is drawn."""
    st.session_state[key] = option
    st.session_state[_CHOSEN + key] = True
