"""What a run is made of: frozen records of plain numbers, text and float32 numpy arrays.

Nothing here imports torch, transformers or streamlit, reads a file, or computes anything.
Symbols (v, z, h, m, ...) are those of the project's glossary in ARCHITECTURE.md.

A float that was not measured is NaN in an array and None in a scalar; an integer that was not
measured is -1. Writers turn both into null.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from ctxviz.errors import SettingsError

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]
Flags = NDArray[np.bool_]

UPDATE_RULES: Final = ("direct", "stable", "rescaled", "floored")
ARITHMETICS: Final = ("written", "factored")
DTYPES: Final = ("float64", "float32", "bfloat16", "float16")
"""Highest precision first; the first one chosen for a run decides its history."""

REPLAYS: Final = ("same", "batch", "ulp", "rounded")
"""Ways to run finished, written weights again: the same kernel; in a batch of two; with the input embedding
moved by one unit in the last place; with the patched weights rounded through another dtype."""
HELD: Final = "held"
"""The replay of an earlier token's weights at this token; asked for by ``RunSettings.hold``."""
REPLAY_KINDS: Final = (*REPLAYS, HELD)

BUDGET_DTYPES: Final = ("float64", "float32")
"""The dtypes an error budget compares with."""

EPSILONS: Final = {"float64": 2.0**-52, "float32": 2.0**-23, "bfloat16": 2.0**-7, "float16": 2.0**-10}
"""Distance from 1 to the next number of each dtype."""

SOLVER_CASES: Final = ("unconstrained", "regular", "hard", "infeasible", "no input", "closed form")
"""Meaning of ``LayerStats.solver_case``: lambda = 0; Newton or bisection; the hard case; no solution on the
sphere; the rule could not be applied since z or the hidden activation was zero; a rule without a solver."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One way of patching: update rule, arithmetic, dtype, first patched layer, floor tau (floored only)."""

    update: str
    arithmetic: str
    dtype: str
    first_layer: int = 0
    floor: float | None = None

    @property
    def label(self) -> str:
        """Words for a legend, e.g. ``stable float32 written`` or ``floored 0.6 bfloat16 factored``."""
        rule = self.update if self.floor is None else f"{self.update} {self.floor:g}"
        return f"{rule} {self.dtype} {self.arithmetic}"

    @property
    def slug(self) -> str:
        """A name that is safe in file names and unique within a run."""
        rule = self.update if self.floor is None else f"{self.update}{self.floor:g}"
        return f"{rule}-{self.arithmetic}-{self.dtype}-from{self.first_layer}"


@dataclass(frozen=True, slots=True)
class ImageSpan:
    """Where one picture stands in the prompt: positions ``start`` to ``end - 1``.

    The first is the start token, the last the end token, those between are its image tokens, row by row.
    """

    start: int
    end: int

    @property
    def tokens(self) -> range:
        """Positions of the image tokens."""
        return range(self.start + 1, self.end - 1)

    @property
    def side(self) -> int:
        """Image tokens in a row of the picture's square grid."""
        return round(len(self.tokens) ** 0.5)


FOLD_KINDS: Final = ("all", "all-but-bos", "image", "text")
"""Folds that need no positions."""


