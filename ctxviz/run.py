"""A run as it grows: append-only, read by others while one thread writes.

Scalars and per-layer figures sit in arrays that grow by doubling, so a token's cost does not depend on how
many came before. Readers take ``n = len(run)`` first and look at entries below it: those never change,
except that a :class:`~ctxviz.records.Reference` may fill in a value that was not measured before. NaN is what
was not measured, infinite what was and is no number (:mod:`ctxviz.no_number`).
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ctxviz.folds import Context
from ctxviz.records import (
    INTEGER_LAYER_METRICS,
    LAYER_METRICS,
    Baseline,
    LayerStats,
    LayerVectors,
    ModelIdentity,
    Reference,
    Step,
    TopTokens,
    WithoutContext,
)
from ctxviz.settings import REPLAY_KINDS, RunSettings, Variant

if TYPE_CHECKING:
    from ctxviz.pictures import Picture

SCHEMA_VERSION: Final = 3
END_OF_TEXT: Final = "end of text"
"""The outcome of a run whose last token is one of the model's ends."""
STEP_METRICS: Final = ("match", "tie", "tvd", "logit_linf", "kl", "rank", "seconds")
REFERENCE_METRICS: Final = (
    "unpatched_tvd",
    "noise_floor_tvd",
    "noise_floor_linf",
    "unpatched_linf",
    "eager_tvd",
    "float32_tvd",
    "float64_tvd",
    "ulp_tvd",
)
REPLAY_METRICS: Final = ("match", "tvd", "shift", "seconds")


def replay_name(kind: str, metric: str) -> str:
    """The name of a replay's column, e.g. ``replay_batch_tvd``."""
    return f"replay_{kind}_{metric}"


REPLAY_COLUMNS: Final = tuple(replay_name(kind, metric) for kind in REPLAY_KINDS for metric in REPLAY_METRICS)


