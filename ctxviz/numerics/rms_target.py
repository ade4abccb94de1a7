"""What an RMSNorm without its scale should put out, given the scale and the goal (the RMSNorm inverse).

Minimise ||m n - g||^2 over ||n||^2 = R, products taken coordinate by coordinate. With the multiplier lambda,
n_j = m_j g_j / (m_j^2 + lambda), and in exact arithmetic the scale then needs delta m_j = lambda / m_j.

Source: MATHS sections 2 and 3; stable is paper A, appendix B; rescaled and floored are derived there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from ctxviz.numerics import secular
from ctxviz.records import SOLVER_CASES

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Float64

_UNCONSTRAINED, _REGULAR, _HARD, _INFEASIBLE, _CLOSED_FORM = (
    SOLVER_CASES.index(name) for name in ("unconstrained", "regular", "hard", "infeasible", "closed form")
)
_NEGLIGIBLE: Final = 1e-200
_EXTREME: Final = 1e100


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """The solution n [d], always finite; ``dead`` [d] marks m_j = 0.

    ``multiplier`` is lambda, NaN where the rule or the case has none; ``case`` indexes
    :data:`ctxviz.records.SOLVER_CASES`.
    """

    n: Float64[np.ndarray, " d"]
    multiplier: float
    case: int
    dead: Bool[np.ndarray, " d"]
    iterations: int


def stable(scale: Float[np.ndarray, " d"], goal: Float[np.ndarray, " d"], radius_sq: float) -> Target:
    """The constrained least squares above; dead coordinates get n_j = sign(g_j), the rest what is left of R.

    Where R is too small for that, dead coordinates get the RMS sqrt(R / d) instead of 1.

    Args:
        scale: [d], m. Entries that are not finite count as dead.
        goal: [d], g. Entries that are not finite count as 0.
        radius_sq: R; not positive or not finite: n = 0 and the case is infeasible.
    """
    return _least_squares(scale, goal, radius_sq, None)


def floored(
    scale: Float[np.ndarray, " d"], goal: Float[np.ndarray, " d"], radius_sq: float, floor: float
) -> Target:
    """As :func:`stable`, with |n_j| >= floor * sqrt(R / d) for every j; dead coordinates sit on the floor.

    The sign of n_j is that of m_j g_j, or of g_j where m_j = 0, or + where that is zero.

    Raises:
        ValueError: floor is not above 0 and at most 1 (beyond 1 no n would reach it everywhere).
    """
    if not 0 < floor <= 1:
        raise ValueError(f"the floor must be above 0 and at most 1, not {floor}")
    return _least_squares(scale, goal, radius_sq, floor)


def rescaled(scale: Float[np.ndarray, " d"], goal: Float[np.ndarray, " d"], radius_sq: float) -> Target:
    """n = (g / m) / s with s = ||g / m|| / sqrt(R); dead coordinates as in :func:`stable`.

    Where g / m is zero everywhere it has no direction and every live n_j is the same.
    """
    m, g = _finite(scale), _finite(goal)
    dead = m == 0
    if not 0 < radius_sq < np.inf:
        return Target(np.zeros_like(m), np.nan, _INFEASIBLE, dead, 0)
    live = ~dead
    n = np.where(g < 0, -1.0, 1.0)
    reserve, rest = _reserve(dead, radius_sq, None)
    n *= reserve
    with np.errstate(over="ignore", under="ignore"):
        ratio = np.clip(g[live] / m[live], -_EXTREME, _EXTREME)
    largest = np.abs(ratio).max(initial=0.0)
    direction = ratio / largest if largest > 0 else np.ones_like(ratio)
    if direction.size:
        n[live] = direction * (np.sqrt(rest) / np.sqrt(direction @ direction))
    return Target(n, np.nan, _CLOSED_FORM, dead, 0)


def radius_sq(h_down: Float[np.ndarray, " d"], eps: float) -> tuple[float, float]:
    """(R, rho) with rho = RMS(h_down) and R = d rho^2 / (rho^2 + eps); (0, 0) where h_down is not finite."""
    wide = np.asarray(h_down, np.float64)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        mean_sq = float(wide @ wide) / wide.size
    if not 0 < mean_sq < np.inf:
        return 0.0, 0.0
    return wide.size * (mean_sq / (mean_sq + eps)), float(np.sqrt(mean_sq))


def to_hidden(n: Float64[np.ndarray, " d"], rho: float, eps: float) -> Float64[np.ndarray, " d"]:
    """h_target = n sqrt(rho^2 + eps): the norm's input that gives n, up to the norm's own epsilon."""
    return n * float(np.sqrt(rho * rho + eps))


def _finite(vector: Float[np.ndarray, " d"]) -> Float64[np.ndarray, " d"]:
    return np.nan_to_num(np.asarray(vector, np.float64), nan=0.0, posinf=0.0, neginf=0.0)


def _reserve(dead: Bool[np.ndarray, " d"], radius_sq: float, floor: float | None) -> tuple[float, float]:
    """(|n_j| of a dead coordinate, what is left of R for the live ones)."""
    d, n_dead = dead.size, int(np.count_nonzero(dead))
    fair = radius_sq / d
    if n_dead == 0:
        return 0.0, radius_sq
    if n_dead == d:
        return float(np.sqrt(fair)), 0.0
    reserve_sq = 1.0 if floor is None else floor * floor * fair
    # Live coordinates keep at least half of their equal share.
    if radius_sq - n_dead * reserve_sq < 0.5 * fair * (d - n_dead):
        reserve_sq = fair
    return float(np.sqrt(reserve_sq)), radius_sq - n_dead * reserve_sq


def _least_squares(
    scale: Float[np.ndarray, " d"], goal: Float[np.ndarray, " d"], radius_sq: float, floor: float | None
) -> Target:
    m, g = _finite(scale), _finite(goal)
    dead = m == 0
    if not 0 < radius_sq < np.inf:
        return Target(np.zeros_like(m), np.nan, _INFEASIBLE, dead, 0)
    reserve, rest = _reserve(dead, radius_sq, floor)
    lowest = 0.0 if floor is None else floor * float(np.sqrt(radius_sq / m.size))
    if reserve == 0:
        n, multiplier, case, iterations = _live(m, g, rest, lowest)
        return Target(n, multiplier, case, dead, iterations)
    n = np.where(g < 0, -reserve, reserve)
    live = ~dead
    if not live.any():
        return Target(n, np.nan, _CLOSED_FORM, dead, 0)
    n[live], multiplier, case, iterations = _live(m[live], g[live], rest, lowest)
    return Target(n, multiplier, case, dead, iterations)


def _live(
    m: Float64[np.ndarray, " d"], g: Float64[np.ndarray, " d"], radius_sq: float, lowest: float
) -> tuple[Float64[np.ndarray, " d"], float, int, int]:
    """(n, lambda, case, iterations) where no m_j is 0 and d lowest^2 <= R.

    m, g and n are divided by max|m|, max|g| and sqrt(R), so that no square overflows.
    """
    radius = float(np.sqrt(radius_sq))
    m_abs, b = np.abs(m), np.abs(g)
    m_max, g_max = float(m_abs.max()), float(b.max())
    m_abs /= m_max
    m_min = float(m_abs.min())
    b /= g_max or 1.0
    b *= m_abs
    # Beyond these bounds n is the same to the last bit, and b stays where its square is representable.
    b *= min(max(g_max / m_max / radius, 1 / _EXTREME), _EXTREME)
    b[b < _NEGLIGIBLE] = 0
    x, t, resolution, hard, iterations = secular.solve(b, (m_abs - m_min) * (m_abs + m_min), lowest / radius)
    x *= radius
    np.negative(x, out=x, where=((m < 0) != (g < 0)) & (g != 0))
    shift = t - m_min * m_min
    if hard:
        return x, shift * m_max * m_max, _HARD, iterations
    if abs(shift) <= 16 * resolution:
        return x, 0.0, _UNCONSTRAINED, iterations
    return x, shift * m_max * m_max, _REGULAR, iterations
