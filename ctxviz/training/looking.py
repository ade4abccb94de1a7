"""Teaching a vision tower to see before there is anything to say: helper heads, thrown away afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from torch import Tensor, nn
from torch.nn import functional

from ctxviz.shapes.scenes import BACKGROUNDS, COLOURS, SHAPES, training_crowd
from ctxviz.training.batches import Drawn, draw_crowds, grid_labels, read_pictures
from ctxviz.training.schedule import advance, make_optimizer, schedule

if TYPE_CHECKING:
    from jaxtyping import Float

CLASSES: Final = (1 + len(COLOURS), 1 + len(SHAPES))
TILE_MARGIN: Final = 0.06
"""How far beside a thing, in widths of the picture, the middle of a tile that shows it may lie."""


class Heads(nn.Module):
    """Colour and shape of what every patch of the tower, and every tile of the projector's grid, shows."""

    def __init__(self, width: int, side: int, tiles: int) -> None:
        """``side`` patches and ``tiles`` tiles in a row."""
        super().__init__()
        self.side, self.tiles = side, tiles
        self.pool = nn.AvgPool2d(side // tiles)
        self.patch = nn.Linear(width, sum(CLASSES))
        self.tile = nn.Linear(width, sum(CLASSES))

    def forward(self, seen: Float[Tensor, "n p d"]) -> tuple[Tensor, Tensor]:
        """Scores [n, patches, classes] and [n, tiles, classes]."""
        grid = seen.transpose(1, 2).unflatten(2, (self.side, self.side))
        return self.patch(seen), self.tile(self.pool(grid).flatten(2).transpose(1, 2))


def looking_loss(heads: Heads, seen: Float[Tensor, "n p d"], drawn: Drawn) -> tuple[Tensor, float]:
    """The loss of both heads, nats, and the share of tiles with a thing whose shape is told right."""
    patch_scores, tile_scores = heads(seen)
    patches, tiles = grid_labels(drawn, heads.side, 0.0), grid_labels(drawn, heads.tiles, TILE_MARGIN)
    loss: Any = 0.0
    for scores, labels in ((patch_scores, patches), (tile_scores, tiles)):
        for part, label in zip(scores.split(CLASSES, dim=-1), labels, strict=True):
            loss = loss + functional.cross_entropy(part.flatten(0, 1), label.flatten())
    shown = tiles[1] > 0
    told = tile_scores.split(CLASSES, dim=-1)[1].argmax(-1) == tiles[1]
    return loss, told[shown].float().mean().item()


@dataclass(frozen=True, slots=True)
class LookingPlan:
    """How a tower learns to see: both trainings begin with it, and with the same seed it ends the same."""

    seed: int = 0
    steps: int = 4000
    pictures: int = 32
    """Per step."""
    crowd: tuple[int, int] = (4, 7)
    """Things in a picture: more than a scene holds, since each teaches."""
    rate: float = 2e-3
    decay: float = 0.01


class Looking:
    """A tower that learns to see."""

    def __init__(self, plan: LookingPlan, tower: Any, tiles: int, image_processor: Any) -> None:
        """``tiles`` in a row of the projector's grid."""
        self.plan = plan
        self.tower = tower
        side = tower.config.image_size // tower.config.patch_size
        self.heads = Heads(tower.config.hidden_size, side, tiles)
        self.optimizer = make_optimizer([(tower, 1.0), (self.heads, 1.0)], plan.decay)
        self._image_processor = image_processor

    def step(self, step: int) -> dict[str, float]:
        """One step, its pictures drawn from the plan's seed and its number; what to log of it."""
        generator = np.random.default_rng([self.plan.seed, step])
        fewest, most = self.plan.crowd
        crowds = [
            (
                training_crowd(generator, int(generator.integers(fewest, most + 1))),
                str(generator.choice(BACKGROUNDS)),
            )
            for _ in range(self.plan.pictures)
        ]
        pictures, drawn = draw_crowds(crowds, generator)
        seen = self.tower(read_pictures(pictures, self._image_processor)).last_hidden_state
        loss, told = looking_loss(self.heads, seen, drawn)
        advance(self.optimizer, loss, self.plan.rate * schedule(step / self.plan.steps))
        return {"looking loss": round(loss.item(), 4), "shapes told": round(told, 4)}
