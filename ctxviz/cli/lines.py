"""A run as JSON lines: one per step and variant, every number finite or null.

A null is what was not measured; where its name stands in the list ``no_number`` beside it, it was computed
and is no number.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ctxviz.no_number import is_measured
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
    measured; in the line's ``no_number`` a replay's names begin with its kind, as in ``replays.batch.tvd``.
    """
    chosen = run.variants[variant]
    position, token_id, text, next_token_id, _, _ = run.token(step)

    def value(metric: str) -> float:
        return float(run.series(metric, variant)[step])

    def latest(metric: str) -> float:
        return _latest(run.reference(metric, chosen.dtype)[: step + 1])

    replays = {kind: _replay(run, step, variant, kind) for kind in run.settings.replay_kinds}
    line = finite(
        {
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
            "match": bool(value("match")),
            "tie": bool(value("tie")),
            "tvd": value("tvd"),
            "logit_linf": value("logit_linf"),
            "kl": value("kl"),
            "unpatched_tvd": float(run.reference("unpatched_tvd", chosen.dtype)[step]),
            "noise_floor_tvd": latest("noise_floor_tvd"),
            "seconds": value("seconds"),
            "layers": _layers(run, step, variant),
            "replays": replays,
            "eager_tvd": latest("eager_tvd"),
            "float32_tvd": latest("float32_tvd"),
            "float64_tvd": latest("float64_tvd"),
            "ulp_tvd": latest("ulp_tvd"),
        }
    )
    for kind, told in replays.items():
        lost = [] if told is None else told.pop("no_number")
        line["no_number"] += [f"replays.{kind}.{name}" for name in lost]
    return line


def finite(record: dict[str, Any]) -> dict[str, Any]:
    """The record with null for every float that is not finite, and the names of those that are no number."""
    floats = {name: value for name, value in record.items() if isinstance(value, float)}
    nulls = {name: None for name, value in floats.items() if not math.isfinite(value)}
    return record | nulls | {"no_number": [name for name in nulls if math.isinf(floats[name])]}


def _replay(run: Run, step: int, variant: int, kind: str) -> dict[str, Any] | None:
    match, tvd, shift = (
        float(run.replay(kind, metric, variant)[step]) for metric in ("match", "tvd", "shift")
    )
    return None if math.isnan(match) else finite({"match": bool(match), "tvd": tvd, "shift": shift})


def _layers(run: Run, step: int, variant: int) -> list[dict[str, Any]]:
    stats = run.layer_stats(step, variant)
    columns = {key: getattr(stats, key) for key in LAYER_KEYS}
    return [
        finite(
            {"layer": layer}
            | {
                key: _count(column[layer]) if key in INTEGER_LAYER_METRICS else float(column[layer])
                for key, column in columns.items()
            }
        )
        for layer in range(run.model.n_layers)
    ]


def _count(value: int) -> int | None:
    return int(value) if value >= 0 else None


def _latest(values: NDArray[np.float64]) -> float:
    known = values[is_measured(values)]
    return float(known[-1]) if known.size else math.nan
