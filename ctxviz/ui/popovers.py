"""Popovers that close once something in them was chosen."""

from __future__ import annotations

from typing import Any, Final

import streamlit as st

_CLOSED: Final = "closed_"


def choices(label: str, key: str) -> Any:
    """A popover to draw choices in; a callback that made one calls :func:`close` with its ``key``."""
    return st.popover(label, key=f"{key}-{st.session_state.get(_CLOSED + key, 0)}", on_change="rerun")


def close(key: str) -> None:
    """Close a popover; call from a callback, before the page is drawn.

    The next one is another widget. To say that this one is closed would change nothing where a quick choice
    came before the page had heard that it was open.
    """
    st.session_state[_CLOSED + key] = st.session_state.get(_CLOSED + key, 0) + 1
