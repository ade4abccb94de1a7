"""The distance of two rank-one updates from their factors alone, and what two pictures both update."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ctxviz.engine.swap import made_by_both, patch_distances, rank_one_gap
from ctxviz.records import LayerPatch, Rank1Update, VectorUpdate


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


PARTS = ("gate", "up", "down", "scale")
ANATOMY: Any = SimpleNamespace(
    layers=[SimpleNamespace(index=k, **{f"{part}_name": f"{part}{k}" for part in PARTS}) for k in range(2)]
)


def patches(**sizes: float) -> tuple[LayerPatch, ...]:
    """Updates by name: of ones, times a size."""
    return tuple(
        LayerPatch(
            int(name[-1]),
            (
                VectorUpdate(name, np.full(3, size, np.float32))
                if name.startswith("scale")
                else Rank1Update(name, np.full(3, size, np.float32), np.ones(3, np.float32)),
            ),
        )
        for name, size in sizes.items()
    )


def test_what_is_not_made_twice_is_told_from_what_is_nothing() -> None:
    one = patches(gate0=1, up0=0, down1=2, scale0=1, scale1=0)
    other = patches(gate0=3, up0=1, up1=1, scale0=0.5, scale1=1)
    made = made_by_both(ANATOMY, one, other)
    assert {part: flags.tolist() for part, flags in made.items()} == {
        "gate": [True, False], "up": [True, False], "down": [False, False], "scale": [True, True]
    }  # fmt: skip
    found = patch_distances(ANATOMY, one, other)
    assert [found["gate"][0], found["scale"][0]] == [2, 0.5]
    # Made by both, but the first is zero: nothing to divide by.
    assert np.isinf([found["up"][0], found["scale"][1]]).all()
    assert all(np.isnan(found[part][~made[part]]).all() for part in PARTS)
