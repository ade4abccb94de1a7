"""What the worker's queue holds: jobs that are done in turns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ctxviz.models import LoadedModel
    from ctxviz.ui.views import View


class Turns(Protocol):
    """A job under way."""

    @property
    def complete(self) -> bool:
        """Whether every token is made; only what belongs to earlier ones may follow."""
        ...

    def __next__(self) -> bool:
        """Do one turn and tell whether it made a token; StopIteration when nothing is left."""
        ...

    def settle(self) -> None:
        """Put things in order for a pause or an early end."""
        ...


Work = Callable[["LoadedModel"], Turns]
"""Begins a job with the model it asked for."""


@dataclass(eq=False)
class Job:
    """Something a reader asked for.

    ``tokens`` is how many tokens to make before pausing, None for all of them; ``wish`` is whatever the asker
    wants to know it by.
    """

    view: View
    reference: str
    dtypes: tuple[str, ...]
    work: Work
    tokens: int | None = None
    wish: object = None
    stopped: bool = False
    turns: Turns | None = field(default=None, repr=False)
    parked: bool = False

    @property
    def may_pause(self) -> bool:
        """Whether the tokens asked for are made while more could follow."""
        asked_for = self.tokens is not None and self.tokens <= 0
        return asked_for and not self.stopped and self.turns is not None and not self.turns.complete
