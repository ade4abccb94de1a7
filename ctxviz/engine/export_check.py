"""What a person will get who takes a patch away, run here against the model with its context.

The written weights as the script has them, the adapter as PEFT has it, and both with the kept tokens moved by
one unit in the last place. Everything runs in hooks on the loaded model, which is not written: W′ is formed
in a scratch matrix when its layer's turn comes, so no copy of the model is needed. MATHS section 6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn import functional

from ctxviz.engine.anatomy import Anatomy, LayerAnatomy, anatomy_of, listening
from ctxviz.engine.application import Scratch, run_with_weight, written_update
from ctxviz.engine.patched_pass import kept_inputs
from ctxviz.engine.prompt import look
from ctxviz.engine.references import LONGEST_RECOMPUTE, Recompute
from ctxviz.exporting import ExportCheck, Trial
from ctxviz.no_number import computed
from ctxviz.numerics import distances
from ctxviz.numerics.distances import Comparison, Distribution
from ctxviz.numerics.rounding import moved_by_ulps, ulp_seeds
from ctxviz.records import LayerPatch, Rank1Update, VectorUpdate

if TYPE_CHECKING:
    from ctxviz.engine.rebuild import Rebuilt
    from ctxviz.engine.sight import Sight
    from ctxviz.models import LoadedModel
    from ctxviz.run import Run

Hook = Callable[[Any, Any, torch.Tensor], torch.Tensor]
Hooks = list[tuple[Any, Hook]]
_WAYS = 4


def check_export(model: LoadedModel, run: Run, built: Rebuilt) -> Iterator[float | ExportCheck]:
    """Measure what ``built`` is worth to others; yields the share done between passes, and the check."""
    anatomy = anatomy_of(model.in_dtype(built.variant.dtype), model.architecture)
    sight = look(model, run.pictures, run.context)
    exported = Exported(anatomy, built.kept_ids, built.kept_positions, sight)
    scratch = Scratch()
    in_weights, beside = written_hooks(anatomy, built.patches, scratch), adapter_hooks(anatomy, built.patches)
    trials: list[Trial] = []
    seeds = ulp_seeds(built.step)
    for hooks, moves in ((in_weights, [None]), (in_weights, seeds), (beside, [None]), (beside, seeds)):
        yield len(trials) / (_WAYS + 1)
        gaps = []
        for seed in moves:
            gaps.append(distances.compare(built.baseline, Distribution(exported.logits(hooks, seed))))
            yield len(trials) / (_WAYS + 1)
        trials.append(_worst(gaps))
    yield _WAYS / (_WAYS + 1)
    floor_tvd, floor_linf, moved = _floors(anatomy, built, sight)
    written, written_moved, adapter, adapter_moved = trials
    yield ExportCheck(
        built=_worst([built.gap]),
        written=written,
        written_moved=written_moved,
        adapter=adapter,
        adapter_moved=adapter_moved,
        margin=distances.margin(built.baseline),
        floor_tvd=floor_tvd,
        floor_linf=floor_linf,
        context_moved_tvd=moved,
    )


class Exported:
    """The kept tokens of one patch, to be run with updates in different forms."""

    def __init__(
        self, anatomy: Anatomy, ids: tuple[int, ...], positions: tuple[int, ...], sight: Sight
    ) -> None:
        self._anatomy = anatomy
        self._inputs = kept_inputs(anatomy, [ids], [positions], sight)

    @torch.inference_mode()
    def logits(self, hooks: Hooks, seed: int | None = None) -> torch.Tensor:
        """The query token's logits [vocabulary]; with a seed the embeddings are moved as a replay's are."""
        model: Any = self._anatomy.model
        more: Hooks = []
        if seed is not None:
            generator = torch.Generator().manual_seed(seed)
            more = [(model.get_input_embeddings(), lambda _, __, out: moved_by_ulps(out, generator))]
        with self._anatomy.lock, listening(hooks + more), np.errstate(all="ignore"):
            output = model(**self._inputs)
        return output.logits[0, -1].clone()


def written_hooks(anatomy: Anatomy, patches: Sequence[LayerPatch], scratch: Scratch) -> Hooks:
    """Each patched module run with round(float64(P) + update) in place of P."""

    def matrix(update: Rank1Update) -> Hook:
        def run(module: Any, args: Any, output: torch.Tensor) -> torch.Tensor:
            left, right = _factors(update, output.device)
            return written_update(module, args[0], left, right, scratch, update.parameter)

        return run

    return _hooks(anatomy, patches, matrix)


def adapter_hooks(anatomy: Anatomy, patches: Sequence[LayerPatch]) -> Hooks:
    """Each matrix with PEFT's side branch B (A x) added to its stock output, the scales replaced.

    PEFT keeps a branch in float32 beside 16-bit weights and otherwise in their dtype, brings x to it, adds
    branch and output there and rounds the sum to the output's dtype.
    """

    def matrix(update: Rank1Update) -> Hook:
        def run(_: Any, args: Any, output: torch.Tensor) -> torch.Tensor:
            wide = torch.promote_types(output.dtype, torch.float32)
            left, right = (factor.to(wide) for factor in _factors(update, output.device))
            reach = functional.linear(args[0].to(wide), right[None])
            return (output + functional.linear(reach, left[:, None])).to(output.dtype)

        return run

    return _hooks(anatomy, patches, matrix)


def _hooks(anatomy: Anatomy, patches: Sequence[LayerPatch], matrix: Callable[[Rank1Update], Hook]) -> Hooks:
    updates = {update.parameter: update for patch in patches for update in patch.updates}
    made: Hooks = []
    for part in anatomy.layers:
        for module, name in _parameters(part):
            update = updates.pop(name, None)
            if isinstance(update, Rank1Update):
                made.append((module, matrix(update)))
            elif update is not None:
                made.append((module, _replaced_scale(update)))
    if updates:
        raise ValueError(f"the model has no parameter {next(iter(updates))[:80]!r} that can be patched")
    return made


def _parameters(part: LayerAnatomy) -> list[tuple[Any, str]]:
    return [
        (part.gate, part.gate_name),
        (part.up, part.up_name),
        (part.down, part.down_name),
        (part.post_mlp_norm, part.scale_name),
    ]


def _replaced_scale(update: VectorUpdate) -> Hook:
    """w + dm formed in float64 and rounded once: written weights and adapter hold the same vector."""

    def run(module: Any, args: Any, _: torch.Tensor) -> torch.Tensor:
        stored = module.weight
        whole = stored.to("cpu", torch.float64) + torch.from_numpy(update.delta).to(torch.float64)
        return run_with_weight(module, whole.to(stored.dtype).to(stored.device), args[0])

    return run


def _factors(update: Rank1Update, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.from_numpy(update.left).to(device), torch.from_numpy(update.right).to(device)


def _worst(gaps: Sequence[Comparison]) -> Trial:
    return Trial(max(_number(gap.tvd) for gap in gaps), all(gap.match for gap in gaps))


def _floors(anatomy: Anatomy, built: Rebuilt, sight: Sight) -> tuple[float, float, float]:
    """TVD and largest logit gap of the noise floor, and the TVD that a move costs the model with its context;
    NaN where the history is too long for a recompute."""
    if len(built.context_ids) > LONGEST_RECOMPUTE:
        return np.nan, np.nan, np.nan
    recompute = Recompute(built.context_ids, built.kept_positions, sight)
    plain = recompute.logits(anatomy)
    gap = distances.compare(built.baseline, plain)
    moved = [distances.compare(plain, recompute.logits(anatomy, seed=s)) for s in ulp_seeds(built.step)]
    return _number(gap.tvd), _number(gap.linf), _worst(moved).tvd


def _number(value: float | None) -> float:
    """Computed and no finite number is inf."""
    return np.inf if value is None else computed(value)
