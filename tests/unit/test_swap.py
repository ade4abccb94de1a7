"""The distance of two rank-one updates from their factors alone."""

from __future__ import annotations

import numpy as np
import pytest

from ctxviz.engine.swap import rank_one_gap
from ctxviz.records import Rank1Update


def update(left: np.ndarray, right: np.ndarray) -> Rank1Update:
    return Rank1Update("w", left.astype(np.float32), right.astype(np.float32))


def dense(one: Rank1Update, other: Rank1Update) -> float:
    """The distance from the matrices themselves, in extended precision."""
    a, b = (np.outer(u.left.astype(np.longdouble), u.right.astype(np.longdouble)) for u in (one, other))
    return float(np.sqrt(((a - b) ** 2).sum()))


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("seed", range(5))
def test_it_is_the_distance_of_the_dense_matrices(seed: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    one = update(scale * rng.normal(size=30), rng.normal(size=20))
    other = update(scale * rng.normal(size=30), rng.normal(size=20))
    assert rank_one_gap(one, other) == pytest.approx(dense(one, other), rel=1e-12)


@pytest.mark.parametrize("gap", [1e-2, 1e-5, 3e-7])
def test_it_keeps_its_digits_where_the_two_are_nearly_the_same(gap: float) -> None:
    rng = np.random.default_rng(1)
    left, right = rng.normal(size=30), rng.normal(size=20)
    one, other = update(left, right), update(left * (1 + gap), right + gap * rng.normal(size=20))
    wanted = dense(one, other)
    assert rank_one_gap(one, other) == pytest.approx(wanted, rel=1e-9)
    # The control: the textbook formula has lost them by then.
    p, r, p2, r2 = (v.astype(float) for v in (one.left, one.right, other.left, other.right))
    square = (p @ p) * (r @ r) + (p2 @ p2) * (r2 @ r2) - 2 * (p @ p2) * (r @ r2)
    if gap < 1e-6:
        assert abs(np.sqrt(max(square, 0)) - wanted) > 1e-9 * wanted


def test_equal_updates_are_exactly_nothing_apart() -> None:
    one = update(np.arange(5.0), np.arange(1.0, 4))
    assert rank_one_gap(one, one) == 0
    # Other factors of the same matrix are as near as float64 tells.
    assert rank_one_gap(one, update(2 * np.arange(5.0), np.arange(1.0, 4) / 2)) < 1e-6


def test_one_of_them_may_be_zero() -> None:
    one, nothing = update(np.ones(4), np.ones(9)), update(np.ones(4), np.zeros(9))
    assert rank_one_gap(one, nothing) == pytest.approx(6)
    assert rank_one_gap(nothing, one) == pytest.approx(6)
