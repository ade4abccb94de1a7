"""The per-layer quantities that can be drawn, and what they mean in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from ctxviz.no_number import is_lost
from ctxviz.records import INTEGER_LAYER_METRICS, SOLVER_CASES
from ctxviz.run import Run

Values = NDArray[np.float64]
Kind = Literal["log", "count", "category"]


@dataclass(frozen=True, slots=True)
class Metric:
    """A per-layer quantity: its name, symbol, what it means, and whether the smallest value is the worst.

    ``kind`` says how it is drawn: the logarithm of its size, a count (log10(1 + n)), or one of ``words``.
    Where the size of a signed quantity is drawn, ``signed`` is the symbol of the quantity itself.
    """

    title: str
    symbol: str
    meaning: str
    small_is_bad: bool = False
    kind: Kind = "log"
    signed: str = ""
    words: tuple[str, ...] = ()


def _drift(title: str, symbol: str, how: str) -> Metric:
    meaning = f"How far the layer's output moves when weights run again {how}; bright is far."
    return Metric(f"Replay drift, {title}", f"‖Δx‖ / ‖x‖, {symbol}", meaning)


METRICS: Final = {
    "h_abs_min": Metric(
        "Smallest denominator |h|",
        "min |h|",
        "The smallest number the scale update divides by; dark is small, and there a patch may blow up.",
        small_is_bad=True,
    ),
    "scale_max_abs": Metric(
        "Largest change of a scale |Δm|",
        "max |Δm|",
        "The largest change of any one coordinate of the post-MLP scale vector; bright is large.",
    ),
    "scale_ratio": Metric(
        "Patch over scale vector",
        "‖Δm‖ / ‖m‖",
        "The size of the change of the scale vector beside the vector itself; bright is large.",
    ),
    "weight_ratio": Metric(
        "Patch over weight matrix",
        "‖ΔW‖ / ‖W‖",
        "The size of the rank-one change beside its matrix, largest of gate, up and down; bright is large.",
    ),
    "output_error": Metric(
        "Error of the layer's output",
        "‖Δx‖ / ‖x‖",
        "How far the patched layer's output is from the output with the context; bright is far.",
    ),
    "h_small": Metric(
        "Small denominators",
        "n small |h|",
        "How many denominators are below the run's threshold; bright is many.",
        kind="count",
    ),
    "gate_ratio": Metric(
        "Patch over gate matrix",
        "‖ΔW‖ / ‖W‖, gate",
        "The size of the rank-one change of the gate matrix beside the matrix; bright is large.",
    ),
    "up_ratio": Metric(
        "Patch over up matrix",
        "‖ΔW‖ / ‖W‖, up",
        "The size of the rank-one change of the up matrix beside the matrix; bright is large.",
    ),
    "down_ratio": Metric(
        "Patch over down matrix",
        "‖ΔW‖ / ‖W‖, down",
        "The size of the rank-one change of the down matrix beside the matrix; bright is large. None where"
        " the rule leaves it alone.",
    ),
    "dead": Metric(
        "Dead coordinates",
        "n dead",
        "How many scales m are exactly zero, so that no change of the norm's input passes; bright is many.",
        kind="count",
    ),
    "uncontrolled": Metric(
        "Uncontrolled coordinates",
        "n uncontrolled",
        "How many coordinates keep their error: h is zero or the change does not fit; bright is many.",
        kind="count",
    ),
    "swallowed": Metric(
        "Swallowed changes",
        "n swallowed",
        "How many changes of a scale were rounded away when they were written; bright is many.",
        kind="count",
    ),
    "resid_ratio": Metric(
        "What the context adds",
        "‖Δv‖ / ‖v_C‖",
        "How much of the residual stream before the MLP is missing without the context; bright is much.",
    ),
    "cosine": Metric(
        "Turn of the MLP's input",
        "1 − cos(z, z_C)",
        "How far the MLP's input turns away: 0 is the same direction, 1 a right angle; bright is far. A value"
        " slightly below 0 is rounding.",
    ),
    "output_max_abs": Metric(
        "Largest output of the layer",
        "max |x|",
        "The largest coordinate of the layer's output; bright is large, and float16 ends at 65504.",
    ),
    "multiplier": Metric(
        "Multiplier of the least squares",
        "|λ|",
        "What holds the target on its sphere; dark is near 0, where the scale hardly has to change. No value"
        " where the rule has none.",
        signed="λ",
    ),
    "solver_case": Metric(
        "Case of the solver",
        "case",
        "How the least squares under the patch was solved; hard and infeasible deserve a look.",
        kind="category",
        words=SOLVER_CASES,
    ),
    "drift_same": _drift("same kernel", "same", "by the same kernel"),
    "drift_batch": _drift("batch of two", "batch", "in a batch of two"),
    "drift_ulp": _drift("one unit in the last place", "ulp", "with the input moved by one ulp"),
    "drift_rounded": _drift("rounded", "rounded", "rounded through another dtype"),
}
"""What can be drawn, by key, in the order to offer it."""

LIVE_METRICS: Final = ("h_abs_min", "scale_max_abs", "scale_ratio", "weight_ratio", "output_error")
"""Those that the live view offers."""

_MATRICES: Final = ("gate_ratio", "up_ratio", "down_ratio")


def signed_table(run: Run, variant: int, metric: str, start: int = 0, end: int | None = None) -> Values:
    """A METRICS quantity from step ``start`` to ``end``, [n_layers, steps], with its sign; NaN where not
    measured, infinite where it is no number. A category is its index into ``words``."""
    n = len(run) if end is None else end
    names = _MATRICES if metric == "weight_ratio" else (metric,)
    parts = [run.field(name, variant)[:, start:n].astype(np.float64) for name in names]
    values = np.fmax.reduce(parts)
    if metric == "cosine":
        return np.where(is_lost(values), np.inf, 1 - values)
    if metric in INTEGER_LAYER_METRICS:
        return np.where(values < 0, np.nan, values)
    return values


def metric_table(run: Run, variant: int, metric: str) -> Values:
    """The size of a METRICS quantity as it is drawn, [n_layers, steps]; NaN where not measured, infinite
    where it is no number."""
    return np.abs(signed_table(run, variant, metric))


def largest_scale_ratio(run: Run, variant: int) -> Values:
    """||dm||/||m|| of a variant, largest over its patched layers, [steps]; NaN where no layer is patched,
    infinite where it is no number in one of them."""
    table = run.field("scale_ratio", variant)
    return np.fmax.reduce(table, axis=0).astype(np.float64)