@dataclass(frozen=True, slots=True)
class Fold:
    """Which prompt positions are folded into weights and removed from the input.

    ``kind`` is ``all`` (kept: the query token alone), ``all-but-bos``, ``image`` (the pictures, or the one
    whose ``number`` is given, the first being 1), ``text`` (everything but the pictures) or ``span``: the
    half-open range ``start:end`` of positions in the prompt's own tokens, BOS included. The query token
    itself is always kept.
    """

    kind: Literal["all", "all-but-bos", "image", "text", "span"] = "all"
    start: int = 0
    end: int = 0
    number: int = 0
    """Of the picture folded, from 1; 0 folds all pictures."""

    @classmethod
    def parse(cls, text: str) -> Fold:
        """Read ``all``, ``all-but-bos``, ``image``, ``image:N``, ``text`` or ``START:END``.

        Raises:
            SettingsError: the text is none of these, or the range is empty.
        """
        if text in FOLD_KINDS:
            return cls(text)  # type: ignore[arg-type]
        picture = re.fullmatch(r"image:(\d{1,4})", text, re.ASCII)
        if picture is not None and int(picture[1]):
            return cls("image", number=int(picture[1]))
        match = re.fullmatch(r"(\d{1,9}):(\d{1,9})", text, re.ASCII)
        if match is None:
            raise SettingsError(
                f"The fold {text[:40]!r} is not understood; use all, all-but-bos, image, image:N with N from "
                "1, text, or START:END with token positions such as 1:5."
            )
        start, end = int(match[1]), int(match[2])
        if start >= end:
            raise SettingsError(f"The fold {text} folds nothing; END must be larger than START.")
        return cls("span", start, end)

    def folded(self, length: int, images: tuple[ImageSpan, ...] = ()) -> tuple[int, ...]:
        """Positions folded where the query token is the last of ``length`` tokens; the query never is."""
        query = length - 1
        if self.kind == "span":
            return tuple(range(self.start, min(self.end, query)))
        if self.kind == "all-but-bos":
            return tuple(range(1, query))
        if self.kind == "all":
            return tuple(range(query))
        chosen = images[self.number - 1 : self.number] if self.number else images
        pictured = {position for span in chosen for position in range(span.start, span.end)}
        return tuple(p for p in range(query) if (p in pictured) == (self.kind == "image"))

    def kept(self, length: int, images: tuple[ImageSpan, ...] = ()) -> tuple[int, ...]:
        """Positions left in the input of the patched pass, the query token last."""
        folded = set(self.folded(length, images))
        return tuple(position for position in range(length) if position not in folded)

    def __str__(self) -> str:
        if self.kind == "span":
            return f"{self.start}:{self.end}"
        return f"{self.kind}:{self.number}" if self.number else self.kind


@dataclass(frozen=True, slots=True)
class RunSettings:
    """Everything that decides a run besides the model and the prompt.

    ``floor`` is tau of the floored rule in units of RMS (0 < tau <= 1). ``small_h`` is the threshold under
    which |h_j| is counted as small. ``vector_budget`` is in bytes. ``replays`` (any of REPLAYS) are done for
    every written variant right after it was built; ``hold`` is the step whose written weights are kept for
    all later ones; ``budget`` asks for the further references of an error budget: eager attention, and the
    same history in float32 and float64.

    Raises:
        SettingsError: on construction, for any value without meaning.
    """

    updates: tuple[str, ...] = ("stable",)
    arithmetics: tuple[str, ...] = ("written",)
    dtypes: tuple[str, ...] = ("float32",)
    first_layer: int = 0
    fold: Fold = field(default_factory=Fold)
    floor: float = 0.6
    max_new_tokens: int = 32
    small_h: float = 1e-3
    vector_budget: int = 256 * 2**20
    replays: tuple[str, ...] = ()
    hold: int | None = None
    budget: bool = False

    def __post_init__(self) -> None:
        _choices("update rule", self.updates, UPDATE_RULES)
        _choices("arithmetic", self.arithmetics, ARITHMETICS)
        _choices("dtype", self.dtypes, DTYPES)
        if self.replays:
            _choices("replay", self.replays, REPLAYS)
        if self.hold is not None and self.hold < 0:
            raise SettingsError(f"The token to hold is {self.hold}; choose 0 or a later one.")
        if not 0 < self.floor <= 1:
            raise SettingsError(f"The floor is {self.floor}; choose a number above 0 and at most 1.")
        if self.first_layer < 0:
            raise SettingsError(f"The first patched layer is {self.first_layer}; choose 0 or a later layer.")
        if self.max_new_tokens < 1:
            raise SettingsError(f"The number of new tokens is {self.max_new_tokens}; choose 1 or more.")
        if self.small_h <= 0 or self.vector_budget < 0:
            raise SettingsError(
                "The threshold for a small |h| and the byte budget for vectors must be positive."
            )

    @property
    def variants(self) -> tuple[Variant, ...]:
        """Every combination asked for: by dtype (highest precision first), then rule, then arithmetic."""
        return tuple(
            Variant(rule, arithmetic, dtype, self.first_layer, self.floor if rule == "floored" else None)
            for dtype in self.ordered_dtypes
            for rule in self.updates
            for arithmetic in self.arithmetics
        )

    @property
    def replay_kinds(self) -> tuple[str, ...]:
        """What is measured after a written variant was built, in the order of REPLAY_KINDS."""
        held = () if self.hold is None else (HELD,)
        return (*(kind for kind in REPLAYS if kind in self.replays), *held)

    @property
    def needed_dtypes(self) -> tuple[str, ...]:
        """The dtypes a model must be loaded in: the chosen ones, and those an error budget compares with."""
        wanted = {*self.dtypes, *(BUDGET_DTYPES if self.budget else ())}
        return tuple(d for d in DTYPES if d in wanted)

    @property
    def ordered_dtypes(self) -> tuple[str, ...]:
        """The chosen dtypes, highest precision first; the first one's baseline writes the history."""
        return tuple(d for d in DTYPES if d in self.dtypes)


