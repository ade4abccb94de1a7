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
    wants to know it by. A ``halted`` job was stopped by its reader and may be let go on; a ``stopped`` one is
    to end, and ``farewell`` is what its reader is then told. One ``aside`` is short, and not counted among
    those under way.
    """

    view: View
    reference: str
    dtypes: tuple[str, ...]
    work: Work
    tokens: int | None = None
    wish: object = None
    stopped: bool = False
    halted: bool = False
    farewell: str = ""
    made: int = 0
    aside: bool = False
    turns: Turns | None = field(default=None, repr=False)
    parked: bool = False

    @property
    def may_pause(self) -> bool:
        """Whether the tokens asked for are made, or no more are wanted now, while more could follow."""
        asked_for = self.halted or (self.tokens is not None and self.tokens <= 0)
        return asked_for and not self.stopped and self.turns is not None and not self.turns.complete

    @property
    def ends(self) -> bool:
        """Whether a halted or stopped job has nothing to go on with."""
        return self.stopped or (self.halted and (self.made == 0 or self.turns is None or self.turns.complete))


def advance(turns: Turns) -> bool | None:
    """One turn: whether it made a token; None when nothing is left."""
    try:
        return next(turns)
    except StopIteration:
        return None


def waiting(ahead: int) -> str:
    """What to say to someone with so many jobs before theirs; empty where there is none."""
    if ahead == 0:
        return ""
    runs = "1 run is" if ahead == 1 else f"{ahead} runs are"
    return f"{runs} under way; tokens are made in turn."
