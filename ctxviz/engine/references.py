"""What a gap is measured against: the same baseline computed another way, and no patch at all.

Both are kept off the path of a token: the noise floor is measured at steps 0, 1, 2, 4, 8, ... and the
unpatched model for up to eight steps in one batch, which costs little more than one of them would.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import torch

from ctxviz.engine.anatomy import Anatomy, listening
from ctxviz.engine.patched_pass import kept_inputs
from ctxviz.engine.sight import BLIND, Sight
from ctxviz.numerics import distances
from ctxviz.numerics.distances import Distribution
from ctxviz.numerics.rounding import moved_by_ulps, ulp_seeds
from ctxviz.records import Reference

BATCH: Final = 8
LONGEST_RECOMPUTE: Final = 8192
"""Tokens; a full recompute of a longer sequence is not worth its memory, so no floor is measured there."""


def floor_is_due(step: int) -> bool:
    """Steps 0, 1, 2, 4, 8, 16, ...: the cost of all recomputes stays about twice that of the last."""
    return step & (step - 1) == 0


class Recompute:
    """The history of one step run in full, without a cache, in other legitimate ways; each only once."""

    def __init__(self, ids: Sequence[int], kept: Sequence[int], sight: Sight = BLIND) -> None:
        # A copy: a stream's own list goes on growing.
        self._ids, self._kept, self._sight = list(ids), list(kept), sight
        self._known: dict[tuple[int, str, int | None], Distribution] = {}

    @torch.inference_mode()
    def logits(self, anatomy: Anatomy, attention: str = "sdpa", seed: int | None = None) -> Distribution:
        """The last token's logits in the anatomy's dtype with an attention implementation of transformers.

        It is the language half's: what the vision tower sees of a picture is the same in all of them.

        With a ``seed`` the embeddings of the kept tokens are moved by one unit in the last place at random
        coordinates: the very move that a replay of that seed makes. An image token's row, which is put in its
        embedding's place afterwards, is not moved, here or there.
        """
        key = (id(anatomy), attention, seed)
        if key not in self._known:
            device = next(anatomy.model.parameters()).device
            tokens = torch.tensor([self._ids], device=device)
            model: Any = anatomy.model
            hooks = [] if seed is None else [(model.get_input_embeddings(), _kept_moved(seed, self._kept))]
            pictures = self._sight.arguments(anatomy, [range(len(self._ids))])
            with anatomy.lock, _attending(model, attention), listening(hooks):
                output = model(input_ids=tokens, use_cache=False, logits_to_keep=1, **pictures)
            self._known[key] = Distribution(output.logits[0, -1])
        return self._known[key]


def _kept_moved(seed: int, kept: list[int]) -> Any:
    """A hook on the embedding that moves the vectors at the kept positions."""
    generator = torch.Generator().manual_seed(seed)

    def move(_: Any, __: Any, output: torch.Tensor) -> torch.Tensor:
        moved = output.clone()
        moved[:, kept] = moved_by_ulps(output[:, kept], generator)
        return moved

    return move


@contextmanager
def _attending(model: Any, implementation: str) -> Iterator[None]:
    """Another attention implementation for the length of a pass; parameters are not concerned."""
    before = model.config._attn_implementation
    if before == implementation:
        yield
        return
    model.set_attn_implementation(implementation)
    try:
        yield
    finally:
        model.set_attn_implementation(before)


def error_budget(
    anatomy: Anatomy,
    wider: dict[str, Anatomy],
    step: int,
    dtype: str,
    recompute: Recompute,
    tokens: int,
    baseline: Distribution,
) -> Reference:
    """The noise floor, and with ``wider`` models (BUDGET_DTYPES) what else is there without any patch.

    Eager attention is compared with sdpa, and kept tokens moved by one unit in the last place with unmoved
    ones, all without a cache; float32 and float64 with the baseline itself, unless it is in that dtype.
    """
    if tokens > LONGEST_RECOMPUTE:
        return Reference(step, dtype)
    plain = recompute.logits(anatomy)
    gap = distances.compare(baseline, plain)
    # In its own dtype this would be the noise floor under another name.
    others = {name: a for name, a in wider.items() if name != dtype}
    more = {f"{name}_tvd": distances.compare(baseline, recompute.logits(a)).tvd for name, a in others.items()}
    if wider:
        more["eager_tvd"] = distances.compare(plain, recompute.logits(anatomy, "eager")).tvd
        more["ulp_tvd"] = max(
            distances.compare(plain, recompute.logits(anatomy, seed=s)).tvd for s in ulp_seeds(step)
        )
    return Reference(step, dtype, noise_floor_tvd=gap.tvd, noise_floor_linf=gap.linf, **more)


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    step: int
    ids: tuple[int, ...]
    positions: tuple[int, ...]
    baselines: dict[str, Distribution]


class Unpatched:
    """Steps whose unpatched model is still to be run."""

    def __init__(self, anatomies: dict[str, Anatomy], sight: Sight = BLIND) -> None:
        self._anatomies = anatomies
        self._sight = sight
        self._waiting: list[_Waiting] = []
        self._batch = 1

    def add(
        self, step: int, ids: tuple[int, ...], positions: tuple[int, ...], baselines: dict[str, Distribution]
    ) -> None:
        self._waiting.append(_Waiting(step, ids, positions, baselines))

    @property
    def is_due(self) -> bool:
        """True when a batch is full; batches grow 1, 2, 4, 8 so that the first reference comes early."""
        return len(self._waiting) >= self._batch

    def measure(self) -> Iterator[Reference]:
        """Run all that wait and yield their references."""
        waiting, self._waiting = self._waiting, []
        self._batch = min(BATCH, 2 * self._batch)
        # Kept tokens grow with the run where a span is folded; only equal lengths share a batch.
        alike = len({len(item.ids) for item in waiting}) == 1
        groups = [waiting] if alike else [[item] for item in waiting]
        for group in groups:
            for dtype, anatomy in self._anatomies.items():
                yield from self._measure(anatomy, dtype, group)

    @torch.inference_mode()
    def _measure(self, anatomy: Anatomy, dtype: str, group: list[_Waiting]) -> list[Reference]:
        ids, positions = [item.ids for item in group], [item.positions for item in group]
        inputs = kept_inputs(anatomy, ids, positions, self._sight)
        with anatomy.lock:
            output = anatomy.model(**inputs, logits_to_keep=1)
        gaps = [
            distances.compare(item.baselines[dtype], Distribution(row))
            for item, row in zip(group, output.logits[:, -1], strict=True)
        ]
        return [
            Reference(item.step, dtype, unpatched_tvd=gap.tvd, unpatched_linf=gap.linf)
            for item, gap in zip(group, gaps, strict=True)
        ]
