"""The run's figures once more, large and to zoom into; drawn only where a reader asks for them."""

from __future__ import annotations

from typing import Final

import streamlit as st

from ctxviz.figures.card import FigureCard
from ctxviz.run import Run
from ctxviz.ui import components, messages
from ctxviz.ui.components import Focus
from ctxviz.ui.session import Session

_FIGURES: Final = {
    "tvd": "Total-variation distance",
    "logit_linf": "Largest logit gap",
    "patch_ratio": "Patch over scale vector",
    "field": "Heat map, as chosen above",
}


def draw(session: Session) -> None:
    """A closed box with the figures of a run that stands still."""
    run = session.view.run
    if run is None or len(run) == 0 or session.view.active:
        return
    with st.expander("Large figures to zoom into", key="large"):
        if not st.toggle("Draw them", key="large-drawn"):
            return
        chosen = st.selectbox("Figure", list(_FIGURES), format_func=_FIGURES.__getitem__, key="large-figure")
        components.figure(card(run, chosen, session.focus), key=f"large-{chosen}", name=f"ctxviz-{chosen}")
        messages.hint("Drag over a part to zoom in; double-click to see all again.", "large")


def card(run: Run, name: str, focus: Focus) -> FigureCard:
    """The figure of that name."""
    from ctxviz.figures import heatmap, lines

    if name == "field":
        variant = focus.variant if focus.variant < len(run.variants) else 0
        return heatmap.heatmap(run, variant, focus.metric)
    make = {"tvd": lines.tvd_lines, "logit_linf": lines.logit_gap_lines, "patch_ratio": lines.patch_lines}
    return make[name](run)
