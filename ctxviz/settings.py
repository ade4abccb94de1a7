"""What decides a run besides model and prompt: rules, arithmetic, dtypes, replays. Plain data, no I/O."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from ctxviz.errors import SettingsError
from ctxviz.folds import Fold

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
