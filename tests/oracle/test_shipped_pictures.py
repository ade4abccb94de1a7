"""The shipped picture models, by stock transformers alone: what they read off scenes drawn here."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForImageTextToText, AutoProcessor

from ctxviz.shapes.drawing import draw
from ctxviz.shapes.scenes import DESCRIBE, Scene, held_out_scene, questions
from tests.other_drawing import draw as draw_otherwise

ASSETS = Path(__file__).parents[2] / "assets"
TINY = ASSETS / "tiny-shapes"
SCENES = 200


@pytest.fixture(scope="module")
def tiny() -> tuple[Any, Any]:
    model = AutoModelForImageTextToText.from_pretrained(TINY, local_files_only=True).eval()
    return model, AutoProcessor.from_pretrained(TINY, local_files_only=True)


def answers(model: Any, processor: Any, asked: Sequence[tuple[Any, str]], batch: int = 50) -> list[str]:
    """Greedy answers of the stock model to (picture, question) pairs, in their order."""
    by_length: dict[int, list[int]] = defaultdict(list)
    texts = []
    for index, (_, question) in enumerate(asked):
        content = [{"type": "image"}, {"type": "text", "text": question}]
        turn = [{"role": "user", "content": content}]
        texts.append(processor.apply_chat_template(turn, add_generation_prompt=True))
        # Prompts of one length share a batch, so that nothing is padded.
        by_length[len(processor.tokenizer(texts[-1], add_special_tokens=False)["input_ids"])].append(index)
    found = [""] * len(asked)
    for rows in by_length.values():
        for start in range(0, len(rows), batch):
            chosen = rows[start : start + batch]
            inputs = processor(
                text=[texts[i] for i in chosen],
                images=[[asked[i][0]] for i in chosen],
                return_tensors="pt",
                add_special_tokens=False,
            )
            with torch.inference_mode():
                ids = model.generate(**inputs, max_new_tokens=40, do_sample=False)
            said = processor.batch_decode(ids[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
            for i, text in zip(chosen, said, strict=True):
                found[i] = text
    return found


def scenes(seed: int, count: int = SCENES) -> list[Scene]:
    generator = np.random.default_rng(seed)
    return [held_out_scene(generator) for _ in range(count)]


def share(said: Sequence[str], wanted: Sequence[str]) -> float:
    return sum(a == b for a, b in zip(said, wanted, strict=True)) / len(wanted)


def on_black(drawn: Sequence[Scene]) -> list[Scene]:
    return [Scene(scene.things, "black") for scene in drawn]


@pytest.mark.parametrize("black", [False, True])
class TestTinyShapes:
    """Held-out combinations, drawn at 400 x 400 by another program."""

    def test_captions(self, tiny: tuple[Any, Any], black: bool) -> None:
        shown = on_black(scenes(31)) if black else scenes(30)
        generator = np.random.default_rng(1)
        pictures = [draw_otherwise(scene, generator) for scene in shown]
        said = answers(*tiny, [(picture, DESCRIBE) for picture in pictures])
        wanted = [scene.caption() for scene in shown]
        assert share(said, wanted) >= 0.97
        # Answers that do not come from the picture would be as right with another one.
        assert share(said, [*wanted[1:], wanted[0]]) < 0.1

    def test_questions(self, tiny: tuple[Any, Any], black: bool) -> None:
        shown = on_black(scenes(33)) if black else scenes(32)
        generator = np.random.default_rng(2)
        asked, wanted, sorts = [], [], []
        for scene in shown:
            picture = draw_otherwise(scene, generator)
            pool = list(questions(scene, generator))
            for index in generator.choice(len(pool), size=4, replace=False):
                sort, question, answer = pool[int(index)]
                asked.append((picture, question))
                wanted.append(answer)
                sorts.append(sort)
        said = answers(*tiny, asked)
        assert share(said, wanted) >= 0.95
        pairs = list(zip(said, wanted, sorts, strict=True))
        for sort in set(sorts):
            assert share(*zip(*((s, w) for s, w, k in pairs if k == sort), strict=True)) >= 0.9, sort
        blind = answers(*tiny, [(asked[0][0], question) for _, question in asked])
        assert share(blind, wanted) < 0.6


def test_plain_drawings_are_read(tiny: tuple[Any, Any]) -> None:
    shown = scenes(34, 100)
    said = answers(*tiny, [(draw(scene, 256), DESCRIBE) for scene in shown])
    assert share(said, [scene.caption() for scene in shown]) >= 0.97


def test_its_scales_make_the_real_models_trouble(tiny: tuple[Any, Any]) -> None:
    for layer in tiny[0].model.language_model.layers:
        scale = 1 + layer.post_feedforward_layernorm.weight.detach().double()
        assert (scale == 0).sum() == 1
        assert (scale < 0).sum() == 2
        sizes = scale.abs().sort().values
        assert sizes[-1] / sizes[len(sizes) // 2] > 2
        assert sizes[len(sizes) // 2] / sizes[1] > 3


@pytest.mark.parametrize(("name", "limit"), [("tiny-shapes", 8e6), ("gemma-3-270m-pictures", 4e6)])
def test_what_is_shipped_is_small_and_has_its_log_and_table(name: str, limit: float) -> None:
    files = list((ASSETS / name).iterdir())
    assert sum(file.stat().st_size for file in files) <= limit
    assert {file.suffix for file in files} <= {".safetensors", ".json", ".jinja", ".jsonl"}
    rows = json.loads((ASSETS / name / "accuracy.json").read_text())
    held_out = next(row for row in rows if row["scenes"].startswith("held-out"))
    assert held_out["caption"] >= (0.97 if name == "tiny-shapes" else 0.9)
    log = [json.loads(line) for line in (ASSETS / name / "training-log.jsonl").read_text().splitlines()]
    assert log[-1]["step"] > log[0]["step"]
