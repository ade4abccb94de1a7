"""The patched, context-free model: the stock forward on the kept tokens, patched as it goes.

At each layer, in the order the model itself runs: read v and z, apply the input updates; read the a and
h_down that really came out, apply the output updates. The next layer starts from the real output, so it
absorbs this layer's rounding. MATHS: algorithm for one token, step 2.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ctxviz.engine.anatomy import Anatomy, Doubles, LayerAnatomy, first_tensor, listening, to_double
from ctxviz.engine.application import (
    Scratch,
    factored_scale,
    factored_update,
    run_with_weight,
    written_update,
)
from ctxviz.engine.context_pass import ContextState
from ctxviz.engine.ledger import Ledger
from ctxviz.engine.sight import BLIND, Sight
from ctxviz.numerics import rank_one, rms_target, scale_update
from ctxviz.numerics.rms_norm import normalise
from ctxviz.records import (
    RULES_WITH_MULTIPLIER,
    SOLVER_CASES,
    LayerPatch,
    LayerStats,
    LayerVectors,
    Rank1Update,
    VectorUpdate,
)
from ctxviz.settings import Variant

NO_INPUT = SOLVER_CASES.index("no input")
CLOSED_FORM = SOLVER_CASES.index("closed form")


@dataclass(frozen=True, slots=True, eq=False)
class PatchedState:
    """What the patched model did at the query token."""

    logits: torch.Tensor
    """[vocabulary], in the model's dtype."""
    layer_out: Doubles
    """The residual stream after each layer, [n_layers, d]."""
    layers: LayerStats
    vectors: LayerVectors | None
    patches: tuple[LayerPatch, ...] | None
    seconds: float


@torch.inference_mode()
def patched_pass(
    anatomy: Anatomy,
    variant: Variant,
    kept_ids: tuple[int, ...],
    kept_positions: tuple[int, ...],
    context: ContextState,
    *,
    scratch: Scratch,
    small_h: float,
    keep_vectors: bool = True,
    keep_patches: bool = False,
    sight: Sight = BLIND,
) -> PatchedState:
    """Run the kept tokens (the query token last) through the model while its layers are patched.

    The same updates, made for the query token, act on every kept position. ``sight`` holds the pictures, of
    which image tokens may be kept.
    """
    started = time.perf_counter()
    ledger = Ledger(anatomy.layers, anatomy.width, keep_vectors=keep_vectors, keep_patches=keep_patches)
    hooks: list[tuple[Any, Any]] = []
    layer_out = np.full((len(anatomy.layers), anatomy.width), np.nan)
    scratch.begin()
    for part in anatomy.layers:
        layer = _LayerPass(part, variant, context, scratch, ledger, small_h, layer_out)
        hooks += layer.hooks()
    inputs = kept_inputs(anatomy, [kept_ids], [kept_positions], sight)
    # A model may overflow in float16: what is no number is recorded as such, not warned about.
    with anatomy.lock, listening(hooks), np.errstate(all="ignore"):
        output = anatomy.model(**inputs)
    seconds = time.perf_counter() - started
    return PatchedState(
        output.logits[0, -1], layer_out, ledger.stats(), ledger.vectors(), ledger.patches(), seconds
    )


def kept_inputs(
    anatomy: Anatomy, ids: list[tuple[int, ...]], positions: list[tuple[int, ...]], sight: Sight
) -> dict[str, Any]:
    """Arguments of a stock forward on kept tokens at their original positions, without a cache.

    The mask of ones matters: without it transformers takes a gap between positions for the border between two
    packed sequences, and the query token would not see the kept ones.
    """
    device = next(anatomy.model.parameters()).device
    tokens = torch.tensor(ids, device=device)
    return {
        **sight.arguments(anatomy, positions),
        "input_ids": tokens,
        "position_ids": torch.tensor(positions, device=device),
        "attention_mask": torch.ones_like(tokens),
        "use_cache": False,
    }