def _choices(what: str, chosen: tuple[str, ...], known: tuple[str, ...]) -> None:
    if not chosen:
        raise SettingsError(f"No {what} is chosen; choose at least one of {', '.join(known)}.")
    for value in chosen:
        if value not in known:
            raise SettingsError(f"Unknown {what} {value[:40]!r}; choose from {', '.join(known)}.")
    if len(set(chosen)) != len(chosen):
        raise SettingsError(f"The same {what} is chosen twice; name each once.")


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


@dataclass(frozen=True, slots=True)
class Context:
    """The prompt as the model reads it; ``token_texts`` are the readable pieces, one per id."""

    prompt: str
    token_ids: tuple[int, ...]
    token_texts: tuple[str, ...]
    fold: Fold = field(default_factory=Fold)
    image_sha256: tuple[str, ...] = ()
    """Of each picture's file, in the order of ``images``."""
    images: tuple[ImageSpan, ...] = ()
    """Where the pictures stand, in the prompt's order."""

    def kept(self, length: int) -> tuple[int, ...]:
        """Positions left in the input where the query token is the last of ``length`` tokens."""
        return self.fold.kept(length, self.images)

    def folded(self, length: int) -> tuple[int, ...]:
        """Positions folded into weights where the query token is the last of ``length`` tokens."""
        return self.fold.folded(length, self.images)


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
    ``cosine`` and ``output_error``, which need no patch.
    """

    scale_ratio: Floats
    """||dm|| / ||m||."""
    scale_max_abs: Floats
    """max |dm_j|."""
    scale_argmax: Ints
    """The j of scale_max_abs."""
    h_abs_min: Floats
    """min |h_j| over the denominators; an exact zero counts, though the division there is by one."""
    h_argmin: Ints
    """The j of h_abs_min."""
    h_small: Ints
    """Number of |h_j| below RunSettings.small_h."""
    dead: Ints
    """Number of coordinates with m_j = 0 exactly."""
    uncontrolled: Ints
    """Number of coordinates whose error dv_j stays: h_j = 0, or dm_j not finite in the dtype."""
    swallowed: Ints
    """Number with round(w + dm) = w though dm != 0 (written arithmetic only)."""
    gate_ratio: Floats
    """||dW|| / ||W|| (Frobenius) of the gate matrix."""
    up_ratio: Floats
    down_ratio: Floats
    """NaN where the rule does not touch W_down."""
    resid_ratio: Floats
    """||dv|| / ||v_C||."""
    cosine: Floats
    """cos(z, z_C)."""
    output_error: Floats
    """||x_out - x_out,C|| / ||x_out,C|| of the layer's output."""
    multiplier: Floats
    """lambda of the constrained least squares; NaN where the rule has none."""
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
    """Coordinates of one step and variant; each field [n_layers, d], float32, NaN in unpatched layers."""

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
    """Difference of the two largest logits."""
    top: TopTokens
    seconds: float


@dataclass(frozen=True, slots=True)
class Replay:
    """Finished, written weights run again, of one step and variant."""

    kind: str
    """One of REPLAY_KINDS."""
    match: bool
    """Whether the most probable token is the baseline's."""
    tvd: float
    """Against the baseline, as the building pass's; of several seeds the worst."""
    shift: float
    """Largest absolute difference of a logit from the building pass (``held``: from the baseline)."""
    seconds: float
    """Of one pass."""


@dataclass(frozen=True, slots=True, eq=False)
class VariantStep:
    """The patched, context-free model at one step, against the baseline of the same dtype."""

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
    """Rank of the baseline's token in the patched model; 0 is first."""
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

    A field is None where it was not measured at this step.
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
