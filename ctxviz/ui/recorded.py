"""The runs that come with ctxviz; the first is shown before any model is loaded."""

from __future__ import annotations

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


_READ: Final[dict[str, Run]] = {}


def available() -> dict[str, str]:
    """The titles of those whose files are there, by name."""
    return {name: title for name, title in RECORDED.items() if _path(name).is_file()}


def recorded_run(name: str = "recorded-mars") -> Run | None:
    """A recorded run, always the same object, or None where its file is missing or cannot be read."""
    from ctxviz.store import load_run

    if name not in _READ:
        try:
            # Two threads may have read it; both get the first.
            _READ.setdefault(name, load_run(_path(name)))
        except (BundleError, OSError):
            return None
    return _READ[name]


def title(run: Run | None) -> str:
    """The title of a recorded run, or nothing where it is none."""
    return next((RECORDED[name] for name, recorded in _READ.items() if recorded is run), "")


def is_recorded(run: Run | None) -> bool:
    """Whether it is one of those that come with ctxviz, not another like it."""
    return any(run is recorded for recorded in _READ.values())


def _path(name: str) -> Path:
    return ASSETS / f"{name}.ctxviz"
