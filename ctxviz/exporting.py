"""What an exported patch is worth: ways of running it, measured when it is made, and which of them fail.

Numpy alone; the engine measures, the page, the files and the adapter's README tell.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from ctxviz.no_number import NO_NUMBER
from ctxviz.records import VariantStep
from ctxviz.replaying import FAIL_LEAST_TVD, FAIL_OVER_BUILT, FAIL_OVER_FLOOR

MOST_TVD: Final = 0.1
"""A file that moves more than this of the next token's probability does not carry its context, whatever the
noise floor and the building pass were."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One way of running what is exported, against the model with its context.

    ``tvd`` of the next token's distributions, inf where the logits are no numbers, the worst of several
    seeds; ``match`` says that the most probable token is the same, for every seed.
    """

    tvd: float
    match: bool


@dataclass(frozen=True, slots=True)
class ExportCheck:
    """What was measured of one token's patch when it was made to be taken away.

    The ``_moved`` trials are the same ways with the kept tokens' embeddings moved by one unit in the last
    place, the worst of several seeds: about what another machine, another number of threads or other kernels
    do to a sum.
    """

    built: Trial
    """While the patch was made, each layer correcting those before it."""
    written: Trial
    """W′ and w′ in aligned tensors, stock forward: what the script does on this machine."""
    written_moved: Trial
    adapter: Trial
    """As PEFT runs the adapter: side branches beside the matrices, replaced scale vectors."""
    adapter_moved: Trial
    margin: float
    """The two largest logits' difference in the model with its context."""
    floor_tvd: float
    floor_linf: float
    """The noise floor: that model computed without a cache; NaN where not measured."""
    context_moved_tvd: float
    """What the same move costs the model with its context; NaN where not measured."""

    @property
    def patch_carries(self) -> bool:
        """Whether the written weights give on this machine what the context gave."""
        return not self._fails(self.written)

    @property
    def patch_survives(self) -> bool:
        """Whether they also do after a move by one unit in the last place."""
        return self.patch_carries and not self._fails(self.written_moved, self.context_moved_tvd)

    @property
    def adapter_carries(self) -> bool:
        """Whether the adapter does, moved or not: PEFT promises nobody the bits of this machine."""
        return not (self._fails(self.adapter) or self._fails(self.adapter_moved, self.context_moved_tvd))

    def limit(self, moved: float = math.nan) -> float:
        """The TVD above which a trial fails.

        As :func:`ctxviz.replaying.limit` for one token, but never above MOST_TVD: unlike a replay, a file is
        judged by what it does and not by what building it did. What is no number excuses nothing.
        """
        excuses = (
            FAIL_OVER_BUILT * self.built.tvd,
            FAIL_OVER_FLOOR * self.floor_tvd,
            FAIL_OVER_FLOOR * moved,
        )
        return min(MOST_TVD, max(FAIL_LEAST_TVD, *filter(math.isfinite, excuses)))

    def is_tie(self, trial: Trial) -> bool:
        """Whether another token lies inside the noise floor."""
        within = math.isfinite(self.floor_linf) and self.margin < self.floor_linf
        return not trial.match and within

    def _fails(self, trial: Trial, moved: float = math.nan) -> bool:
        far = not math.isfinite(trial.tvd) or trial.tvd > self.limit(moved)
        return far or (not trial.match and not self.is_tie(trial))


def measured_metadata(check: ExportCheck | None) -> dict[str, str]:
    """The figures of the patch file as safetensors metadata; empty where nothing was measured."""
    if check is None:
        return {}
    return trial_metadata(built=check.built, measured=check.written, measured_ulp=check.written_moved)


def adapter_metadata(check: ExportCheck | None) -> dict[str, str]:
    """The figures of the PEFT adapter as safetensors metadata."""
    if check is None:
        return {}
    return trial_metadata(measured=check.adapter, measured_ulp=check.adapter_moved)


def trial_metadata(**trials: Trial) -> dict[str, str]:
    """``NAME_tvd`` and ``NAME_same_token`` of each trial."""
    made = {}
    for name, trial in trials.items():
        made[f"{name}_tvd"] = repr(trial.tvd) if math.isfinite(trial.tvd) else NO_NUMBER
        made[f"{name}_same_token"] = "true" if trial.match else "false"
    return made


def step_metadata(result: VariantStep) -> dict[str, str]:
    """What a run has measured of one step's written patch in any case: while it was made, and its replays.

    A factored variant's figures belong to branches beside the weights and not to the file.
    """
    if result.variant.arithmetic != "written":
        return {}
    replays = {replay.kind: Trial(replay.tvd, replay.match) for replay in result.replays}
    names = {"measured": "same", "measured_ulp": "ulp"}
    trials = {name: replays[kind] for name, kind in names.items() if kind in replays}
    return trial_metadata(built=Trial(result.tvd, result.match), **trials)
