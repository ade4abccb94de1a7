"""Any two runs side by side: those of the tab, opened files, and cells of sweeps."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from ctxviz.errors import BundleError
from ctxviz.figures.pair import pair
from ctxviz.figures.palette import label
from ctxviz.figures.text import readable
from ctxviz.run import Run
from ctxviz.ui import choice, collection, components, messages, popovers
from ctxviz.ui.library import draw_upload, opened
from ctxviz.ui.run_words import TITLE, described, summary
from ctxviz.ui.session import Session


def draw(session: Session) -> None:
    """Any two runs on the same axes, and where their texts part."""
    with st.container(horizontal=True, key="pair-more"):
        with popovers.choices("Open a run to compare", "open-to-compare"):
            draw_upload("compare_upload", _open, session)
        with popovers.choices("Add a cell of a sweep", "add-a-cell"):
            _draw_cells(session)
    runs = collection.of_tab(session)
    if not runs:
        messages.tell("note", "There is no run yet; make one on the Live page, or open two.", "empty")
        return
    here = collection.name_of(session, session.view.run) or next(iter(runs))
    other = next((name for name in runs if name != here), here)
    sides = []
    for side, first, column in zip("AB", (here, other), st.columns(2), strict=True):
        with column:
            sides.append(_draw_side(runs, side, first))
    (left, i), (right, j) = sides
    components.figure(pair(left, right, i, j), key="pair")


def _draw_side(runs: dict[str, Run], side: str, first: str) -> tuple[Run, int]:
    """One of the two runs, and its variant."""
    run = runs[
        choice.choose(
            f"Run {side}",
            runs,
            f"pair_{side}",
            lambda name: described(name, runs[name], runs.values()),
            first,
        )
    ]
    labels = [label(variant, run.variants) for variant in run.variants]
    last = min("AB".index(side), len(labels) - 1)
    chosen = choice.choose(f"Variant {side}", labels, f"variant_{side}", first=labels[last])
    return run, labels.index(chosen)


def _draw_cells(session: Session) -> None:
    """Which cell of which sweep to add to the runs that can be compared."""
    titles = collection.sweep_titles()
    if not titles:
        messages.hint("There is no sweep yet; make one under “Make a sweep”.", "no-cells")
        return
    folder = Path(choice.choose("Sweep", titles, "cell_sweep", titles.__getitem__))
    paths = {path.stem: path for path in collection.cell_paths(folder)}
    path = paths[choice.choose("Cell", paths, "cell_of_sweep")]
    st.button("Add", key="add_cell", on_click=_add, args=(session, path))


def _add(session: Session, path: Path) -> None:
    session.hush()
    popovers.close("add-a-cell")
    try:
        run = collection.cell_at(path)
    except (BundleError, OSError) as error:
        session.notices.append(f"{path.name}: {error}")
        return
    session.compare(run)
    session.announcement = f"Added the cell {readable(path.stem, TITLE)}: {summary(run)}."


def _open(session: Session) -> None:
    if st.session_state.compare_upload is not None:
        popovers.close("open-to-compare")
    opened(session, "compare_upload", session.compare)
