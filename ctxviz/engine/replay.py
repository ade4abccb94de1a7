"""Finished, written weights run again: do they carry the context, or did building them correct itself?

While a patch is built each layer absorbs the rounding of those before it. A replay has no such help. It runs
the stock forward on a twin of the model that holds the written tensors. MATHS section 6.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import torch

from ctxviz.engine.anatomy import Anatomy, Doubles, first_tensor, listening, to_double
from ctxviz.engine.application import WrittenWeights
from ctxviz.engine.patched_pass import PatchedState, kept_inputs
from ctxviz.engine.sight import BLIND, Sight
from ctxviz.engine.twin import Twin
from ctxviz.errors import MemoryRefusedError
from ctxviz.models import memory
from ctxviz.no_number import all_computed
from ctxviz.numerics import distances
from ctxviz.numerics.distances import Distribution
from ctxviz.numerics.rounding import moved_by_ulps, round_through, ulp_seeds
from ctxviz.records import LayerStats, Replay
from ctxviz.settings import HELD, REPLAYS, RunSettings, Variant

ROUNDED_THROUGH: Final = {
    "float64": torch.float32,
    "float32": torch.bfloat16,
    "bfloat16": torch.float16,
    "float16": torch.bfloat16,
}
"""The dtype that the patched weights of each dtype are rounded through: the next one people store them in."""


@dataclass(frozen=True, slots=True, eq=False)
class _Pass:
    """One replay: logits [vocabulary], residual stream after each layer [n_layers, d], seconds."""

    logits: torch.Tensor
    layer_out: Doubles
    seconds: float


class Replayer:
    """Replays of one dtype. ``scratch`` is to be given to the patched passes whose weights are replayed."""

    def __init__(self, anatomy: Anatomy, settings: RunSettings, sight: Sight = BLIND) -> None:
        self.scratch = WrittenWeights()
        self._anatomy = anatomy
        self._sight = sight
        self._kinds = settings.replays
        self._hold = settings.hold
        self._twin = Twin(anatomy)
        self._held: dict[Variant, dict[str, torch.Tensor]] = {}

    @torch.inference_mode()
    def replay(
        self,
        variant: Variant,
        step: int,
        ids: tuple[int, ...],
        positions: tuple[int, ...],
        built: PatchedState,
        baseline: Distribution,
    ) -> tuple[tuple[Replay, ...], LayerStats]:
        """Everything asked for, right after ``built`` was made with ``scratch``; and its statistics with the
        drift of each replay."""
        if step == self._hold:
            self._held[variant] = {name: t.clone() for name, t in self.scratch.tensors.items()}
        inputs = ([ids], [positions])
        found: list[Replay] = []
        drifts: dict[str, Any] = {}
        # In the order of REPLAYS: the last one overwrites the tensors.
        for kind in (k for k in REPLAYS if k in self._kinds):
            passes = self._passes(kind, step, *inputs)
            gaps = [_replay(kind, one, Distribution(built.logits), baseline) for one in passes]
            worst = max(range(len(gaps)), key=lambda k: _severity(gaps[k]))
            found.append(_of_all(gaps, gaps[worst]))
            drifts[f"drift_{kind}"] = _drift(passes[worst].layer_out, built.layer_out)
        if variant in self._held:
            one = self._run(self._held[variant], *inputs)
            found.append(_replay(HELD, one, baseline, baseline))
        return tuple(found), replace(built.layers, **drifts)

    def _passes(self, kind: str, step: int, ids: list[Any], positions: list[Any]) -> list[_Pass]:
        written = self.scratch.tensors
        if kind == "batch":
            return [self._run(written, 2 * ids, 2 * positions)]
        if kind == "ulp":
            return [self._run(written, ids, positions, seed) for seed in ulp_seeds(step)]
        if kind == "rounded":
            started = time.perf_counter()
            for tensor in written.values():
                round_through(tensor, ROUNDED_THROUGH[str(tensor.dtype).removeprefix("torch.")])
            one = self._run(written, ids, positions)
            return [replace(one, seconds=time.perf_counter() - started)]
        return [self._run(written, ids, positions)]

    def _run(
        self, tensors: dict[str, torch.Tensor], ids: list[Any], positions: list[Any], seed: int | None = None
    ) -> _Pass:
        """The stock forward on the twin; with a seed the input embedding is moved at random coordinates."""
        started = time.perf_counter()
        layer_out = np.empty((len(self._twin.layers), self._anatomy.width))
        hooks: list[tuple[Any, Any]] = []
        for index, layer in enumerate(self._twin.layers):

            def at_layer(_: Any, __: Any, output: Any, index: int = index) -> None:
                layer_out[index] = to_double(first_tensor(output)[0, -1])

            hooks.append((layer, at_layer))
        model = self._twin.model
        if seed is not None:
            generator = torch.Generator().manual_seed(seed)
            hooks.append((model.get_input_embeddings(), lambda _, __, out: moved_by_ulps(out, generator)))
        inputs = kept_inputs(self._anatomy, ids, positions, self._sight)
        self._twin.hold(tensors)
        try:
            with self._anatomy.lock, listening(hooks), np.errstate(all="ignore"):
                output = model(**inputs)
        finally:
            self._twin.hold({})
        # A copy of the row: the whole would be kept for as long as the pass is.
        return _Pass(output.logits[0, -1].clone(), layer_out, time.perf_counter() - started)


def replayers(
    anatomies: Mapping[str, Anatomy], settings: RunSettings, sight: Sight, longest: int, vocabulary: int
) -> dict[str, Replayer]:
    """One per dtype where replays are asked for; ``longest`` is the largest number of kept tokens to come.

    Raises:
        MemoryRefusedError: the written weights would not fit beside the model.
    """
    written = [v for v in settings.variants if v.arithmetic == "written"]
    if not settings.replay_kinds or not written:
        return {}
    need: Counter[torch.device] = Counter()
    for anatomy in anatomies.values():
        need.update(written_bytes(anatomy))
    copies = 1 if settings.hold is None else 1 + len(written) / len(anatomies)
    # Logits of two rows of kept tokens, eight bytes at most each.
    logits = 2 * longest * vocabulary * 8
    for device, count in need.items():
        wanted, free = int(count * copies) + logits, memory.free_bytes(str(device))
        if wanted > free:
            raise MemoryRefusedError(
                f"Replays keep written copies of the MLP weights, about {memory.gigabytes(wanted)} on "
                f"{device}, and {memory.gigabytes(free)} are free; choose fewer dtypes or rules, or "
                "no replay."
            )
    return {dtype: Replayer(anatomy, settings, sight) for dtype, anatomy in anatomies.items()}


def written_bytes(anatomy: Anatomy) -> Counter[torch.device]:
    """Memory that the written tensors of one pass take, on each device: beside their layers."""
    taken: Counter[torch.device] = Counter()
    for module in (m for part in anatomy.layers for m in (part.gate, part.up, part.down)):
        for parameter in module.parameters(recurse=False):
            taken[parameter.device] += parameter.numel() * parameter.element_size()
    return taken


def _replay(kind: str, one: _Pass, built: Distribution, baseline: Distribution) -> Replay:
    replayed = Distribution(one.logits)
    gap = distances.compare(baseline, replayed)
    shift = gap.linf if built is baseline else distances.largest_difference(built, replayed)
    return Replay(kind, gap.match, gap.tvd, shift, one.seconds)


def _of_all(gaps: list[Replay], worst: Replay) -> Replay:
    """The worst of several seeds; the token counts as the same where it is for all, shifts by the largest."""
    shift = max(gap.shift for gap in gaps)
    return replace(worst, match=all(gap.match for gap in gaps), shift=shift)


def _severity(found: Replay) -> tuple[float, float]:
    """A pass without a distribution, whose distances are infinite, is the worst of all."""
    return found.tvd, found.shift


def _drift(replayed: Doubles, built: Doubles) -> Any:
    """Relative distance [n_layers] of two residual streams [n_layers, d]; infinite where it is no number."""
    with np.errstate(all="ignore"):
        ratio = np.linalg.norm(replayed - built, axis=1) / np.linalg.norm(built, axis=1)
    return all_computed(ratio)
