"""How often a model's answer is exactly the right one, on scenes it never saw."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ctxviz.shapes.scenes import DESCRIBE, Scene, questions
from ctxviz.training.batches import IGNORED, Asked, Lines, draw_all, read_pictures


@dataclass(frozen=True, slots=True)
class Score:
    """Right answers of a sort."""

    right: int
    asked: int

    @property
    def share(self) -> float:
        return self.right / self.asked


def caption_lines(scenes: Sequence[Scene]) -> list[Asked]:
    """The request for a caption of each scene, and the caption."""
    return [Asked(i, DESCRIBE, scene.caption()) for i, scene in enumerate(scenes)]


def question_lines(scenes: Sequence[Scene], generator: np.random.Generator) -> list[Asked]:
    """One question of each sort about each scene, where it has one."""
    lines = []
    for i, scene in enumerate(scenes):
        by_sort = defaultdict(list)
        for sort, question, answer in questions(scene, generator):
            by_sort[sort].append(Asked(i, question, answer, sort))
        lines += [pool[int(generator.integers(len(pool)))] for pool in by_sort.values()]
    return lines


@torch.no_grad()
def answered_right(model: Any, lines: Lines, pixels: torch.Tensor, rows: int = 128) -> list[bool]:
    """Whether greedy decoding gives exactly the answer, its end included.

    Told in one pass: greedy decoding gives an answer if and only if each of its tokens has the largest logit
    when those before it are given.
    """
    right: list[bool] = []
    for start in range(0, len(lines.ids), rows):
        part = slice(start, start + rows)
        labels = lines.labels[part, 1:]
        hidden = model.model(
            input_ids=lines.ids[part],
            token_type_ids=lines.types[part],
            pixel_values=pixels[lines.pictures[part]],
            use_cache=False,
        ).last_hidden_state[:, :-1]
        wanted = labels != IGNORED
        wrong = torch.zeros_like(wanted)
        wrong[wanted] = model.lm_head(hidden[wanted]).argmax(-1) != labels[wanted]
        right += (~wrong.any(1)).tolist()
    return right


def examine(
    model: Any,
    encode: Callable[[Sequence[Asked]], Lines],
    image_processor: Any,
    scenes: Sequence[Scene],
    generator: np.random.Generator,
    with_questions: bool = True,
) -> dict[str, Score]:
    """Scores of captions and of each sort of question, and of all questions together ("questions")."""
    pictures, _ = draw_all(scenes, generator)
    pixels = read_pictures(pictures, image_processor)
    asked = caption_lines(scenes) + (question_lines(scenes, generator) if with_questions else [])
    marks: dict[str, list[bool]] = defaultdict(list)
    for group in _similar(asked):
        for line, right in zip(group, answered_right(model, encode(group), pixels), strict=True):
            marks[line.sort].append(right)
            if line.sort != "caption":
                marks["questions"].append(right)
    return {sort: Score(sum(row), len(row)) for sort, row in marks.items()}


def _similar(asked: Sequence[Asked]) -> Iterator[list[Asked]]:
    """Lines of a sort together, so that little is padded."""
    for sort in dict.fromkeys(line.sort for line in asked):
        yield [line for line in asked if line.sort == sort]
