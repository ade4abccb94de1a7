"""The per-layer quantities that can be drawn, and what they mean in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ctxviz.run import Run

Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Metric:
    """A per-layer quantity: its name, symbol, what it means, and whether the smallest value is the worst."""

    title: str
    symbol: str
    meaning: str
    small_is_bad: bool = False


METRICS: Final = {
    "h_abs_min": Metric(
        "Smallest denominator |h|",
        "min |h|",
        "The smallest number the scale update divides by; dark is small, and there the patch blows up.",
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
}
"""What can be drawn, by key, in the order to offer it."""


def metric_table(run: Run, variant: int, metric: str) -> Values:
    """A METRICS quantity, [n_layers, steps]; NaN where not measured."""
    if metric == "weight_ratio":
        ratios = [run.field(name, variant) for name in ("gate_ratio", "up_ratio", "down_ratio")]
        n = min(ratio.shape[1] for ratio in ratios)
        return np.fmax.reduce([ratio[:, :n] for ratio in ratios]).astype(np.float64)
    return run.field(metric, variant).astype(np.float64)


def largest_scale_ratio(run: Run, variant: int) -> Values:
    """||dm||/||m|| of a variant, largest over its patched layers, [steps]; NaN where no layer is patched."""
    table = run.field("scale_ratio", variant)
    return np.fmax.reduce(table, axis=0).astype(np.float64)
