"""The settings of the run on screen against those in the sidebar: what differs, and taking them over."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ctxviz.figures.text import counted
from ctxviz.run import Run
from ctxviz.settings import RunSettings
from ctxviz.ui import controls, picture_source
from ctxviz.ui.run_words import fold_words, listed, rules
from ctxviz.ui.tab_pictures import hashes
from ctxviz.ui.url_state import MAX_TOKENS, Link

if TYPE_CHECKING:
    from ctxviz.ui.session import Session

_NO_PICTURES: Final = (
    "The file of this run does not hold its pictures; give the same ones again to have all its settings."
)


def difference(session: Session, link: Link, run: Run) -> list[str]:
    """What ``run`` was made with that the sidebar and the prompt do not ask for, in short phrases."""
    model = session.other_model(run, link.model)
    inputs = session.differs_from(run, link.model, link.prompt)
    settings = run.settings
    here = (*_choices(link.updates, link.floor, link), link.fold, *_asked(link, link.tokens))
    there = (
        *_choices(settings.updates, settings.floor, settings),
        run.context.fold,
        *_asked(settings, settings.max_new_tokens),
    )
    told = [words for words, one, other in zip(_words(run), there, here, strict=True) if one != other]
    return list(filter(None, (f"model {model}" if model else "", *inputs, *told)))


def use(session: Session, run: Run) -> None:
    """Put what ``run`` was made with into the widgets, the prompt and the pictures included; a callback's."""
    settings = run.settings
    tokens = min(settings.max_new_tokens, MAX_TOKENS)
    if hashes(run.pictures) == run.context.image_sha256:
        if not session.shows(run.pictures):
            picture_source.show(session, run.pictures)
    else:
        session.notices.append(_NO_PICTURES)
    link = controls.chosen(session.focus)
    controls.seed(
        replace(
            link,
            prompt=run.context.prompt,
            model=link.model if not session.other_model(run, link.model) else run.model.key,
            updates=settings.updates,
            floor=settings.floor if "floored" in settings.updates else link.floor,
            arithmetics=settings.arithmetics,
            dtypes=settings.dtypes,
            first_layer=settings.first_layer,
            fold=run.context.fold,
            tokens=tokens,
            replays=settings.replays,
            hold=None if settings.hold is None else min(settings.hold, tokens - 1),
            budget=settings.budget,
        )
    )


def _choices(updates: tuple[str, ...], floor: float, of: Link | RunSettings) -> tuple[object, ...]:
    """Sets of what was chosen, so that an order means nothing; the floor only where a rule has it."""
    floored = floor if "floored" in updates else None
    return (set(updates), floored), set(of.dtypes), set(of.arithmetics)


def _asked(of: Link | RunSettings, tokens: int) -> tuple[object, ...]:
    return tokens, of.first_layer, set(of.replays), of.hold, of.budget


def _words(run: Run) -> tuple[str, ...]:
    """Every setting of a run in words, in the order in which they are compared."""
    settings = run.settings
    hold = settings.hold
    return (
        ", ".join(rules(settings)),
        ", ".join(settings.ordered_dtypes),
        listed(settings.arithmetics),
        fold_words(run.context.fold),
        counted(settings.max_new_tokens, "token"),
        f"from layer {settings.first_layer} on",
        "replays" if settings.replays else "no replays",
        "no patch held" if hold is None else f"patch of token {hold} held",
        "error budget" if settings.budget else "no error budget",
    )
