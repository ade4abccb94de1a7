"""What a tab looks at in its run, and what a browser says that its reader did there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ctxviz.ui.delta import METRICS

DEFAULT_METRIC: Final = "h_abs_min"
MANY: Final = 10**9
_PLACE: Final = ("step", "layer", "variant")


@dataclass(frozen=True, slots=True)
class Focus:
    """The token and cell that are outlined, and what the heat map shows; None where nothing was picked."""

    step: int | None = None
    layer: int | None = None
    variant: int = 0
    metric: str = DEFAULT_METRIC


@dataclass(frozen=True, slots=True)
class Picked:
    """A token or a cell that was clicked; ``layer`` is None for a token."""

    step: int
    layer: int | None
    variant: int


@dataclass(frozen=True, slots=True)
class Did:
    """What the reader did in the live view: everything that is looked at since.

    ``count`` numbers what this tab's reader did. The page repeats the last it has heard, so that the browser
    does not take an older answer for news. ``layers`` asks for the Layers page.
    """

    count: int
    focus: Focus
    picked: bool
    layers: bool


def index(value: Any, limit: int) -> int | None:
    """What a browser sent, if it is a whole number from 0 below ``limit``."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < limit else None


def did(value: Any, size: tuple[int, int, int]) -> Did | None:
    """What the browser says was done, if it can be, in a run of ``size`` (steps, layers, variants)."""
    if not isinstance(value, Mapping):
        return None
    count, metric = index(value.get("count"), MANY), value.get("metric")
    if count is None or not isinstance(metric, str) or metric not in METRICS:
        return None
    step, layer, variant = (index(value.get(name), n) for name, n in zip(_PLACE, size, strict=True))
    focus = Focus(step, None if step is None else layer, variant or 0, metric)
    return Did(count, focus, bool(value.get("picked")) and step is not None, bool(value.get("layers")))
