"""Processor files of a folder nobody vouches for: they fit the model, or are refused before they are used."""

from __future__ import annotations

import json
import shutil

import pytest

from ctxviz.errors import ModelError
from ctxviz.models import load_model
from tests.tiny_models import save_tiny_picture_folder


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return save_tiny_picture_folder(tmp_path_factory.mktemp("model") / "seeing")


@pytest.fixture
def folder(made, tmp_path):
    shutil.copytree(made, tmp_path / "seeing")
    return tmp_path / "seeing"


def change(folder, **changes):
    path = folder / "processor_config.json"
    whole = json.loads(path.read_text())
    for name, value in changes.items():
        part = (
            whole if name in ("processor_class", "image_seq_length", "audio_tokenizer", "auto_map") else None
        )
        (whole["image_processor"] if part is None else whole)[name] = value
    path.write_text(json.dumps(whole))


def test_a_fitting_processor_is_used(folder):
    assert load_model(str(folder), device="cpu").processor is not None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"audio_tokenizer": {"audio_tokenizer_class": "AutoModel"}}, "more than reading pictures"),
        ({"auto_map": {"AutoProcessor": "evil.Evil"}}, "more than reading pictures"),
        ({"processor_class": "LlavaProcessor"}, "not Gemma 3's"),
        ({"image_processor_type": "CLIPImageProcessor"}, "not Gemma 3's"),
        ({"image_seq_length": 9}, "another number of image tokens"),
        ({"image_seq_length": 0}, "another number of image tokens"),
        ({"image_seq_length": 10**9}, "another number of image tokens"),
        ({"size": {"height": 40_000, "width": 40_000}}, "another number of pixels"),
        ({"size": None}, "another number of pixels"),
        ({"do_resize": False}, "another number of pixels"),
    ],
)
def test_others_are_refused_in_a_sentence(folder, changes, words):
    change(folder, **changes)
    with pytest.raises(ModelError, match=words):
        load_model(str(folder), device="cpu")


def test_a_file_beside_it_that_names_an_audio_tokenizer_is_refused(folder):
    (folder / "audio_tokenizer_config.json").write_text("{}")
    with pytest.raises(ModelError, match="audio_tokenizer_config"):
        load_model(str(folder), device="cpu")


def test_a_folder_without_a_picture_reader_reads_text(folder):
    (folder / "processor_config.json").write_text(json.dumps({"processor_class": "Gemma3Processor"}))
    assert load_model(str(folder), device="cpu").processor is None
