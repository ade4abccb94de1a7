"""The training of tiny-shapes: first the tower learns to see, then the whole model to describe and answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch.nn import functional

from ctxviz.shapes.scenes import COLOURS, QUESTIONS, SHAPES, Scene, questions, training_scene
from ctxviz.training import exam
from ctxviz.training.batches import IGNORED, Asked, Lines, draw_all, encode, read_pictures
from ctxviz.training.checkpoint import Checkpoint
from ctxviz.training.looking import Heads, Looking, LookingPlan, looking_loss
from ctxviz.training.schedule import advance, make_optimizer, schedule
from ctxviz.training.tiny_shapes import IDS, IMAGE_TOKENS, make_model, make_processor


@dataclass(frozen=True, slots=True)
class Plan:
    """What a training run does; the same plan gives the same model on the same machine."""

    looking: LookingPlan = field(default_factory=LookingPlan)
    steps: int = 3300
    scenes: int = 32
    questions: int = 2
    """Per scene and step, beside its caption."""
    asked: tuple[float, ...] = (4.0, 2.0, 12.0, 2.0, 1.0, 1.5, 2.0)
    """How likely each sort of scenes.QUESTIONS is to be asked, relative to the others."""
    turn: int = 1000
    """The step from which only half of the scenes are captioned, and one question more is asked of each."""
    rate: float = 2e-3
    tower_share: float = 0.25
    """Of the rate, for the tower, which can see by then."""
    decay: float = 0.01
    looking_weight: float = 0.1
    """Of the helper heads' loss while the whole model trains."""
    mistaken: float = 0.15
    """How often, after the turn, a colour or a shape that was said is read as another: what is said next then
    has to come from the picture, and not from which words were seen together."""
    easy: int = 960
    """Steps over which scenes grow from one thing to three."""

    @property
    def all_steps(self) -> int:
        return self.looking.steps + self.steps


GLANCE_SEED: Final = 10**9
Report = Callable[[int, int, str], None]
"""Called after each step with the steps done, all steps, and how it goes in a few words."""


def train(plan: Plan, folder: Path, report: Report, keep_every: int = 100) -> Any:
    """Train, or go on where the folder's state ends, and return (model, processor)."""
    processor = make_processor()
    model = make_model(plan.looking.seed).train()
    looking = Looking(
        plan.looking, model.model.vision_tower, math.isqrt(IMAGE_TOKENS), processor.image_processor
    )
    speaking = _Speaking(plan, model, looking.heads, processor)
    checkpoint = Checkpoint(folder, asdict(plan))
    modules: dict[str, torch.nn.Module] = {"model": model, "heads": looking.heads}
    optimizers = {"looking": looking.optimizer, "speaking": speaking.optimizer}
    done = checkpoint.load(modules, optimizers, plan.all_steps)
    for step in range(done, plan.all_steps):
        row = looking.step(step) if step < plan.looking.steps else speaking.step(step)
        report(step + 1, plan.all_steps, ", ".join(f"{name} {value:.3g}" for name, value in row.items()))
        if (step + 1) % 20 == 0:
            checkpoint.log(step=step + 1, seconds=round(checkpoint.seconds, 1), **row)
        if (step + 1) % keep_every == 0 or step + 1 == plan.all_steps:
            checkpoint.save(step + 1, modules, optimizers)
        if step >= plan.looking.steps and (step + 1) % 200 == 0:
            checkpoint.log(step=step + 1, **_glance(model, processor))
    return model.eval(), processor


