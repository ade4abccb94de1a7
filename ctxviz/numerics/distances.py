"""How far two next-token distributions are apart. Softmax in float64; base-e logarithms (nats).

Every function takes logits [V] of any float dtype, or a :class:`Distribution` that keeps their softmax for
several comparisons. Source: MATHS section 7.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from jaxtyping import Float, Float32, Float64, Int32


class Distribution:
    """Logits [V] of any float dtype and what follows from them, computed once."""

    def __init__(self, logits: Float[Tensor, " V"]) -> None:
        self.logits = logits.detach().cpu() if logits.device.type == "mps" else logits.detach()

    @cached_property
    def log_probs(self) -> Float64[Tensor, " V"]:
        return torch.log_softmax(self.logits, dim=-1, dtype=torch.float64)

    @cached_property
    def probs(self) -> Float64[Tensor, " V"]:
        return self.log_probs.exp()

    @cached_property
    def best(self) -> int:
        """The token with the largest logit, the lower id of equals; meaningless where not ``valid``."""
        return int(self.logits.argmax())

    @cached_property
    def valid(self) -> bool:
        """False where there is no distribution: a logit is NaN or +inf, or all are -inf."""
        return not math.isnan(float(self.log_probs.max()))


@dataclass(frozen=True, slots=True)
class Comparison:
    """The patched model's distribution q against the baseline's p.

    ``tvd`` is half the L1 distance of the probabilities, ``linf`` the largest absolute difference of logits,
    ``kl`` is KL(p || q) in nats, ``rank`` how many tokens the patched model puts before the baseline's best
    one (equals count in the order of their ids). Where a side is no distribution all four are None;
    ``linf`` and ``kl`` are None too where they are infinite.
    """

    match: bool
    tvd: float | None
    linf: float | None
    kl: float | None
    rank: int | None


def compare(
    baseline: Float[Tensor, " V"] | Distribution, patched: Float[Tensor, " V"] | Distribution
) -> Comparison:
    """All distances at once; ``match`` says that both have the same best token."""
    p, q = _distribution(baseline), _distribution(patched)
    if not (p.valid and q.valid):
        return Comparison(False, None, None, None, None)
    rank = _rank(q.logits, p.best)
    difference = p.probs - q.probs
    # Subtracting the sums, equal but for rounding, cancels what rounding log-probabilities does to the rest.
    kl = float(p.probs @ (p.log_probs - q.log_probs)) - float(difference.sum())
    linf = float((p.logits.to(torch.float64) - q.logits.to(torch.float64)).abs().max())
    if not math.isfinite(kl) or not math.isfinite(linf):
        kl, linf = _with_infinities(p, q)
    return Comparison(
        match=rank == 0,
        tvd=0.5 * float(torch.linalg.vector_norm(difference, ord=1)),
        linf=linf if math.isfinite(linf) else None,
        # It is never negative; a negative sum is rounding.
        kl=max(kl, 0.0) if math.isfinite(kl) else None,
        rank=rank,
    )


def total_variation(
    p: Float[Tensor, " V"] | Distribution, q: Float[Tensor, " V"] | Distribution
) -> float | None:
    """Half the L1 distance of the probabilities, 0 to 1; None where a side is no distribution."""
    first, second = _distribution(p), _distribution(q)
    if not (first.valid and second.valid):
        return None
    return 0.5 * float(torch.linalg.vector_norm(first.probs - second.probs, ord=1))


def margin(logits: Float[Tensor, " V"] | Distribution) -> float:
    """Difference of the two largest logits; inf where there is one token only, NaN where it has no value."""
    p = _distribution(logits)
    if not p.valid:
        return math.nan
    if p.logits.numel() == 1:
        return math.inf
    first, second = p.logits.topk(2).values.to(torch.float64).tolist()
    return first - second


def top(
    logits: Float[Tensor, " V"] | Distribution, k: int
) -> tuple[Int32[np.ndarray, " k"], Float32[np.ndarray, " k"]]:
    """The min(k, V) most probable tokens, best first, equals in the order of their ids: (ids, probabilities).

    Both are empty where the logits give no distribution.
    """
    p = _distribution(logits)
    k = min(k, p.logits.numel())
    if not p.valid or k < 1:
        return np.zeros(0, np.int32), np.zeros(0, np.float32)
    threshold = p.logits.topk(k).values[-1]
    ids = (p.logits >= threshold).nonzero()[:, 0]
    order = p.logits[ids].argsort(descending=True, stable=True)[:k]
    best = ids[order]
    return best.to("cpu", torch.int32).numpy(), p.probs[best].to("cpu", torch.float32).numpy()


def _distribution(logits: Tensor | Distribution) -> Distribution:
    return logits if isinstance(logits, Distribution) else Distribution(logits)


def _rank(logits: Tensor, token: int) -> int:
    ahead = int((logits > logits[token]).sum())
    return ahead + int((logits[:token] == logits[token]).sum())


def _with_infinities(p: Distribution, q: Distribution) -> tuple[float, float]:
    """(KL, largest logit difference) where some logits are -inf: 0 log 0 is 0 and equal logits differ by 0."""
    possible = p.probs > 0
    kl = float(p.probs[possible] @ (p.log_probs - q.log_probs)[possible]) - float((p.probs - q.probs).sum())
    different = p.logits != q.logits
    gaps = (p.logits[different].to(torch.float64) - q.logits[different].to(torch.float64)).abs()
    return kl, float(gaps.max()) if gaps.numel() else 0.0
