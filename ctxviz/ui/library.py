"""Runs as files in the page: download, open, and the way back to earlier ones."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Final

import streamlit as st

from ctxviz.errors import BundleError
from ctxviz.figures.subject import stem
from ctxviz.figures.text import readable
from ctxviz.run import Run
from ctxviz.ui import messages, popovers, way_back
from ctxviz.ui.recorded import available
from ctxviz.ui.run_words import summary
from ctxviz.ui.session import Session

UPLOAD_LIMIT_MB: Final = 64
NAME_SHOWN: Final = 60
"""Characters of a file's name."""
_OPEN: Final = "open-a-run"
_RECORDED: Final = "recorded-runs"
_PICTURES_HELP: Final = (
    "The pictures' files as they were given, with whatever they say of their place and time. Without them "
    "the file only tells their checksums, and its run cannot be replayed."
)


def draw(session: Session) -> None:
    """The buttons that deal with whole runs."""
    with st.container(horizontal=True, key="runs", vertical_alignment="center"):
        run = session.view.run
        if run is not None and len(run):
            _draw_download(session, run)
        with popovers.choices("Open a run", _OPEN):
            draw_upload("upload", _open, session)
        way_back.draw(session)
        recorded = available()
        if recorded:
            with popovers.choices("Recorded runs", _RECORDED):
                for name, title in recorded.items():
                    st.button(
                        title,
                        key=f"recorded-{name}",
                        type="tertiary",
                        on_click=_show_recorded,
                        args=(session, name),
                    )


def draw_upload(key: str, taken: Callable[[Session], None], session: Session) -> None:
    """Where a run file is given; ``taken`` finds it in the session state under ``key``."""
    st.file_uploader(
        "A .ctxviz file",
        type="ctxviz",
        max_upload_size=UPLOAD_LIMIT_MB,
        key=key,
        on_change=taken,
        args=(session,),
    )


def _draw_download(session: Session, run: Run) -> None:
    """Pictures go into the file only where the reader says so of this very run."""
    key = f"with_pictures-{session.view.id}"
    too_large = why_not_with_pictures(run)
    with_pictures = bool(run.pictures) and not too_large and bool(st.session_state.get(key))
    st.download_button(
        "Download",
        data=lambda: bundle(run, pictures=with_pictures),
        file_name=file_name(run),
        mime="application/zip",
        on_click="ignore",
        key="download",
        help="This run as a .ctxviz file: opens here without a model, and in pandas, DuckDB or polars.",
    )
    if run.pictures:
        st.checkbox(
            "with its pictures",
            key=key,
            help=_PICTURES_HELP,
            disabled=bool(too_large),
            persist_state="session",
        )
    if too_large:
        messages.hint(too_large, "with-pictures")


def why_not_with_pictures(run: Run) -> str:
    """Why the run cannot be downloaded with its pictures, as a sentence; empty where it can."""
    from ctxviz.store import check_pictures

    try:
        check_pictures(run.pictures)
    except BundleError as error:
        return str(error)
    size = sum(len(picture.data) for picture in run.pictures)
    if not run.pictures or size + run.vector_bytes <= UPLOAD_LIMIT_MB * 2**20:
        return ""
    return (
        f"The run's pictures take {size:,} bytes, and with them its file could be larger than the "
        f"{UPLOAD_LIMIT_MB} MiB that can be opened here; download it without them, or use smaller pictures."
    )


def bundle(run: Run, *, pictures: bool = False) -> bytes:
    """The run as a ``.ctxviz`` file, with its pictures or without; built when the reader asks for it."""
    from ctxviz.store import save_run

    target = io.BytesIO()
    save_run(run, target, pictures=pictures)
    return target.getvalue()


def file_name(run: Run) -> str:
    """As the names of its figures begin."""
    return f"{stem(run)}.ctxviz"


def opened(session: Session, key: str, take: Callable[[Run], object]) -> None:
    """Read the file given under ``key`` and hand its run on; what it is, or why it is none, is said."""
    from ctxviz.store import load_run

    upload = st.session_state[key]
    if upload is None:
        return
    session.hush()
    try:
        run = load_run(io.BytesIO(upload.getvalue()))
    except BundleError as error:
        session.notices.append(str(error))
        return
    take(run)
    session.announcement = f"Opened {readable(upload.name, NAME_SHOWN)}: {summary(run)}."


def _open(session: Session) -> None:
    # A file chosen after another first takes that one away, and with the menu the uploader would be gone.
    if st.session_state.upload is not None:
        popovers.close(_OPEN)
    opened(session, "upload", session.open)


def _show_recorded(session: Session, name: str) -> None:
    popovers.close(_RECORDED)
    session.show_recorded(name)
