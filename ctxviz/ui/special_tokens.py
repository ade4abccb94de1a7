"""Which tokens of a run are special: ends of text, turn marks and the like, which are no words.

A run's record has ids and texts, and does not say which are special. That is learnt from the model whenever
one makes the run or is asked about it; of a run from a file it is known which token ended it, and which stand
for its pictures.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from ctxviz.picture_findings import WithoutPictures
from ctxviz.run import END_OF_TEXT, Run

if TYPE_CHECKING:
    from ctxviz.models import LoadedModel


@dataclass(frozen=True, slots=True)
class Specials:
    """Ids that are no words: those that end a text, and all of them."""

    ends: frozenset[int] = frozenset()
    all: frozenset[int] = frozenset()


_LEARNT: Final[WeakKeyDictionary[Run, Specials]] = WeakKeyDictionary()


def learn(run: Run, model: LoadedModel) -> None:
    """Keep which tokens are special to the model of ``run``."""
    _LEARNT[run] = Specials(model.eos_ids, model.special_ids | model.eos_ids)


def specials_of(run: Run, found: WithoutPictures | None = None) -> Specials:
    """What is known of the special tokens of a run's model, from it or from what it wrote."""
    learnt = _LEARNT.get(run, Specials())
    ends = {run.token(len(run) - 1)[3]} if run.outcome == END_OF_TEXT and len(run) else set()
    if found is not None and found.ended:
        ends.add(found.ids[-1])
    marks = {run.context.token_ids[p] for span in run.context.images for p in range(span.start, span.end)}
    return Specials(learnt.ends | ends, learnt.all | ends | marks)
