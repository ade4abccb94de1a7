"""How long-running work says where it is. Needs neither torch nor transformers."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, float | None], None]
"""Called with a stage in plain words and how much of it is done, 0 to 1, or None where that is not known."""


def silent(stage: str, fraction: float | None) -> None:
    """The progress of someone who does not listen."""
