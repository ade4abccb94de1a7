"""What an RMSNorm without its scale should put out, given the scale and the goal (the RMSNorm inverse).

Minimise ||m n - g||^2 over ||n||^2 = R, products taken coordinate by coordinate. With the multiplier lambda,
n_j = m_j g_j / (m_j^2 + lambda), and in exact arithmetic the scale then needs delta m_j = lambda / m_j.

Source: MATHS sections 2 and 3; stable is paper A, appendix B; rescaled and floored are derived there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

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


class _Live(NamedTuple):
    """The part of a :class:`Target` that belongs to the coordinates with m_j other than 0."""

    n: Float64[np.ndarray, " d"]
    multiplier: float
    case: int
    iterations: int


def stable(scale: Float[np.ndarray, " d"], goal: Float[np.ndarray, " d"], radius_sq: float) -> Target:
    """The constrained least squares above; dead coordinates get n_j = sign(g_j), the rest what is left of R.

    Where that leaves too little of R, dead coordinates get the RMS sqrt(R / d) instead of 1.

    Args:
        scale: [d], m. Entries that are not finite count as dead.
        goal: [d], g. Entries that are not finite count as 0.
        radius_sq: R; not positive or not finite: n = 0 and the case is infeasible.
    """
    return _around_dead(scale, goal, radius_sq, 1.0, partial(_least_squares, lowest=0.0))


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
    lowest = floor * float(np.sqrt(radius_sq / len(scale))) if radius_sq > 0 else 0.0
    return _around_dead(scale, goal, radius_sq, lowest, partial(_least_squares, lowest=lowest))


def rescaled(scale: Float[np.ndarray, " d"], goal: Float[np.ndarray, " d"], radius_sq: float) -> Target:
    """n = (g / m) / s with s = ||g / m|| / sqrt(R); dead coordinates as in :func:`stable`.

    Where g / m is zero everywhere it has no direction and every live n_j is the same.
    """
    return _around_dead(scale, goal, radius_sq, 1.0, _direction)


def radius_sq(h_down: Float[np.ndarray, " d"], eps: float) -> tuple[float, float]:
    """(R, rho) with rho = RMS(h_down) and R = d rho^2 / (rho^2 + eps); (0, 0) where h_down is not finite."""
    wide = np.asarray(h_down, np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        mean_sq = float(wide @ wide) / wide.size
    if not 0 < mean_sq < np.inf:
        return 0.0, 0.0
    return wide.size * (mean_sq / (mean_sq + eps)), float(np.sqrt(mean_sq))


def to_hidden(n: Float64[np.ndarray, " d"], rho: float, eps: float) -> Float64[np.ndarray, " d"]:
    """h_target = n sqrt(rho^2 + eps): the norm's input that gives n, up to the norm's own epsilon."""
    return n * float(np.sqrt(rho * rho + eps))


def _around_dead(
    scale: Float[np.ndarray, " d"],
    goal: Float[np.ndarray, " d"],
    radius_sq: float,
    reserve: float,
    rule: Callable[[np.ndarray, np.ndarray, float], _Live],
) -> Target:
    """Set dead coordinates to +-reserve and solve the live ones by the rule: (m, g, R) -> _Live."""
    m, g = _finite(scale), _finite(goal)
    dead = m == 0
    if not 0 < radius_sq < np.inf:
        return Target(np.zeros_like(m), np.nan, _INFEASIBLE, dead, 0)
    n_dead = int(np.count_nonzero(dead))
    if n_dead == 0:
        n, multiplier, case, iterations = rule(m, g, radius_sq)
        return Target(n, multiplier, case, dead, iterations)
    share = radius_sq / m.size
    # Live coordinates keep at least half of their equal share; with none of them the dead take all.
    if n_dead == m.size or radius_sq - n_dead * reserve * reserve < 0.5 * share * (m.size - n_dead):
        reserve = float(np.sqrt(share))
    n = np.where(g < 0, -reserve, reserve)
    if n_dead == m.size:
        return Target(n, np.nan, _CLOSED_FORM, dead, 0)
    live = ~dead
    n[live], multiplier, case, iterations = rule(m[live], g[live], radius_sq - n_dead * reserve * reserve)
    return Target(n, multiplier, case, dead, iterations)


def _least_squares(
    m: Float64[np.ndarray, " d"], g: Float64[np.ndarray, " d"], radius_sq: float, lowest: float
) -> _Live:
    """The least squares of the module, no m_j being 0, with |n_j| >= lowest where d lowest^2 <= R.

    m, g and n are divided by about max|m|, max|g| and sqrt(R), so that no square overflows.
    """
    radius = float(np.sqrt(radius_sq))
    m_abs, b = np.abs(m), np.abs(g)
    g_max = float(b.max())
    # A power of two leaves the digits of m alone: differences of its squares may hang on the last ones.
    m_unit = math.ldexp(1.0, math.frexp(float(m_abs.max()))[1] - 1)
    m_abs /= m_unit
    m_min = float(m_abs.min())
    b /= g_max or 1.0
    b *= m_abs
    # Beyond these bounds n is the same to the last bit, and b stays where its square is representable.
    b *= min(max(g_max / m_unit / radius, 1 / _EXTREME), _EXTREME)
    b[b < _NEGLIGIBLE] = 0
    x, t, resolution, hard, iterations = secular.solve(b, (m_abs - m_min) * (m_abs + m_min), lowest / radius)
    x *= radius
    np.negative(x, out=x, where=((m < 0) != (g < 0)) & (g != 0))
    shift = t - m_min * m_min
    if hard:
        return _Live(x, shift * m_unit * m_unit, _HARD, iterations)
    if abs(shift) <= 16 * resolution:
        return _Live(x, 0.0, _UNCONSTRAINED, iterations)
    return _Live(x, shift * m_unit * m_unit, _REGULAR, iterations)


def _direction(m: Float64[np.ndarray, " d"], g: Float64[np.ndarray, " d"], radius_sq: float) -> _Live:
    """g / m on the sphere, no m_j being 0."""
    with np.errstate(over="ignore"):
        n = np.clip(g / m, -_EXTREME, _EXTREME)
    largest = float(np.abs(n).max())
    n = n / largest if largest > 0 else np.ones_like(n)
    n *= np.sqrt(radius_sq) / np.sqrt(n @ n)
    return _Live(n, np.nan, _CLOSED_FORM, 0)


def _finite(vector: Float[np.ndarray, " d"]) -> Float64[np.ndarray, " d"]:
    wide = np.asarray(vector, np.float64)
    return wide if np.isfinite(wide).all() else np.where(np.isfinite(wide), wide, 0.0)
