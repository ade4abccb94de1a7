"""Small wilful errors: one unit in the last place, and a passage through another dtype."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch
from torch import Tensor

if TYPE_CHECKING:
    from jaxtyping import Float

ULP_SEEDS: Final = 3
"""Random moves by one unit in the last place that are tried where the worst of several is told."""
_BITS: Final = {8: torch.int64, 4: torch.int32, 2: torch.int16}
_ROWS: Final = 64
"""Rows rounded at a time, so that a block stays in the cache."""


def ulp_seeds(step: int) -> range:
    """The seeds of the moves at a step."""
    return range(step * ULP_SEEDS, (step + 1) * ULP_SEEDS)


def moved_by_ulps(values: Float[Tensor, "*n"], generator: torch.Generator) -> Float[Tensor, "*n"]:
    """Every coordinate moved by one unit in the last place up or down, or left alone, at random.

    Zeros stay, since their neighbours are subnormal; so does what would no longer be finite.
    """
    direction = torch.randint(-1, 2, values.shape, generator=generator).to(values.device)
    kind = _BITS[values.element_size()]
    # Neighbouring floats of one sign have neighbouring bit patterns.
    moved = (values.contiguous().view(kind) + direction.to(kind)).view(values.dtype)
    return torch.where((values != 0) & moved.isfinite(), moved, values)


def round_through(weight: Float[Tensor, "rows columns"] | Float[Tensor, " rows"], other: torch.dtype) -> None:
    """Round ``weight`` in place to ``other`` and back to its own dtype."""
    for block in weight.split(_ROWS):
        block.copy_(block.to(other))
