"""The training of gemma-3-270m-pictures: eyes for the real Gemma 3 270M, whose own weights stay as they are.

First the projector learns to put the words' own embeddings where the things are; then tower and projector
learn from what the frozen model goes on to say.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from safetensors.torch import load_file
from torch.nn import functional

from ctxviz.shapes.scenes import COLOURS, SHAPES, Scene, training_scene
from ctxviz.training import exam
from ctxviz.training.batches import IGNORED, Asked, Drawn, Lines, draw_all, encode, grid_labels, read_pictures
from ctxviz.training.checkpoint import Checkpoint
from ctxviz.training.looking import TILE_MARGIN, Looking, LookingPlan
from ctxviz.training.pictures_model import ENDS_LINE, PROMPT, assemble, make_config, make_processor
from ctxviz.training.schedule import advance, make_optimizer, schedule
from ctxviz.training.tiny_shapes import IMAGE_TOKENS as TILES
from ctxviz.training.tiny_shapes import make_model

Report = Callable[[int, int, str], None]
GLANCE_SEED: Final = 10**9


@dataclass(frozen=True, slots=True)
class Plan:
    """What a training run does."""

    looking: LookingPlan = field(default_factory=LookingPlan)
    """As for tiny-shapes, so that both start from the same tower."""
    naming_steps: int = 400
    naming_scenes: int = 32
    naming_rate: float = 1e-3
    steps: int = 300
    scenes: int = 16
    rate: float = 1e-3
    decay: float = 0.01
    things: tuple[float, ...] = (0.15, 0.7, 0.15)
    """How often a scene holds one, two and three things while the model learns to speak: two matter most."""

    @property
    def all_steps(self) -> int:
        return self.looking.steps + self.naming_steps + self.steps


def said_of(scene: Scene) -> str:
    """How this model names a scene: its things in reading order, without their places."""
    names = [thing.name for thing in scene.things]
    listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    return f" {listed}"


def train(plan: Plan, language: Path, folder: Path, report: Report) -> Any:
    """Train, or go on where the folder's state ends, and return (model, processor).

    ``language`` is the folder of the converted Gemma 3 270M.
    """
    processor = make_processor(language)
    seed = plan.looking.seed
    tower = make_model(seed).model.vision_tower
    looking = Looking(plan.looking, tower, math.isqrt(TILES), processor.image_processor)
    model = assemble(load_file(language / "model.safetensors"), make_config(language, processor.tokenizer))
    model.requires_grad_(False)
    model.model.vision_tower = tower
    talking = _Talking(plan, model, processor)
    checkpoint = Checkpoint(folder, asdict(plan))
    modules: dict[str, torch.nn.Module] = {"eyes": talking.eyes, "heads": looking.heads}
    optimizers = {
        "looking": looking.optimizer,
        "naming": talking.naming_optimizer,
        "speaking": talking.speaking_optimizer,
    }
    done = checkpoint.load(modules, optimizers, plan.all_steps)
    for step in range(done, plan.all_steps):
        row = looking.step(step) if step < plan.looking.steps else talking.step(step - plan.looking.steps)
        report(step + 1, plan.all_steps, ", ".join(f"{name} {value:.3g}" for name, value in row.items()))
        if (step + 1) % 10 == 0:
            checkpoint.log(step=step + 1, seconds=round(checkpoint.seconds, 1), **row)
        if (step + 1) % 50 == 0 or step + 1 == plan.all_steps:
            checkpoint.save(step + 1, modules, optimizers)
        if step >= plan.looking.steps + plan.naming_steps and (step + 1) % 100 == 0:
            checkpoint.log(step=step + 1, **{"right captions": round(_glance(model, processor), 4)})
    return model.eval(), processor


class _Talking:
    """Tower and projector before the frozen model: first they learn its words, then from what it says."""

    def __init__(self, plan: Plan, model: Any, processor: Any) -> None:
        self._plan, self._model, self._processor = plan, model, processor
        projector = model.model.multi_modal_projector
        self.eyes = torch.nn.ModuleDict({"tower": model.model.vision_tower, "projector": projector})
        self.eyes.requires_grad_(True)
        self._words = WordVectors(model, processor.tokenizer)
        weight = projector.mm_input_projection_weight
        generator = torch.Generator().manual_seed(plan.looking.seed)
        with torch.no_grad():
            weight.normal_(std=self._words.spread / math.sqrt(weight.shape[0]), generator=generator)
        self.naming_optimizer = make_optimizer([(self.eyes, 1.0)], plan.decay)
        self.speaking_optimizer = make_optimizer([(self.eyes, 1.0)], plan.decay)

    def step(self, step: int) -> dict[str, float]:
        """One step, counted from when the tower could see."""
        plan = self._plan
        generator = np.random.default_rng([plan.looking.seed, 1, step])
        naming = step < plan.naming_steps
        if naming:
            rate = plan.naming_rate * schedule(step / plan.naming_steps)
            row = self._name(generator)
        else:
            rate = plan.rate * schedule((step - plan.naming_steps) / plan.steps)
            row = self._speak(generator)
        advance(self.naming_optimizer if naming else self.speaking_optimizer, row["loss"], rate)
        return {name: round(value.item(), 5) for name, value in row.items()}

    def _name(self, generator: np.random.Generator) -> dict[str, torch.Tensor]:
        scenes = [training_scene(generator) for _ in range(self._plan.naming_scenes)]
        pictures, drawn = draw_all(scenes, generator)
        pixels = read_pictures(pictures, self._processor.image_processor)
        seen = self._model.model.get_image_features(pixels, return_dict=True).pooler_output
        wanted = self._words.grid(drawn, math.isqrt(seen.shape[1]))
        return {"loss": functional.mse_loss(seen, wanted) / wanted.var()}

    def _speak(self, generator: np.random.Generator) -> dict[str, torch.Tensor]:
        counts = generator.choice([1, 2, 3], size=self._plan.scenes, p=self._plan.things)
        scenes = [training_scene(generator, int(count)) for count in counts]
        pictures, _ = draw_all(scenes, generator)
        lines = encode_for(self._processor)(caption_lines(scenes))
        hidden = self._model.model(
            input_ids=lines.ids,
            token_type_ids=lines.types,
            pixel_values=read_pictures(pictures, self._processor.image_processor),
            use_cache=False,
        ).last_hidden_state[:, :-1]
        labels = lines.labels[:, 1:]
        wanted = labels != IGNORED
        logits = self._model.lm_head(hidden[wanted])
        right = (logits.argmax(-1) == labels[wanted]).float().mean()
        return {"loss": functional.cross_entropy(logits, labels[wanted]), "tokens right": right}


class WordVectors:
    """What the language half reads for a word: its embedding as it enters the first layer."""

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self._embed = model.get_input_embeddings()
        self._tokenizer = tokenizer
        self.spread = float(self._embed(torch.arange(2000, 4000)).std())
        self.nothing = self._of("\n")
        self._colours = torch.stack([self.nothing, *(self._of(f" {word}") for word in COLOURS)])
        self._shapes = torch.stack([self.nothing, *(self._of(f" {word}") for word in SHAPES)])

    def _of(self, word: str) -> torch.Tensor:
        ids = self._tokenizer(word, add_special_tokens=False)["input_ids"]
        return self._embed(torch.tensor(ids)).mean(0)

    def grid(self, drawn: Drawn, side: int) -> torch.Tensor:
        """For each of side x side tiles the sum of its thing's colour and shape, or nothing's vector."""
        colours, shapes = grid_labels(drawn, side, TILE_MARGIN)
        named = self._colours[colours] + self._shapes[shapes]
        return torch.where((colours > 0)[..., None], named, self.nothing)


def caption_lines(scenes: Sequence[Scene]) -> list[Asked]:
    """What the model is to go on with after PROMPT."""
    return [Asked(i, PROMPT, said_of(scene)) for i, scene in enumerate(scenes)]


def encode_for(processor: Any) -> Callable[[Sequence[Asked]], Lines]:
    """A picture, the text to go on from, and how it goes on to the end of the line."""
    picture = processor.full_image_sequence
    image_id = processor.tokenizer.image_token_id

    def wrap(question: str) -> str:
        return f"<bos>{picture}{question}"

    def lines(asked: Sequence[Asked]) -> Lines:
        return encode(asked, processor.tokenizer, wrap, ENDS_LINE, image_id)

    return lines


def captions_right(
    model: Any, processor: Any, scenes: Sequence[Scene], generator: np.random.Generator
) -> float:
    """The share of captions that are exactly right, the end of the line included."""
    pictures, _ = draw_all(scenes, generator)
    pixels = read_pictures(pictures, processor.image_processor)
    right = exam.answered_right(model, encode_for(processor)(caption_lines(scenes)), pixels, rows=16)
    return sum(right) / len(right)


def _glance(model: Any, processor: Any) -> float:
    """The share on a few scenes of two things that training may show and did not."""
    generator = np.random.default_rng(GLANCE_SEED)
    return captions_right(model, processor, [training_scene(generator, 2) for _ in range(60)], generator)
