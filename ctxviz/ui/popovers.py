"""Popovers that close once something in them was chosen."""

from __future__ import annotations

from typing import Any

import streamlit as st


def choices(label: str, key: str) -> Any:
    """A popover to draw choices in; a callback that made one calls :func:`close` with its ``key``."""
    return st.popover(label, key=key, on_change="rerun")


def close(key: str) -> None:
    """Close a popover; call from a callback, before the page is drawn."""
    st.session_state[key] = False
