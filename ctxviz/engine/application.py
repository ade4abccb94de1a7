"""What applying an update means: a stock layer run with other parameters, or a side branch.

The loaded model is never written. *Written* runs the stock module's own forward on a copy of the module
object whose parameter is a scratch tensor; *factored* adds the update's effect to the stock output.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from typing import Any

import torch
from torch import nn

from ctxviz.numerics import rank_one

HOOK_TABLES = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def run_with_weight(module: nn.Module, weight: torch.Tensor, inputs: torch.Tensor) -> torch.Tensor:
    """The stock forward of ``module`` with another weight; neither the module nor its hooks are touched."""
    twin = copy.copy(module)
    twin._parameters = {**module._parameters, "weight": nn.Parameter(weight, requires_grad=False)}
    for table in HOOK_TABLES:
        setattr(twin, table, OrderedDict())
    # The class's forward, since a placement library may have wrapped the instance's own.
    return type(module).forward(twin, inputs)


class Scratch:
    """Reusable weight-shaped tensors; each is valid until the next request for the same shape."""

    def __init__(self) -> None:
        self._room: dict[Any, torch.Tensor] = {}

    def begin(self) -> None:
        """A patched pass begins."""

    def room(self, name: str, weight: torch.Tensor) -> torch.Tensor:
        """Where the parameter ``name`` is to be written; it looks like ``weight``."""
        key = self._key(name, weight)
        if key not in self._room:
            self._room[key] = torch.empty_like(weight, memory_format=torch.contiguous_format)
        return self._room[key]

    def wrote(self, name: str, tensor: torch.Tensor) -> None:
        """``tensor`` now holds the written parameter ``name``."""

    def _key(self, name: str, weight: torch.Tensor) -> Any:  # noqa: ARG002
        return (weight.shape, weight.dtype, weight.device)


class WrittenWeights(Scratch):
    """A scratch in which every parameter has a place of its own, so that all outlast the pass."""

    def __init__(self) -> None:
        super().__init__()
        self.tensors: dict[str, torch.Tensor] = {}
        """What the latest patched pass has written so far, by name of parameter."""

    def begin(self) -> None:
        self.tensors = {}

    def wrote(self, name: str, tensor: torch.Tensor) -> None:
        self.tensors[name] = tensor

    def _key(self, name: str, weight: torch.Tensor) -> Any:
        return (name, super()._key(name, weight))


def written_update(
    module: nn.Module,
    inputs: torch.Tensor,
    left: torch.Tensor,
    right: torch.Tensor,
    scratch: Scratch,
    name: str,
) -> torch.Tensor:
    """Run ``module`` with W + left (x) right written; ``name`` is W's."""
    weight = _matrix(module)
    target = scratch.room(name, weight)
    rank_one.write(weight, left, right, target)
    scratch.wrote(name, target)
    return run_with_weight(module, target, inputs)


def factored_update(
    inputs: torch.Tensor, output: torch.Tensor, left: torch.Tensor, right: torch.Tensor
) -> torch.Tensor:
    """W z + left (right . z) for every token.

    Factors and sum are float32 or better; W z comes rounded to the dtype from the stock layer, and the sum is
    rounded to it again.
    """
    wide = torch.promote_types(output.dtype, torch.float32)
    reach = inputs.to(wide) @ right.to(wide)
    return (output.to(wide) + reach[..., None] * left.to(wide)).to(output.dtype)


def factored_scale(
    hidden: torch.Tensor, output: torch.Tensor, delta: torch.Tensor, epsilon: float
) -> torch.Tensor:
    """(m + dm) * h for every token: the stock norm's output plus h * dm, rounded to the dtype again."""
    wide = torch.promote_types(output.dtype, torch.float32)
    x = hidden.to(wide)
    h = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + epsilon)
    return (output.to(wide) + h * delta.to(wide)).to(output.dtype)


def _matrix(module: nn.Module) -> torch.Tensor:
    weight = module.weight
    assert isinstance(weight, torch.Tensor)
    return weight
