"""What a saved figure is of: a line that stands in the file, and the file's name.

On the page a figure stands beside its run; in a folder of downloads it stands alone.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import PurePath
from typing import Any, Final, ParamSpec

from ctxviz.figures.card import FigureCard
from ctxviz.figures.palette import label
from ctxviz.figures.text import quoted, readable
from ctxviz.run import Run

LONGEST_PROMPT: Final = 60
LONGEST_MODEL: Final = 40
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9.]+")
_P = ParamSpec("_P")


def of_run(name: str) -> Callable[[Callable[_P, FigureCard]], Callable[_P, FigureCard]]:
    """Of a function that makes a card from a ``run`` and perhaps a ``step``, ``layer``, ``variant``,
    ``coordinate`` or ``metric`` so called: its card says what it is of. ``name`` is the figure's own."""

    def decorate(make: Callable[_P, FigureCard]) -> Callable[_P, FigureCard]:
        signature = inspect.signature(make)

        @functools.wraps(make)
        def made(*args: _P.args, **kwargs: _P.kwargs) -> FigureCard:
            given = signature.bind(*args, **kwargs)
            given.apply_defaults()
            return described(make(*args, **kwargs), name, **given.arguments)

        return made

    return decorate


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
    parts.append(_variant(run, variant))
    parts.append(f"prompt “{readable(run.context.prompt, LONGEST_PROMPT)}”")
    return ", ".join(parts)


def file_name(
    name: str,
    run: Run,
    *,
    step: int | None = None,
    layer: int | None = None,
    variant: int | None = None,
    coordinate: int | None = None,
    metric: str = "",
    **_: Any,
) -> str:
    """``gemma-3-270m-token6-layer4-direct-written-float32-from0-coordinates``, safe on every disk."""
    parts = [_model(run)]
    numbers = {"token": step, "layer": layer, "coordinate": coordinate}
    parts += [f"{word}{number}" for word, number in numbers.items() if number is not None]
    parts += [run.variants[variant].slug] if variant is not None else []
    return "-".join(part for part in (*parts, name, metric) if part)


def _variant(run: Run, variant: int | None) -> str:
    names = [label(v, run.variants) for v in run.variants]
    return ", ".join(names) if variant is None else names[variant]


def _model(run: Run) -> str:
    """The model's key, or of a folder's or the Hub's the last part, as a file may be called."""
    last = PurePath(run.model.key.replace("\\", "/")).name
    return _UNSAFE.sub("-", last).strip("-.")[:LONGEST_MODEL].lower() or "model"
