"""The training of gemma-3-270m-pictures: eyes for the real Gemma 3 270M, whose own weights stay as they are.

First the projector learns to put the words' own embeddings where the things are; then tower and projector learn
from what the frozen model goes on to say.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch.nn import functional

from ctxviz.shapes.drawing import Look
from ctxviz.shapes.scenes import Scene, held_out_scene, training_scene
from ctxviz.training import exam
from ctxviz.training.batches import IGNORED, Asked, Lines, draw_all, encode, read_pictures
from ctxviz.training.checkpoint import Checkpoint
from ctxviz.training.pictures_model import ENDS_LINE, PROMPT, assemble, make_config, make_processor
from ctxviz.training.schedule import advance, make_optimizer, schedule

Report = Callable[[int, int, str], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a training run does."""

    seed: int = 0
    naming_steps: int = 600
    naming_scenes: int = 64
    naming_rate: float = 1e-3
    steps: int = 400
    scenes: int = 16
    rate: float = 1e-3

    @property
    def all_steps(self) -> int:
        return self.naming_steps + self.steps


def said_of(scene: Scene) -> str:
    """How this model names a scene: its things in reading order, without their places."""
    names = [thing.name for thing in scene.things]
    listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    return f" {listed}"


def train(plan: Plan, language: Path, tower: dict[str, torch.Tensor], folder: Path, report: Report) -> Any:
    """Train, or go on where the folder's state ends, and return (model, processor).

    ``language`` is the converted Gemma 3 270M's folder, ``tower`` a trained tower of the same shape.
    """
    processor = make_processor(language)
    config = make_config(language, processor.tokenizer)
    torch.manual_seed(plan.seed)
    model = assemble(load_file(language / "model.safetensors"), config)
    model.requires_grad_(False)
    eyes = torch.nn.ModuleDict(
        {"tower": model.model.vision_tower, "projector": model.model.multi_modal_projector}
    ).requires_grad_(True)
    eyes["tower"].load_state_dict(tower)
    words = WordVectors(model, processor.tokenizer)
    with torch.no_grad():
        weight = model.model.multi_modal_projector.mm_input_projection_weight
        weight.normal_(std=words.spread / weight.shape[0] ** 0.5)
    naming, speaking = make_optimizer([eyes], 0.01), make_optimizer([eyes], 0.01)
    checkpoint = Checkpoint(folder, asdict(plan))
    modules: dict[str, torch.nn.Module] = {"eyes": eyes}
    optimizers = {"naming": naming, "speaking": speaking}
    done = checkpoint.load(modules, optimizers)
    began = time.perf_counter()
    for step in range(done, plan.all_steps):
        generator = np.random.default_rng([plan.seed, 1, step])
        if step < plan.naming_steps:
            rate = plan.naming_rate * schedule(step / plan.naming_steps)
            row = _name(plan, model, words, processor, generator)
        else:
            rate = plan.rate * schedule((step - plan.naming_steps) / plan.steps)
            row = _speak(plan, model, processor, generator)
        optimizer = naming if step < plan.naming_steps else speaking
        advance(optimizer, row["loss"], rate)
        values = {name: round(float(value), 5) for name, value in row.items()}
        report(step + 1, plan.all_steps, ", ".join(f"{name} {value:.3g}" for name, value in values.items()))
        if (step + 1) % 10 == 0:
            checkpoint.log(step=step + 1, seconds=round(time.perf_counter() - began, 1), **values)
        if (step + 1) % 50 == 0 or step + 1 == plan.all_steps:
            checkpoint.save(step + 1, modules, optimizers)
        if step >= plan.naming_steps and (step + 1) % 100 == 0:
            checkpoint.log(step=step + 1, **{"right captions": glance(model, processor, 60)})
    return model, processor


