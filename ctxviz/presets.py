"""Prompts to begin with, one of each kind the equivalence is usually shown on, worded for a base model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Preset:
    """A prompt and the few words it is offered under."""

    title: str
    prompt: str


PRESETS: Final = (
    Preset(
        "Mars forecast",
        "The weather robot on Mars was in a foul mood again. Its forecast for tomorrow was one sentence:",
    ),
    Preset(
        "Without the letter e",
        "A short dictionary in which no word may contain the letter e.\n"
        "Ocean: a vast, salty body of liquid.\nCat:",
    ),
    Preset(
        "A medieval peasant",
        'Explaining a computer network to a medieval peasant: "My good man, imagine that every village',
    ),
    Preset(
        "Three siblings",
        "Two haiku.\n\nRain\nGrey drops on the roof,\nthe gutter hums all evening,\nnobody can sleep.\n\n"
        "Three siblings\n",
    ),
    Preset(
        "Context into weights",
        "Rhymes.\n\nThe rain came down, the sun went out,\nthe children ran and played about.\n\n"
        "The context turned to weights today,\nand",
    ),
)
"""The first one is the prompt of the recorded run."""
