"""The training of tiny-shapes: first the tower learns to see, then the whole model to describe and answer."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch.nn import functional

from ctxviz.shapes.scenes import Scene, questions, training_scene
from ctxviz.training import exam
from ctxviz.training.batches import IGNORED, Asked, Lines, draw_all, encode, read_pictures
from ctxviz.training.checkpoint import Checkpoint
from ctxviz.training.looking import Heads, Looking, LookingPlan, looking_loss
from ctxviz.training.schedule import advance, make_optimizer, schedule
from ctxviz.training.tiny_shapes import IDS, IMAGE_TOKENS, make_model, make_processor

ASKED_MORE: Final = {"colour": 4.0, "where": 12.0, "shape": 2.0, "what": 2.0, "background": 2.0, "any": 1.5}
"""How much likelier a sort of question is to be trained on; the others 1."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a training run does; the same plan gives the same model on the same machine."""

    looking: LookingPlan = field(default_factory=LookingPlan)
    steps: int = 3000
    scenes: int = 32
    questions: int = 2
    """Per scene and step, beside its caption."""
    turn: int = 1000
    """The step from which only half of the scenes are captioned, and one question more is asked of each."""
    rate: float = 2e-3
    tower_share: float = 0.25
    """Of the rate, for the tower, which can see by then."""
    decay: float = 0.01
    looking_weight: float = 0.1
    """Of the helper heads' loss while the whole model trains."""
    easy: int = 960
    """Steps over which scenes grow from one thing to three."""

    @property
    def all_steps(self) -> int:
        return self.looking.steps + self.steps


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
    done = checkpoint.load(modules, optimizers)
    began = time.perf_counter()
    for step in range(done, plan.all_steps):
        row = looking.step(step) if step < plan.looking.steps else speaking.step(step)
        report(step + 1, plan.all_steps, ", ".join(f"{name} {value:.3g}" for name, value in row.items()))
        if (step + 1) % 20 == 0:
            checkpoint.log(step=step + 1, seconds=round(time.perf_counter() - began, 1), **row)
        if (step + 1) % keep_every == 0 or step + 1 == plan.all_steps:
            checkpoint.save(step + 1, modules, optimizers)
        if step >= plan.looking.steps and (step + 1) % 200 == 0:
            checkpoint.log(step=step + 1, **_glance(model, processor))
    return model.eval(), processor


class _Speaking:
    """The whole model, learning to describe and to answer."""

    def __init__(self, plan: Plan, model: Any, heads: Heads, processor: Any) -> None:
        self._plan, self._model, self._heads, self._processor = plan, model, heads, processor
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
        said = _answer_loss(model, lines(exam.caption_lines(captioned)), seen)
        asked = _answer_loss(model, lines(_some_questions(scenes, plan.questions + turned, generator)), seen)
        loss = said + asked + plan.looking_weight * helped
        advance(self.optimizer, loss, plan.rate * schedule(done / plan.steps))
        row = {"caption loss": said, "answer loss": asked, "looking loss": helped}
        return {name: round(value.item(), 5) for name, value in row.items()} | {"shapes told": round(told, 4)}


def _answer_loss(model: Any, lines: Lines, seen: Any) -> torch.Tensor:
    """Cross entropy of the answers' tokens, nats, given what the tower saw in each picture of the batch."""
    shown = type(seen)(pooler_output=seen.pooler_output[lines.pictures])
    hidden = model.model(
        input_ids=lines.ids,
        token_type_ids=lines.types,
        mm_encoder_outputs={"image": shown},
        use_cache=False,
    ).last_hidden_state[:, :-1]
    labels = lines.labels[:, 1:]
    wanted = labels != IGNORED
    return functional.cross_entropy(model.lm_head(hidden[wanted]), labels[wanted])


def encode_for(processor: Any) -> Callable[[Sequence[Asked]], Lines]:
    """Questions about one picture in the chat template's words, with the answer to come."""
    picture = processor.full_image_sequence

    def wrap(question: str) -> str:
        return f"<bos><start_of_turn>user\n{picture}{question}<end_of_turn>\n<start_of_turn>model\n"

    def lines(asked: Sequence[Asked]) -> Lines:
        return encode(asked, processor.tokenizer, wrap, "<end_of_turn>", IDS["<image_soft_token>"])

    return lines


def _some_questions(scenes: Sequence[Scene], count: int, generator: np.random.Generator) -> list[Asked]:
    lines = []
    for i, scene in enumerate(scenes):
        pool = list(questions(scene, generator))
        sorts = [sort for sort, _, _ in pool]
        weights = np.array([ASKED_MORE.get(sort, 1.0) / sorts.count(sort) for sort in sorts])
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
    """Shares of right answers on a few held-out scenes."""
    model.eval()
    scores = exam.examine(
        model,
        encode_for(processor),
        processor.image_processor,
        exam.held_out(1, 200),
        np.random.default_rng(1),
    )
    model.train()
    return {f"right {sort}": round(score.share, 4) for sort, score in scores.items()}
