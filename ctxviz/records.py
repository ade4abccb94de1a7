"""What a run is made of: frozen records of plain numbers, text and float32 numpy arrays.

Nothing here imports torch, transformers or streamlit, reads a file, or computes anything.
Symbols (v, z, h, m, ...) are those of the project's glossary in ARCHITECTURE.md.

A float that was not measured is NaN in an array and None in a scalar; an integer that was not measured is -1.
A float that was computed and is no finite number is infinite, never NaN: an overflow, an undefined quotient,
or a statistic over coordinates of which some are no number (:mod:`ctxviz.no_number`).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ctxviz.settings import Variant

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]
Flags = NDArray[np.bool_]

SOLVER_CASES: Final = ("unconstrained", "regular", "hard", "infeasible", "no input", "closed form")
"""Meaning of ``LayerStats.solver_case``: lambda = 0; Newton or bisection; the hard case; no solution on the
sphere; the rule could not be applied since z or the hidden activation was zero or no number; a rule without a
solver."""
RULES_WITH_MULTIPLIER: Final = ("stable", "floored")
"""The update rules whose least squares have a multiplier."""


@dataclass(frozen=True, slots=True)
class ModelIdentity:
    """Which weights and which libraries made a run."""

    key: str
    name: str
    architecture: str
    n_layers: int
    width: int
    vocabulary: int
    revision: str | None = None
    sha256: str | None = None
    device: str = "cpu"
    threads: int = 1
    libraries: tuple[tuple[str, str], ...] = ()
    """Pairs of library and version."""


@dataclass(frozen=True, slots=True, eq=False)
class Rank1Update:
    """``parameter += left (x) right``; left [out] and right [in], float32."""

    parameter: str
    left: Floats
    right: Floats


@dataclass(frozen=True, slots=True, eq=False)
class VectorUpdate:
    """``parameter += delta``; delta [d], float32."""

    parameter: str
    delta: Floats


@dataclass(frozen=True, slots=True, eq=False)
class LayerPatch:
    """All updates of one decoder layer for one token."""

    layer: int
    updates: tuple[Rank1Update | VectorUpdate, ...]


@dataclass(frozen=True, slots=True, eq=False)
class LayerStats:
    """Per-layer figures of one patched pass; each field is an array [n_layers].

    Layers before the first patched one hold NaN (floats) or -1 (integers), except ``resid_ratio``,
    ``cosine``, ``output_error``, ``output_max_abs`` and the drifts, which need no patch.
    """

    scale_ratio: Floats
    """||dm|| / ||m||."""
    scale_max_abs: Floats
    """max |dm_j| of the change that was made: 0 at uncontrolled coordinates, so always a number."""
    scale_argmax: Ints
    """The j of scale_max_abs."""
    h_abs_min: Floats
    """min |h_j| over the denominators; an exact zero counts, though the division there is by one."""
    h_argmin: Ints
    """The j of h_abs_min, or of the first h_j that is no number."""
    h_small: Ints
    """Number of |h_j| below RunSettings.small_h."""
    dead: Ints
    """Number of coordinates with m_j = 0 exactly."""
    uncontrolled: Ints
    """Number of coordinates whose error dv_j stays: h_j = 0, or dm_j not finite in the dtype."""
    swallowed: Ints
    """Number with round(w + dm) = w though dm != 0 (written arithmetic only)."""
    gate_ratio: Floats
    """||dW|| / ||W|| (Frobenius) of the gate matrix; no number where z has no z / ||z||^2."""
    up_ratio: Floats
    down_ratio: Floats
    """NaN where the rule does not touch W_down; no number where it could not be applied."""
    resid_ratio: Floats
    """||dv|| / ||v_C||."""
    cosine: Floats
    """cos(z, z_C)."""
    output_error: Floats
    """||x_out - x_out,C|| / ||x_out,C|| of the layer's output."""
    multiplier: Floats
    """lambda of the constrained least squares; NaN where the rule has none, or every m_j is 0; no number
    where it could not be applied."""
    solver_case: Ints
    """Index into SOLVER_CASES."""
    output_max_abs: Floats
    """max |x_j| of the layer's output."""
    drift_same: Floats
    """||x_replayed - x_built|| / ||x_built|| of the layer's output, for a replay by the same kernel."""
    drift_batch: Floats
    """The same for a replay in a batch of two."""
    drift_ulp: Floats
    """The same after a move of the input embedding by one unit in the last place; the worst seed's."""
    drift_rounded: Floats
    """The same with the patched weights rounded through another dtype."""


LAYER_METRICS: Final = tuple(f.name for f in fields(LayerStats))
INTEGER_LAYER_METRICS: Final = (
    "scale_argmax",
    "h_argmin",
    "h_small",
    "dead",
    "uncontrolled",
    "swallowed",
    "solver_case",
)


