"""Sentences in the page, shown exactly as they are: what they quote is never read as Markdown or HTML."""

from __future__ import annotations

from typing import Final, Literal

import streamlit as st

from ctxviz.ui import components

Kind = Literal["note", "warning", "error"]
_MARKS: Final = {"note": "i", "warning": "!", "error": "✕"}


def tell(kind: Kind, sentence: str, key: str) -> None:
    """One sentence in a quiet box; mark and edge tell its kind. ``key`` is unique in the page.

    A screen reader is told an error at once.
    """
    with st.container(key=f"message-{kind}-{key}"):
        words = f"{_MARKS[kind]}  {sentence}"
        if kind == "error":
            components.sentence("alert", words, key=f"alert-{key}")
        else:
            st.text(words)


def heading(level: Literal[2, 3], words: str, key: str) -> None:
    """A heading of the page's outline."""
    with st.container(key=key):
        components.sentence("h2" if level == 2 else "h3", words, key=f"{key}-words")


def verdict(sentence: str, key: str) -> None:
    """The sentence that a page comes to, in large type."""
    with st.container(key=f"verdict-{key}"):
        st.text(sentence)


def hint(sentence: str, key: str) -> None:
    """A small grey line that explains what stands above it."""
    with st.container(key=f"hint-{key}", width="content"):
        st.text(sentence)