class _Speaking:
    """The whole model, learning to describe and to answer."""

    def __init__(self, plan: Plan, model: Any, heads: Heads, processor: Any) -> None:
        self._plan, self._model, self._heads, self._processor = plan, model, heads, processor
        self._words = [
            torch.tensor(processor.tokenizer.convert_tokens_to_ids([f"▁{word}" for word in words]))
            for words in (COLOURS, SHAPES)
        ]
        parts = [(model.model.vision_tower, plan.tower_share), (model, 1.0), (heads, plan.tower_share)]
        self.optimizer = make_optimizer(parts, plan.decay)

    def step(self, step: int) -> dict[str, float]:
        """One step, its scenes drawn from the plan's seed and its number; what to log of it."""
        plan, model = self._plan, self._model
        generator = np.random.default_rng([plan.looking.seed, step])
        done = step - plan.looking.steps
        turned = done >= plan.turn
        scenes = [training_scene(generator, _count(done / plan.easy, generator)) for _ in range(plan.scenes)]
        pictures, drawn = draw_all(scenes, generator)
        pixels = read_pictures(pictures, self._processor.image_processor)
        seen = model.model.get_image_features(pixels, return_dict=True)
        lines = encode_for(self._processor)
        helped, told = looking_loss(self._heads, seen.last_hidden_state, drawn)
        captioned = scenes[: plan.scenes // 2] if turned else scenes
        said = self._loss(lines(exam.caption_lines(captioned)), seen, generator, turned)
        some = _some_questions(scenes, plan.questions + turned, plan.asked, generator)
        asked = self._loss(lines(some), seen, generator, turned)
        loss = said + asked + plan.looking_weight * helped
        advance(self.optimizer, loss, plan.rate * schedule(done / plan.steps))
        row = {"caption loss": said, "answer loss": asked, "looking loss": helped}
        return {name: round(value.item(), 5) for name, value in row.items()} | {"shapes told": round(told, 4)}

    def _loss(self, lines: Lines, seen: Any, generator: np.random.Generator, turned: bool) -> torch.Tensor:
        """Cross entropy of the answers' tokens, nats, given what the tower saw in each of the pictures."""
        ids = self._misread(lines, generator) if turned else lines.ids
        shown = type(seen)(pooler_output=seen.pooler_output[lines.pictures])
        hidden = self._model.model(
            input_ids=ids,
            token_type_ids=lines.types,
            mm_encoder_outputs={"image": shown},
            use_cache=False,
        ).last_hidden_state[:, :-1]
        labels = lines.labels[:, 1:]
        wanted = labels != IGNORED
        return functional.cross_entropy(self._model.lm_head(hidden[wanted]), labels[wanted])

    def _misread(self, lines: Lines, generator: np.random.Generator) -> torch.Tensor:
        """The ids with some of the answers' colours and shapes replaced by others; labels stay."""
        ids = lines.ids.clone()
        chosen = torch.from_numpy(generator.random(ids.shape)) < self._plan.mistaken
        for words in self._words:
            here = chosen & (lines.labels != IGNORED) & torch.isin(ids, words)
            ids[here] = words[torch.from_numpy(generator.integers(len(words), size=int(here.sum())))]
        return ids


def encode_for(processor: Any) -> Callable[[Sequence[Asked]], Lines]:
    """Questions about one picture in the chat template's words, with the answer to come."""
    picture = processor.full_image_sequence

    def wrap(question: str) -> str:
        return f"<bos><start_of_turn>user\n{picture}{question}<end_of_turn>\n<start_of_turn>model\n"

    def lines(asked: Sequence[Asked]) -> Lines:
        return encode(asked, processor.tokenizer, wrap, "<end_of_turn>", IDS["<image_soft_token>"])

    return lines


def _some_questions(
    scenes: Sequence[Scene], count: int, asked: tuple[float, ...], generator: np.random.Generator
) -> list[Asked]:
    lines = []
    likely: dict[str, float] = dict(zip(QUESTIONS, asked, strict=True))
    for i, scene in enumerate(scenes):
        pool = list(questions(scene, generator, new_kinds=False))
        sorts = [sort for sort, _, _ in pool]
        weights = np.array([likely[sort] / sorts.count(sort) for sort in sorts])
        for j in generator.choice(len(pool), size=count, replace=False, p=weights / weights.sum()):
            sort, question, answer = pool[int(j)]
            lines.append(Asked(i, question, answer, sort))
    return lines


def _count(share: float, generator: np.random.Generator) -> int:
    """How many things a scene holds: one at first, two and three more and more often until ``share`` is 1."""
    grown = min(1.0, share)
    weights = np.array([1.0 - 0.75 * grown, 0.1 + 0.25 * grown, 0.02 + 0.38 * grown])
    return int(generator.choice([1, 2, 3], p=weights / weights.sum()))


def _glance(model: Any, processor: Any) -> dict[str, float]:
    """Shares of right answers on a few scenes that training may show and did not; held-out ones wait."""
    model.eval()
    generator = np.random.default_rng(GLANCE_SEED)
    scenes = [training_scene(generator) for _ in range(200)]
    scores = exam.examine(model, encode_for(processor), processor.image_processor, scenes, generator)
    model.train()
    return {f"right {sort}": round(score.share, 4) for sort, score in scores.items()}
