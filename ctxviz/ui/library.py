"""Runs as files in the page: download, open, and the way back to earlier ones."""

from __future__ import annotations

import io
import re
from typing import Final

import streamlit as st

from ctxviz.errors import BundleError
from ctxviz.run import Run
from ctxviz.ui.recorded import RECORDED
from ctxviz.ui.session import Session

UPLOAD_LIMIT_MB: Final = 64
_PICTURES_HELP: Final = (
    "The pictures' files as they were given, with whatever they say of their place and time. Without them "
    "the file only tells their checksums, and its run cannot be replayed."
)


def draw(session: Session) -> None:
    """The buttons that deal with whole runs."""
    with st.container(horizontal=True, key="runs", vertical_alignment="center"):
        run = session.view.run
        if run is not None and len(run):
            with_pictures = bool(run.pictures) and bool(st.session_state.get("with_pictures"))
            st.download_button(
                "Download this run",
                data=lambda: bundle(run, pictures=with_pictures),
                file_name=file_name(run),
                mime="application/zip",
                on_click="ignore",
                key="download",
                help="A .ctxviz file: opens here without a model, and in pandas, DuckDB or polars.",
            )
            if run.pictures:
                st.checkbox(
                    "with its pictures", key="with_pictures", help=_PICTURES_HELP, persist_state="session"
                )
        with st.popover("Open a run"):
            st.file_uploader(
                "A .ctxviz file",
                type="ctxviz",
                max_upload_size=UPLOAD_LIMIT_MB,
                key="upload",
                on_change=_open,
                args=(session,),
            )
        if session.earlier:
            st.button("Back to the previous run", key="back", on_click=session.go_back)
        with st.popover("Recorded runs"):
            for name, title in RECORDED.items():
                st.button(
                    title,
                    key=f"recorded-{name}",
                    type="tertiary",
                    on_click=session.show_recorded,
                    args=(name,),
                )


def bundle(run: Run, *, pictures: bool = False) -> bytes:
    """The run as a ``.ctxviz`` file, with its pictures or without; built when the reader asks for it."""
    from ctxviz.store import save_run

    target = io.BytesIO()
    save_run(run, target, pictures=pictures)
    return target.getvalue()


def file_name(run: Run) -> str:
    """A file name from the model and the first words of the prompt, in plain letters."""
    words = re.sub(r"[^A-Za-z0-9]+", "-", f"{run.model.key} {run.context.prompt[:40]}").strip("-").lower()
    return f"{words or 'run'}.ctxviz"


def _open(session: Session) -> None:
    from ctxviz.store import load_run

    upload = st.session_state.upload
    if upload is None:
        return
    try:
        session.open(load_run(upload))
    except BundleError as error:
        session.notices[:] = [str(error)]
