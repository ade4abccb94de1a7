"""A model shared between devices by accelerate gives the numbers that it gives on one.

The devices are pretended ones (tests.pretended_devices): the loading and the moving are transformers' and
accelerate's own, and an operation on tensors of two devices fails.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoConfig

from ctxviz.engine import stream
from ctxviz.errors import MemoryRefusedError
from ctxviz.folds import Fold
from ctxviz.models import devices, load_model, memory, placement
from ctxviz.models.folders import inspect
from ctxviz.pictures import from_image
from ctxviz.settings import ARITHMETICS, RunSettings
from tests.oracle.stock_pictures import noise_image
from tests.tiny_models import save_tiny_folder, save_tiny_picture_folder

ROOT = Path(__file__).parents[2]
ROOMS = (330_000, 110_000, 10**9)
"""Bytes: the embedding, then a layer or two on each of the first devices."""
TIMES = ("seconds",)


def numbers_of(folder: str) -> dict[str, Any]:
    """Every number of a run of two tokens with replays and references, and where the layers are."""
    model = load_model(folder, dtypes=("float32", "bfloat16"))
    pictures = [from_image(noise_image(k), f"{k}.png") for k in (1, 2)] if model.processor else []
    settings = RunSettings(
        updates=("direct", "stable"),
        arithmetics=ARITHMETICS,
        dtypes=("float32", "bfloat16"),
        fold=Fold("image", number=1) if pictures else Fold("span", 1, 4),
        max_new_tokens=2,
        replays=("same", "batch", "ulp", "rounded"),
        hold=0,
        budget=True,
    )
    records = list(stream(model, "the sky and the sand", settings, pictures=pictures, keep_patches=True))
    layers = model.in_dtype("float32").get_submodule(model.architecture.layers)
    return {
        "device": model.identity.device,
        "layers": [str(next(layer.parameters()).device) for layer in layers.children()],
        "records": [_plain(record) for record in records],
    }


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value) if f.name not in TIMES}
    if isinstance(value, np.ndarray):
        return [value.dtype.str, *value.shape, value.tobytes().hex()]
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    if isinstance(value, float) and np.isnan(value):
        return None
    return value.item() if isinstance(value, np.generic) else value


@pytest.mark.parametrize("save", [save_tiny_folder, save_tiny_picture_folder], ids=["text", "pictures"])
def test_three_devices_give_the_numbers_of_one(tmp_path, save):
    folder = save(tmp_path / "model")
    out = tmp_path / "numbers.json"
    command = [sys.executable, "-m", "tests.pretended_devices", str(folder), str(out), *map(str, ROOMS)]
    environment = os.environ | {"HF_DEACTIVATE_ASYNC_LOAD": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-3000:]
    shared = json.loads(out.read_text())
    alone = json.loads(json.dumps(numbers_of(str(folder))))
    assert sorted(set(shared["layers"])) == ["pretend:0", "pretend:1", "pretend:2"]
    assert shared["device"] == "pretend:0,pretend:1,pretend:2"
    assert len(alone["records"]) > 3
    assert shared["records"] == alone["records"]


TWO = (torch.device("cuda:0"), torch.device("cuda:1"))


def test_the_first_device_takes_all_where_it_can(tmp_path):
    config = AutoConfig.from_pretrained(save_tiny_folder(tmp_path / "model"))
    assert placement.share_out(config, torch.float32, TWO, (10**9, 10**9)) == {"": TWO[0]}


def test_no_layer_is_cut_and_wider_numbers_take_more(tmp_path):
    config = AutoConfig.from_pretrained(save_tiny_folder(tmp_path / "model"))
    places = placement.share_out(config, torch.float32, TWO, ROOMS[:1] + ROOMS[-1:])
    assert set(places.values()) == set(TWO)
    assert not any(part.startswith("model.layers.") and part.count(".") > 2 for part in places)
    narrow = placement.share_out(config, torch.bfloat16, TWO, ROOMS[:1] + ROOMS[-1:])
    assert list(narrow.values()).count(TWO[0]) > list(places.values()).count(TWO[0]) or narrow == {"": TWO[0]}


def test_what_does_not_fit_is_refused_and_never_left_on_the_cpu(tmp_path):
    config = AutoConfig.from_pretrained(save_tiny_folder(tmp_path / "model"))
    with pytest.raises(MemoryRefusedError, match=r"do not fit on cuda:0,cuda:1 .*; choose bfloat16"):
        placement.share_out(config, torch.float32, TWO, (200_000, 100_000))


def test_a_pass_is_kept_room_for_on_every_device(tmp_path, monkeypatch):
    shape = inspect(save_tiny_folder(tmp_path / "model")).shape
    beside = memory.need_of(shape, ["float32"]) - 4 * shape.parameters
    monkeypatch.setattr(memory, "free_bytes", {"cuda:0": beside + 1000, "cuda:1": beside - 1}.get)
    assert placement.rooms(TWO, shape, "float32") == [1000, 0]


def test_free_memory_of_several_is_added(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (int(device[-1]) + 5, 100))
    assert memory.free_bytes(devices.named(TWO)) == 5 + 6
