"""What is folded into weights: the start and the end of the prompt, a picture, or a span of its tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import streamlit as st

from ctxviz.figures.text import readable
from ctxviz.folds import Fold
from ctxviz.ui import messages

SPAN: Final = "span"
_HELP: Final = (
    "What is taken out of the input, and what it does to the answer put into weights. The current token "
    "always stays; the start is the token that every prompt begins with."
)


def seed(fold: Fold) -> None:
    """Put a fold into the widgets; call before they are drawn."""
    state = st.session_state
    state.fold = SPAN if fold.kind == SPAN else str(fold)
    span = fold if fold.kind == SPAN else Fold("span", 1, 2)
    state.fold_start, state.fold_last = span.start, span.end - 1


def chosen() -> Fold:
    """What the widgets say."""
    state = st.session_state
    if state.fold != SPAN:
        return Fold.parse(state.fold)
    start, last = sorted((int(state.fold_start), int(state.fold_last)))
    return Fold("span", start, last + 1)


def folds_only_pictures(pictures: int) -> bool:
    """Whether the fold is about all of so many pictures and nothing else."""
    return st.session_state.fold in ("image", *(["image:1"] if pictures == 1 else []))


def options(pictures: int, fold: str = "") -> dict[str, str]:
    """The folds that can be chosen for a prompt of so many pictures, and their words.

    Where ``fold`` is about the first of pictures of which it alone is left, it stays: others may come back.
    """
    words = {"all": "whole context", "all-but-bos": "all but the start"}
    if pictures:
        them = "picture" if pictures == 1 else "pictures"
        only = fold if (pictures, fold) == (1, "image:1") else "image"
        words |= {only: f"only the {them}", "text": "only the text"}
    if pictures > 1:
        words |= {f"image:{k}": f"picture {k}" for k in range(1, pictures + 1)}
    return words | {SPAN: "a span of tokens"}


def follow(before: Sequence[str], after: Sequence[str]) -> str | None:
    """Let a fold of one picture be about the same picture when the prompt's pictures change.

    The pictures are told by their hashes. Where as many are there as before, one was put in the place of
    another, and the fold is about the place. Returns a sentence where the folded picture is gone.
    """
    state = st.session_state
    number = 0 if state.fold == SPAN else Fold.parse(state.fold).number
    if not 0 < number <= len(before) or len(after) == len(before):
        return None
    folded = before[number - 1]
    if after[number - 1 : number] == [folded]:
        return None
    if folded in after:
        state.fold = f"image:{after.index(folded) + 1}"
        return None
    state.fold = "all"
    return f"The fold was about picture {number}, which is gone; now all but the current token is folded."


def for_link(fold: Fold, pictures: int, scenes: int) -> Fold:
    """What an address says of a fold: nothing of one of several pictures where it does not hold them all."""
    return Fold() if fold.number and scenes < pictures else fold


def draw(tokens: tuple[str, ...] | None, pictures: int, ask: Callable[[], None]) -> str | None:
    """The control. ``tokens`` are the prompt's own, if known; ``ask`` asks for them.

    Returns a sentence where a picture to fold is gone, or the span had to be made smaller.
    """
    state = st.session_state
    known = options(pictures, state.fold)
    gone = None if state.fold in known else _without(state.fold, pictures)
    if gone:
        state.fold = "all"
    st.selectbox(
        "Fold into weights",
        list(known),
        format_func=known.__getitem__,
        help=_HELP,
        key="fold",
        persist_state="session",
    )
    return _draw_span(tokens, ask) if state.fold == SPAN else gone


def _without(fold: str, pictures: int) -> str:
    number = fold.partition(":")[2]
    what = f"picture {number}" if number else "the picture"
    have = "no picture" if not pictures else "1 picture" if pictures == 1 else f"{pictures} pictures"
    return f"The fold was about {what}, and the prompt has {have}; now all but the current token is folded."


def _draw_span(tokens: tuple[str, ...] | None, ask: Callable[[], None]) -> str | None:
    state = st.session_state
    if tokens is None:
        messages.hint(f"Tokens {state.fold_start} to {state.fold_last}; show the tokens to pick.", "span")
        st.button("Show the prompt's tokens", key="show_tokens", on_click=ask)
        return None
    # The query token, the last one, is always kept.
    positions = list(range(max(1, len(tokens) - 1)))
    asked, last = (state.fold_start, state.fold_last), positions[-1]
    state.fold_start, state.fold_last = (min(p, last) for p in asked)
    for label, key in (("From token", "fold_start"), ("Up to token", "fold_last")):
        st.selectbox(
            label,
            positions,
            format_func=lambda p: f"{p}  {readable(tokens[p])}",
            key=key,
            persist_state="session",
        )
    if max(asked) <= last:
        return None
    return (
        f"The span {asked[0]} to {asked[1]} reaches past the prompt's last token that can be folded, {last}; "
        f"it is now {state.fold_start} to {state.fold_last}."
    )
