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
        "Dear peasant, you ask me what a computer virus is. Think of the rot in a sack of grain:",
    ),
    Preset(
        "Three siblings",
        "A haiku about two sisters and their little brother:\n\nThree",
    ),
    Preset(
        "Context into weights",
        "A rhyming couplet about words that turn into weights:\n\nWhat once I read in context, line by line,",
    ),
)
"""The first one is the prompt of the recorded run."""
