"""The figures of one patched pass, filled layer by layer and then frozen.

What is noted was computed: what is no finite number is recorded as infinite, and only what nobody noted stays
unmeasured (:mod:`ctxviz.no_number`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from ctxviz.engine.anatomy import Doubles, LayerAnatomy
from ctxviz.no_number import all_computed
from ctxviz.numerics.scale_update import ScaleUpdate
from ctxviz.records import (
    INTEGER_LAYER_METRICS,
    LAYER_METRICS,
    LayerPatch,
    LayerStats,
    LayerVectors,
    Rank1Update,
    VectorUpdate,
)

FLOAT32_MAX: Final = float(np.finfo(np.float32).max)


class Ledger:
    """Per-layer statistics, coordinates and updates of one pass over ``layers``."""

    def __init__(
        self, layers: Sequence[LayerAnatomy], width: int, *, keep_vectors: bool, keep_patches: bool
    ) -> None:
        count = len(layers)
        self._stats: dict[str, Any] = {
            name: np.full(count, -1, np.int32)
            if name in INTEGER_LAYER_METRICS
            else np.full(count, np.nan, np.float32)
            for name in LAYER_METRICS
        }
        self._updates: list[list[Rank1Update | VectorUpdate]] | None = (
            [[] for _ in layers] if keep_patches else None
        )
        self._vectors: LayerVectors | None = None
        if keep_vectors:
            h, delta_v, delta = (np.full((count, width), np.nan, np.float32) for _ in range(3))
            scale, stored = (
                np.stack([getattr(part, name) for part in layers]).astype(np.float32)
                for name in ("scale", "stored_scale")
            )
            uncontrolled, swallowed = (np.zeros((count, width), bool) for _ in range(2))
            self._vectors = LayerVectors(h, delta_v, scale, delta, stored, uncontrolled, swallowed)

    def note(self, metric: str, layer: int, value: float) -> None:
        """Record one computed figure."""
        if metric in INTEGER_LAYER_METRICS:
            self._stats[metric][layer] = int(value)
        elif abs(value) <= FLOAT32_MAX:
            self._stats[metric][layer] = value
        else:
            self._stats[metric][layer] = -np.inf if value < 0 else np.inf

    @property
    def keeps_patches(self) -> bool:
        return self._updates is not None

    def update(self, layer: int, update: Rank1Update | VectorUpdate) -> None:
        """Keep an update where the run keeps patches."""
        if self._updates is not None:
            self._updates[layer].append(update)

    def coordinates(self, layer: int, h: Doubles, delta_v: Doubles, update: ScaleUpdate) -> None:
        """Keep one layer's vectors where the run keeps them."""
        if self._vectors is not None:
            for name, values in (("h", h), ("delta_v", delta_v), ("delta_scale", update.delta)):
                getattr(self._vectors, name)[layer] = all_computed(values)
            self._vectors.uncontrolled[layer] = update.uncontrolled

    def swallowed(self, layer: int, swallowed: np.ndarray) -> None:
        """Record which coordinates' updates rounding undid, [d]."""
        self.note("swallowed", layer, int(swallowed.sum()))
        if self._vectors is not None:
            self._vectors.swallowed[layer] = swallowed

    def scale(
        self, layer: LayerAnatomy, h: Doubles, delta_v: Doubles, update: ScaleUpdate, small_h: float
    ) -> None:
        """Record the figures of a scale update dm whose denominators were h, both [d]."""
        # A coordinate that is no number is the smallest |h| of all: it must not hide behind the healthy ones.
        index, magnitude = layer.index, np.abs(all_computed(h, np.float64))
        lost = np.isinf(magnitude)
        worst = int(lost.argmax()) if lost.any() else int(magnitude.argmin())
        size = np.abs(update.delta.astype(np.float64))
        norm = float(np.linalg.norm(layer.scale))
        self.note("scale_ratio", index, float(np.linalg.norm(size)) / norm if norm else np.inf)
        self.note("scale_max_abs", index, float(size.max()))
        self.note("scale_argmax", index, int(size.argmax()))
        self.note("h_abs_min", index, float(magnitude[worst]))
        self.note("h_argmin", index, worst)
        self.note("h_small", index, int((magnitude < small_h).sum()))
        self.note("dead", index, int((layer.scale == 0).sum()))
        self.note("uncontrolled", index, int(update.uncontrolled.sum()))
        self.coordinates(index, h, delta_v, update)

    def stats(self) -> LayerStats:
        return LayerStats(**self._stats)

    def vectors(self) -> LayerVectors | None:
        return self._vectors

    def patches(self) -> tuple[LayerPatch, ...] | None:
        if self._updates is None:
            return None
        return tuple(
            LayerPatch(layer, tuple(updates)) for layer, updates in enumerate(self._updates) if updates
        )
