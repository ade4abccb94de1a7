"""The RMSNorm inverse: constraint, optimality, the multiplier, hard case, dead coordinates, floors."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import optimize

from ctxviz.numerics import rms_target, secular
from ctxviz.records import SOLVER_CASES
from tests.unit.shapes import shapes_checked

Vector = np.ndarray
Problem = tuple[Vector, Vector, float]

CONSTRAINT = 1e-12
"""Relative error allowed in ||n||^2 = R: a few hundred roundings of float64."""
GAP = 1e-12
"""Allowed between the objective and its lower bound, relative to ||g||^2 + max(m^2) R, the size of the
numbers subtracted."""

shapes = pytest.fixture(scope="module", autouse=True)(lambda: (yield from shapes_checked(rms_target)))
solver_shapes = pytest.fixture(scope="module", autouse=True)(lambda: (yield from shapes_checked(secular)))


def case(target: rms_target.Target) -> str:
    return SOLVER_CASES[target.case]


def objective(m: Vector, g: Vector, n: Vector) -> float:
    return float(np.sum((m * n - g) ** 2))


def rules(floor: float = 0.6) -> dict[str, Callable[[Vector, Vector, float], rms_target.Target]]:
    return {
        "stable": rms_target.stable,
        "rescaled": rms_target.rescaled,
        "floored": lambda m, g, r: rms_target.floored(m, g, r, floor),
    }


def lower_bound(m: Vector, g: Vector, radius_sq: float, multiplier: float, floor: float = 0.0) -> float:
    """Lagrange's dual function: no n on the sphere (above the floor) can have a smaller objective.

    With x = |n| and the sign that suits m g, min over x >= floor of (m^2 + lambda) x^2 - 2 |m g| x + g^2 is a
    parabola's; min over the sphere is at least the sum of these less lambda R.
    """
    # A multiplier below -min m^2 by rounding alone would send the bound to -inf.
    curvature = np.maximum(m**2 + multiplier, 0)
    slope = np.abs(m * g)
    with np.errstate(divide="ignore", invalid="ignore"):
        x = np.where(slope > 0, slope / curvature, 0.0)
    x = np.maximum(x, floor)
    x[np.isinf(x)] = floor
    return float(np.sum(curvature * x**2 - 2 * slope * x + g**2) - multiplier * radius_sq)


def magnitudes(low: float, high: float) -> st.SearchStrategy[float]:
    exponents = st.floats(low, high)
    return st.tuples(st.sampled_from([-1.0, 1.0]), exponents).map(lambda pair: pair[0] * 10 ** pair[1])


@st.composite
def problems(draw: st.DrawFn, zeros: bool = True) -> Problem:
    """m from 1e-8 to 1e4, g from 1e-8 to 1e4, both signs, some exactly zero or equal; R from 1e-6 to 1e3."""
    d = draw(st.integers(1, 12))
    nothing = st.just(0.0) if zeros else st.nothing()
    m = draw(hnp.arrays(np.float64, d, elements=magnitudes(-8, 4) | st.sampled_from([-1.0, 1.0]) | nothing))
    g = draw(hnp.arrays(np.float64, d, elements=magnitudes(-8, 4) | nothing))
    return m, g, 10 ** draw(st.floats(-6, 3))


def gemma_like(d: int = 640, seed: int = 0) -> Problem:
    """A wide spread of scales around a few, some negative; a goal of the size of m h."""
    rng = np.random.default_rng(seed)
    m = rng.standard_normal(d) * np.exp(rng.standard_normal(d) * 1.5)
    h = rng.standard_normal(d)
    return m, m * h + rng.standard_normal(d) * 0.5, d * 0.9999


@given(problems(), st.floats(0.01, 1), st.sampled_from(["stable", "floored", "rescaled"]))
@settings(deadline=None, max_examples=200)
def test_on_the_sphere_and_finite(problem: Problem, floor: float, rule: str) -> None:
    m, g, radius_sq = problem
    target = rules(floor)[rule](m, g, radius_sq)
    assert np.isfinite(target.n).all()
    assert target.n @ target.n == pytest.approx(radius_sq, rel=CONSTRAINT, abs=0)
    assert target.dead.tolist() == (m == 0).tolist()


@given(problems(zeros=False))
@settings(deadline=None, max_examples=200)
def test_stable_reaches_its_lower_bound(problem: Problem) -> None:
    m, g, radius_sq = problem
    target = rms_target.stable(m, g, radius_sq)
    assert target.multiplier >= -np.min(m**2) * (1 + 1e-12)
    size = g @ g + np.max(m**2) * radius_sq
    best = lower_bound(m, g, radius_sq, target.multiplier)
    assert objective(m, g, target.n) - best <= GAP * size


@given(problems(zeros=False), st.floats(0.01, 1))
@settings(deadline=None, max_examples=200)
def test_floored_respects_the_floor_and_reaches_its_lower_bound(problem: Problem, floor: float) -> None:
    m, g, radius_sq = problem
    target = rms_target.floored(m, g, radius_sq, floor)
    lowest = floor * math.sqrt(radius_sq / m.size)
    assert np.abs(target.n).min() >= lowest * (1 - 1e-12)
    np.testing.assert_array_equal(np.sign(target.n), np.sign(m) * np.sign(g))
    size = g @ g + np.max(m**2) * radius_sq
    best = lower_bound(m, g, radius_sq, target.multiplier, lowest)
    assert objective(m, g, target.n) - best <= GAP * size


def test_the_lower_bound_tells_a_worse_point_apart() -> None:
    m, g, radius_sq = gemma_like()
    target = rms_target.stable(m, g, radius_sq)
    bound = lower_bound(m, g, radius_sq, target.multiplier)
    size = g @ g + np.max(m**2) * radius_sq
    for rule in (rms_target.rescaled, rules(0.9)["floored"]):
        assert objective(m, g, rule(m, g, radius_sq).n) - bound > 1e3 * GAP * size
    assert objective(m, g, target.n) - lower_bound(m, g, radius_sq, 1.1 * target.multiplier) > GAP * size


@pytest.mark.parametrize("floor", [None, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("seed", range(6))
def test_scipy_finds_nothing_better(seed: int, floor: float | None) -> None:
    rng = np.random.default_rng(seed)
    d = 2 + seed
    m, g = rng.standard_normal(d) * 3, rng.standard_normal(d) * 4
    radius_sq = 0.9 * d
    lowest = 0.0 if floor is None else floor * math.sqrt(radius_sq / d)
    rule = rms_target.stable if floor is None else rules(floor)["floored"]
    ours = objective(m, g, rule(m, g, radius_sq).n)
    signs = np.where(m * g < 0, -1.0, 1.0)
    found = []
    for _ in range(8):
        start = np.abs(rng.standard_normal(d)) + lowest
        result = optimize.minimize(
            lambda x: objective(m, g, signs * x),
            start,
            method="SLSQP",
            bounds=None if floor is None else [(lowest, None)] * d,
            constraints={"type": "eq", "fun": lambda x: x @ x - radius_sq},
            options={"ftol": 1e-13, "maxiter": 500},
        )
        if abs(result.x @ result.x - radius_sq) < 1e-9:
            found.append(result.fun)
    assert found
    assert min(found) == pytest.approx(ours, rel=1e-6, abs=1e-8)
    for _ in range(2000):
        free = lowest + np.abs(rng.standard_normal(d)) * rng.random()
        slack = radius_sq - d * lowest**2
        x = np.sqrt(lowest**2 + slack * free / free.sum())
        assert objective(m, g, signs * x) >= ours - 1e-9


@given(problems(zeros=False))
@settings(deadline=None, max_examples=200)
def test_the_scale_needs_the_multiplier_over_m(problem: Problem) -> None:
    m, g, radius_sq = problem
    target = rms_target.stable(m, g, radius_sq)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        delta = (g - m * target.n) / target.n
    # Cancellation in g - m n, and in lambda = t - min m^2 where both are far larger than their difference.
    rounding = 1e-11 * (np.abs(m) + np.abs(delta) + (np.min(m**2) + abs(target.multiplier)) / np.abs(m))
    solved = np.isfinite(delta)
    assert (np.abs(delta - target.multiplier / m) <= rounding)[solved].all()


def test_multiplier_is_zero_exactly_where_the_sphere_is_no_constraint() -> None:
    rng = np.random.default_rng(1)
    m, g = rng.standard_normal(640) + 3, rng.standard_normal(640)
    radius_sq = float(np.sum((g / m) ** 2))
    target = rms_target.stable(m, g, radius_sq)
    assert (case(target), target.multiplier) == ("unconstrained", 0.0)
    np.testing.assert_allclose(target.n, g / m, rtol=1e-10)
    for factor, sign in ((0.999999, 1), (1.000001, -1)):
        target = rms_target.stable(m, g, factor * radius_sq)
        assert case(target) == "regular"
        assert np.sign(target.multiplier) == sign


@pytest.mark.parametrize("floor", [None, 0.2])
def test_hard_case(floor: float | None) -> None:
    m, g, radius_sq = np.array([1.0, -1.0, 2.0, -3.0]), np.array([0.0, 0.0, 1.5, 4.0]), 4.0
    rule = rms_target.stable if floor is None else rules(floor)["floored"]
    target = rule(m, g, radius_sq)
    assert case(target) == "hard"
    assert target.multiplier == pytest.approx(-1, abs=1e-14)
    # n = m g / (m^2 - 1) where that is defined; the rest of R in the others, equally.
    n_2, n_3 = 2 * 1.5 / 3, -3 * 4 / 8
    left_over = math.sqrt((4 - n_2**2 - n_3**2) / 2)
    np.testing.assert_allclose(target.n, [left_over, left_over, n_2, n_3], rtol=1e-14)


@pytest.mark.parametrize("floor", [None, 0.2])
def test_no_hard_case_where_the_rest_fills_the_sphere(floor: float | None) -> None:
    m, g = np.array([1.0, -1.0, 2.0, -3.0]), np.array([0.0, 0.0, 1.5, 4.0])
    rule = rms_target.stable if floor is None else rules(floor)["floored"]
    target = rule(m, g, 3.0)
    assert case(target) == "regular"
    assert target.multiplier > -1
    lowest = 0.0 if floor is None else 0.2 * math.sqrt(3 / 4)
    np.testing.assert_allclose(target.n[:2], lowest, rtol=1e-14)


@pytest.mark.parametrize("floor", [None, 0.2])
@pytest.mark.parametrize("smallest", [1e-3, 1e-9, 1e-30, 1e-150, 1e-250, 1e-310, 5e-324])
def test_almost_hard_comes_close_to_hard(smallest: float, floor: float | None) -> None:
    rule = rms_target.stable if floor is None else rules(floor)["floored"]
    for sign in (1, -1):
        m, g = np.array([1.0, 2.0, -3.0]), np.array([sign * smallest, 1.5, 4.0])
        target = rule(m, g, 4.0)
        left_over = math.sqrt(4 - 1 - 1.5**2)
        np.testing.assert_allclose(target.n, [sign * left_over, 1, -1.5], rtol=5 * smallest + 1e-12)
        assert target.n @ target.n == pytest.approx(4, rel=CONSTRAINT, abs=0)


def test_scales_that_differ_little_are_told_apart() -> None:
    # m^2 - min m^2 = 2^-29 + 2^-60 needs more digits than the squares have, and decides how R is shared.
    m, g = np.array([1.0, 1 + 2.0**-30]), np.array([2.0**-40, 2.0**-31])
    n = rms_target.stable(m, g, 1.0).n
    shift = m[0] * g[0] / n[0]
    recovered = n[1] * (2.0**-29 + 2.0**-60 + shift)
    assert recovered == pytest.approx(m[1] * g[1], rel=1e-13, abs=0)


@pytest.mark.parametrize("exponent", range(1, 17))
def test_just_past_the_hard_case_newton_still_arrives(exponent: int) -> None:
    # At t = 0 the rest alone misses R by 10^-exponent, so that t has to climb far from its start.
    m, g = np.array([1.0, 2.0]), np.array([1e-20, 1.5])
    target = rms_target.stable(m, g, 1 + 10.0**-exponent)
    assert target.n @ target.n == pytest.approx(1 + 10.0**-exponent, rel=CONSTRAINT, abs=0)
    assert target.iterations < 80
    size = g @ g + 4
    assert objective(m, g, target.n) - lower_bound(m, g, 1 + 10.0**-exponent, target.multiplier) <= GAP * size


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_few_iterations_at_the_width_of_a_model(seed: int, size: float) -> None:
    m, g, radius_sq = gemma_like(seed=seed)
    for target in (rms_target.stable(m, size * g, radius_sq), rules()["floored"](m, size * g, radius_sq)):
        assert target.n @ target.n == pytest.approx(radius_sq, rel=CONSTRAINT, abs=0)
        assert target.iterations <= 30


def test_dead_coordinates_get_the_goals_sign_and_the_rest_is_solved() -> None:
    m = np.array([2.0, 0.0, -3.0, -0.0, 0.5, 0.0])
    g = np.array([1.0, -4.0, 2.0, 5.0, 0.3, 0.0])
    live = m != 0
    for rule in (rms_target.stable, rms_target.rescaled):
        target = rule(m, g, 5.9)
        assert target.n[~live].tolist() == [-1.0, 1.0, 1.0]
        alone = rule(m[live], g[live], 5.9 - 3)
        np.testing.assert_allclose(target.n[live], alone.n, rtol=1e-13)
        assert target.multiplier == pytest.approx(alone.multiplier, nan_ok=True)
        assert target.dead.tolist() == [False, True, False, True, False, True]


def test_dead_coordinates_sit_on_the_floor() -> None:
    m, g, radius_sq = np.array([2.0, 0.0, -3.0, 0.0]), np.array([1.0, -4.0, 9.0, 0.0]), 3.9
    target = rms_target.floored(m, g, radius_sq, 0.3)
    lowest = 0.3 * math.sqrt(3.9 / 4)
    np.testing.assert_allclose(target.n[[1, 3]], [-lowest, lowest], rtol=1e-15)
    assert target.n @ target.n == pytest.approx(radius_sq, rel=CONSTRAINT, abs=0)
    bound = lower_bound(m, g, radius_sq, target.multiplier, lowest)
    assert objective(m, g, target.n) == pytest.approx(bound, rel=1e-9)


@pytest.mark.parametrize("radius_sq", [0.5, 3.0, 3.1, 1e-9, 1e-300])
@pytest.mark.parametrize("rule", ["stable", "floored", "rescaled"])
def test_a_reserve_that_does_not_fit_is_scaled_down(rule: str, radius_sq: float) -> None:
    m, g = np.array([0.0, 0.0, 0.0, 2.0]), np.array([1.0, -1.0, 0.0, 5.0])
    target = rules()[rule](m, g, radius_sq)
    assert target.n @ target.n == pytest.approx(radius_sq, rel=CONSTRAINT, abs=0)
    assert np.sign(target.n).tolist() == [1, -1, 1, 1]
    assert target.n[3] ** 2 >= radius_sq / 8


@pytest.mark.parametrize("rule", ["stable", "floored", "rescaled"])
def test_all_dead(rule: str) -> None:
    target = rules()[rule](np.zeros(4), np.array([1.0, -2.0, 0.0, 3.0]), 3.6)
    np.testing.assert_allclose(target.n, np.array([1, -1, 1, 1]) * math.sqrt(0.9), rtol=1e-15)
    assert target.dead.all()
    assert math.isnan(target.multiplier)


@pytest.mark.parametrize("rule", ["stable", "floored", "rescaled"])
@pytest.mark.parametrize("radius_sq", [0.0, -1.0, math.nan, math.inf])
def test_no_sphere_no_solution(rule: str, radius_sq: float) -> None:
    target = rules()[rule](np.array([1.0, 0.0]), np.array([1.0, 1.0]), radius_sq)
    assert case(target) == "infeasible"
    assert target.n.tolist() == [0.0, 0.0]
    assert target.dead.tolist() == [False, True]


@pytest.mark.parametrize("rule", ["stable", "floored", "rescaled"])
def test_what_is_not_finite_counts_as_zero(rule: str) -> None:
    m, g = np.array([2.0, np.nan, -3.0, np.inf, 0.5]), np.array([np.inf, 2.0, 1.0, 1.0, np.nan])
    target = rules()[rule](m, g, 4.9)
    zeroed = rules()[rule](np.array([2.0, 0, -3.0, 0, 0.5]), np.array([0.0, 2.0, 1.0, 1.0, 0.0]), 4.9)
    np.testing.assert_array_equal(target.n, zeroed.n)
    assert target.n @ target.n == pytest.approx(4.9, rel=CONSTRAINT, abs=0)


@pytest.mark.parametrize("floor", [None, 0.3])
def test_no_goal_at_all(floor: float | None) -> None:
    rule = rms_target.stable if floor is None else rules(floor)["floored"]
    m = np.array([2.0, -1.0, 3.0])
    target = rule(m, np.zeros(3), 2.7)
    # Nothing to reach: the smallest |m_j| takes all that the floor does not.
    assert case(target) == "hard"
    lowest_sq = 0.0 if floor is None else floor**2 * 0.9
    np.testing.assert_allclose(target.n**2, [lowest_sq, 2.7 - 2 * lowest_sq, lowest_sq], rtol=1e-13)
    assert (target.n >= 0).all()


extreme = st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=True)


@given(
    st.integers(1, 6).flatmap(lambda d: st.tuples(*[hnp.arrays(np.float64, d, elements=extreme)] * 2)),
    st.floats(1e-300, 1e300),
    st.sampled_from([1e-300, 1e-3, 0.6, 1 - 1e-16, 1.0]),
    st.sampled_from(["stable", "floored", "rescaled"]),
)
@settings(deadline=None, max_examples=300)
def test_any_finite_numbers_give_finite_numbers_on_the_sphere(
    vectors: tuple[Vector, Vector], radius_sq: float, floor: float, rule: str
) -> None:
    target = rules(floor)[rule](*vectors, radius_sq)
    assert np.isfinite(target.n).all()
    assert target.n @ target.n == pytest.approx(radius_sq, rel=CONSTRAINT, abs=0)
    if rule == "floored":
        assert np.abs(target.n).min() >= floor * math.sqrt(radius_sq / target.n.size) * (1 - 1e-12)


def test_full_floor_leaves_only_signs() -> None:
    m, g, radius_sq = gemma_like()
    target = rms_target.floored(m, g, radius_sq, 1.0)
    lowest = math.sqrt(radius_sq / m.size)
    np.testing.assert_allclose(target.n, np.sign(m * g) * lowest, rtol=1e-12)
    bound = lower_bound(m, g, radius_sq, target.multiplier, lowest)
    assert objective(m, g, target.n) == pytest.approx(bound, rel=1e-9)


def test_no_floor_to_speak_of_is_stable() -> None:
    m, g, radius_sq = gemma_like()
    np.testing.assert_allclose(
        rms_target.floored(m, g, radius_sq, 1e-12).n, rms_target.stable(m, g, radius_sq).n, rtol=0, atol=1e-11
    )


@pytest.mark.parametrize("floor", [0.0, -0.1, 1.0001, math.nan])
def test_a_floor_without_meaning_is_refused(floor: float) -> None:
    with pytest.raises(ValueError, match="floor"):
        rms_target.floored(np.ones(2), np.ones(2), 1.9, floor)


@pytest.mark.parametrize("seed", range(5))
def test_a_higher_floor_makes_the_change_less_sensitive(seed: int) -> None:
    m, g, radius_sq = gemma_like(seed=seed)
    targets = [rms_target.stable(m, g, radius_sq)]
    targets += [rms_target.floored(m, g, radius_sq, floor) for floor in (0.1, 0.3, 0.6)]
    # How much delta m_j = g_j / h_j - m_j moves with an error in h_j, to first order.
    response = [float(np.max(np.abs(g) / target.n**2)) for target in targets]
    # Coordinates above the floor give way to those on it, by far less than the floor gains.
    assert all(later < 1.01 * earlier for earlier, later in itertools.pairwise(response))
    assert response[0] > 100 * response[-1]


@given(problems(), st.floats(0.01, 1))
@settings(deadline=None, max_examples=200)
def test_the_floor_bounds_the_change(problem: Problem, floor: float) -> None:
    m, g, radius_sq = problem
    n = rms_target.floored(m, g, radius_sq, floor).n
    lowest = floor * math.sqrt(radius_sq / m.size)
    assert (np.abs((g - m * n) / n) <= (np.abs(g) / lowest + np.abs(m)) * (1 + 1e-9)).all()


@given(problems(zeros=False))
@settings(deadline=None, max_examples=200)
def test_rescaled_changes_every_scale_by_one_factor(problem: Problem) -> None:
    m, g, radius_sq = problem
    target = rms_target.rescaled(m, g, radius_sq)
    factor = math.sqrt(np.sum((g / m) ** 2) / radius_sq)
    np.testing.assert_allclose(factor * m * target.n, g, rtol=1e-10)
    assert (case(target), target.iterations) == ("closed form", 0)
    assert math.isnan(target.multiplier)


def test_rescaled_without_direction() -> None:
    target = rms_target.rescaled(np.array([1.0, -2.0, 0.0]), np.zeros(3), 3.0)
    np.testing.assert_allclose(target.n, np.ones(3), rtol=1e-15)


@pytest.mark.parametrize("eps", [0.0, 1e-6, 1.0])
@pytest.mark.parametrize("size", [1e-3, 1.0, 1e4])
def test_the_hidden_target_gives_n_through_a_norm(eps: float, size: float) -> None:
    rng = np.random.default_rng(2)
    h_down = rng.standard_normal(640) * size
    radius_sq, rho = rms_target.radius_sq(h_down, eps)
    assert rho == pytest.approx(math.sqrt(np.mean(h_down**2)), rel=1e-14)
    h = h_down / np.sqrt(np.mean(h_down**2) + eps)
    assert radius_sq == pytest.approx(h @ h, rel=1e-13)
    m, g, _ = gemma_like()
    n = rms_target.stable(m, g, radius_sq).n
    hidden = rms_target.to_hidden(n, rho, eps)
    np.testing.assert_allclose(hidden / np.sqrt(np.mean(hidden**2) + eps), n, rtol=1e-12)


@pytest.mark.parametrize("value", [0.0, 1e-170, 1e200, math.nan, math.inf])
def test_a_hidden_vector_without_size_has_no_sphere(value: float) -> None:
    h_down = np.array([value, 0.0])
    assert rms_target.radius_sq(h_down, 1e-6) == (0.0, 0.0)
    assert rms_target.radius_sq(h_down, 0.0) == (0.0, 0.0)


def test_float32_is_solved_in_float64() -> None:
    m, g, radius_sq = gemma_like()
    narrow = rms_target.stable(m.astype(np.float32), g.astype(np.float32), radius_sq)
    wide = rms_target.stable(
        m.astype(np.float32).astype(float), g.astype(np.float32).astype(float), radius_sq
    )
    np.testing.assert_array_equal(narrow.n, wide.n)
    assert narrow.n.dtype == np.float64
