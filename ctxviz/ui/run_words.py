"""A run in a few words: its title, its settings, what tells it from others. To be shown as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from ctxviz.figures.text import counted, readable
from ctxviz.folds import Fold
from ctxviz.presets import PRESETS
from ctxviz.run import Run
from ctxviz.settings import RunSettings

TITLE: Final = 32
"""Characters of a prompt, a model's name or a file's name that stand for it."""
_FOLDS: Final = {
    "all": "all folded",
    "all-but-bos": "all but the start folded",
    "image": "pictures folded",
    "text": "text folded",
}


def title_of(run: Run) -> str:
    """A preset's title, or the beginning of the prompt."""
    return prompt_title(run.context.prompt)


def prompt_title(prompt: str) -> str:
    """A preset's title, or the beginning of a prompt."""
    titles = {preset.prompt: preset.title for preset in PRESETS}
    return titles.get(prompt) or readable(prompt, TITLE)


def summary(run: Run) -> str:
    """Model, length, rules and dtypes: ``Gemma 3 270M, 24 tokens, direct and stable in float32``."""
    settings = run.settings
    how = f"{listed(rules(settings))} in {listed(settings.ordered_dtypes)}"
    beside = ", run beside the weights" if settings.arithmetics == ("factored",) else ""
    return f"{readable(run.model.name, TITLE)}, {counted(len(run), 'token')}, {how}{beside}"


def rules(settings: RunSettings) -> list[str]:
    """The update rules, the floored one with its floor."""
    return [f"{rule} {settings.floor:g}" if rule == "floored" else rule for rule in settings.updates]


def fold_words(fold: Fold) -> str:
    """What is folded."""
    if fold.kind == "span":
        return f"tokens {fold.start} to {fold.end - 1} folded"
    return f"picture {fold.number} folded" if fold.number else _FOLDS[fold.kind]


def listed(words: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def described(name: str, run: Run, among: Iterable[Run] = ()) -> str:
    """A run's name with its prompt, length, and every setting by which it differs from those ``among``.

    All settings are told where there are no others.
    """
    others = [_parts(other) for other in among if other is not run]
    told = [
        words
        for k, words in enumerate(_parts(run))
        if not others or any(other[k] != words for other in others)
    ]
    return " · ".join([name, title_of(run), *filter(None, told), counted(len(run), "token")])


def _parts(run: Run) -> tuple[str, ...]:
    settings = run.settings
    return (
        readable(run.model.name, TITLE),
        ", ".join(rules(settings)),
        ", ".join(settings.ordered_dtypes),
        fold_words(run.context.fold),
        "" if settings.arithmetics == ("written",) else ", ".join(settings.arithmetics),
        f"from layer {settings.first_layer}" if settings.first_layer else "",
        "replayed" if run.replayed else "",
    )