@dataclass(frozen=True, slots=True, eq=False)
class LayerVectors:
    """Coordinates of one step and variant; each field [n_layers, d], float32, NaN in unpatched layers.

    ``h`` and ``delta_v`` are infinite at coordinates that are no number.
    """

    h: Floats
    """The denominators divided by: h (direct) or h' (the rules that move W_down)."""
    delta_v: Floats
    scale: Floats
    """m; shared by all steps of a dtype, as is ``stored``."""
    delta_scale: Floats
    """dm."""
    stored: Floats
    """w as the model stores it; the patch rounds w + dm to the dtype."""
    uncontrolled: Flags
    """True where the error dv_j stays."""
    swallowed: Flags
    """True where round(w + dm) = w though dm != 0 (written arithmetic only)."""

    @property
    def nbytes(self) -> int:
        own = (self.h, self.delta_v, self.delta_scale, self.uncontrolled, self.swallowed)
        return sum(array.nbytes for array in own)


@dataclass(frozen=True, slots=True, eq=False)
class TopTokens:
    """The most probable tokens, best first: ids [k], probabilities [k], readable pieces."""

    ids: Ints
    probabilities: Floats
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Baseline:
    """The model with its context, in one dtype, at one step."""

    dtype: str
    margin: float
    """Difference of the two largest logits; infinite where they give no distribution."""
    top: TopTokens
    seconds: float


@dataclass(frozen=True, slots=True)
class Replay:
    """Finished, written weights run again, of one step and variant."""

    kind: str
    """One of REPLAY_KINDS."""
    match: bool
    """Whether the most probable token is the baseline's; False where there is no distribution."""
    tvd: float
    """Against the baseline, as the building pass's; of several seeds the worst. Infinite where the logits are
    no numbers, as is ``shift``."""
    shift: float
    """Largest absolute difference of a logit from the building pass (``held``: from the baseline)."""
    seconds: float
    """Of one pass."""


@dataclass(frozen=True, slots=True, eq=False)
class VariantStep:
    """The patched, context-free model at one step, against the baseline of the same dtype.

    Where either's logits are no numbers ``match`` is False and the distances are infinite.
    """

    variant: Variant
    match: bool
    tie: bool
    """A mismatch whose baseline margin is below the noise floor (its largest logit gap) of this step; the
    floor of an earlier step where the margin is several times as large as that."""
    tvd: float
    logit_linf: float
    kl: float
    """KL(baseline || patched) in nats."""
    rank: int
    """Rank of the baseline's token in the patched model; 0 is first. It is always computed: -1 says that
    there is none, since the baseline's or the patched model's logits give no distribution."""
    top: TopTokens
    seconds: float
    layers: LayerStats
    vectors: LayerVectors | None = None
    patches: tuple[LayerPatch, ...] | None = None
    """Present only where the run was asked to keep patches."""
    replays: tuple[Replay, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One new token. Step 0's query token is the prompt's last one."""

    index: int
    position: int
    """Position of the query token in the sequence."""
    token_id: int
    text: str
    next_token_id: int
    next_text: str
    baselines: tuple[Baseline, ...]
    """In the order of RunSettings.ordered_dtypes."""
    variants: tuple[VariantStep, ...]
    """In the order of RunSettings.variants."""
    seconds: float
    kept_ids: tuple[int, ...] = ()
    kept_positions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Reference:
    """What a gap is measured against, for one step and dtype; arrives after its step.

    A field is None where it was not measured at this step, and infinite where it was and is no number.
    """

    step: int
    dtype: str
    unpatched_tvd: float | None = None
    """Baseline against the context-free model without any patch."""
    noise_floor_tvd: float | None = None
    """Baseline (cached step) against a full recompute without a cache, same dtype."""
    noise_floor_linf: float | None = None
    unpatched_linf: float | None = None
    eager_tvd: float | None = None
    """A full recompute with eager attention against one with sdpa attention, same dtype."""
    float32_tvd: float | None = None
    """Baseline against a full recompute of the same history in float32; None where that is its own dtype."""
    float64_tvd: float | None = None
    """The same in float64."""
    ulp_tvd: float | None = None
    """A full recompute with the kept tokens' embeddings moved by one unit in the last place against one
    without; of several seeds the worst. The move of a replay of kind ``ulp``, but with the context there."""


@dataclass(frozen=True, slots=True)
class WithoutContext:
    """What the unpatched model writes from the kept tokens alone: the fold is in neither input nor weights.

    It goes on from its own tokens, so after the first one that differs its history is no longer the run's.
    """

    dtype: str
    """The one that wrote the run's history."""
    ids: tuple[int, ...]
    """Written so far, greedily."""
    texts: tuple[str, ...]
    ended: bool
    """Whether it wrote an end of text, the last of ``ids``."""
