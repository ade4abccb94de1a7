"""Rank-one updates of a weight matrix, formed in float64 and rounded once.

``write`` gives exactly ``(W.double() + torch.outer(left.double(), right.double())).to(W.dtype)``: the product
of two float32 numbers is exact in float64, so each entry is one sum and then torch's rounding (to half
precision it goes through float32), in whatever order the rows come. The rows go in blocks, so that the
float64 temporary stays in the cache.

Source: MATHS section 2 (input side) and section 5 (what applying a patch means).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import torch
from torch import Tensor

if TYPE_CHECKING:
    from jaxtyping import Float, Float32

_CPU_BLOCK_BYTES: Final = 256 * 640 * 8
_GPU_BLOCK_BYTES: Final = 256 * 2**20


def project(weight: Float[Tensor, "out in"], delta: Float[Tensor, " in"]) -> Float32[Tensor, " out"]:
    """``weight @ delta`` in float32 or the weight's own higher precision, rounded to float32.

    A 16-bit weight is widened block by block, so that neither it nor delta loses anything to the dtype.

    Args:
        weight: [out, in], any float dtype, any strides.
        delta: [in], any float dtype.

    Returns:
        [out], on the weight's device.
    """
    wide = torch.promote_types(weight.dtype, torch.float32)
    delta = delta.to(wide).to(weight.device)
    if weight.dtype == wide:
        return torch.mv(weight, delta).to(torch.float32)
    left = torch.empty(weight.shape[0], dtype=wide, device=weight.device)
    block = _block(weight, wide)
    for start in range(0, weight.shape[0], block.shape[0]):
        rows = weight[start : start + block.shape[0]]
        torch.mv(block[: rows.shape[0]].copy_(rows), delta, out=left[start : start + rows.shape[0]])
    return left


def write(
    weight: Float[Tensor, "out in"],
    left: Float32[Tensor, " out"],
    right: Float32[Tensor, " in"],
    out: Float[Tensor, "out in"],
) -> None:
    """Put ``round_dtype(weight + left (x) right)`` into ``out``, bit for bit as the module says.

    Args:
        weight: [out, in], any float dtype, any strides; not changed unless ``out`` is the same tensor.
        left: [out], float32.
        right: [in], float32.
        out: [out, in], the dtype to round to.
    """
    if _lacks_float64(weight):
        result = torch.empty(out.shape, dtype=out.dtype)
        write(weight.cpu(), left.cpu(), right.cpu(), result)
        out.copy_(result)
        return
    left64, right64 = left.to(torch.float64)[:, None], right.to(torch.float64)[None]
    block = _block(weight, torch.float64)
    for start in range(0, weight.shape[0], block.shape[0]):
        rows = weight[start : start + block.shape[0]]
        end = start + rows.shape[0]
        wide = block[: rows.shape[0]].copy_(rows)
        out[start:end].copy_(wide.addcmul_(left64[start:end], right64))


def right_factor(z: Float[Tensor, " in"]) -> Float32[Tensor, " in"] | None:
    """``z / ||z||^2``, computed in float64, rounded to float32.

    Args:
        z: [in], any float dtype.

    Returns:
        [in], on z's device; None where the rule cannot be applied: z is zero or not finite, or the quotient
        leaves float32's range.
    """
    if _lacks_float64(z):
        right = right_factor(z.cpu())
        return None if right is None else right.to(z.device)
    z64 = z.to(torch.float64)
    right = (z64 / (z64 @ z64)).to(torch.float32)
    largest = right.abs().max().item() if right.numel() else 0.0
    return right if 0 < largest < float("inf") else None


def frobenius_ratio(left: Float[Tensor, " out"], right: Float[Tensor, " in"], weight_norm: float) -> float:
    """``||left (x) right||_F / weight_norm``, in float64; infinite where the weight's norm is zero."""
    if weight_norm == 0:
        return float("inf")
    left_norm, right_norm = (torch.linalg.vector_norm(v.cpu(), dtype=torch.float64) for v in (left, right))
    return float(left_norm) * float(right_norm) / weight_norm


def _lacks_float64(tensor: Tensor) -> bool:
    return tensor.device.type == "mps"


def _block(weight: Tensor, dtype: torch.dtype) -> Tensor:
    """An uninitialised [rows, in] on the weight's device, at least one row, at most all of them."""
    limit = _CPU_BLOCK_BYTES if weight.device.type == "cpu" else _GPU_BLOCK_BYTES
    rows = max(1, min(weight.shape[0], limit // (dtype.itemsize * max(1, weight.shape[1]))))
    return torch.empty(rows, weight.shape[1], dtype=dtype, device=weight.device)
