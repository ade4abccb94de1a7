"""Scenes as what a model is trained and examined on: pictures, token ids, and the tokens to be answered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ctxviz.shapes.drawing import Look, draw_variously
from ctxviz.shapes.scenes import COLOURS, SHAPES, Scene, Thing

if TYPE_CHECKING:
    from jaxtyping import Float, Int

IGNORED = -100
"""Label of tokens that are not trained on, as torch's cross entropy has it."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Which picture of the batch, what is asked, what is to be answered."""

    picture: int
    question: str
    answer: str
    sort: str = "caption"


@dataclass(frozen=True, slots=True)
class Lines:
    """Tokenised questions with their answers, padded on the right; n lines of s tokens."""

    ids: Int[Tensor, "n s"]
    types: Int[Tensor, "n s"]
    """1 where a token is an image token."""
    labels: Int[Tensor, "n s"]
    """The answer's tokens in place, IGNORED elsewhere."""
    pictures: Int[Tensor, " n"]


def encode(
    asked: Sequence[Asked], tokenizer: Any, wrap: Callable[[str], str], answer_end: str, image_id: int
) -> Lines:
    """Token ids of each line; ``wrap`` puts a question and the picture's tokens into a prompt."""
    prompts = tokenizer([wrap(line.question) for line in asked], add_special_tokens=False)["input_ids"]
    answers = tokenizer([line.answer + answer_end for line in asked], add_special_tokens=False)["input_ids"]
    length = max(len(p) + len(a) for p, a in zip(prompts, answers, strict=True))
    ids = torch.zeros(len(asked), length, dtype=torch.long)
    labels = torch.full_like(ids, IGNORED)
    for row, (prompt, answer) in enumerate(zip(prompts, answers, strict=True)):
        ids[row, : len(prompt) + len(answer)] = torch.tensor(prompt + answer)
        labels[row, len(prompt) : len(prompt) + len(answer)] = torch.tensor(answer)
    pictures = torch.tensor([line.picture for line in asked])
    return Lines(ids, (ids == image_id).long(), labels, pictures)


def read_pictures(pictures: Sequence[Any], image_processor: Any) -> Float[Tensor, "n 3 h w"]:
    """What the vision tower reads, by the model's own picture reader."""
    return image_processor(images=list(pictures), return_tensors="pt")["pixel_values"]


Drawn = list[list[tuple[Thing, Look]]]
"""What each of some pictures shows, and where."""


def draw_all(scenes: Sequence[Scene], generator: np.random.Generator) -> tuple[list[Any], Drawn]:
    """A picture of each scene, each in its own manner, and where the things stand."""
    return draw_crowds([(scene.things, scene.background) for scene in scenes], generator)


def draw_crowds(
    crowds: Sequence[tuple[tuple[Thing, ...], str]], generator: np.random.Generator
) -> tuple[list[Any], Drawn]:
    """As :func:`draw_all`, of things and a background, of which there may be more than a scene holds."""
    drawn = [draw_variously(things, background, generator) for things, background in crowds]
    looks = [
        list(zip(things, found, strict=True)) for (things, _), (_, found) in zip(crowds, drawn, strict=True)
    ]
    return [picture for picture, _ in drawn], looks


def grid_labels(drawn: Drawn, side: int, margin: float) -> tuple[Int[Tensor, "n t"], Int[Tensor, "n t"]]:
    """Colour and shape of the nearest thing in each of side x side squares, 0 for none.

    A square shows a thing where its middle lies inside the thing's circle or at most ``margin`` beside it, in
    widths of the picture.
    """
    colours = torch.zeros(len(drawn), side, side, dtype=torch.long)
    shapes = torch.zeros_like(colours)
    middles = (torch.arange(side) + 0.5) / side
    for row, things in enumerate(drawn):
        nearest = torch.full((side, side), torch.inf)
        for thing, look in things:
            distance = torch.hypot(middles[:, None] - look.y, middles[None, :] - look.x)
            here = (distance < look.radius + margin) & (distance < nearest)
            nearest[here] = distance[here]
            colours[row][here] = 1 + COLOURS.index(thing.colour)
            shapes[row][here] = 1 + SHAPES.index(thing.shape)
    return colours.flatten(1), shapes.flatten(1)
