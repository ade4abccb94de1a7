"""Scenes as what a model is trained and examined on: pictures, token ids, and the tokens to be answered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from ctxviz.shapes.drawing import Look, draw_variously
from ctxviz.shapes.scenes import COLOURS, SHAPES, Scene

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


def draw_all(
    scenes: Sequence[Scene], generator: np.random.Generator
) -> tuple[list[Any], list[tuple[Scene, list[Look]]]]:
    """A picture of each scene, each in its own manner, and where the things stand."""
    drawn = [draw_variously(scene, generator) for scene in scenes]
    return [picture for picture, _ in drawn], [
        (scene, looks) for scene, (_, looks) in zip(scenes, drawn, strict=True)
    ]


def cell_labels(scenes: Sequence[Scene]) -> tuple[Int[Tensor, "n 9"], Int[Tensor, "n 9"]]:
    """Colour and shape in each of the nine places, 0 for none."""
    colours = torch.zeros(len(scenes), 9, dtype=torch.long)
    shapes = torch.zeros_like(colours)
    for row, scene in enumerate(scenes):
        for thing in scene.things:
            colours[row, thing.place] = 1 + COLOURS.index(thing.colour)
            shapes[row, thing.place] = 1 + SHAPES.index(thing.shape)
    return colours, shapes


def patch_labels(
    drawn: Sequence[tuple[Scene, list[Look]]], side: int
) -> tuple[Int[Tensor, "n p"], Int[Tensor, "n p"]]:
    """Colour and shape that each of side x side patches shows, 0 for none."""
    colours = torch.zeros(len(drawn), side, side, dtype=torch.long)
    shapes = torch.zeros_like(colours)
    places = (torch.arange(side) + 0.5) / side
    for row, (scene, looks) in enumerate(drawn):
        for thing, look in zip(scene.things, looks, strict=True):
            inside = (places[:, None] - look.y) ** 2 + (places[None, :] - look.x) ** 2 < look.radius**2
            colours[row][inside] = 1 + COLOURS.index(thing.colour)
            shapes[row][inside] = 1 + SHAPES.index(thing.shape)
    return colours.flatten(1), shapes.flatten(1)
