"""Rank-one writes bit for bit against the one-line definition, and their factors."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import TypeCheckError
from torch import Tensor

from ctxviz.numerics import rank_one
from tests.unit.shapes import shapes_checked

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
# Below, at and above one block of 256 rows; not a multiple of it; rows longer than a whole block; one column.
SHAPES = ((1, 1), (3, 7), (256, 640), (300, 640), (513, 640), (4, 200_000), (700, 33), (2000, 1))
LAYOUTS = ("contiguous", "transposed", "strided")

shapes = pytest.fixture(scope="module", autouse=True)(lambda: (yield from shapes_checked(rank_one)))


def definition(weight: Tensor, left: Tensor, right: Tensor) -> Tensor:
    return (weight.double() + torch.outer(left.double(), right.double())).to(weight.dtype)


def same_bits(first: Tensor, second: Tensor) -> bool:
    integers = {8: torch.int64, 4: torch.int32, 2: torch.int16}[first.element_size()]
    return first.dtype == second.dtype and torch.equal(
        first.contiguous().view(integers), second.contiguous().view(integers)
    )


def example(shape: tuple[int, int], dtype: torch.dtype, layout: str = "contiguous") -> tuple[Tensor, ...]:
    """(weight, left, right, delta); the update is as large as the weight in some rows and tiny in others."""
    rows, columns = shape
    torch.manual_seed(rows * 31 + columns)
    scale = 10.0 ** torch.empty(rows).uniform_(-6, 3)
    weight = torch.randn(rows, columns, dtype=torch.float64).to(dtype)
    if layout == "transposed":
        weight = weight.T.contiguous().T
    elif layout == "strided":
        weight = torch.stack([weight, torch.full_like(weight, 7)], dim=-1).flatten(1)[:, ::2]
    left = torch.randn(rows) * scale
    return weight, left, torch.randn(columns), torch.randn(columns, dtype=torch.float64)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_write_is_the_definition_bit_for_bit(shape: tuple[int, int], dtype: torch.dtype) -> None:
    weight, left, right, _ = example(shape, dtype)
    before, out = weight.clone(), torch.empty_like(weight)
    rank_one.write(weight, left, right, out)
    assert same_bits(out, definition(weight, left, right))
    assert same_bits(weight, before)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_layout_of_weight_and_out_does_not_matter(layout: str, dtype: torch.dtype) -> None:
    weight, left, right, delta = example((300, 640), dtype, layout)
    out = torch.empty_like(weight.T).T
    rank_one.write(weight, left, right, out)
    assert same_bits(out, definition(weight, left, right))
    plain = weight.clone(memory_format=torch.contiguous_format)
    # The order of summation may differ; the sums have 640 terms of order one.
    torch.testing.assert_close(
        rank_one.project(weight, delta), rank_one.project(plain, delta), rtol=1e-5, atol=640 * 2**-23
    )


def test_write_may_go_into_the_weight_itself() -> None:
    weight, left, right, _ = example((300, 640), torch.float32)
    expected = definition(weight, left, right)
    rank_one.write(weight, left, right, weight)
    assert same_bits(weight, expected)


@given(*[st.floats(width=32, allow_nan=False, allow_infinity=False)] * 3)
@settings(deadline=None, max_examples=200)
def test_one_entry_is_the_exact_sum_rounded(w: float, left: float, right: float) -> None:
    exact = Fraction(w) + Fraction(left) * Fraction(right)
    for dtype, rounded in ((torch.float64, float), (torch.float32, lambda x: _float32(float(x)))):
        out = torch.empty(1, 1, dtype=dtype)
        rank_one.write(torch.tensor([[w]], dtype=dtype), torch.tensor([left]), torch.tensor([right]), out)
        assert out.item() == rounded(exact)


def _float32(value: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(value))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rounding_the_update_before_adding_would_be_noticed(dtype: torch.dtype) -> None:
    weight, left, right, _ = example((300, 640), dtype)
    careless = weight + torch.outer(left, right).to(dtype)
    assert not same_bits(careless, definition(weight, left, right))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_project_is_as_good_as_float32_or_better(dtype: torch.dtype) -> None:
    weight, _, _, delta = example((700, 640), dtype)
    left = rank_one.project(weight, delta).tolist()
    # 640 roundings of the sum, each of a unit of the precision it is accumulated in, and one to float32.
    unit = 2**-52 if dtype == torch.float64 else 2**-23
    for row, value in zip(weight.double().tolist(), left, strict=True):
        products = [w * x for w, x in zip(row, delta.tolist(), strict=True)]
        exact, size = math.fsum(products), math.fsum(map(abs, products))
        assert value == pytest.approx(exact, rel=2**-24, abs=25 * unit * size)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_project_loses_nothing_to_a_half_precision_dtype(dtype: torch.dtype) -> None:
    weight = torch.ones(3, 2, dtype=dtype)
    delta = torch.tensor([1.0, 2.0**-20])
    assert rank_one.project(weight, delta).tolist() == [1 + 2.0**-20] * 3


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_written_matrix_sends_z_where_w_sent_the_other(dtype: torch.dtype) -> None:
    torch.manual_seed(5)
    weight, z, z_context = torch.randn(300, 640).to(dtype), torch.randn(640), torch.randn(640)
    right = rank_one.right_factor(z)
    assert right is not None
    out = torch.empty_like(weight)
    rank_one.write(weight, rank_one.project(weight, z_context.double() - z.double()), right, out)
    wanted, got = weight.double() @ z_context.double(), out.double() @ z.double()
    # Rounding W' moves each of 640 products by up to half a unit in the last place, with random signs; left
    # is off by the roundings of its own sum.
    unit = max(torch.finfo(dtype).eps, torch.finfo(torch.float32).eps)
    assert torch.linalg.vector_norm(got - wanted) < 4 * unit * torch.linalg.vector_norm(wanted)
    untouched = weight.double() @ z.double()
    assert torch.linalg.vector_norm(untouched - wanted) > torch.linalg.vector_norm(wanted)


@pytest.mark.parametrize("size", [1e-30, 1e-10, 1.0, 1e18, 1e36])
def test_right_factor_times_z_is_one(size: float) -> None:
    torch.manual_seed(1)
    z = (torch.randn(640) * size).float()
    right = rank_one.right_factor(z)
    assert right is not None
    assert right.dtype == torch.float32
    assert float(right.double() @ z.double()) == pytest.approx(1, rel=2**-23)
    # The smallest vector with that product: parallel to z, of norm 1 / ||z||.
    assert float(right.double().norm() * z.double().norm()) == pytest.approx(1, rel=2**-23)


@pytest.mark.parametrize(
    "z",
    [
        torch.zeros(5),
        torch.full((3,), 1e-45),
        torch.tensor([1.0, math.nan]),
        torch.tensor([1.0, math.inf]),
        torch.tensor([1e-200, 0.0], dtype=torch.float64),
        torch.tensor([1e100, 0.0], dtype=torch.float64),
        torch.tensor([1e200, 0.0], dtype=torch.float64),
        torch.zeros(0),
    ],
    ids=[
        "zero",
        "denormal",
        "nan",
        "inf",
        "square underflows",
        "quotient underflows",
        "square overflows",
        "empty",
    ],
)
def test_right_factor_is_none_where_the_rule_has_no_meaning(z: Tensor) -> None:
    assert rank_one.right_factor(z) is None


def test_frobenius_ratio_is_that_of_the_matrices() -> None:
    weight, left, right, _ = example((300, 640), torch.float32)
    update = torch.linalg.matrix_norm(torch.outer(left.double(), right.double()))
    norm = torch.linalg.matrix_norm(weight.double())
    ratio = rank_one.frobenius_ratio(left, right, float(norm))
    assert ratio == pytest.approx(float(update / norm), rel=1e-12)
    assert rank_one.frobenius_ratio(left, right, 0.0) == math.inf
    # The product of the norms leaves float32's range on the way.
    assert rank_one.frobenius_ratio(torch.tensor([1e30]), torch.tensor([1e30]), 1e40) == pytest.approx(1e20)


def test_a_device_without_float64_gives_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    weight, left, right, _ = example((300, 640), torch.float32)

    def lacks_once() -> None:
        answers = iter([True, False, False])
        monkeypatch.setattr(rank_one, "_lacks_float64", lambda _: next(answers))

    out = torch.empty_like(weight)
    lacks_once()
    rank_one.write(weight, left, right, out)
    assert same_bits(out, definition(weight, left, right))
    lacks_once()
    factor = rank_one.right_factor(right)
    assert factor is not None


def test_signatures_are_checked_here() -> None:
    weight, left, right, _ = example((3, 7), torch.float32)
    with pytest.raises(TypeCheckError):
        rank_one.write(weight, right, left, torch.empty_like(weight))