class WordVectors:
    """What the language half reads for a word: its embedding as it enters the first layer."""

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self._embed = model.get_input_embeddings()
        self._tokenizer = tokenizer
        self.spread = float(self._embed(torch.arange(2000, 4000)).std())
        self.nothing = self._of("\n")

    def _of(self, word: str) -> torch.Tensor:
        ids = self._tokenizer(word, add_special_tokens=False)["input_ids"]
        return self._embed(torch.tensor(ids)).mean(0)

    def grid(self, drawn: Sequence[tuple[Scene, list[Look]]], side: int) -> torch.Tensor:
        """For each of side x side tiles the sum of the nearest thing's colour and shape, or nothing's vector."""
        found = self.nothing.expand(len(drawn), side, side, -1).clone()
        middles = (torch.arange(side) + 0.5) / side
        for row, (scene, looks) in enumerate(drawn):
            for thing, look in zip(scene.things, looks, strict=True):
                near = (middles[:, None] - look.y) ** 2 + (middles[None, :] - look.x) ** 2 < (0.8 / side) ** 2
                found[row, near] = self._of(f" {thing.colour}") + self._of(f" {thing.shape}")
        return found.flatten(1, 2)


def _name(plan: Plan, model: Any, words: WordVectors, processor: Any, generator: np.random.Generator) -> Any:
    scenes = [training_scene(generator) for _ in range(plan.naming_scenes)]
    pictures, drawn = draw_all(scenes, generator)
    pixels = read_pictures(pictures, processor.image_processor)
    seen = model.model.get_image_features(pixels, return_dict=True).pooler_output
    side = round(seen.shape[1] ** 0.5)
    wanted = words.grid(drawn, side)
    return {"loss": functional.mse_loss(seen, wanted) / wanted.var()}


def _speak(plan: Plan, model: Any, processor: Any, generator: np.random.Generator) -> Any:
    scenes = [training_scene(generator, count) for count in _counts(plan.scenes, generator)]
    pictures, _ = draw_all(scenes, generator)
    pixels = read_pictures(pictures, processor.image_processor)
    lines = encode_for(processor)(caption_lines(scenes))
    hidden = model.model(
        input_ids=lines.ids, token_type_ids=lines.types, pixel_values=pixels, use_cache=False
    ).last_hidden_state[:, :-1]
    labels = lines.labels[:, 1:]
    wanted = labels != IGNORED
    logits = model.lm_head(hidden[wanted])
    right = logits.argmax(-1) == labels[wanted]
    return {
        "loss": functional.cross_entropy(logits, labels[wanted]),
        "tokens right": right.float().mean(),
    }


def _counts(scenes: int, generator: np.random.Generator) -> list[int]:
    """How many things each scene holds; lines of one length would be fastest, two things matter most."""
    return [int(count) for count in generator.choice([1, 2, 3], size=scenes, p=(0.15, 0.7, 0.15))]


def caption_lines(scenes: Sequence[Scene]) -> list[Asked]:
    """What the model is to go on with after PROMPT."""
    return [Asked(i, PROMPT, said_of(scene)) for i, scene in enumerate(scenes)]


def encode_for(processor: Any) -> Callable[[Sequence[Asked]], Lines]:
    """A picture, the text to go on from, and how it goes on to the end of the line."""
    picture = processor.full_image_sequence
    image_id = processor.tokenizer.convert_tokens_to_ids(processor.tokenizer.image_token)

    def wrap(question: str) -> str:
        return f"<bos>{picture}{question}"

    def lines(asked: Sequence[Asked]) -> Lines:
        return encode(asked, processor.tokenizer, wrap, ENDS_LINE, image_id)

    return lines


def glance(model: Any, processor: Any, count: int, seed: int = 1, things: int = 2) -> float:
    """The share of captions that are exactly right on held-out scenes."""
    generator = np.random.default_rng(seed)
    scenes = [held_out_scene(generator, things) for _ in range(count)]
    pictures, _ = draw_all(scenes, generator)
    pixels = read_pictures(pictures, processor.image_processor)
    lines = encode_for(processor)(caption_lines(scenes))
    right = exam.answered_right(model, lines, pixels, rows=16)
    return sum(right) / len(right)
