"""Teaching a vision tower to see before there is anything to say: helper heads, thrown away afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from ctxviz.shapes.drawing import Look
from ctxviz.shapes.scenes import COLOURS, PLACES, SHAPES, Scene
from ctxviz.training.batches import cell_labels, patch_labels

CLASSES = (1 + len(COLOURS), 1 + len(SHAPES))


class Heads(nn.Module):
    """Colour and shape of every patch, and of every one of the nine places, read off the tower's output."""

    def __init__(self, width: int, side: int, tokens: int) -> None:
        super().__init__()
        self.side = side
        self.pool = nn.AvgPool2d(side // round(tokens**0.5))
        self.patch = nn.Linear(width, sum(CLASSES))
        self.cell = nn.Linear(width * tokens, len(PLACES) * sum(CLASSES))

    def forward(self, seen: Float[Tensor, "n p d"]) -> tuple[Tensor, Tensor]:
        """Scores [n, patches, classes] and [n, 9, classes]."""
        grid = seen.transpose(1, 2).unflatten(2, (self.side, self.side))
        return self.patch(seen), self.cell(self.pool(grid).flatten(1)).unflatten(1, (len(PLACES), -1))


def looking_loss(
    heads: Heads, seen: Float[Tensor, "n p d"], drawn: Sequence[tuple[Scene, list[Look]]]
) -> tuple[Tensor, float]:
    """The loss of both heads, nats, and the share of scenes whose nine places are all told right."""
    patch_scores, cell_scores = heads(seen)
    cells = cell_labels([scene for scene, _ in drawn])
    patches = patch_labels(drawn, heads.side)
    loss: Any = 0.0
    for scores, labels in ((patch_scores, patches), (cell_scores, cells)):
        for part, label in zip(scores.split(CLASSES, dim=-1), labels, strict=True):
            loss = loss + functional.cross_entropy(part.flatten(0, 1), label.flatten())
    told = [part.argmax(-1) == label for part, label in zip(cell_scores.split(CLASSES, -1), cells, strict=True)]
    return loss, torch.stack(told).all(0).all(-1).float().mean().item()
