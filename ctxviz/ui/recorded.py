"""The runs that come with ctxviz; the first is shown before any model is loaded."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

from ctxviz.errors import BundleError
from ctxviz.run import Run

ASSETS: Final = Path(__file__).parents[2] / "assets"
RECORDED: Final = {
    "recorded-mars": "A Mars forecast",
    "figure5-gemma-3-270m-pictures": "A picture, Gemma 3 270M with eyes",
    "figure5-tiny-shapes": "A picture, tiny-shapes",
}
"""Titles by the name of the file in assets."""


@cache
def recorded_run(name: str = "recorded-mars") -> Run | None:
    """A recorded run, or None where its file is missing or cannot be read."""
    from ctxviz.store import load_run

    try:
        return load_run(ASSETS / f"{name}.ctxviz")
    except (BundleError, OSError):
        return None


def is_recorded(run: Run | None) -> bool:
    """Whether it is one of those that come with ctxviz, not another like it."""
    return run is not None and any(run is recorded_run(name) for name in RECORDED)
