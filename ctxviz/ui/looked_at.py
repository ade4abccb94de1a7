"""Which cell of a run is opened, and what was counted in it, in words."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ctxviz.figures.text import counted, equals
from ctxviz.records import SOLVER_CASES
from ctxviz.run import Run
from ctxviz.ui.focus import Focus

_COUNTED = ("dead", "uncontrolled", "swallowed", "h_small", "multiplier", "solver_case")


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


def counts(run: Run, step: int, layer: int, variant: int) -> str:
    """What was counted in one layer for one token, in a line."""
    number = {name: run.field(name, variant)[layer, step] for name in _COUNTED}
    if number["dead"] < 0:
        return "This layer was not patched."
    case = SOLVER_CASES[int(number["solver_case"])]
    solved = case if np.isnan(number["multiplier"]) else f"{equals('λ', float(number['multiplier']))}, {case}"
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