class _LayerPass:
    """One layer during one patched pass; its methods are hooks, called in the order the model runs."""

    def __init__(
        self,
        part: LayerAnatomy,
        variant: Variant,
        context: ContextState,
        scratch: Scratch,
        ledger: Ledger,
        small_h: float,
        layer_out: Doubles,
    ) -> None:
        self.part = part
        self.variant = variant
        self.scratch = scratch
        self.ledger = ledger
        self.small_h = small_h
        self.layer_out = layer_out
        self.written = variant.arithmetic == "written"
        self.patched = part.index >= variant.first_layer
        self.resid_mid_context = context.resid_mid[part.index]
        self.mlp_in_context = context.mlp_in[part.index]
        self.layer_out_context = context.layer_out[part.index]

    def hooks(self) -> list[tuple[Any, Any]]:
        part = self.part
        hooks: list[tuple[Any, Any]] = [
            (part.pre_mlp_norm, self.at_pre_mlp_norm),
            (part.layer, self.at_layer),
        ]
        if self.patched:
            hooks += [
                (part.gate, self.at_gate),
                (part.up, self.at_up),
                (part.down, self.at_down),
                (part.post_mlp_norm, self.at_post_mlp_norm),
            ]
        return hooks

    def at_pre_mlp_norm(self, _: Any, args: Any, output: torch.Tensor) -> None:
        resid_mid, mlp_in = to_double(args[0][0, -1]), to_double(output[0, -1])
        self.delta_v = self.resid_mid_context - resid_mid
        index, note = self.part.index, self.ledger.note
        note("resid_ratio", index, _ratio(self.delta_v, self.resid_mid_context))
        product = np.linalg.norm(mlp_in) * np.linalg.norm(self.mlp_in_context)
        note("cosine", index, float(mlp_in @ self.mlp_in_context / product) if product else np.inf)
        if self.patched:
            self.delta_z = torch.from_numpy(self.mlp_in_context - mlp_in)
            self.right = rank_one.right_factor(output[0, -1])

    def at_gate(self, module: Any, args: Any, output: torch.Tensor) -> torch.Tensor | None:
        return self._input_update(
            module, args[0], output, "gate_ratio", self.part.gate_norm, self.part.gate_name
        )

    def at_up(self, module: Any, args: Any, output: torch.Tensor) -> torch.Tensor | None:
        return self._input_update(module, args[0], output, "up_ratio", self.part.up_norm, self.part.up_name)

    def _input_update(
        self, module: Any, inputs: torch.Tensor, output: torch.Tensor, metric: str, norm: float, name: str
    ) -> torch.Tensor | None:
        if self.right is None:
            # z has no z / ||z||^2, so there is no update whose size could be told.
            self.ledger.note(metric, self.part.index, np.inf)
            return None
        left = rank_one.project(module.weight, self.delta_z)
        self._keep_rank_one(metric, norm, name, left, self.right)
        return self._with_update(module, inputs, output, left, self.right, name)

    def _with_update(
        self,
        module: Any,
        inputs: torch.Tensor,
        output: torch.Tensor,
        left: torch.Tensor,
        right: torch.Tensor,
        name: str,
    ) -> torch.Tensor:
        if self.written:
            return written_update(module, inputs, left, right, self.scratch, name)
        return factored_update(inputs, output, left, right)

    def at_down(self, module: Any, args: Any, output: torch.Tensor) -> torch.Tensor | None:
        index, rule = self.part.index, self.variant.update
        hidden, h_down = args[0][0, -1], to_double(output[0, -1])
        radius_sq, rho = rms_target.radius_sq(h_down, self.part.epsilon)
        self.goal = self.delta_v + self.part.scale * normalise(h_down, self.part.epsilon)
        if rule == "direct":
            self.ledger.note("solver_case", index, NO_INPUT if self.right is None else CLOSED_FORM)
            return None
        right = rank_one.right_factor(hidden)
        if self.right is None or right is None or radius_sq == 0 or not np.isfinite(self.goal).all():
            self.ledger.note("solver_case", index, NO_INPUT)
            self.ledger.note("down_ratio", index, np.inf)
            if rule in RULES_WITH_MULTIPLIER:
                self.ledger.note("multiplier", index, np.inf)
            return None
        target = _solve(self.variant, self.part.scale, self.goal, radius_sq)
        self.ledger.note("solver_case", index, target.case)
        # NaN says that the rule has none, or that no coordinate is left to have one.
        if not np.isnan(target.multiplier):
            self.ledger.note("multiplier", index, target.multiplier)
        wanted = rms_target.to_hidden(target.n, rho, self.part.epsilon) - h_down
        left = torch.from_numpy(wanted.astype(np.float32)).to(output.device)
        self._keep_rank_one("down_ratio", self.part.down_norm, self.part.down_name, left, right)
        return self._with_update(module, args[0], output, left, right, self.part.down_name)

    def at_post_mlp_norm(self, module: Any, args: Any, output: torch.Tensor) -> torch.Tensor:
        part = self.part
        h = normalise(to_double(args[0][0, -1]), part.epsilon)
        if self.variant.update == "direct":
            update = scale_update.direct(self.delta_v, h, part.delta_limit)
        else:
            update = scale_update.remaining(self.goal, part.scale, h, part.delta_limit)
        self.ledger.scale(part, h, self.delta_v, update, self.small_h)
        self.ledger.update(part.index, VectorUpdate(part.scale_name, update.delta))
        if not self.written:
            delta = torch.from_numpy(update.delta).to(output.device)
            return factored_scale(args[0], output, delta, part.epsilon)
        stored = torch.from_numpy(part.stored_scale)
        rounded = (stored + torch.from_numpy(update.delta).double()).to(module.weight.dtype)
        swallowed = (rounded.double().numpy() == part.stored_scale) & (update.delta != 0)
        self.ledger.swallowed(part.index, swallowed)
        weight = rounded.to(output.device)
        self.scratch.wrote(part.scale_name, weight)
        return run_with_weight(module, weight, args[0])

    def at_layer(self, _: Any, __: Any, output: Any) -> None:
        layer_out = to_double(first_tensor(output)[0, -1])
        error = _ratio(layer_out - self.layer_out_context, self.layer_out_context)
        self.ledger.note("output_error", self.part.index, error)
        self.ledger.note("output_max_abs", self.part.index, float(np.abs(layer_out).max()))
        self.layer_out[self.part.index] = layer_out

    def _keep_rank_one(
        self, metric: str, norm: float, name: str, left: torch.Tensor, right: torch.Tensor
    ) -> None:
        self.ledger.note(metric, self.part.index, rank_one.frobenius_ratio(left, right, norm))
        if self.ledger.keeps_patches:
            self.ledger.update(self.part.index, Rank1Update(name, left.cpu().numpy(), right.cpu().numpy()))


def _solve(variant: Variant, scale: Any, goal: Any, radius_sq: float) -> rms_target.Target:
    if variant.update == "stable":
        return rms_target.stable(scale, goal, radius_sq)
    if variant.update == "rescaled":
        return rms_target.rescaled(scale, goal, radius_sq)
    assert variant.floor is not None
    return rms_target.floored(scale, goal, radius_sq, variant.floor)


def _ratio(part: Any, whole: Any) -> float:
    norm = float(np.linalg.norm(whole))
    return float(np.linalg.norm(part)) / norm if norm else float("inf")
