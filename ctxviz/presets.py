"""Prompts to begin with: of each kind the equivalence is shown on, for a base model, and on pictures."""

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
PICTURE_PRESETS: Final = tuple(
    Preset(words, words)
    for words in ("Describe the picture.", "What colour is the circle?", "How many shapes are there?")
)
"""For models that answer a request about a picture."""
CAPTION_PRESETS: Final = (Preset("The picture shows", "The picture shows"),)
"""For base models that go on from a picture."""
EXAMPLES: Final = frozenset(
    preset.prompt for presets in (PRESETS, PICTURE_PRESETS, CAPTION_PRESETS) for preset in presets
)
"""Every prompt that is offered."""
_OF_MODELS: Final = {"tiny-shapes": PICTURE_PRESETS, "gemma-3-270m-pictures": CAPTION_PRESETS}


def presets_for(model: str, pictures: bool = False) -> tuple[Preset, ...]:
    """What fits a model, by its catalogue key or another name, with or without pictures in the prompt."""
    return _OF_MODELS.get(model, PICTURE_PRESETS if pictures else PRESETS)


def begins_with_a_picture(model: str) -> bool:
    """Whether a model is of little use without a picture."""
    return model in _OF_MODELS
