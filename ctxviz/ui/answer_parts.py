"""An answer in parts: its words, and set off from them the special tokens, which are not said to anyone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from ctxviz.figures.before_after import CLOSE, LONGEST_ANSWER, OPEN, Answer
from ctxviz.figures.text import readable
from ctxviz.picture_findings import WithoutPictures
from ctxviz.run import Run
from ctxviz.ui.special_tokens import Specials


@dataclass(frozen=True, slots=True)
class Part:
    """Words, or one special token; ``about`` says of a special token what it is."""

    text: str
    about: str = ""


def ids_of(run: Run, variant: int, found: WithoutPictures | None) -> tuple[tuple[int | None, ...], ...]:
    """The ids of each of :func:`ctxviz.figures.before_after.answers`; None where there is no distribution."""
    n = range(len(run))
    tops = [run.top(k, variant).ids for k in n]
    said = tuple(int(ids[0]) if len(ids) else None for ids in tops)
    written = tuple(run.token(k)[3] for k in n)
    return (written, said) if found is None else (written, found.ids, said)


def parts_of(answer: Answer, ids: Sequence[int | None], specials: Specials) -> tuple[Part, ...]:
    """The answer's text in order, tokens that differ between ⟦ and ⟧; cut, with an ellipsis, where very long.

    ``ids`` are those of its tokens.
    """
    parts: list[Part] = []
    room = LONGEST_ANSWER
    for unit in _units(answer, ids, specials):
        if room <= 0:
            return (*parts, Part(" …"))
        parts += [*([Part(" ")] if parts else []), *unit]
        room -= sum(len(part.text) for part in unit)
    return tuple(parts) or (Part(answer.marked),)


def _units(answer: Answer, ids: Sequence[int | None], specials: Specials) -> Iterator[list[Part]]:
    """Each special token, and the words between them."""
    for special, group in groupby(range(len(ids)), lambda k: ids[k] in specials.all):
        places = list(group)
        if special:
            yield from (_set_off(answer, k, ids[k] in specials.ends) for k in places)
        elif words := _words(answer, places):
            yield words


def _words(answer: Answer, places: list[int]) -> list[Part]:
    """Nothing where there is but white space between two special tokens, which separates them anyway."""
    first, last = places[0], places[-1] + 1
    some = replace(answer, texts=answer.texts[first:last], differs=answer.differs[first:last])
    says_nothing = all(text is not None and not text.strip() for text in some.texts)
    return [] if says_nothing and not any(some.differs) else [Part(some.marked)]


def _set_off(answer: Answer, place: int, end: bool) -> list[Part]:
    token = Part(readable(answer.texts[place] or ""), "the end of the text" if end else "a special token")
    return [Part(OPEN), token, Part(CLOSE)] if answer.differs[place] else [token]