class Run:
    """Everything measured so far for one prompt, one model and one group of variants."""

    def __init__(
        self,
        model: ModelIdentity,
        context: Context,
        settings: RunSettings,
        pictures: tuple[Picture, ...] = (),
    ) -> None:
        self.model = model
        self.context = context
        self.pictures = pictures
        """Those of the context, in its order; empty where they are not at hand, as in a file without them."""
        self.settings = settings
        self.variants: tuple[Variant, ...] = settings.variants
        self.dtypes: tuple[str, ...] = settings.ordered_dtypes
        self.outcome: str | None = None
        """Why it ended, in a few words; None while it may still grow."""
        self.without_context: WithoutContext | None = None
        """What the unpatched model writes without the context; None where it was not asked."""
        self.forgotten_vectors: int = 0
        """How many (step, variant) vectors were dropped to stay inside the byte budget."""
        self._tokens: list[tuple[int, int, str, int, str, float]] = []
        self._baselines: list[tuple[Baseline, ...]] = []
        self._tops: list[tuple[TopTokens, ...]] = []
        self._length = 0
        v, d, layers = len(self.variants), len(self.dtypes), model.n_layers
        self._series = {name: _Growing((v,), np.float64) for name in (*STEP_METRICS, *REPLAY_COLUMNS)}
        self._references = {name: _Growing((d,), np.float64) for name in REFERENCE_METRICS}
        self._fields = {
            name: _Growing((v, layers), np.int32 if name in INTEGER_LAYER_METRICS else np.float32)
            for name in LAYER_METRICS
        }
        self._vectors: OrderedDict[tuple[int, int], LayerVectors] = OrderedDict()
        self._vector_bytes = 0

    def __len__(self) -> int:
        return self._length

    def append(self, step: Step) -> None:
        """Add the next step; its index must be ``len(run)`` and its variants those of the settings."""
        if step.index != self._length:
            raise ValueError(f"step {step.index} does not follow {self._length} steps")
        if tuple(v.variant for v in step.variants) != self.variants:
            raise ValueError("the step's variants are not those of the run")
        self._tokens.append(
            (step.position, step.token_id, step.text, step.next_token_id, step.next_text, step.seconds)
        )
        self._baselines.append(step.baselines)
        self._tops.append(tuple(v.top for v in step.variants))
        for name in STEP_METRICS:
            self._series[name].append([float(getattr(v, name)) for v in step.variants])
        for kind in REPLAY_KINDS:
            found = [next((r for r in v.replays if r.kind == kind), None) for v in step.variants]
            for metric in REPLAY_METRICS:
                values = [np.nan if r is None else float(getattr(r, metric)) for r in found]
                self._series[replay_name(kind, metric)].append(values)
        for grown in self._references.values():
            grown.append([np.nan] * len(self.dtypes))
        for name, grown in self._fields.items():
            grown.append(np.stack([getattr(v.layers, name) for v in step.variants]))
        for k, variant in enumerate(step.variants):
            if variant.vectors is not None:
                self._keep(step.index, k, variant.vectors)
        self._length += 1

    def refer(self, reference: Reference) -> None:
        """Fill in what a reference measured; values already there stay where it says None."""
        column = self.dtypes.index(reference.dtype)
        for name, grown in self._references.items():
            value = getattr(reference, name)
            if value is not None:
                grown.array[reference.step, column] = value

    def _keep(self, step: int, variant: int, vectors: LayerVectors) -> None:
        self._vectors[step, variant] = vectors
        self._vector_bytes += vectors.nbytes
        while self._vector_bytes > self.settings.vector_budget and self._vectors:
            _, oldest = self._vectors.popitem(last=False)
            self._vector_bytes -= oldest.nbytes
            self.forgotten_vectors += 1

    def token(self, step: int) -> tuple[int, int, str, int, str, float]:
        """(position, token id, text, next token id, next text, seconds) of a step."""
        return self._tokens[step]

    def baseline(self, step: int, dtype: str) -> Baseline:
        return self._baselines[step][self.dtypes.index(dtype)]

    def top(self, step: int, variant: int) -> TopTokens:
        """The patched model's most probable tokens."""
        return self._tops[step][variant]

    def series(self, metric: str, variant: int) -> NDArray[np.float64]:
        """A STEP_METRICS (or REPLAY_COLUMNS) column of one variant, [steps]."""
        return self._series[metric].array[: self._length, variant]

    def replay(self, kind: str, metric: str, variant: int) -> NDArray[np.float64]:
        """A REPLAY_METRICS column of one of REPLAY_KINDS, [steps], NaN where not measured."""
        return self.series(replay_name(kind, metric), variant)

    @property
    def replayed(self) -> tuple[str, ...]:
        """The REPLAY_KINDS with a value anywhere."""
        return tuple(
            kind
            for kind in REPLAY_KINDS
            if np.isfinite(self._series[replay_name(kind, "match")].array[: self._length]).any()
        )

    def reference(self, metric: str, dtype: str) -> NDArray[np.float64]:
        """A REFERENCE_METRICS column of one dtype, [steps], NaN where not measured."""
        return self._references[metric].array[: self._length, self.dtypes.index(dtype)]

    def field(self, metric: str, variant: int) -> NDArray[np.float32] | NDArray[np.int32]:
        """A LAYER_METRICS table of one variant, [n_layers, steps]."""
        return self._fields[metric].array[: self._length, variant].T

    def layer_stats(self, step: int, variant: int) -> LayerStats:
        return LayerStats(**{f.name: self._fields[f.name].array[step, variant] for f in fields(LayerStats)})

    def vectors(self, step: int, variant: int) -> LayerVectors | None:
        """Coordinates of a step, or None where they were not kept or were dropped for the budget."""
        return self._vectors.get((step, variant))

    @property
    def vector_bytes(self) -> int:
        """Bytes held in vectors."""
        return self._vector_bytes

    @property
    def nbytes(self) -> int:
        """Bytes held in arrays and pictures, the vectors apart."""
        groups = (self._series, self._references, self._fields)
        arrays = sum(grown.array.nbytes for group in groups for grown in group.values())
        return arrays + sum(3 * p.image.width * p.image.height + len(p.data) for p in self.pictures)


class _Growing:
    """An array whose first axis grows by doubling."""

    def __init__(self, shape: tuple[int, ...], dtype: type[np.generic]) -> None:
        self.array: NDArray[Any] = np.zeros((16, *shape), dtype)
        self._length = 0

    def append(self, row: ArrayLike) -> None:
        if self._length == len(self.array):
            grown = np.zeros((2 * len(self.array), *self.array.shape[1:]), self.array.dtype)
            grown[: self._length] = self.array
            self.array = grown
        self.array[self._length] = row
        self._length += 1
