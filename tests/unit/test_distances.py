"""Distances between distributions against scipy, plain sorting and closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import special
from torch import Tensor

from ctxviz.numerics import distances
from ctxviz.numerics.distances import Distribution
from tests.unit.shapes import shapes_checked

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)

shapes = pytest.fixture(scope="module", autouse=True)(lambda: (yield from shapes_checked(distances)))

logits = st.floats(-60, 60, width=32)
pairs = st.integers(1, 30).flatmap(lambda v: st.tuples(*[hnp.arrays(np.float32, v, elements=logits)] * 2))
tied = st.integers(1, 30).flatmap(
    lambda v: st.tuples(*[hnp.arrays(np.float32, v, elements=st.sampled_from([0.0, 1.0, 2.0]))] * 2)
)


def softmax(values: np.ndarray) -> np.ndarray:
    """In extended precision where the machine has it."""
    wide = values.astype(np.longdouble)
    powers = np.exp(wide - wide.max())
    return powers / powers.sum()


def nearby(size: int = 5000, gap: float = 1e-4, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(size)
    base = 4 * torch.randn(size, generator=generator)
    return base.to(dtype), (base + gap * torch.randn(size, generator=generator)).to(dtype)


@given(pairs)
@settings(deadline=None, max_examples=200)
def test_against_scipy(pair: tuple[np.ndarray, np.ndarray]) -> None:
    first, second = pair
    p, q = softmax(first), softmax(second)
    kl = float(special.rel_entr(p.astype(np.float64), q.astype(np.float64)).sum())
    result = distances.compare(torch.from_numpy(first), torch.from_numpy(second))
    assert result.tvd == pytest.approx(float(np.abs(p - q).sum() / 2), rel=1e-12, abs=1e-15)
    assert result.kl == pytest.approx(kl, rel=1e-12, abs=1e-14)
    assert result.linf == pytest.approx(float(np.abs(first.astype(float) - second).max()), rel=1e-6)


@given(pairs)
@settings(deadline=None, max_examples=200)
def test_bounds_and_symmetry(pair: tuple[np.ndarray, np.ndarray]) -> None:
    first, second = (torch.from_numpy(values) for values in pair)
    there, back = distances.compare(first, second), distances.compare(second, first)
    assert there.tvd is not None
    assert 0 <= there.tvd <= 1 + 1e-12
    assert there.kl is not None
    # Pinsker's inequality ties the two together.
    assert there.kl >= 2 * there.tvd**2 - 1e-12
    assert (there.tvd, there.linf) == (back.tvd, back.linf)


@given(pairs | tied)
@settings(deadline=None, max_examples=200)
def test_rank_and_match_follow_a_stable_sort(pair: tuple[np.ndarray, np.ndarray]) -> None:
    first, second = pair
    result = distances.compare(torch.from_numpy(first), torch.from_numpy(second))
    best = int(np.argmax(first))
    order = sorted(range(len(second)), key=lambda token: (-second[token], token))
    assert result.rank == order.index(best)
    assert result.match == (int(np.argmax(second)) == best)


def test_the_same_logits_are_at_no_distance() -> None:
    same = torch.randn(1000)
    assert distances.compare(same, same.clone()) == distances.Comparison(True, 0.0, 0.0, 0.0, 0)


def test_known_values() -> None:
    p, q = torch.tensor([0.5, 0.5]).log(), torch.tensor([0.75, 0.25]).log()
    result = distances.compare(p, q)
    assert result.tvd == pytest.approx(0.25, rel=1e-6)
    assert result.kl == pytest.approx(0.5 * math.log(4 / 3), rel=1e-6)
    reverse = distances.compare(q, p)
    assert reverse.kl == pytest.approx(0.75 * math.log(1.5) + 0.25 * math.log(0.5), rel=1e-6)
    far = distances.compare(torch.tensor([200.0, 0.0, 0.0]), torch.tensor([0.0, 150.0, 300.0]))
    assert far.tvd == pytest.approx(1)
    assert far.kl == pytest.approx(300)
    assert (far.match, far.linf, far.rank) == (False, 300.0, 2)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_any_dtype_is_read_without_loss(dtype: torch.dtype) -> None:
    base, patched = nearby(gap=0.3, dtype=dtype)
    exact = distances.compare(base.double(), patched.double())
    result = distances.compare(base, patched)
    for name in ("tvd", "kl", "linf"):
        assert getattr(result, name) == pytest.approx(getattr(exact, name), rel=1e-6)
    assert (result.match, result.rank) == (exact.match, exact.rank)


@pytest.mark.parametrize("seed", range(6))
def test_kl_of_almost_equal_distributions_is_not_rounding(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    base, noise = torch.randn(2, 5000, generator=generator, dtype=torch.float64)
    patched = 4 * base + 1e-7 * noise
    p, q = softmax(4 * base.numpy()), softmax(patched.numpy())
    x = np.log(p / q)
    # Every term of this form is positive, so that nothing cancels; KL is about 3e-15.
    expected = float((p * (np.expm1(-x) + x)).sum())
    assert distances.compare(4 * base, patched).kl == pytest.approx(expected, rel=0, abs=2e-16)
    closer = distances.compare(4 * base, 4 * base + 1e-12 * noise)
    assert closer.kl is not None
    assert 0 <= closer.kl < 1e-15


def test_softmax_is_not_in_float32() -> None:
    base, patched = nearby(gap=1e-6)
    careless = (base.softmax(0) - patched.softmax(0)).abs().sum().item() / 2
    exact = float(np.abs(softmax(base.numpy()) - softmax(patched.numpy())).sum() / 2)
    assert distances.compare(base, patched).tvd == pytest.approx(exact, rel=1e-8, abs=0)
    assert careless != pytest.approx(exact, rel=1e-4, abs=0)


@pytest.mark.parametrize("bad", [[1.0, math.nan, 2.0], [1.0, math.inf, 2.0], [-math.inf] * 3])
def test_logits_that_are_no_distribution(bad: list[float]) -> None:
    good, bad_logits = torch.tensor([1.0, 2.0, 3.0]), torch.tensor(bad)
    nothing = distances.Comparison(False, math.inf, math.inf, math.inf, -1)
    for first, second in ((good, bad_logits), (bad_logits, good), (bad_logits, bad_logits)):
        assert distances.compare(first, second) == nothing
        one, other = distances.Distribution(first), distances.Distribution(second)
        assert distances.largest_difference(one, other) == math.inf
    assert distances.margin(bad_logits) == math.inf
    ids, probabilities = distances.top(bad_logits, 2)
    assert (len(ids), len(probabilities)) == (0, 0)


def test_excluded_tokens_count_as_impossible() -> None:
    some = torch.tensor([1.0, -math.inf, 2.0])
    fewer = torch.tensor([1.5, -math.inf, -math.inf])
    both = distances.compare(some, torch.tensor([1.0, -math.inf, 2.5]))
    alone = distances.compare(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.5]))
    assert both.kl == pytest.approx(alone.kl)
    assert (both.tvd, both.linf, both.rank) == (pytest.approx(alone.tvd), 0.5, 0)
    # Nothing the first allows may be impossible in the second, else KL is infinite.
    result = distances.compare(some, fewer)
    assert (result.kl, result.linf, result.match) == (math.inf, math.inf, False)
    assert result.tvd == pytest.approx(1 / (1 + math.exp(-1)))
    narrower = distances.compare(fewer, some)
    assert narrower.linf == math.inf
    assert narrower.kl == pytest.approx(math.log(1 + math.e))


def test_a_difference_beyond_float32_is_still_a_number() -> None:
    result = distances.compare(torch.tensor([3e38, 0.0]), torch.tensor([-3e38, 0.0]))
    assert result.linf == pytest.approx(6e38)
    assert result.kl == pytest.approx(3e38)
    assert result.tvd == 1


def test_vocabulary_of_one() -> None:
    one = torch.tensor([3.0])
    assert distances.compare(one, torch.tensor([5.0])) == distances.Comparison(True, 0.0, 2.0, 0.0, 0)
    assert distances.margin(one) == math.inf
    ids, probabilities = distances.top(one, 10)
    assert (ids.tolist(), probabilities.tolist()) == ([0], [1.0])


def test_margin() -> None:
    assert distances.margin(torch.tensor([1.0, 7.0, 5.5])) == 1.5
    assert distances.margin(torch.tensor([7.0, 1.0, 7.0])) == 0
    assert distances.margin(torch.tensor([1.0, -math.inf])) == math.inf


@pytest.mark.parametrize("k", [1, 2, 5, 40])
@pytest.mark.parametrize("size", [3, 512, 1553, 5 * 512, 30_000])
@pytest.mark.parametrize("levels", [None, 50])
def test_top_is_a_stable_sort(size: int, k: int, levels: int | None) -> None:
    values = np.random.default_rng(size).standard_normal(size).astype(np.float32) * 3
    if levels is not None:
        values = np.round(values * levels / 10) * 10 / levels
    # The best sit at both ends, where blocks of the vocabulary begin and end.
    values[[0, -1]] = values.max() + 1
    ids, probabilities = distances.top(torch.from_numpy(values), k)
    expected = np.argsort(-values, kind="stable")[:k]
    assert ids.tolist() == expected.tolist()
    assert (ids.dtype, probabilities.dtype) == (np.int32, np.float32)
    np.testing.assert_allclose(probabilities, softmax(values)[expected].astype(float), rtol=1e-6)


def test_top_of_nothing() -> None:
    ids, probabilities = distances.top(torch.tensor([1.0, 2.0]), 0)
    assert (len(ids), len(probabilities)) == (0, 0)


def test_a_prepared_distribution_gives_the_same_and_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    base, patched = nearby()
    plain = distances.compare(base, patched)
    calls = []
    log_softmax = torch.log_softmax
    monkeypatch.setattr(torch, "log_softmax", lambda *a, **k: calls.append(1) or log_softmax(*a, **k))
    prepared, other = Distribution(base), Distribution(patched)
    assert distances.compare(prepared, other) == plain
    assert distances.compare(prepared, other) == plain
    assert distances.margin(prepared) == distances.margin(base)
    assert distances.top(prepared, 3)[0].tolist() == distances.top(base, 3)[0].tolist()
    # One for each side, and one for each plain tensor given to margin and top.
    assert len(calls) == 4


def test_gradients_are_left_behind() -> None:
    wanted = torch.randn(10, requires_grad=True)
    assert distances.compare(wanted, wanted).tvd == 0
    assert len(distances.top(wanted, 3)[1]) == 3
