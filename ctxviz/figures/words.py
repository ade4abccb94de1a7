"""A run in sentences: the verdict, where it is worst, and what deserves an alarm.

Recomputed for every token while a run grows, so all of it is a few numpy reductions. The sentences are text, not
HTML.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from ctxviz.figures.palette import label
from ctxviz.figures.text import counted, quoted, sci
from ctxviz.records import Fold
from ctxviz.run import Run

BLOW_UP: Final = 100.0
"""||dm|| / ||m|| above which a layer's patch is called a blow-up."""
SWALLOWED_SHARE: Final = 0.5
"""Share of a layer's coordinates whose change rounding may undo before it is told."""
ALARMS_PER_KIND: Final = 3
ALARM_LIMIT: Final = 10

_NUMBER_WORDS: Final = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


@dataclass(frozen=True, slots=True)
class Verdict:
    """``headline`` answers whether the patched model says the same, ``detail`` where it is worst.

    ``emphasis`` is the part of the headline to set off, or empty.
    """

    headline: str
    detail: str
    emphasis: str = ""


@dataclass(frozen=True, slots=True)
class Alarm:
    """One thing worth a look; the place is None where it is not one place.

    ``kind`` is ``mismatch``, ``uncontrolled``, ``blow-up``, ``swallowed`` or ``dead``, worst first.
    """

    kind: str
    sentence: str
    step: int | None
    layer: int | None
    coordinate: int | None
    variant: int | None


def verdict(run: Run) -> Verdict:
    """The run in two lines; cheap enough for every token."""
    n = len(run)
    if n == 0:
        return Verdict("Nothing has been written yet.", "The verdict appears with the first token.")
    match = np.stack([run.series("match", i)[:n] for i in range(len(run.variants))]) > 0
    tie = np.stack([run.series("tie", i)[:n] for i in range(len(run.variants))]) > 0
    same = match.sum(axis=1)
    start, model = _folded(run.context.fold)
    if len(same) == 1:
        emphasis = _same(int(same[0]), n)
        missed = n - int(same[0])
        ties = _ties(missed) if missed and int(tie.sum()) == missed else ""
        headline = f"{start}, the patched {model} said {emphasis}{ties}."
    else:
        headline, emphasis = _several(run, same, n, start, model)
    detail = [_difference(run, match, tie), _worst_denominator(run, n), _dead(run, n)]
    return Verdict(headline, " ".join(part for part in detail if part), emphasis)


def _folded(fold: Fold) -> tuple[str, str]:
    if fold.kind == "all":
        return "Without any context", "model"
    what = {"all-but-bos": "everything but the start token", "image": "the image"}
    span = f"prompt tokens {fold.start} to {fold.end - 1}" if fold.end - fold.start > 1 else f"prompt token {fold.start}"
    return f"With {what.get(fold.kind, span)} folded into weights", "model"
