"""The accuracy tables that are shipped beside the trained models."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from ctxviz.shapes.scenes import (
    Scene,
    held_out_scene,
    new_kind_scene,
    training_scene,
)
from ctxviz.training import exam, train_eyes, train_tiny

SCENES: Final = 600
"""Examined for each row."""
SEED: Final = 20_000
"""Of the scenes of the examination; training uses none of its own seeds near it."""
ACCURACY: Final = "accuracy.json"


@dataclass(frozen=True, slots=True)
class Row:
    """Which scenes a row of the table is about."""

    scenes: str
    wanted: Callable[[Scene], bool]
    draw: Callable[[np.random.Generator], Scene]


def _any(_: Scene) -> bool:
    return True


TINY_ROWS: Final = (
    Row("held-out pairs of things", _any, held_out_scene),
    Row("held-out pairs, black background", lambda scene: scene.background == "black", held_out_scene),
    Row("held-out pairs, two shapes", lambda scene: len(scene.things) == 2, held_out_scene),
    Row("held-out pairs, three shapes", lambda scene: len(scene.things) == 3, held_out_scene),
    Row("one shape, a kind that was trained", _any, lambda generator: training_scene(generator, 1)),
    Row("one to three shapes, pairs that were trained", _any, training_scene),
    Row("a colour that its shape never had", _any, new_kind_scene),
)
EYES_ROWS: Final = (
    Row("held-out pairs, two shapes", _any, lambda generator: held_out_scene(generator, 2)),
    Row(
        "held-out pairs, two shapes, black background",
        lambda scene: scene.background == "black",
        lambda generator: held_out_scene(generator, 2),
    ),
    Row("one shape, a kind that was trained", _any, lambda generator: training_scene(generator, 1)),
    Row("two shapes, pairs that were trained", _any, lambda generator: training_scene(generator, 2)),
    Row("three shapes, held-out pairs", _any, lambda generator: held_out_scene(generator, 3)),
    Row(
        "two shapes, a colour that its shape never had", _any, lambda generator: new_kind_scene(generator, 2)
    ),
)


def tiny_table(model: Any, processor: Any, count: int = SCENES) -> Iterator[dict[str, Any]]:
    """Rows of tiny-shapes' table: shares of exactly right captions, of all questions, of each sort."""
    for index, row in enumerate(TINY_ROWS):
        generator = np.random.default_rng(SEED + index)
        scores = exam.examine(
            model,
            train_tiny.encode_for(processor),
            processor.image_processor,
            list(_scenes(row, generator, count)),
            generator,
        )
        yield {"scenes": row.scenes, "count": count} | {
            sort: round(score.share, 4) for sort, score in scores.items()
        }


def eyes_table(model: Any, processor: Any, count: int = 200) -> Iterator[dict[str, Any]]:
    """Rows of the table of Gemma 3 270M with eyes: shares of exactly right captions."""
    for index, row in enumerate(EYES_ROWS):
        generator = np.random.default_rng(SEED + index)
        scenes = list(_scenes(row, generator, count))
        share = train_eyes.captions_right(model, processor, scenes, generator)
        yield {"scenes": row.scenes, "count": count, "caption": round(share, 4)}


def _scenes(row: Row, generator: np.random.Generator, count: int) -> Iterator[Scene]:
    while count:
        scene = row.draw(generator)
        if row.wanted(scene):
            count -= 1
            yield scene


def write(rows: list[dict[str, Any]], folder: Path) -> None:
    """Put a table beside the model, one row a line."""
    lines = ",\n ".join(json.dumps(row) for row in rows)
    (folder / ACCURACY).write_text(f"[{lines}]\n", encoding="utf-8")
