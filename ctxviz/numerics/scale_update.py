"""The change of a norm's scale that turns what the norm gives into what the layer must add.

Source: MATHS section 2, output side: direct (delta m = delta v / h) and the last step of the other rules
(delta m = (g - m h') / h').
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Float32

_FLOAT32_MAX: Final = float(np.finfo(np.float32).max)


@dataclass(frozen=True, slots=True, eq=False)
class ScaleUpdate:
    """delta m [d], float32 and always finite; ``uncontrolled`` [d] marks coordinates whose error stays."""

    delta: Float32[np.ndarray, " d"]
    uncontrolled: Bool[np.ndarray, " d"]


def direct(
    delta_v: Float[np.ndarray, " d"], h: Float[np.ndarray, " d"], representable_max: float
) -> ScaleUpdate:
    """``delta_v / h`` in float64.

    Where h_j is exactly 0 the denominator is 1, as in the paper, and the coordinate is uncontrolled. Where
    the result is not finite or larger than can be stored, it is 0 and the coordinate is uncontrolled too.

    Args:
        delta_v: [d], what the layer's output still lacks.
        h: [d], the denominators.
        representable_max: the largest finite number of the dtype the scale is stored in.
    """
    h64 = np.asarray(h, np.float64)
    limit = min(representable_max, _FLOAT32_MAX)
    zero = h64 == 0
    with np.errstate(all="ignore"):
        delta = np.asarray(delta_v, np.float64) / np.where(zero, 1.0, h64)
        unusable = ~(np.abs(delta) <= limit)
        delta[unusable] = 0
        return ScaleUpdate(delta.astype(np.float32), zero | unusable)


def remaining(
    goal: Float[np.ndarray, " d"],
    scale: Float[np.ndarray, " d"],
    h: Float[np.ndarray, " d"],
    representable_max: float,
) -> ScaleUpdate:
    """``(goal - scale * h) / h`` in float64, with the exceptions of :func:`direct`.

    Args:
        goal: [d], g: what the layer must add.
        scale: [d], m: the effective scale before the update.
        h: [d], the denominators the written matrix really gives.
        representable_max: the largest finite number of the dtype the scale is stored in.
    """
    h64 = np.asarray(h, np.float64)
    with np.errstate(all="ignore"):
        lacking = np.asarray(goal, np.float64) - np.asarray(scale, np.float64) * h64
    return direct(lacking, h64, representable_max)
