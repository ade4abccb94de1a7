"""How far two next-token distributions are apart. Softmax in float64; base-e logarithms (nats).

What is computed and is no finite number is infinite, never NaN (:mod:`ctxviz.no_number`).

Every function takes logits [V] of any float dtype, or a :class:`Distribution` that keeps their softmax for
several comparisons. Source: MATHS section 7.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import torch
from torch import Tensor

from ctxviz.no_number import computed

if TYPE_CHECKING:
    from jaxtyping import Float, Float32, Float64, Int32, Int64

_CHUNK: Final = 512


class Distribution:
    """Logits [V] of any float dtype and what follows from them, computed once.

    ``logits`` holds them in float32, or float64 where they came so; both lose nothing.
    """

    def __init__(self, logits: Float[Tensor, " V"]) -> None:
        kept = logits.detach().cpu() if logits.device.type == "mps" else logits.detach()
        self.logits = kept if kept.dtype == torch.float64 else kept.to(torch.float32)

    @cached_property
    def log_probs(self) -> Float64[Tensor, " V"]:
        return torch.log_softmax(self.logits, dim=-1, dtype=torch.float64)

    @cached_property
    def probs(self) -> Float64[Tensor, " V"]:
        return self.log_probs.exp()

    @cached_property
    def first_two(self) -> Int64[Tensor, " k"]:
        """The two tokens of the largest logits, best first; one where V is 1."""
        return _leading(self.logits, 2)

    @cached_property
    def best(self) -> int:
        """The token with the largest logit, the lower id of equals; meaningless where not ``valid``."""
        return int(self.first_two[0])

    @cached_property
    def valid(self) -> bool:
        """False where there is no distribution: a logit is NaN or +inf, or all are -inf."""
        return not math.isnan(float(self.log_probs.max()))


@dataclass(frozen=True, slots=True)
class Comparison:
    """The patched model's distribution q against the baseline's p.

    ``tvd`` is half the L1 distance of the probabilities, ``linf`` the largest absolute difference of logits,
    ``kl`` is KL(p || q) in nats, ``rank`` how many tokens the patched model puts before the baseline's best
    one (equals count in the order of their ids). Where a side is no distribution the distances are infinite
    and the rank is -1; ``linf`` and ``kl`` are infinite too where they are no number themselves.
    """

    match: bool
    tvd: float
    linf: float
    kl: float
    rank: int


_NO_DISTRIBUTION: Final = Comparison(False, math.inf, math.inf, math.inf, -1)


def compare(
    baseline: Float[Tensor, " V"] | Distribution, patched: Float[Tensor, " V"] | Distribution
) -> Comparison:
    """All distances at once; ``match`` says that both have the same best token."""
    p, q = _together(_distribution(baseline), _distribution(patched))
    if not (p.valid and q.valid):
        return _NO_DISTRIBUTION
    rank = _rank(q.logits, p.best)
    difference = p.probs - q.probs
    # Subtracting the sums, equal but for rounding, cancels what rounding log-probabilities does to the rest.
    kl = float(p.probs @ (p.log_probs - q.log_probs)) - float(difference.sum())
    # In a 16-bit dtype the difference itself would be rounded.
    linf = float(torch.sub(p.logits.to(torch.float64), q.logits).abs_().max())
    if not math.isfinite(kl) or not math.isfinite(linf):
        kl, linf = _with_infinities(p, q)
    return Comparison(
        match=rank == 0,
        tvd=0.5 * float(torch.linalg.vector_norm(difference, ord=1)),
        linf=computed(linf),
        # It is never negative; a negative sum is rounding.
        kl=computed(max(kl, 0.0)),
        rank=rank,
    )


def _together(p: Distribution, q: Distribution) -> tuple[Distribution, Distribution]:
    """Both on p's device: two dtypes of a model may lie on different ones."""
    here = p.logits.device
    return p, q if q.logits.device == here else Distribution(q.logits.to(here))


def largest_difference(one: Distribution, other: Distribution) -> float:
    """The largest absolute difference of a logit, 0 where all are equal; infinite where it is no number."""
    one, other = _together(one, other)
    return computed(float(torch.sub(one.logits.to(torch.float64), other.logits).abs_().max()))


def margin(logits: Float[Tensor, " V"] | Distribution) -> float:
    """Difference of the two largest logits; infinite where there is one token only or no distribution."""
    p = _distribution(logits)
    if not p.valid or p.logits.numel() == 1:
        return math.inf
    first, second = p.logits[p.first_two].tolist()
    return first - second


def top(
    logits: Float[Tensor, " V"] | Distribution, k: int
) -> tuple[Int32[np.ndarray, " k"], Float32[np.ndarray, " k"]]:
    """The min(k, V) most probable tokens, best first, equals in the order of their ids: (ids, probabilities).

    Both are empty where the logits give no distribution.
    """
    p = _distribution(logits)
    if not p.valid or k < 1:
        return np.zeros(0, np.int32), np.zeros(0, np.float32)
    best = _leading(p.logits, k)
    return best.to("cpu", torch.int32).numpy(), p.probs[best].to("cpu", torch.float32).numpy()


def _distribution(logits: Tensor | Distribution) -> Distribution:
    return logits if isinstance(logits, Distribution) else Distribution(logits)


def _leading(logits: Tensor, k: int) -> Tensor:
    """Ids [min(k, V)] of the largest logits, best first, equals in the order of their ids."""
    k = min(k, logits.numel())
    # The k-th largest of the chunks' maxima bounds the k-th largest logit from below at a tenth of its cost.
    chunks = logits.numel() // _CHUNK
    maxima = logits[: chunks * _CHUNK].reshape(chunks, _CHUNK).amax(1) if chunks >= k else logits
    candidates = (logits >= maxima.topk(k).values[-1]).nonzero()[:, 0]
    order = logits[candidates].argsort(descending=True, stable=True)[:k]
    return candidates[order]


def _rank(logits: Tensor, token: int) -> int:
    ahead, equal = logits > logits[token], logits[:token] == logits[token]
    return int(torch.count_nonzero(ahead)) + int(torch.count_nonzero(equal))


def _with_infinities(p: Distribution, q: Distribution) -> tuple[float, float]:
    """(KL, largest logit difference) with -inf among the logits: 0 log 0 is 0, equal logits differ by 0."""
    possible = p.probs > 0
    kl = float(p.probs[possible] @ (p.log_probs - q.log_probs)[possible]) - float((p.probs - q.probs).sum())
    different = p.logits != q.logits
    gaps = (p.logits[different].to(torch.float64) - q.logits[different].to(torch.float64)).abs()
    return kl, float(gaps.max()) if gaps.numel() else 0.0
