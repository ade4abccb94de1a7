"""Summaries of a variant over its tokens: rates with their uncertainty, medians and extremes."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

from ctxviz.figures.metrics import Values, largest_scale_ratio
from ctxviz.no_number import is_measured
from ctxviz.replaying import failed, measured
from ctxviz.run import Run
from ctxviz.settings import REPLAY_KINDS


@dataclass(frozen=True, slots=True)
class ReplaySummary:
    """One kind of replay over a variant's tokens; ``failures`` counts ``replaying.failed`` ones of ``n``."""

    kind: str
    n: int
    tvd_median: float | None
    tvd_worst: float | None
    failures: int


@dataclass(frozen=True, slots=True)
class Summary:
    """A variant over its ``n`` tokens; None where nothing was measured, infinite where it is no number.

    ``ties`` are mismatches inside the noise floor and not among ``matches``. ``largest_change`` is the
    largest |dm|, ``scale_ratio`` the largest ||dm||/||m||, over layers and tokens. ``replays`` holds the
    kinds that were measured.
    """

    n: int
    matches: int
    ties: int
    tvd_median: float | None
    tvd_p90: float | None
    tvd_worst: float | None
    largest_change: float | None
    scale_ratio: float | None
    replays: tuple[ReplaySummary, ...]

    def replay(self, kind: str) -> ReplaySummary | None:
        """The summary of one kind, None where it was not measured."""
        return next((found for found in self.replays if found.kind == kind), None)


def wilson(successes: int, n: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson's score interval (low, high) of a proportion; (0, 1) where nothing was tried.

    Raises:
        ValueError: ``successes`` is not between 0 and ``n``.
    """
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} of {n} is no proportion")
    if n == 0:
        return 0.0, 1.0
    share, square = successes / n, z * z
    centre = (share + square / (2 * n)) / (1 + square / n)
    half = z / (1 + square / n) * sqrt(share * (1 - share) / n + square / (4 * n * n))
    low = 0.0 if successes == 0 else centre - half
    high = 1.0 if successes == n else centre + half
    return low, high


def summary(run: Run, variant: int) -> Summary:
    """A variant in numbers, over every token so far."""
    n = len(run)
    tvd = run.series("tvd", variant)[:n]
    return Summary(
        n=n,
        matches=int((run.series("match", variant)[:n] == 1).sum()),
        ties=int((run.series("tie", variant)[:n] == 1).sum()),
        tvd_median=quantile(tvd, 0.5),
        tvd_p90=quantile(tvd, 0.9),
        tvd_worst=quantile(tvd, 1),
        largest_change=quantile(run.field("scale_max_abs", variant)[:, :n].ravel().astype(float), 1),
        scale_ratio=quantile(largest_scale_ratio(run, variant)[:n], 1),
        replays=tuple(_replay(run, variant, kind, n) for kind in REPLAY_KINDS if _any(run, variant, kind)),
    )


def quantile(values: Values, q: float) -> float | None:
    """A quantile of what was measured, linear between neighbours; None where nothing was.

    What is no number counts as larger than any, so the worst value is no number as soon as one is.
    """
    known = values[is_measured(values)]
    if not known.size:
        return None
    low, high = (float(np.quantile(known, q, method=way)) for way in ("lower", "higher"))
    # Next to an infinite neighbour numpy's interpolation is NaN, even of weight 0.
    return high if low == high or np.isinf(high) else float(np.quantile(known, q))


def _any(run: Run, variant: int, kind: str) -> bool:
    return bool(measured(run, variant, kind).any())


def _replay(run: Run, variant: int, kind: str, n: int) -> ReplaySummary:
    tvd = run.replay(kind, "tvd", variant)[:n]
    return ReplaySummary(
        kind=kind,
        n=int(measured(run, variant, kind)[:n].sum()),
        tvd_median=quantile(tvd, 0.5),
        tvd_worst=quantile(tvd, 1),
        failures=int(failed(run, variant, kind)[:n].sum()),
    )
