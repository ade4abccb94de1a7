"""A figure with its words as the browser's figure component reads it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ctxviz.figures.card import FigureCard, to_csv
from ctxviz.figures.palette import THEMES


def card_data(card: FigureCard) -> dict[str, Any]:
    """The figure, its words, CSV, both themes, and what its files are called and of, which it must say."""
    if not (card.subject and card.file_name):
        raise ValueError(f"the figure {card.title!r} does not say what it is of")
    return {
        "figure": card.figure.to_json(),
        "title": card.title,
        "caption": card.caption,
        "more": card.more,
        "alt": card.alt,
        "csv": to_csv(card.table),
        "subject": card.subject,
        "file_name": card.file_name,
        "themes": {theme: asdict(colours) for theme, colours in THEMES.items()},
    }
