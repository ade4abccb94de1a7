"""What a benchmark reads: a text of an exact number of tokens, after drawn pictures where they are wanted."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import cycle, islice, product
from typing import TYPE_CHECKING, Final

from ctxviz.errors import PictureError, PromptError

if TYPE_CHECKING:
    from ctxviz.models import LoadedModel
    from ctxviz.pictures import Picture

PICTURE_SIDE: Final = 64
"""Pixels; every model makes a picture its own size."""
PASSAGE: Final = (
    "A quiet harbour town wakes before the sun. Fishing boats leave in a line, their lamps small and yellow, "
    "and the baker carries warm bread past shuttered windows. By noon the square is full of voices, prices, "
    "dogs and bicycles. Children race the tide along the wall, and an old clock, always four minutes late, "
    "counts the afternoon. When evening comes, people lean on the railings and talk about the weather. "
)


@dataclass(frozen=True, slots=True)
class Material:
    """What both sides read: pictures, if any, and a text after them."""

    prompt: str
    pictures: tuple[Picture, ...] = ()
    follow: tuple[int, ...] | None = None
    """The new tokens; None: the model's own choice."""


def drawn_pictures(count: int) -> tuple[Picture, ...]:
    """Different scenes of one shape each, ``PICTURE_SIDE`` pixels wide."""
    from ctxviz.pictures import from_image
    from ctxviz.shapes.drawing import draw
    from ctxviz.shapes.scenes import COLOURS, PLACES, SHAPES, Scene, Thing

    kinds = cycle(product(range(len(PLACES)), SHAPES, COLOURS))
    scenes = (Scene((Thing(place, colour, shape),)) for place, shape, colour in kinds)
    return tuple(
        from_image(draw(scene, PICTURE_SIDE), f"{index}.png")
        for index, scene in enumerate(islice(scenes, count), 1)
    )


def pictures_for(model: LoadedModel, image_tokens: int) -> tuple[Picture, ...]:
    """As many drawn pictures as become at least ``image_tokens`` tokens.

    Raises:
        PictureError: the model reads text only.
    """
    if not image_tokens:
        return ()
    if model.processor is None:
        raise PictureError(
            f"{model.identity.name} reads text only; choose a model that reads pictures, "
            "or leave --image-tokens out."
        )
    return drawn_pictures(-(-image_tokens // model.processor.image_seq_length))


def material(model: LoadedModel, context: int, image_tokens: int = 0) -> Material:
    """A text of exactly ``context`` tokens, after pictures where image tokens are wanted.

    Raises:
        PromptError: see :func:`passage`.
        PictureError: image tokens for a model that reads text only.
    """
    pictures = pictures_for(model, image_tokens)
    prompt = passage(model, context)
    if not pictures:
        return Material(prompt)
    ids = model.tokenizer(PASSAGE, add_special_tokens=False)["input_ids"]
    return Material(prompt, pictures, tuple(int(i) for i in ids))


def passage(model: LoadedModel, length: int) -> str:
    """A text of exactly ``length`` tokens for this model, BOS included.

    Raises:
        PromptError: no such text was found, or it would be longer than the model's window.
    """
    from ctxviz.engine import tokenise

    if length > model.window:
        raise PromptError(
            f"A context of {length} tokens exceeds the model's window of {model.window}; choose less."
        )
    # Every word is at least one token, so this many words are enough.
    words = list(islice(cycle(PASSAGE.split()), length))

    def count(end: int) -> int:
        return len(tokenise(model, " ".join(words[:end])))

    longest = bisect_right(range(1, length), length, key=count)
    for end in range(longest, max(longest - 8, 0), -1):
        for tail in ("", ".", " a", " a b", " a b c", " a.", " a b.", " a b c."):
            text = " ".join(words[:end]) + tail
            if len(tokenise(model, text)) == length:
                return text
    raise PromptError(
        f"No passage of exactly {length} tokens was found for this model; choose another context."
    )
