"""Where in a run the alarms are: numpy alone, no words.

A place is one row of a table with the columns of CELL; ``variant``, ``layer`` and ``step`` are -1 where it is
not one place, ``value`` passed ``threshold``, and the larger ``rank`` the worse it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ctxviz import replaying
from ctxviz.no_number import is_lost, numbers
from ctxviz.replaying import SAME_WEIGHTS
from ctxviz.run import Run
from ctxviz.settings import EPSILONS

BLOW_UP: Final = 100.0
"""||dm|| / ||m|| above which a layer's patch is called a blow-up."""
SWALLOWED_SHARE: Final = 0.5
"""Share of a layer's coordinates above which it is told that rounding undid their changes."""
FLOAT16_MAX: Final = 65504.0
NEAR_OVERFLOW: Final = FLOAT16_MAX / 2
"""|dm|, or |x| of a layer's output, above which float16 is close to its end."""
DRIFT: Final = 1e-3
DRIFT_EPSILONS: Final = 8.0
"""Relative drift of a layer's output above which a failing replay has left the building pass: DRIFT, or so
many of the dtype's epsilons where that is more."""

CELL: Final = np.dtype(
    [
        ("variant", np.int32),
        ("layer", np.int32),
        ("step", np.int32),
        ("value", np.float64),
        ("threshold", np.float64),
        ("rank", np.float64),
        ("replay", np.int8),
    ]
)
"""``replay`` is an index into replaying.SAME_WEIGHTS, or -1."""

Cells = NDArray[np.void]


def cells(run: Run, kind: str) -> Cells:
    """All places of one kind of alarm, worst first, equals by variant, layer and step.

    Raises:
        KeyError: an unknown kind.
    """
    parts = list(FINDERS[kind](run, len(run))) if len(run) else []
    found = np.concatenate([np.zeros(0, CELL), *parts])
    return found[np.argsort(-found["rank"], kind="stable")]


def _table(
    variant: int,
    layer: ArrayLike,
    step: ArrayLike,
    value: ArrayLike,
    threshold: ArrayLike,
    rank: ArrayLike | None = None,
    replay: int = -1,
) -> Cells:
    """A table; what is no number is infinite and so the worst."""
    found = np.zeros(np.broadcast_shapes(np.shape(layer), np.shape(step)), CELL)
    columns = (variant, layer, step, value, threshold, value if rank is None else rank, replay)
    for name, column in zip(CELL.names or (), columns, strict=True):
        found[name] = column
    return found


def _above(metric: str, threshold: Callable[[Run], float]) -> Callable[[Run, int], Iterator[Cells]]:
    """Places where a layer metric is above a threshold."""

    def finder(run: Run, n: int) -> Iterator[Cells]:
        for i in range(len(run.variants)):
            yield _hits(i, run.field(metric, i)[:, :n], threshold(run))

    return finder


def _hits(variant: int, values: NDArray[Any], threshold: float) -> Cells:
    hit = values > threshold
    layer, step = np.nonzero(hit)
    return _table(variant, layer, step, values[hit], threshold)


def _near_overflow(run: Run, n: int) -> Iterator[Cells]:
    for i, variant in enumerate(run.variants):
        if variant.dtype == "float16":
            peak = np.fmax(*(run.field(m, i)[:, :n] for m in ("scale_max_abs", "output_max_abs")))
            lost = is_lost(peak)
            # Where a layer is no number those after it are none either: the first one is where it overflowed.
            later = np.cumsum(lost, axis=0) > 1
            yield _hits(i, np.where(later, 0, peak), NEAR_OVERFLOW)
            logits = is_lost(run.series("tvd", i)[:n]) & ~lost.any(axis=0)
            yield _table(i, -1, np.flatnonzero(logits), np.inf, np.nan)


def _mismatch(run: Run, n: int) -> Iterator[Cells]:
    for i in range(len(run.variants)):
        steps = _differing(run, i, n, tie=0)
        yield _table(i, -1, steps, run.series("tvd", i)[steps], np.nan)


def _tie(run: Run, n: int) -> Iterator[Cells]:
    for i, variant in enumerate(run.variants):
        steps = _differing(run, i, n, tie=1)
        margins = [run.baseline(k, variant.dtype).margin for k in steps.tolist()]
        floors = [_latest(run.reference("noise_floor_linf", variant.dtype)[: k + 1]) for k in steps.tolist()]
        yield _table(i, -1, steps, margins, floors, run.series("tvd", i)[steps])


def _differing(run: Run, variant: int, n: int, *, tie: int) -> NDArray[np.intp]:
    match, tied = (run.series(name, variant)[:n] for name in ("match", "tie"))
    return np.flatnonzero((match == 0) & (tied == tie))


def _latest(values: NDArray[np.float64]) -> float:
    known = numbers(values)
    return float(known[-1]) if known.size else np.nan


def _replay_failures(run: Run, n: int) -> Iterator[Cells]:
    for number, kind in enumerate(SAME_WEIGHTS):
        if kind not in run.replayed:
            continue
        for i in range(len(run.variants)):
            tvd, shift = (run.replay(kind, metric, i)[:n] for metric in ("tvd", "shift"))
            limit, far = replaying.limit(run, i, kind)[:n], replaying.failed(run, i, kind)[:n]
            moved = replaying.measured(run, i, kind)[:n] & (shift != 0) & (kind == "same")
            steps = np.flatnonzero(far | moved)
            value = np.where(far, tvd, shift)[steps]
            # Where the token alone differs no number passed a limit.
            threshold = np.where(far, np.where(tvd > limit, limit, np.nan), 0.0)[steps]
            drifted = run.field(f"drift_{kind}", i)[:, steps] > drift_limit(run.variants[i].dtype)
            layer = np.where(drifted.any(axis=0), drifted.argmax(axis=0), -1)
            yield _table(i, layer, steps, value, threshold, replay=number)


def drift_limit(dtype: str) -> float:
    """The drift above which a layer has left the building pass, in a dtype."""
    return max(DRIFT, DRIFT_EPSILONS * EPSILONS[dtype])


def _dead(run: Run, n: int) -> Iterator[Cells]:
    counts = dead_by_layer(run, n)
    layers = np.flatnonzero(counts)
    yield _table(-1, layers, -1, counts[layers], 0.0)


def dead_by_layer(run: Run, n: int) -> NDArray[np.int32]:
    """How many coordinates have m = 0, [n_layers]; the same at each of the first n steps."""
    counts = np.stack([run.field("dead", i)[:, n - 1] for i in range(len(run.variants))])
    return np.maximum(counts.max(axis=0), 0)


FINDERS: Final[dict[str, Callable[[Run, int], Iterator[Cells]]]] = {
    "mismatch": _mismatch,
    "replay-failure": _replay_failures,
    "near-overflow": _near_overflow,
    "uncontrolled": _above("uncontrolled", lambda _: 0.0),
    "blow-up": _above("scale_ratio", lambda _: BLOW_UP),
    "swallowed": _above("swallowed", lambda run: SWALLOWED_SHARE * run.model.width),
    "dead": _dead,
    "tie": _tie,
}
"""By kind, worst first."""
