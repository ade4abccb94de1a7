"""Sentences in the page, shown exactly as they are: what they quote is never read as Markdown or HTML."""

from __future__ import annotations

from typing import Final, Literal

import streamlit as st

Kind = Literal["note", "warning", "error"]
_MARKS: Final = {"note": "i", "warning": "!", "error": "✕"}


def tell(kind: Kind, sentence: str, key: str) -> None:
    """One sentence in a quiet box; mark and edge tell its kind. ``key`` is unique in the page."""
    with st.container(key=f"message-{kind}-{key}"):
        st.text(f"{_MARKS[kind]}  {sentence}")


def hint(sentence: str, key: str) -> None:
    """A small grey line that explains what stands above it."""
    with st.container(key=f"hint-{key}", width="content"):
        st.text(sentence)
