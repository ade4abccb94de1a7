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
from ctxviz.models import load_model, memory, placement
from ctxviz.models.folders import inspect
from ctxviz.pictures import from_image
from ctxviz.settings import ARITHMETICS, RunSettings
from tests.oracle.stock_pictures import noise_image
from tests.tiny_models import save_tiny_folder, save_tiny_picture_folder, tiny_gemma3

ROOT = Path(__file__).parents[2]
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


SPREAD = ((440_000, 440_000, 440_000), "0112", "pretend:0,pretend:1,pretend:2")
"""Bytes for weights; the devices of the float32 layers; all devices in use. float64 has other ones."""
APART = ((0, 500_000, 2_000_000), "1111", "pretend:1,pretend:2")
"""Nothing fits on the first; float32 is wholly on the second, and float64 on the third."""


@pytest.mark.parametrize(
    ("save", "rooms", "layers", "used"),
    [(save_tiny_picture_folder, *SPREAD), (save_tiny_folder, *APART)],
    ids=["pictures, layers spread", "text, dtypes apart"],
)
def test_three_devices_give_the_numbers_of_one(tmp_path, save, rooms, layers, used):
    folder = save(tmp_path / "model")
    out = tmp_path / "numbers.json"
    command = [sys.executable, "-m", "tests.pretended_devices", str(folder), str(out), *map(str, rooms)]
    environment = os.environ | {"HF_DEACTIVATE_ASYNC_LOAD": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-3000:]
    shared = json.loads(out.read_text())
    alone = json.loads(json.dumps(numbers_of(str(folder))))
    assert shared["layers"] == [f"pretend:{index}" for index in layers]
    assert shared["device"] == used
    assert len(alone["records"]) > 3
    assert shared["records"] == alone["records"]


LAYERS = "model.layers"


@pytest.fixture
def tiny(tmp_path) -> tuple[Any, memory.Shape]:
    """A configuration that says bfloat16, as published ones do, and the model's shape."""
    folder = save_tiny_folder(tmp_path / "model", tiny_gemma3(dtype=torch.bfloat16))
    return AutoConfig.from_pretrained(folder), inspect(folder).shape


def share(monkeypatch, tiny, dtype: torch.dtype, *rooms: int) -> placement.Places:
    """Shared out where so many bytes are free for weights."""
    config, shape = tiny
    name = str(dtype).removeprefix("torch.")
    beside = memory.need_of(shape, [name]) - memory.weight_bytes(shape, name)
    free = {f"cuda:{index}": beside + room for index, room in enumerate(rooms)}
    monkeypatch.setattr(memory, "free_bytes", free.__getitem__)
    chosen = tuple(torch.device(name) for name in free)
    return placement.share_out(config, LAYERS, shape, dtype, chosen)


def test_the_first_device_with_room_for_all_takes_all(monkeypatch, tiny):
    whole = memory.weight_bytes(tiny[1], "float32")
    assert share(monkeypatch, tiny, torch.float32, whole, whole) == {"": torch.device("cuda:0")}
    assert share(monkeypatch, tiny, torch.float32, whole - 1, whole) == {"": torch.device("cuda:1")}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_no_device_gets_more_than_fits_and_no_layer_is_cut(monkeypatch, tiny, dtype):
    """Whatever dtype the configuration names."""
    model = tiny_gemma3(dtype=dtype)
    whole = sum(p.numel() * p.element_size() for p in model.parameters())
    rooms = [int(0.6 * whole), int(0.7 * whole)]
    places = share(monkeypatch, tiny, dtype, *rooms)
    assert {f"{LAYERS}.{index}" for index in range(4)} <= places.keys()
    assert all(part.count(".") < 3 for part in places)
    taken = [0, 0]
    for name, parameter in model.named_parameters():
        (part,) = [p for p in places if name.startswith(f"{p}.")]
        taken[places[part].index] += parameter.numel() * parameter.element_size()
    assert sum(taken) == whole
    assert all(0 < t <= room for t, room in zip(taken, rooms, strict=True))


def test_devices_are_filled_alike(monkeypatch, tiny):
    whole = memory.weight_bytes(tiny[1], "float32")
    places = share(monkeypatch, tiny, torch.float32, whole - 1, whole - 1)
    home = [str(places[f"{LAYERS}.{index}"]) for index in range(4)]
    assert home == ["cuda:0", "cuda:0", "cuda:1", "cuda:1"]


@pytest.mark.parametrize(
    ("dtype", "remedy"), [("float32", "bfloat16 or a smaller"), ("bfloat16", "a smaller")]
)
def test_what_does_not_fit_is_refused_and_never_left_on_the_cpu(monkeypatch, tiny, dtype, remedy):
    whole = memory.weight_bytes(tiny[1], dtype)
    with pytest.raises(
        MemoryRefusedError, match=rf"do not fit on cuda:0,cuda:1 .*; choose {remedy} model, or"
    ):
        share(monkeypatch, tiny, getattr(torch, dtype), whole // 2, whole // 3)


def test_free_memory_of_several_is_added_and_a_card_that_cannot_be_asked_has_none(monkeypatch):
    def ask(device: str) -> tuple[int, int]:
        if device == "cuda:1":
            raise RuntimeError("busy")
        return int(device[-1]) + 5, 100

    monkeypatch.setattr(torch.cuda, "mem_get_info", ask)
    assert memory.free_bytes("cuda:0,cuda:1,cuda:2") == 5 + 0 + 7


def test_replays_are_refused_where_one_device_has_no_room_for_its_layers_copies(tmp_path, monkeypatch):
    model = load_model(str(save_tiny_folder(tmp_path / "model")))
    settings = RunSettings(replays=("same",), max_new_tokens=1)
    stream(model, "the sky", settings)
    monkeypatch.setattr(memory, "free_bytes", {"cpu": 1000}.__getitem__)
    with pytest.raises(MemoryRefusedError, match=r"on cpu, and 0\.0 GB are free; .* or no replay"):
        stream(model, "the sky", settings)
