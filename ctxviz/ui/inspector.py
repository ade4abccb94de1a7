"""What lies behind one cell of the heat map: coordinates, the worst of them, both models' tokens."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import streamlit as st

from ctxviz.figures.coordinates import Coordinate, coordinates, worst_table
from ctxviz.figures.palette import label
from ctxviz.figures.text import counted, readable, sci
from ctxviz.figures.tops import tops
from ctxviz.records import SOLVER_CASES
from ctxviz.run import Run
from ctxviz.ui import components, messages
from ctxviz.ui.components import Focus
from ctxviz.ui.session import Session

_COUNTED = ("dead", "uncontrolled", "swallowed", "h_small", "multiplier", "solver_case")
_COLUMNS = {
    "j": st.column_config.NumberColumn("j", help="Coordinate of the residual stream", width="small"),
    "h": st.column_config.NumberColumn("h", format="%.2e", help="The denominator"),
    "delta_v": st.column_config.NumberColumn("Δv", format="%.2e", help="What the context adds here"),
    "m": st.column_config.NumberColumn("m", format="%.2e", help="The scale before the patch"),
    "delta_m": st.column_config.NumberColumn("Δm", format="%.2e", help="The patch of the scale"),
    "dead": st.column_config.TextColumn("dead", help="m is exactly 0"),
}


def draw(session: Session) -> None:
    """The inspector of the run on screen, once it has a token."""
    run = session.view.run
    if run is None or len(run) == 0:
        return
    focus = inspected(run, session.focus, still=not session.view.active)
    if focus is None or focus.step is None:
        messages.hint(
            "Click a token, or a cell of the heat map, to see the coordinates behind it.", "inspect"
        )
        return
    with st.container(key="inspector"):
        layer = draw_cell_choice(session, run, focus)
        _draw_layer(run, focus.step, layer, focus.variant)
        components.figure(tops(run, focus.step, focus.variant), key="tops", name="top-tokens")


def inspected(run: Run, focus: Focus, *, still: bool) -> Focus | None:
    """What to show: what was picked if the run has it, else the worst cell of a run that stands ``still``."""
    variant = focus.variant if focus.variant < len(run.variants) else 0
    n, layers = len(run), run.model.n_layers
    if focus.step is not None and focus.step < n:
        layer = focus.layer if focus.layer is not None and focus.layer < layers else None
        return replace(
            focus, layer=_worst_layer(run, focus.step, variant) if layer is None else layer, variant=variant
        )
    if not still:
        return None
    smallest = np.nan_to_num(run.field("h_abs_min", variant)[:, :n], nan=np.inf, posinf=np.inf)
    layer, step = np.unravel_index(int(smallest.argmin()), smallest.shape)
    return replace(focus, step=int(step), layer=int(layer), variant=variant)


def _worst_layer(run: Run, step: int, variant: int) -> int:
    """The layer of a token with the smallest denominator."""
    column = run.field("h_abs_min", variant)[:, step]
    return int(np.nan_to_num(column, nan=np.inf, posinf=np.inf).argmin())


def draw_cell_choice(session: Session, run: Run, focus: Focus) -> int:
    """Which token, layer and variant is shown; chosen here by keyboard or in the live view by a click."""
    state = st.session_state
    labels = [label(variant, run.variants) for variant in run.variants]
    state.inspect_step, state.inspect_layer, state.inspect_variant = focus.step, focus.layer, focus.variant

    def follow() -> None:
        session.pick(int(state.inspect_step), int(state.inspect_layer), int(state.inspect_variant))

    token = readable(run.token(focus.step or 0)[4])
    messages.heading(2, f"Behind token {focus.step}, “{token}”, in layer {focus.layer}", "inspector-head")
    with st.container(key="inspector-choice"):
        step, layer, variant = st.columns([1, 1, 2])
    step.number_input("Token", 0, len(run) - 1, key="inspect_step", on_change=follow)
    layer.number_input("Layer", 0, run.model.n_layers - 1, key="inspect_layer", on_change=follow)
    variant.selectbox(
        "Variant", range(len(labels)), format_func=labels.__getitem__, key="inspect_variant", on_change=follow
    )
    return focus.layer or 0


def _draw_layer(run: Run, step: int, layer: int, variant: int) -> None:
    messages.hint(counts(run, step, layer, variant), "counts")
    vectors = run.vectors(step, variant)
    if vectors is None:
        messages.hint(missing(run), "vectors")
        return
    with st.container(key="inspector-layer"):
        left, right = st.columns([6, 5], gap="medium")
    with left:
        components.figure(coordinates(run, step, layer, variant), key="coordinates", name="coordinates")
    with right:
        draw_worst(run, step, layer, variant)


def draw_worst(run: Run, step: int, layer: int, variant: int) -> None:
    """The ten coordinates with the largest changes, as a table; nothing where they were not kept."""
    vectors = run.vectors(step, variant)
    if vectors is None:
        return
    messages.heading(3, "The ten largest changes", "worst-head")
    worst = worst_table(vectors, layer)
    st.dataframe(
        {name: [_cell(row, name) for row in worst] for name in _COLUMNS},
        column_config=_COLUMNS,
        hide_index=True,
        alt=_alt(worst),
        key="worst",
    )


def counts(run: Run, step: int, layer: int, variant: int) -> str:
    """What was counted in one layer for one token, in a line."""
    number = {name: run.field(name, variant)[layer, step] for name in _COUNTED}
    if number["dead"] < 0:
        return "This layer was not patched."
    case = SOLVER_CASES[int(number["solver_case"])]
    solved = case if np.isnan(number["multiplier"]) else f"λ = {sci(float(number['multiplier']))}, {case}"
    return (
        f"{counted(int(number['dead']), 'dead coordinate')}, {int(number['uncontrolled'])} uncontrolled, "
        f"{_swallowed(int(number['swallowed']))}, "
        f"{int(number['h_small'])} with |h| below {run.settings.small_h:g}; solver: {solved}."
    )


def _swallowed(count: int) -> str:
    return "swallowed not counted" if count < 0 else f"{count} swallowed by rounding"


def missing(run: Run) -> str:
    """Why a token has no coordinates."""
    if run.forgotten_vectors:
        room = run.settings.vector_budget / 2**20
        return (
            f"This token's coordinates were dropped: a run keeps {room:.3g} MiB of them, and later tokens "
            f"needed the room ({run.forgotten_vectors} tables of coordinates were dropped so far)."
        )
    return "This token's coordinates were not kept or not saved."


def _cell(row: Coordinate, name: str) -> float | str:
    value = getattr(row, name)
    return ("dead" if value else "no") if name == "dead" else value


def _alt(worst: list[Coordinate]) -> str:
    if not worst:
        return "No coordinate is patched in this layer."
    first = worst[0]
    return (
        f"Coordinates with the largest change. The first is {first.j}: h {first.h:.2e}, "
        f"change of m {first.delta_m:.2e}{', dead' if first.dead else ''}."
    )
