"""The Pictures page's second part: a picture covered square by square."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import streamlit as st

from ctxviz.figures import occlusion
from ctxviz.figures.text import counted
from ctxviz.picture_findings import GREY, Colour, Occlusion, grids, ground_of
from ctxviz.run import Run
from ctxviz.ui import components, messages, picture_asking
from ctxviz.ui.picture_jobs import PictureRequest, Question
from ctxviz.ui.session import Session

GROUND: Final = "its ground"
MOST_TILES: Final = 16
"""Tiles a side up to which a picture can be covered tile by tile: 256 squares, each a pass."""


def draw(session: Session, run: Run, asked: Question) -> None:
    """The choices, the button, and the map as far as it has come."""
    with st.container(horizontal=True, key="covering", vertical_alignment="bottom"):
        grid = _draw_fineness(run, asked.picture)
        colour = _draw_cover(run, asked.picture)
        messages.hint(f"{grid**2 + 1} passes", "passes")
    question = replace(asked, grid=grid, colour=colour)
    squares = counted(question.grid**2, "square")
    cost = (
        "A pass reads the prompt with the picture and builds the token's patches: one for each square, and "
        "one for the whole picture."
    )

    def show(request: PictureRequest) -> None:
        if isinstance(request.found, Occlusion) and request.found.squares:
            components.figure(occlusion.card_of(request.found, run), key="occlusion")

    picture_asking.draw(session, run, question, f"Cover {squares}", cost, show)


def _draw_fineness(run: Run, picture: int) -> int:
    """Squares a side, at first the finest of ``grids``."""
    choices = finenesses(run, picture)
    key = f"grid-{picture}"
    if st.session_state.get(key) not in choices:
        st.session_state[key] = max(set(choices) & set(grids(run, picture)))
    side = run.context.images[picture].side
    grid = st.segmented_control(
        "Squares",
        choices,
        format_func=lambda g: f"{g} × {g}{', tile by tile' if g == side else ''}",
        required=True,
        key=key,
        persist_state="session",
    )
    return int(grid or st.session_state[key])


def _draw_cover(run: Run, picture: int) -> Colour:
    """What to cover with: at first the picture's ground, where it has one; on it mid grey is a thing."""
    ground = ground_of(run.pictures[picture])
    if ground is None or ground == GREY:
        return GREY
    key = f"cover-{picture}"
    chosen = st.segmented_control(
        "Covered with", (GROUND, "mid grey"), default=GROUND, required=True, key=key, persist_state="session"
    )
    return GREY if chosen == "mid grey" else ground


def finenesses(run: Run, picture: int) -> tuple[int, ...]:
    """Squares a side to choose from, coarsest first: ``grids``, and tile by tile where that is finer."""
    known = [g for g in grids(run, picture) if g > 1] or [1]
    side = run.context.images[picture].side
    if known[-1] < side <= min(MOST_TILES, *run.pictures[picture].image.size):
        known.append(side)
    return tuple(known)
