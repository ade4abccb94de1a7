"""Drawing a scene: fields, and the picture that changes with them, so that a class can vary one thing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

import streamlit as st

from ctxviz.shapes.gallery import GALLERY
from ctxviz.shapes.scenes import BACKGROUNDS, COLOURS, MOST, PLACES, SHAPES, Scene, Thing
from ctxviz.ui import messages
from ctxviz.ui.picture_source import choose, scene_of, scene_picture, show
from ctxviz.ui.session import Session
from ctxviz.ui.tab_pictures import hashes

NOTHING: Final = "nothing"
PREVIEW_PIXELS: Final = 132
_NEW: Final = -1
_FREE: Final = (4, 0, 8)
"""Where a thing of each row is put while the row is empty."""


def draw(session: Session) -> None:
    """The form. It changes a drawn picture of the tab at once, or makes a new one."""
    target = _draw_target(session)
    _load(session, target)
    scene, problem = _read()
    with st.container(horizontal=True, key="scene", vertical_alignment="center"):
        if scene is not None:
            st.image(scene_picture(scene).data, width=PREVIEW_PIXELS, alt=scene.caption())
        elif target != _NEW:
            st.image(session.pictures[target].data, width=PREVIEW_PIXELS, alt="as it was")
        with st.container(key="scene-rows"):
            for k in range(MOST):
                _draw_row(session, k, target)
            with st.container(horizontal=True, key="scene-last", vertical_alignment="center"):
                messages.hint("Background", "scene-ground")
                _select("Background", "scene_ground", BACKGROUNDS, session, target, str)
                if target == _NEW:
                    st.button(
                        "Show this scene",
                        key="scene_add",
                        disabled=scene is None,
                        on_click=_add,
                        args=(session,),
                    )
    if problem:
        messages.tell("warning", problem, "scene")


def _draw_target(session: Session) -> int:
    """Which picture the form changes: its index, or _NEW."""
    state = st.session_state
    choices = [k for k, picture in enumerate(session.pictures) if scene_of(picture) is not None]
    if not choices:
        state.scene_target = _NEW
        return _NEW
    current = state.get("scene_target", _NEW)
    if current not in choices and not (current == _NEW and state.get("scene_fresh")):
        state.scene_target = choices[-1]
    st.segmented_control(
        "What the fields change",
        [*choices, _NEW],
        format_func=lambda k: "a new picture" if k == _NEW else f"picture {k + 1}",
        key="scene_target",
        label_visibility="collapsed",
        required=True,
        on_change=_retarget,
    )
    return int(state.scene_target)


def _retarget() -> None:
    st.session_state.scene_fresh = st.session_state.scene_target == _NEW


def _load(session: Session, target: int) -> None:
    """Put the picture's scene into the fields where it is another than they last stood for."""
    state = st.session_state
    bound = None if target == _NEW else session.pictures[target].sha256
    if "scene_ground" not in state:
        _fill(GALLERY[0].scene)
    if bound is not None and bound != state.get("scene_bound"):
        scene = scene_of(session.pictures[target])
        if scene is not None:
            _fill(scene)
    state.scene_bound = bound


def _fill(scene: Scene) -> None:
    state = st.session_state
    taken = {thing.place for thing in scene.things}
    free = [place for place in (*_FREE, *range(len(PLACES))) if place not in taken]
    for k in range(MOST):
        empty = k - len(scene.things)
        thing = scene.things[k] if empty < 0 else Thing(free[empty], COLOURS[k], NOTHING)
        state[f"scene_shape{k}"], state[f"scene_colour{k}"] = thing.shape, thing.colour
        state[f"scene_place{k}"] = thing.place
    state.scene_ground = scene.background


def _draw_row(session: Session, k: int, target: int) -> None:
    number = k + 1
    with st.container(horizontal=True, key=f"scene-row{k}"):
        shapes = SHAPES if k == 0 else (NOTHING, *SHAPES)
        _select(f"Shape {number}", f"scene_shape{k}", shapes, session, target, str)
        if st.session_state[f"scene_shape{k}"] == NOTHING:
            return
        _select(f"Colour of shape {number}", f"scene_colour{k}", COLOURS, session, target, str)
        _select(
            f"Place of shape {number}",
            f"scene_place{k}",
            tuple(range(len(PLACES))),
            session,
            target,
            PLACES.__getitem__,
        )


def _select(
    label: str,
    key: str,
    options: Sequence[Any],
    session: Session,
    target: int,
    words: Callable[[Any], str],
) -> None:
    st.selectbox(
        label,
        options,
        format_func=words,
        key=key,
        label_visibility="collapsed",
        on_change=_change,
        args=(session, target),
        width=190 if "place" in key else 130,
        persist_state="session",
    )


def _read() -> tuple[Scene | None, str]:
    """The scene that the fields say, or a sentence on why there is none."""
    state = st.session_state
    things = [
        Thing(int(state[f"scene_place{k}"]), state[f"scene_colour{k}"], state[f"scene_shape{k}"])
        for k in range(MOST)
        if state[f"scene_shape{k}"] != NOTHING
    ]
    place, count = Counter(thing.place for thing in things).most_common(1)[0]
    if count > 1:
        return None, (
            f"{'Two' if count == 2 else 'Three'} shapes stand {PLACES[place]}, where only one has room; "
            "give each a place of its own."
        )
    return Scene(tuple(things), state.scene_ground), ""


def _change(session: Session, target: int) -> None:
    """Draw the picture anew with what was just changed; where that cannot be, it stays as it was."""
    scene, _ = _read()
    if scene is None or target == _NEW or target >= len(session.pictures):
        return
    session.notices.clear()
    picture, state = scene_picture(scene), st.session_state
    changed = [picture if k == target else other for k, other in enumerate(session.pictures)]
    # Undo goes back to before the first of several changes of one picture, as far as no run came between.
    if state.get("scene_changed") == (target, session.view.id, hashes(session.pictures)) and session.former:
        session.pictures[:] = changed
    else:
        show(session, changed)
    state.scene_changed = (target, session.view.id, hashes(changed))
    state.scene_bound = picture.sha256


def _add(session: Session) -> None:
    scene, _ = _read()
    if scene is None:
        return
    state = st.session_state
    session.notices.clear()
    choose(session, [scene_picture(scene)], beside=bool(state.get("beside")))
    state.scene_fresh, state.scene_bound = False, scene_picture(scene).sha256
    state.scene_target = len(session.pictures) - 1
