"""What both trainings share: the optimizer, one step of it, and how the rate rises and falls."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch


def make_optimizer(parts: Sequence[tuple[torch.nn.Module, float]], decay: float) -> torch.optim.Optimizer:
    """AdamW on every parameter that is to be trained; matrices decay, norms and biases do not.

    Each part comes with its share of the rate; a parameter of several parts belongs to the first.
    """
    groups = []
    taken: set[int] = set()
    for module, share in parts:
        fresh = [p for p in module.parameters() if p.requires_grad and id(p) not in taken]
        taken |= {id(p) for p in fresh}
        for chosen, decays in ((lambda p: p.dim() > 1, decay), (lambda p: p.dim() <= 1, 0.0)):
            groups.append({"params": list(filter(chosen, fresh)), "weight_decay": decays, "share": share})
    return torch.optim.AdamW(groups, lr=1.0, betas=(0.9, 0.98))


def advance(optimizer: torch.optim.Optimizer, loss: torch.Tensor, rate: float) -> None:
    """One step down the loss, its gradient clipped to norm one."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(parameters, 1.0)
    for group in optimizer.param_groups:
        group["lr"] = rate * group["share"]
    optimizer.step()


def schedule(share: float) -> float:
    """Of the largest rate, at a share of all steps: a short rise, then half a cosine down to a fiftieth."""
    return min(1.0, share / 0.03 + 0.01) * (0.02 + 0.49 * (1 + math.cos(math.pi * share)))
