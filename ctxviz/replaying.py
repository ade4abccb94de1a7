"""What the replays of a run say: where finished weights, run again, do not give what they gave when built.

Numpy and the run alone; sentences and figures are drawn from it elsewhere.
"""

from __future__ import annotations

from typing import Final
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ctxviz.no_number import is_measured, only_numbers
from ctxviz.run import Run

Flags = NDArray[np.bool_]
Values = NDArray[np.float64]

SAME_WEIGHTS: Final = ("same", "batch", "ulp")
"""The kinds that run the very weights that were built. Only they tell whether the weights carry the context;
``rounded`` changes the weights, and ``held`` asks more of them than the theorem does."""
FAIL_OVER_BUILT: Final = 10.0
"""A replay fails above this many times the building pass's TVD, if it is also above the other two limits."""
FAIL_OVER_FLOOR: Final = 10.0
"""The same for the noise floor's TVD, the latest one measured in the variant's dtype; for ``ulp`` also for
what the same move costs the model with its context."""
FAIL_LEAST_TVD: Final = 1e-3
"""No TVD up to this one is called a failure, however small the others are."""
MOSTLY: Final = 0.5
"""Share of tokens at which the worst kind may fail for weights that still carry the context *mostly*."""


def measured(run: Run, variant: int, kind: str) -> Flags:
    """Where a replay was measured, [steps]."""
    return is_measured(run.replay(kind, "match", variant))


def limit(run: Run, variant: int, kind: str = "") -> Values:
    """The TVD above which a replay of each token fails, [steps]; what is no number limits nothing.

    For ``ulp`` what the same move does to the model with its context counts as a floor too, where measured.
    """
    built = run.series("tvd", variant)
    floor = _latest(run.reference("noise_floor_tvd", run.variants[variant].dtype)[: len(built)])
    dtype, n = run.variants[variant].dtype, len(built)
    moved = _latest(run.reference("ulp_tvd", dtype)[:n]) if kind == "ulp" else np.full(n, np.nan)
    limits = [
        FAIL_OVER_BUILT * only_numbers(built),
        FAIL_OVER_FLOOR * floor,
        FAIL_OVER_FLOOR * moved,
        np.full(len(built), FAIL_LEAST_TVD),
    ]
    return np.fmax.reduce(limits)


def ties(run: Run, variant: int) -> Flags:
    """Tokens where another choice is a tie, [steps]: the baseline's margin is below the latest floor."""
    dtype = run.variants[variant].dtype
    tie = run.series("tie", variant) == 1
    floor = _latest(run.reference("noise_floor_linf", dtype)[: len(tie)])
    return tie | (margins(run, dtype)[: len(tie)] < floor)


_MARGINS: Final[WeakKeyDictionary[Run, dict[str, Values]]] = WeakKeyDictionary()


def margins(run: Run, dtype: str) -> Values:
    """The baseline's difference of its two largest logits, [steps]; each is read once and kept."""
    known = _MARGINS.setdefault(run, {})
    found, n = known.get(dtype, np.empty(0)), len(run)
    if len(found) < n:
        fresh = [run.baseline(k, dtype).margin for k in range(len(found), n)]
        # A new array each time: another thread may be looking at the old one.
        found = known[dtype] = np.concatenate([found, np.array(fresh, float)])
    return found


def differs(run: Run, variant: int, kind: str) -> Flags:
    """Where a replay chose another token than the baseline, ties included, [steps]."""
    return run.replay(kind, "match", variant) == 0


def failed(run: Run, variant: int, kind: str) -> Flags:
    """Where a replay does not give what the building pass gave, [steps]; False where not measured.

    It fails where its TVD is above :func:`limit` or no number although the building pass's was one, or where
    its token differs from the baseline's although the building pass's did not, and is no tie.
    """
    tvd = run.replay(kind, "tvd", variant)
    n = len(tvd)
    built = run.series("tvd", variant)[:n]
    far = ~(tvd <= limit(run, variant, kind)[:n]) & np.isfinite(built)
    matched = run.series("match", variant)[:n] == 1
    wrong = differs(run, variant, kind)[:n] & matched & ~ties(run, variant)[:n]
    return measured(run, variant, kind)[:n] & (far | wrong)


def worst_kind(run: Run, variant: int) -> str | None:
    """The kind of SAME_WEIGHTS that fails most, among equals the one of larger TVD; None if unmeasured."""
    ranks = {}
    for kind in SAME_WEIGHTS:
        where = measured(run, variant, kind)
        if where.any():
            tvd = run.replay(kind, "tvd", variant)[: len(where)][where]
            share = failed(run, variant, kind)[: len(where)][where].mean()
            ranks[kind] = (float(share), float(np.fmax.reduce(tvd)))
    return max(ranks, key=lambda kind: ranks[kind], default=None)


def carried(run: Run, variant: int) -> str | None:
    """``yes``, ``mostly`` or ``no``: whether the weights carry the context; None where nothing was replayed.

    ``yes``: no replay of SAME_WEIGHTS fails anywhere; ``mostly``: the worst kind fails at up to a share
    MOSTLY of the tokens; ``no``: at more.
    """
    kind = worst_kind(run, variant)
    if kind is None:
        return None
    where = measured(run, variant, kind)
    share = failed(run, variant, kind)[: len(where)][where].mean()
    return "yes" if share == 0 else "mostly" if share <= MOSTLY else "no"


def _latest(values: Values) -> Values:
    """Each value, or the last one before it that is a number; NaN before the first."""
    last = np.maximum.accumulate(np.where(np.isfinite(values), np.arange(len(values)), -1))
    return np.where(last >= 0, values[np.maximum(last, 0)] if len(values) else values, np.nan)
