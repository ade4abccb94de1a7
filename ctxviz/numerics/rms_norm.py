"""RMSNorm without its scale."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def normalise(h_down: NDArray[np.float64], eps: float) -> NDArray[np.float64]:
    """h = h_down / sqrt(mean(h_down^2) + eps), [d]; not finite where h_down is not."""
    with np.errstate(all="ignore"):
        return h_down / np.sqrt(np.mean(h_down * h_down) + eps)
