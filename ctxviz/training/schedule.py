"""What both trainings share: the optimizer, one step of it, and how the rate rises and falls."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch


def make_optimizer(modules: Sequence[torch.nn.Module], decay: float) -> torch.optim.Optimizer:
    """AdamW on every parameter that is to be trained; weights decay, norms, biases and embeddings' rows do not."""
    parameters = [p for module in modules for p in module.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.dim() > 1], "weight_decay": decay},
        {"params": [p for p in parameters if p.dim() <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=1.0, betas=(0.9, 0.98))


def advance(optimizer: torch.optim.Optimizer, loss: torch.Tensor, rate: float) -> None:
    """One step down the loss, its gradient clipped to norm one."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(parameters, 1.0)
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.step()


def schedule(share: float) -> float:
    """Of the largest rate, at a share of all steps: a short rise, then half a cosine down to a fiftieth."""
    return min(1.0, share / 0.03 + 0.01) * (0.02 + 0.49 * (1 + math.cos(math.pi * share)))
