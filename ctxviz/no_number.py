"""Two ways to be without a number, told apart in memory, in files and on the page.

NaN in an array, None in a scalar, -1 in an integer: *not measured*. An infinite value: *no number*, that is
computed and without a finite result, since something overflowed or was undefined. What was computed is thus
never NaN, and a maximum over a field includes the trouble in it.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

NO_NUMBER: Final = "no number"
NOT_MEASURED: Final = "not measured"


def computed(value: float) -> float:
    """A computed value as a record holds it: itself, or infinite where it is NaN."""
    return math.inf if math.isnan(value) else float(value)


def all_computed(values: ArrayLike, dtype: DTypeLike = np.float32) -> NDArray[Any]:
    """Computed values as a record holds them, in ``dtype``: infinite where NaN or beyond its range."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        narrow = np.asarray(values).astype(dtype)
    return np.where(np.isnan(narrow), narrow.dtype.type(np.inf), narrow)


def is_measured(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Where something was computed, a number or not."""
    return ~np.isnan(values)


def is_lost(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Where what was computed is no number."""
    return np.isinf(values)


def numbers(values: NDArray[Any]) -> NDArray[Any]:
    """The finite values alone, flat."""
    return values[np.isfinite(values)]


def only_numbers(values: NDArray[Any]) -> NDArray[Any]:
    """``values`` with NaN for what is no number, for those who draw numbers alone and count the rest."""
    return np.where(np.isfinite(values), values, np.nan)
