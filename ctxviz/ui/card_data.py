"""A figure with its words as the browser's figure component reads it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ctxviz.figures.card import FigureCard, to_csv
from ctxviz.figures.palette import THEMES


def card_data(card: FigureCard, name: str) -> dict[str, Any]:
    """The figure, title, caption, text alternative, CSV, what its files are called, and both themes."""
    return {
        "figure": card.figure.to_json(),
        "title": card.title,
        "caption": card.caption,
        "more": card.more,
        "alt": card.alt,
        "csv": to_csv(card.table),
        "name": name,
        "themes": {theme: asdict(colours) for theme, colours in THEMES.items()},
    }
