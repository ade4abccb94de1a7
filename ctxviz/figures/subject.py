"""What a saved figure is of: a line that stands in the file, and the file's name.

On the page a figure stands beside its run; in a folder of downloads it stands alone.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any, Final, ParamSpec

from ctxviz.figures.card import FigureCard
from ctxviz.figures.palette import label
from ctxviz.figures.text import counted, quoted, readable
from ctxviz.run import Run

LONGEST_PROMPT: Final = 60
LONGEST_MODEL: Final = 40
MOST_NAMED: Final = 3
"""Models and prompts of a figure of many runs that are named; the rest are counted."""
LONGEST_SLUG: Final = 24
HASH: Final = 8
"""Characters of a picture's sha256 that are shown."""
_UNSAFE: Final = re.compile(r"[^a-z0-9.]+")
_P = ParamSpec("_P")


def of_run(name: str) -> Callable[[Callable[_P, FigureCard]], Callable[_P, FigureCard]]:
    """Of a function that makes a card from a ``run`` and perhaps a ``step``, ``layer``, ``variant``,
    ``coordinate`` or ``metric`` so called: its card says what it is of. ``name`` is the figure's own."""
    return _telling(lambda card, given: described(card, name, **given))


def of_runs(
    name: str, runs: Callable[..., Iterable[Run]]
) -> Callable[[Callable[_P, FigureCard]], Callable[_P, FigureCard]]:
    """Of a function that makes a card from many runs and perhaps a ``quantity``: its card says what it is of.

    ``runs`` takes the function's first argument and gives the runs in it.
    """

    def tell(card: FigureCard, given: dict[str, Any]) -> FigureCard:
        every = list(dict.fromkeys(runs(next(iter(given.values())))))
        whole = "-".join(filter(None, (name, given.get("quantity", ""))))
        return replace(card, subject=subject_of_many(every), file_name=file_name_of_many(whole, every))

    return _telling(tell)


def _telling(
    tell: Callable[[FigureCard, dict[str, Any]], FigureCard],
) -> Callable[[Callable[_P, FigureCard]], Callable[_P, FigureCard]]:
    """A decorator that has ``tell`` add to a card what it is of, from the arguments it was made with."""

    def decorate(make: Callable[_P, FigureCard]) -> Callable[_P, FigureCard]:
        signature = inspect.signature(make)

        @functools.wraps(make)
        def made(*args: _P.args, **kwargs: _P.kwargs) -> FigureCard:
            given = signature.bind(*args, **kwargs)
            given.apply_defaults()
            return tell(make(*args, **kwargs), dict(given.arguments))

        return made

    return decorate


def between(card: FigureCard, name: str, runs: Sequence[Run], variants: Sequence[int]) -> FigureCard:
    """``card`` with the subject of two runs side by side, A and B, and its file's name."""
    said = (
        f"{side}: {subject(run, variant=variant)}"
        for side, run, variant in zip("AB", runs, variants, strict=True)
    )
    return replace(card, subject="; ".join(said), file_name=file_name_of_many(name, runs))


def described(card: FigureCard, name: str, run: Run, **of: Any) -> FigureCard:
    """``card`` with its subject and its file's name."""
    return replace(card, subject=subject(run, **of), file_name=file_name(name, run, **of))


def subject(
    run: Run,
    *,
    step: int | None = None,
    layer: int | None = None,
    variant: int | None = None,
    coordinate: int | None = None,
    picture: int | None = None,
    **_: Any,
) -> str:
    """``Gemma 3 270M, layer 4, token 6 “⏎”, direct float32, prompt “The weather …”``; text."""
    parts = [readable(run.model.name, LONGEST_PROMPT)]
    if layer is not None:
        parts.append(f"layer {layer}")
    if step is not None and step < len(run):
        parts.append(f"token {step} {quoted(run.token(step)[4])}")
    if coordinate is not None:
        parts.append(f"coordinate {coordinate}")
    if picture is not None:
        parts.append(f"picture {picture + 1}")
    parts.append(_variant(run, variant))
    return ", ".join([*parts, *circumstances(run)])


