"""The change of the scale, with its denominators at and near zero."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ctxviz.numerics import scale_update
from tests.unit.shapes import shapes_checked

FLOAT32_MAX = float(np.finfo(np.float32).max)
FLOAT16_MAX = 65504.0
FLOAT64_MAX = float(np.finfo(np.float64).max)

shapes = pytest.fixture(scope="module", autouse=True)(lambda: (yield from shapes_checked(scale_update)))

anything = st.floats(width=64, allow_nan=True, allow_infinity=True) | st.sampled_from([0.0, -0.0, 1e-320])
vectors = st.integers(1, 8).flatmap(lambda d: st.tuples(*[hnp.arrays(np.float64, d, elements=anything)] * 3))


def test_direct_is_the_quotient() -> None:
    update = scale_update.direct(np.array([1.0, -3.0]), np.array([4.0, 1e-8], np.float32), FLOAT32_MAX)
    np.testing.assert_allclose(update.delta, [0.25, -3e8], rtol=1e-6)
    assert update.delta.dtype == np.float32
    assert not update.uncontrolled.any()


def test_division_is_in_float64() -> None:
    h = np.array([1e-40], np.float32)
    update = scale_update.direct(np.array([1e-39]), h, FLOAT32_MAX)
    assert update.delta[0] == pytest.approx(1e-39 / float(h[0]), rel=1e-7)


def test_zero_denominator_becomes_one_and_is_uncontrolled() -> None:
    update = scale_update.direct(np.array([2.5, 0.0, 7.0]), np.array([0.0, -0.0, 7.0]), FLOAT32_MAX)
    assert update.delta.tolist() == [2.5, 0.0, 1.0]
    assert update.uncontrolled.tolist() == [True, True, False]


@pytest.mark.parametrize(
    ("delta_v", "h", "limit"),
    [
        (7e4, 1.0, FLOAT16_MAX),
        (-1.0, 1e-5, FLOAT16_MAX),
        (1.0, 1e-45, FLOAT32_MAX),
        (1.0, 1e-45, FLOAT64_MAX),
        (1e300, 1e-300, FLOAT64_MAX),
        (1e39, 0.0, FLOAT64_MAX),
        (np.nan, 1.0, FLOAT32_MAX),
        (1.0, np.nan, FLOAT32_MAX),
        (np.inf, 1.0, FLOAT32_MAX),
        (np.inf, np.inf, FLOAT32_MAX),
    ],
)
def test_what_cannot_be_stored_is_zero_and_uncontrolled(delta_v: float, h: float, limit: float) -> None:
    update = scale_update.direct(np.array([delta_v, 1.0]), np.array([h, 2.0]), limit)
    assert update.delta.tolist() == [0.0, 0.5]
    assert update.uncontrolled.tolist() == [True, False]


def test_the_largest_storable_is_kept() -> None:
    update = scale_update.direct(np.array([FLOAT16_MAX]), np.array([1.0]), FLOAT16_MAX)
    assert update.delta[0] == FLOAT16_MAX
    assert not update.uncontrolled[0]


def test_remaining_closes_the_gap() -> None:
    rng = np.random.default_rng(0)
    goal, scale, h = rng.standard_normal((3, 640))
    update = scale_update.remaining(goal, scale, h, FLOAT32_MAX)
    np.testing.assert_allclose((scale + update.delta) * h, goal, rtol=1e-6, atol=1e-6)
    assert np.abs(scale * h - goal).max() > 1


def test_remaining_subtracts_before_it_divides() -> None:
    # Divided first, g / h would overflow on its own.
    update = scale_update.remaining(np.array([1e200]), np.array([1e210]), np.array([1e-10]), FLOAT32_MAX)
    assert update.delta.tolist() == [0.0]
    # m h = g (1 + 2^-30): float32 would see no gap.
    update = scale_update.remaining(np.array([1.0]), np.array([1.0]), np.array([1 + 2.0**-30]), FLOAT32_MAX)
    assert update.delta[0] == pytest.approx(-(2.0**-30), rel=1e-6, abs=0)


@given(vectors, st.sampled_from([FLOAT16_MAX, FLOAT32_MAX, FLOAT64_MAX]))
@settings(deadline=None, max_examples=200)
def test_always_finite_and_controlled_means_solved(
    arrays: tuple[np.ndarray, np.ndarray, np.ndarray], limit: float
) -> None:
    goal, scale, h = arrays
    for update in (
        scale_update.direct(goal, h, limit),
        scale_update.remaining(goal, scale, h, limit),
    ):
        assert np.isfinite(update.delta).all()
        assert (np.abs(update.delta.astype(np.float64)) <= limit * (1 + 1e-7)).all()
        assert update.uncontrolled[(h == 0) | np.isnan(h) | ~np.isfinite(goal)].all()
    update = scale_update.direct(goal, h, limit)
    solved = ~update.uncontrolled
    np.testing.assert_array_equal(update.delta[solved], (goal[solved] / h[solved]).astype(np.float32))
