"""A run as JSON lines: one per step and variant, every number finite or null."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ctxviz.records import INTEGER_LAYER_METRICS, Reference, Step
from ctxviz.run import Run

LAYER_KEYS: Final = (
    "scale_ratio",
    "scale_max_abs",
    "h_abs_min",
    "h_argmin",
    "dead",
    "uncontrolled",
    "swallowed",
    "gate_ratio",
    "up_ratio",
    "down_ratio",
    "output_error",
)


class JsonLines:
    """Writes the lines of a growing run, a step's lines as soon as its unpatched model was measured.

    References come in batches some steps after their steps; :meth:`finish` writes what is still held back,
    with null for whatever was never measured.
    """

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._written = 0
        self._measured: set[tuple[int, str]] = set()

    def step(self, run: Run, step: Step) -> None:
        """Nothing yet: the step's references follow it."""

    def reference(self, run: Run, reference: Reference) -> None:
        if reference.unpatched_tvd is not None:
            self._measured.add((reference.step, reference.dtype))
        while self._written < len(run) and all(
            (self._written, dtype) in self._measured for dtype in run.dtypes
        ):
            self._put(run)

    def finish(self, run: Run) -> None:
        while self._written < len(run):
            self._put(run)

    def _put(self, run: Run) -> None:
        for variant in range(len(run.variants)):
            record = step_record(run, self._written, variant)
            self._write(json.dumps(record, allow_nan=False) + "\n")
        self._measured -= {(self._written, dtype) for dtype in run.dtypes}
        self._written += 1


def step_record(run: Run, step: int, variant: int) -> dict[str, Any]:
    """One line's contents.

    ``noise_floor_tvd``, ``eager_tvd``, ``float32_tvd``, ``float64_tvd`` and ``ulp_tvd`` are the latest values
    measured at this step or before it. ``replays`` has a key for every kind asked for, null where it was not
    measured.
    """
    chosen = run.variants[variant]
    position, token_id, text, next_token_id, _, _ = run.token(step)

    def value(metric: str) -> float | None:
        return _number(run.series(metric, variant)[step])

    def latest(metric: str) -> float | None:
        return _latest(run.reference(metric, chosen.dtype)[: step + 1])

    return {
        "step": step,
        "position": position,
        "token_id": token_id,
        "text": text,
        "next_token_id": next_token_id,
        "variant": {
            "update": chosen.update,
            "arithmetic": chosen.arithmetic,
            "dtype": chosen.dtype,
            "first_layer": chosen.first_layer,
        },
        "match": bool(run.series("match", variant)[step]),
        "tie": bool(run.series("tie", variant)[step]),
        "tvd": value("tvd"),
        "logit_linf": value("logit_linf"),
        "kl": value("kl"),
        "unpatched_tvd": _number(run.reference("unpatched_tvd", chosen.dtype)[step]),
        "noise_floor_tvd": latest("noise_floor_tvd"),
        "seconds": value("seconds"),
        "layers": _layers(run, step, variant),
        "replays": {kind: _replay(run, step, variant, kind) for kind in run.settings.replay_kinds},
        "eager_tvd": latest("eager_tvd"),
        "float32_tvd": latest("float32_tvd"),
        "float64_tvd": latest("float64_tvd"),
        "ulp_tvd": latest("ulp_tvd"),
    }


def _replay(run: Run, step: int, variant: int, kind: str) -> dict[str, bool | float | None] | None:
    match, tvd, shift = (run.replay(kind, metric, variant)[step] for metric in ("match", "tvd", "shift"))
    if np.isnan(match):
        return None
    return {"match": bool(match), "tvd": _number(tvd), "shift": _number(shift)}


def _layers(run: Run, step: int, variant: int) -> list[dict[str, float | int | None]]:
    stats = run.layer_stats(step, variant)
    columns = {key: getattr(stats, key) for key in LAYER_KEYS}
    return [
        {"layer": layer}
        | {
            key: _count(column[layer]) if key in INTEGER_LAYER_METRICS else _number(column[layer])
            for key, column in columns.items()
        }
        for layer in range(run.model.n_layers)
    ]


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _count(value: int) -> int | None:
    return int(value) if value >= 0 else None


def _latest(values: NDArray[np.float64]) -> float | None:
    known = values[np.isfinite(values)]
    return float(known[-1]) if known.size else None
