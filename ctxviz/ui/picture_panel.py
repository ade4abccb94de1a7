"""The pictures of a prompt: those that were chosen, and the ways to choose others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import streamlit as st
from streamlit.components.v2 import component

from ctxviz.models.catalogue import CATALOGUE
from ctxviz.pictures import FORMATS, MAX_BYTES, Picture
from ctxviz.shapes.gallery import GALLERY
from ctxviz.ui import components, controls, fold_control, messages, picture_source, scene_form
from ctxviz.ui.picture_source import DRAWN_ONLY, MOST_PASTED, MOST_PICTURES, scene_of, scene_picture, words_of
from ctxviz.ui.session import Session
from ctxviz.ui.shown_prompt import PICTURE_FILES, shown_width
from ctxviz.ui.tab_pictures import hashes

WAYS: Final = {"samples": "Samples", "scene": "Draw a scene", "file": "From files", "camera": "Camera"}
THUMBNAIL_PIXELS: Final = 64
SMALL_PIXELS: Final = 34
SAMPLE_PIXELS: Final = 84
BOX: Final = "pictures_box"
UPLOAD_LIMIT_MB: Final = 64
"""Of the widget, which says little of a file that is too large; the sentence of what reads it comes first."""
PASTE: Final = "paste"
PICTURE_MODEL: Final = "gemma-3-270m-pictures"
"""What a reader gets who wants a picture and has chosen a model that reads text only."""

_USE: Final = "Use a picture as context"
_BESIDE_HELP: Final = "A picture chosen next stands after those that are there, instead of replacing them."
_paste = component("ctxviz.pictures", js=components.bootstrap("pictures.js"))


def draw(session: Session, model: str) -> None:
    """For models that read pictures the chosen ones, and a box to choose others; else the way to one."""
    if not picture_source.reads_pictures(model):
        st.button(
            _USE,
            key="use_picture",
            type="tertiary",
            help=f"Takes {CATALOGUE[PICTURE_MODEL].title}, which reads pictures; this model reads text only.",
            on_click=_acting(lambda _: controls.choose_model(PICTURE_MODEL)),
        )
        _draw_paste(reads_text_only=True)
        return
    with st.popover(f"Pictures · {len(session.pictures)}" if session.pictures else "Add a picture", key=BOX):
        _draw_box(session, model)
    _draw_paste()
    if session.pictures:
        _draw_small(session)


def _draw_box(session: Session, model: str) -> None:
    """Everything about the prompt's pictures."""
    with st.container(key="pictures"):
        # On the page behind, this box lies over them.
        for k, notice in enumerate(session.notices):
            messages.tell("error", notice, f"picture-notice{k}")
        if session.pictures:
            _draw_chosen(session)
        with st.container(horizontal=True, key="picture-ways", vertical_alignment="center"):
            way = st.pills(
                "How to choose a picture",
                list(WAYS),
                format_func=WAYS.__getitem__,
                label_visibility="collapsed",
                key="picture_way",
                persist_state="session",
            )
            messages.hint("or paste one", "paste")
            if session.pictures:
                st.toggle("Keep the others", key="beside", help=_BESIDE_HELP, persist_state="session")
            _draw_back(session)
        if way is not None:
            _DRAWN[way](session)
        _draw_hints(session, model)


def _draw_small(session: Session) -> None:
    """The chosen pictures in a row, and whether they alone are folded."""
    with st.container(horizontal=True, key="small-pictures", vertical_alignment="center", width="content"):
        for k, picture in enumerate(session.pictures):
            st.image(
                PICTURE_FILES.png(picture),
                width=shown_width(picture, SMALL_PIXELS),
                alt=f"Picture {k + 1}: {words_of(picture)}",
            )
        st.session_state.fold_pictures = fold_control.folds_only_pictures(len(session.pictures))
        st.toggle(
            "Fold only the pictures" if len(session.pictures) > 1 else "Fold only the picture",
            key="fold_pictures",
            help="Off again, all but the current token is folded.",
            on_change=_fold_pictures,
        )


def _acting(action: Callable[[Session], None]) -> Callable[[], None]:
    """A callback: what was said about the last action is gone, then the tab's pictures change."""

    def call() -> None:
        session: Session = st.session_state.session
        session.notices.clear()
        before = hashes(session.pictures)
        action(session)
        gone = fold_control.follow(before, hashes(session.pictures))
        if gone:
            session.notices.append(gone)

    return call


def _beside() -> bool:
    return bool(st.session_state.get("beside"))


def _draw_chosen(session: Session) -> None:
    with st.container(horizontal=True, key="chosen-pictures", vertical_alignment="center"):
        for k, picture in enumerate(session.pictures):
            _draw_thumbnail(k, picture)
        if len(session.pictures) > 1:
            st.button(
                "Remove all",
                key="remove_all",
                type="tertiary",
                on_click=_acting(lambda s: picture_source.show(s, ())),
            )


