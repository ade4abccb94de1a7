"""The one-dimensional equation behind the RMSNorm inverse, in units where the sphere has radius 1.

x_j(t) = max(b_j / (q_j + t), floor) with b, q >= 0 and min q = 0; find t >= 0 with sum x_j(t)^2 = 1.

Source: MATHS section 3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from jaxtyping import Float64

_EPSILON: Final = float(np.finfo(np.float64).eps)
_TINY: Final = float(np.finfo(np.float64).tiny)
_CONVERGED: Final = 4 * _EPSILON
_NEWTON_ITERATIONS: Final = 80
_MAX_ITERATIONS: Final = 200


class UnitSolution(NamedTuple):
    """x [d] >= 0 of norm 1; ``resolution`` is the change of t that float64 sums no longer notice."""

    x: Float64[np.ndarray, " d"]
    t: float
    resolution: float
    hard: bool
    iterations: int


def solve(b: Float64[np.ndarray, " d"], q: Float64[np.ndarray, " d"], floor: float) -> UnitSolution:
    """Solve for t.

    Args:
        b: [d], each 0 or far from the ends of float64's range.
        q: [d], at least one of them 0.
        floor: what no x_j falls below; 0 for none; d floor^2 <= 1.

    Returns:
        The solution. In the hard case (t = 0 and norm left over) the coordinates with q_j = 0 share equally
        what is left. Where the floor leaves no choice, t is the smallest that gives it.
    """
    d, floor_sq = b.size, floor * floor
    if d * floor_sq >= 1 - d * _EPSILON:
        return UnitSolution(np.full(d, 1 / np.sqrt(d)), max(0.0, float((b / floor - q).max())), 0.0, False, 0)
    low = max(0.0, float((b - q).max()), float(np.sqrt(b @ b) - q.max()))
    if low == 0:
        flat = q == 0
        n_flat = int(np.count_nonzero(flat))
        x = np.maximum(b / np.where(flat, 1.0, q), floor)
        share_sq = (1 - float(x @ x)) / n_flat + floor_sq
        if share_sq >= floor_sq:
            x[flat] = max(floor, float(np.sqrt(share_sq)))
            return UnitSolution(x, 0.0, 0.0, True, 0)
    return _newton(b, q, floor, max(low, _TINY))


def _newton(
    b: Float64[np.ndarray, " d"], q: Float64[np.ndarray, " d"], floor: float, low: float
) -> UnitSolution:
    """Newton on 1 / sqrt(R) - 1 / sqrt(F) over the coordinates above the floor, from t = low below the root.

    In exact arithmetic t only rises: coordinates only sink to the floor, where they are already counted in
    full. The bracket guards against rounding.
    """
    high = min(float(b.max()) / floor, 1 / _TINY) if floor else float(b.sum())
    t, x, resolution, iterations = low, b, 0.0, 0
    for iterations in range(1, _MAX_ITERATIONS + 1):
        denominator = q + t
        x = b / denominator
        room = 1.0
        if floor:
            free = x > floor
            x *= free
            room -= (b.size - int(np.count_nonzero(free))) * floor * floor
        norm_sq = float(x @ x)
        excess, step = -1.0, 0.0
        if norm_sq > 0:
            excess = float(np.sqrt(norm_sq / room)) - 1
            scale = norm_sq / float(x @ (x / denominator))
            step, resolution = scale * excess, scale * _EPSILON
        if abs(excess) <= _CONVERGED:
            break
        low, high = (t, high) if excess > 0 else (low, t)
        following = t + step
        if iterations > _NEWTON_ITERATIONS or not low < following < high:
            following = float(np.sqrt(low) * np.sqrt(high))
        if not low < following < high:
            break
        t = following
    return UnitSolution(np.maximum(x, floor) if floor else x, t, resolution, False, iterations)
