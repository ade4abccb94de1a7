"""Which cell of a run is opened, and what was counted in it, in words."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ctxviz.figures.text import counted, equals
from ctxviz.no_number import is_lost, is_measured
from ctxviz.records import SOLVER_CASES
from ctxviz.run import Run
from ctxviz.ui.focus import Focus

_COUNTED = ("dead", "uncontrolled", "swallowed", "h_small", "multiplier", "solver_case")


def inspected(run: Run, focus: Focus, *, still: bool) -> Focus | None:
    """What to show: what was picked if the run has it, else the worst cell of a run that stands ``still``,
    or of the token that was picked without a layer."""
    variant = focus.variant if focus.variant < len(run.variants) else 0
    if _has_token(run, focus):
        if _has_layer(run, focus):
            return replace(focus, variant=variant)
        worst = _worst(run, variant, focus.step)
        return replace(focus, layer=worst.layer, variant=variant)
    if not still:
        return None
    worst = _worst(run, variant)
    return replace(focus, step=worst.step, layer=worst.layer, variant=variant)


def opened_by_itself(run: Run, focus: Focus, *, still: bool = True) -> str:
    """What the cell is that :func:`inspected` opens, where not all of it was picked; empty where it was.

    Of a run that does not stand ``still`` it is said up to which token that holds.
    """
    variant = focus.variant if focus.variant < len(run.variants) else 0
    if not _has_token(run, focus):
        worst = _worst(run, variant)
        return worst.what.format("this run" if still else f"this run up to token {worst.last}")
    if not _has_layer(run, focus):
        return _worst(run, variant, focus.step).what.format("this token")
    return ""


def _has_token(run: Run, focus: Focus) -> bool:
    return focus.step is not None and focus.step < len(run)


def _has_layer(run: Run, focus: Focus) -> bool:
    return focus.layer is not None and focus.layer < run.model.n_layers


class _Worst(NamedTuple):
    step: int
    layer: int
    what: str
    last: int
    """The last token that was looked at."""


def _worst(run: Run, variant: int, step: int | None = None) -> _Worst:
    """The patched cell, of one token or of all, whose denominator is no number, the first such one; else the
    one with the smallest."""
    first = min(run.variants[variant].first_layer, run.model.n_layers - 1)
    start, end = (0, len(run)) if step is None else (step, step + 1)
    # By tokens first: what is no number in one token is so in all layers after it.
    values = run.field("h_abs_min", variant)[first:, start:end].T
    if is_lost(values).any():
        place, what = is_lost(values).argmax(), "First |h| of {} that is no number"
    elif is_measured(values).any():
        place, what = np.nanargmin(values), "Smallest |h| of {}"
    else:
        place, what = 0, "First patched layer of {}"
    row, layer = np.unravel_index(int(place), values.shape)
    return _Worst(start + int(row), first + int(layer), what, end - 1)


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