def circumstances(run: Run) -> list[str]:
    """What a run was made from, in words: what is not as usual in its fold and layers, its pictures, its
    prompt."""
    fold, first = run.context.fold, run.settings.first_layer
    return [
        *([f"fold {fold}"] if fold.kind != "all" else []),
        *([f"patched from layer {first} on"] if first else []),
        *(f"picture {sha256[:HASH]}" for sha256 in run.context.image_sha256),
        f"prompt “{readable(run.context.prompt, LONGEST_PROMPT)}”",
    ]


def stem(run: Run) -> str:
    """How the names of a run's files begin: ``gemma-3-270m-the-weather-on-mars``, safe on every disk."""
    fold, first = run.context.fold, run.settings.first_layer
    parts = [
        _model(run),
        _slug(run.context.prompt, LONGEST_SLUG),
        *([f"fold-{_slug(str(fold), LONGEST_SLUG)}"] if fold.kind != "all" else []),
        *([f"from{first}"] if first else []),
        *(f"picture-{sha256[:HASH]}" for sha256 in run.context.image_sha256[:1]),
    ]
    return "-".join(filter(None, parts))


def subject_of_many(runs: Sequence[Run]) -> str:
    """``Gemma 3 270M, 5 runs, prompts “The weather …”, “Once …”, “A …” and 2 more``; text."""
    models = dict.fromkeys(readable(run.model.name, LONGEST_PROMPT) for run in runs)
    prompts = dict.fromkeys(f"“{readable(run.context.prompt, LONGEST_PROMPT)}”" for run in runs)
    word = "prompt" if len(prompts) == 1 else "prompts"
    return ", ".join([*_some(models), counted(len(runs), "run"), *_some(prompts, f"{word} ")])


def _some(names: Iterable[str], before: str = "") -> list[str]:
    """The first few names in one part of a sentence, none where there is none."""
    every = list(names)
    more = f" and {len(every) - MOST_NAMED} more" if len(every) > MOST_NAMED else ""
    return [before + ", ".join(every[:MOST_NAMED]) + more] if every else []


def file_name(
    name: str,
    run: Run,
    *,
    step: int | None = None,
    layer: int | None = None,
    variant: int | None = None,
    coordinate: int | None = None,
    picture: int | None = None,
    metric: str = "",
    **_: Any,
) -> str:
    """``gemma-3-270m-the-weather-token6-layer4-direct-written-float32-from0-coordinates``."""
    parts = [stem(run)]
    numbers = {"token": step, "layer": layer, "coordinate": coordinate}
    numbers["picture"] = None if picture is None else picture + 1
    parts += [f"{word}{number}" for word, number in numbers.items() if number is not None]
    parts += [run.variants[variant].slug] if variant is not None else []
    return "-".join(part for part in (*parts, name, metric) if part)


def file_name_of_many(name: str, runs: Sequence[Run]) -> str:
    """``gemma-3-270m-five-prompts-rules``: what the runs have in common, and what ``name`` says."""
    return f"{_common(runs)}-{name}"


def _variant(run: Run, variant: int | None) -> str:
    names = [label(v, run.variants) for v in run.variants]
    return ", ".join(names) if variant is None else names[variant]


def _common(runs: Sequence[Run]) -> str:
    """How the name of a file of many runs begins: as that of their only one, or with their only model."""
    stems, models = {stem(run) for run in runs}, {_model(run) for run in runs}
    only = stems if len(stems) == 1 else models
    return only.pop() if len(only) == 1 else "several-models" if only else "no-run"


def _model(run: Run) -> str:
    """The model's key, or of a folder's or the Hub's the last part, as a file may be called."""
    return _slug(PurePath(run.model.key.replace("\\", "/")).name, LONGEST_MODEL) or "model"


def _slug(text: str, longest: int) -> str:
    return _UNSAFE.sub("-", text.lower()).strip("-.")[:longest].rstrip("-.")
