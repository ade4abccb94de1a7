"""The run that comes with ctxviz, shown before any model is loaded."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

from ctxviz.errors import BundleError
from ctxviz.run import Run

PATH: Final = Path(__file__).parents[2] / "assets" / "recorded-mars.ctxviz"


@cache
def recorded_run() -> Run | None:
    """The recorded run, or None where its file is missing or cannot be read."""
    from ctxviz.store import load_run

    try:
        return load_run(PATH)
    except (BundleError, OSError):
        return None
