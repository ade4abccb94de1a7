"""The plane of a log-log scatter: its range, where exact zeros go, and where there is room for words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

EDGE: Final = 0.5
"""Decades beyond the data at which exact zeros are drawn."""
LABEL_GAP: Final = 0.06
LABEL_WIDTH: Final = 0.15
"""Room a label takes, as a share of the plot's height and width."""
NAMES_AT: Final = 0.9
"""Where the column of names stands, as a share of the plot's width; the data end a little before it."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Frame:
    """The drawn range in decades, and where exact zeros go on each axis."""

    x: tuple[float, float]
    y: tuple[float, float]
    zero_h: float
    zero_dm: float

    @classmethod
    def around(cls, h: Floats, dm: Floats) -> Frame:
        (x0, x1), (y0, y1) = decades(h), decades(dm)
        zero_h, zero_dm = x0 - EDGE, y0 - EDGE
        left = zero_h - 0.3 if (h == 0).any() else x0 - 0.3
        low = zero_dm - 0.3 if (dm == 0).any() else y0 - 0.3
        right = left + (x1 - left) / (NAMES_AT - 0.04)
        return cls((left, right), (low, y1 + 0.5), zero_h, zero_dm)

    def place(self, h: Floats, dm: Floats) -> tuple[Floats, Floats]:
        """Positions to draw at: exact zeros on their edge, non-finite ones left out."""
        x = np.where(h == 0, 10**self.zero_h, np.where(np.isfinite(h), h, np.nan))
        y = np.where(dm == 0, 10**self.zero_dm, np.where(np.isfinite(dm), dm, np.nan))
        return x, y

    def share(self, x: Floats, y: Floats) -> Floats:
        """Places of points as shares of the plot's width and height, [n, 2]."""
        across = (np.log10(x) - self.x[0]) / (self.x[1] - self.x[0])
        up = (np.log10(y) - self.y[0]) / (self.y[1] - self.y[0])
        return np.stack([across, up], axis=1)

    def at(self, across: float, up: float) -> tuple[float, float]:
        """Decades at a share of the plot's width and height."""
        (x0, x1), (y0, y1) = self.x, self.y
        return x0 + across * (x1 - x0), y0 + up * (y1 - y0)


def decades(values: Floats) -> tuple[float, float]:
    """Lowest and highest power of ten of the positive, finite values; at least one decade apart."""
    positive = values[np.isfinite(values) & (values > 0)]
    if not positive.size:
        return -1.0, 0.0
    low, high = float(np.log10(positive.min())), float(np.log10(positive.max()))
    return low, max(high, low + 1)


def is_free(spot: Floats, taken: Floats, before: float, width: float = LABEL_WIDTH) -> bool:
    """Whether a label to the right of ``spot`` covers none of the ``taken`` places (shares of the plot)."""
    right, up = (taken - spot).T
    return not ((right > before) & (right < width) & (np.abs(up) < LABEL_GAP)).any()
