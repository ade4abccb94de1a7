"""The real Gemma 3 270M with eyes: its own weights are untouched, and it names what it is shown."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoModelForImageTextToText, AutoProcessor

from ctxviz.models import load_model
from ctxviz.models.eyes import PARTS, language_name
from ctxviz.models.preparing import prepare
from ctxviz.models.progress import silent
from ctxviz.models.sources import resolve
from ctxviz.shapes.scenes import held_out_scene
from ctxviz.training.pictures_model import PROMPT
from ctxviz.training.train_eyes import said_of
from tests.oracle.test_shipped_pictures import answers, share
from tests.other_drawing import draw as draw_otherwise

pytestmark = pytest.mark.weights
SCENES = 100


@pytest.fixture(scope="module")
def seeing():
    folder = prepare(resolve("gemma-3-270m-pictures"), silent).folder
    model = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32, local_files_only=True)
    return model.eval(), AutoProcessor.from_pretrained(folder, local_files_only=True)


def test_the_language_half_is_the_packaged_model(seeing):
    folder = prepare(resolve("gemma-3-270m"), silent).folder
    text = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, local_files_only=True).eval()
    ours = dict(seeing[0].named_parameters())
    theirs = {language_name(name): value for name, value in text.named_parameters()}
    assert {name for name in ours if not name.startswith(PARTS)} == set(theirs)
    assert all(torch.equal(ours[name], value) for name, value in theirs.items())
    ids = torch.tensor([[2, 818, 7606, 580, 17533, 5]])
    with torch.inference_mode():
        assert torch.equal(seeing[0](input_ids=ids).logits, text(input_ids=ids).logits)


@pytest.mark.parametrize("black", [False, True])
def test_it_captions_held_out_scenes_of_two_shapes(seeing, black):
    generator = np.random.default_rng(41 + black)
    scenes = [held_out_scene(generator, 2) for _ in range(SCENES)]
    scenes = [type(scene)(scene.things, "black") if black else scene for scene in scenes]
    pictures = [draw_otherwise(scene, generator) for scene in scenes]
    said = [text.removesuffix("\n") for text in answers(*seeing, [(p, PROMPT) for p in pictures], batch=20)]
    wanted = [said_of(scene) for scene in scenes]
    assert share(said, wanted) >= 0.9
    assert share(said, [*wanted[1:], wanted[0]]) < 0.1


def test_it_loads_by_its_key_and_reads_pictures():
    model = load_model("gemma-3-270m-pictures")
    assert model.processor is not None
    assert model.piece(model.image_id) == "<image_soft_token>"
    assert model.identity.sha256 == resolve("gemma-3-270m-pictures").entry.sha256