def _draw_thumbnail(k: int, picture: Picture) -> None:
    with st.container(horizontal=True, key=f"picture{k}", width="content", vertical_alignment="center"):
        st.image(
            PICTURE_FILES.png(picture),
            width=shown_width(picture, THUMBNAIL_PIXELS),
            alt=f"Picture {k + 1}: {words_of(picture)}",
        )
        with st.container(key=f"picture-words{k}", width="content"):
            messages.hint(f"{k + 1}  {words_of(picture)}", f"picture{k}")
            messages.hint(_facts(picture), f"picture-facts{k}")
            st.button(
                f"Remove picture {k + 1}",
                key=f"remove{k}",
                type="tertiary",
                on_click=_acting(lambda s: picture_source.show(s, [*s.pictures[:k], *s.pictures[k + 1 :]])),
            )


def _facts(picture: Picture) -> str:
    """Size, and what was done to the picture."""
    width, height = picture.image.size
    return " · ".join([f"{width} × {height} px", *picture.notes])


def _fold_pictures() -> None:
    session: Session = st.session_state.session
    session.notices.clear()
    st.session_state.fold = "image" if st.session_state.fold_pictures else "all"


def _draw_back(session: Session) -> None:
    """The way back from the last choice, and to the pictures of the run on screen."""
    if session.former:
        st.button("Undo", key="undo_pictures", type="tertiary", on_click=_acting(picture_source.undo))
    run = session.view.run
    if run is not None and run.pictures and not session.shows(run.pictures):
        pictures = run.pictures
        st.button(
            "Take those of the run on screen",
            key="run_pictures",
            type="tertiary",
            on_click=_acting(lambda s: picture_source.choose(s, pictures, beside=False)),
        )


def _draw_samples(_: Session) -> None:
    with st.container(horizontal=True, key="samples"):
        for k, sample in enumerate(GALLERY):
            with st.container(key=f"sample-card{k}", width="content"):
                st.image(scene_picture(sample.scene).data, width=SAMPLE_PIXELS, alt=sample.scene.caption())
                st.button(
                    sample.title,
                    key=f"sample{k}",
                    type="tertiary",
                    on_click=_acting(
                        lambda s, scene=sample.scene: picture_source.choose(
                            s, [scene_picture(scene)], beside=_beside()
                        )
                    ),
                )


def _draw_files(session: Session) -> None:
    # A new key empties the widget: the list of what was chosen is the panel's own.
    key = f"picture_files{session.taken}"
    kinds = f"{', '.join(FORMATS[:-1])} or {FORMATS[-1]}"
    st.file_uploader(
        f"Drop or choose {kinds} files, at most {MAX_BYTES // 10**6} MB each",
        accept_multiple_files=True,
        max_upload_size=UPLOAD_LIMIT_MB,
        key=key,
        on_change=_acting(lambda s: _take(s, st.session_state[key])),
    )


def _draw_camera(session: Session) -> None:
    """The browser asks for the camera once the toggle is on, not before."""
    if not st.toggle("Turn the camera on", key="camera_on"):
        return
    key = f"camera{session.taken}"
    st.camera_input(
        "Take a picture",
        key=key,
        label_visibility="collapsed",
        width=420,
        on_change=_acting(lambda s: _take(s, [photo] if (photo := st.session_state[key]) else [])),
    )


def _take(session: Session, uploads: list[Any]) -> None:
    """Choose uploaded files; the widget that brought them starts anew."""
    session.taken += 1
    picture_source.take_files(session, ((file.getvalue(), file.name) for file in uploads), beside=_beside())


def _draw_paste(*, reads_text_only: bool = False) -> None:
    def take(session: Session) -> None:
        files, problems = picture_source.pasted_files(st.session_state[PASTE].get("pasted"))
        session.notices[:] = problems
        before = hashes(session.pictures)
        picture_source.take_files(session, files, beside=_beside())
        if reads_text_only and hashes(session.pictures) != before:
            session.notices.append(
                "This model reads text only; what was pasted is kept. Press "
                f"“{_USE}” for a model that sees it."
            )

    limits = {"each": MAX_BYTES, "together": MOST_PASTED, "most": MOST_PICTURES}
    _paste(key=PASTE, data=limits, on_pasted_change=_acting(take))


def _draw_hints(session: Session, model: str) -> None:
    files = [picture for picture in session.pictures if scene_of(picture) is None]
    if not files:
        return
    if model in DRAWN_ONLY:
        messages.hint(
            "This model was taught with drawn shapes only; in any other picture it sees shapes too.",
            "drawn-only",
        )
    messages.hint(
        "A link carries drawn scenes; a picture from a file, the clipboard or the camera stays in this tab.",
        "picture-link",
    )


_DRAWN: Final = {
    "samples": _draw_samples,
    "scene": scene_form.draw,
    "file": _draw_files,
    "camera": _draw_camera,
}
