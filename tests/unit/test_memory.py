"""What a model takes is told before it is loaded, and what would not fit is refused with a remedy."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from transformers import SiglipVisionConfig

from ctxviz.errors import MemoryRefusedError, ModelError
from ctxviz.models import load_model, memory
from ctxviz.models.catalogue import CATALOGUE
from ctxviz.models.folders import inspect
from ctxviz.models.memory import MemoryNeed, Shape, Vision, free_bytes, need_of, refuse_unless
from ctxviz.models.preparing import ASSETS, estimate
from tests.tiny_gguf import gguf_model, save_tiny_gguf
from tests.tiny_models import save_tiny_folder, save_tiny_picture_folder

SMALL = Shape(parameters=1000, n_layers=2, width=8, hidden=16, kv_width=4, vocabulary=100)


def set_free(monkeypatch, count: int) -> None:
    monkeypatch.setattr(memory.psutil, "virtual_memory", lambda: SimpleNamespace(available=count))
    monkeypatch.setattr(memory, "_CONTROL_GROUPS", ())


def test_dtypes_add_up():
    both, wide, narrow = (need_of(SMALL, d) for d in (("float32", "bfloat16"), ("float32",), ("bfloat16",)))
    # Weights, 2048 cached tokens, three scratch matrices: 4 bytes a number, against 2.
    numbers = 1000 + 2048 * 2 * 4 + 3 * 8 * 16
    assert wide - narrow == 2 * numbers
    assert both - narrow == 4 * numbers
    assert need_of(SMALL, ("float64",)) - wide == 4 * numbers


SEEING = replace(SMALL, vision=Vision(width=8, hidden=32, squares=9))


def test_a_picture_takes_a_towers_larger_moment_once_in_the_widest_dtype():
    # Attention 9 (5 x 8) = 360 numbers, MLP 9 (2 x 8 + 2 x 32) = 720.
    assert SEEING.vision is not None
    assert SEEING.vision.moment == 720
    assert replace(SEEING.vision, hidden=8).moment == 360
    for dtypes, width in ((("float32",), 4), (("bfloat16",), 2), (("bfloat16", "float64", "float32"), 8)):
        assert need_of(SEEING, dtypes) - need_of(SMALL, dtypes) == width * 720
    assert need_of(SEEING, ()) == need_of(SMALL, ())


def test_a_folders_tower_is_measured(tmp_path):
    folder = save_tiny_picture_folder(tmp_path / "seeing")
    shape = inspect(folder).shape
    # 16 pixels a side in squares of 8.
    assert shape.vision == Vision(16, 32, 4)
    need = estimate(str(folder)).need_bytes
    assert need == need_of(replace(shape, vision=None), ("float32",)) + 4 * 4 * (2 * 16 + 2 * 32)
    assert inspect(save_tiny_folder(tmp_path / "blind")).shape.vision is None


def test_a_tower_that_leaves_out_what_is_usual_has_it(tmp_path):
    folder = save_tiny_picture_folder(tmp_path / "seeing")
    config = json.loads((folder / "config.json").read_text())
    for stated, expected in (
        ({}, SiglipVisionConfig()),
        ({"patch_size": 32}, SiglipVisionConfig(patch_size=32)),
    ):
        (folder / "config.json").write_text(json.dumps(config | {"vision_config": stated}))
        side = expected.image_size // expected.patch_size
        usual = Vision(expected.hidden_size, expected.intermediate_size, side**2)
        assert inspect(folder).shape.vision == usual
    for wrong in (0, -1, 1.5, "8", None, True, [8, 8]):
        (folder / "config.json").write_text(json.dumps(config | {"vision_config": {"image_size": wrong}}))
        with pytest.raises(ModelError, match=r"image_size must be a whole number above 0.*; "):
            inspect(folder)


@pytest.mark.parametrize(
    "key", [key for key, entry in CATALOGUE.items() if entry.source in ("asset", "eyes")]
)
def test_the_catalogue_knows_the_towers_of_what_is_shipped(key):
    vision = json.loads((ASSETS / key / "config.json").read_text())["vision_config"]
    side = vision["image_size"] // vision["patch_size"]
    widths = (vision["hidden_size"], vision["intermediate_size"])
    assert CATALOGUE[key].vision == (*widths, side**2)


def test_the_catalogue_knows_a_tower_of_whatever_reads_pictures():
    assert all((entry.vision is not None) == entry.reads_pictures for entry in CATALOGUE.values())


def test_the_packaged_model_in_two_dtypes_is_under_4_gb():
    need = estimate("gemma-3-270m", ("float32", "bfloat16")).need_bytes
    weights = sum(CATALOGUE["gemma-3-270m"].weight_bytes(d) for d in ("float32", "bfloat16"))
    assert need is not None
    assert weights < need < 4e9


@pytest.mark.parametrize("key", CATALOGUE)
def test_every_catalogue_model_has_an_estimate_without_a_network(key):
    found = estimate(key, ("bfloat16",))
    assert found.need_bytes is not None
    assert found.need_bytes > CATALOGUE[key].weight_bytes("bfloat16")


def test_folders_and_gguf_files_are_measured_by_their_headers(tmp_path):
    stock = gguf_model()
    folder = save_tiny_folder(tmp_path / "folder", stock)
    file = save_tiny_gguf(tmp_path / "m.gguf", stock)
    needs = {estimate(str(path)).need_bytes for path in (folder, file)}
    shape = Shape(sum(p.numel() for p in stock.parameters()), 6, 48, 96, 2 * 2 * 16, 384)
    assert needs == {need_of(shape, ("float32",))}


def test_an_undownloaded_hub_model_is_not_guessed_at():
    found = estimate("someone/something")
    assert found.need_bytes is None
    assert found.fits


def test_an_unknown_model_has_no_estimate():
    with pytest.raises(ModelError):
        estimate("nonsense")


def test_the_refusal_names_need_free_and_remedy():
    refuse_unless(MemoryNeed(1, 1), ("float32",))
    with pytest.raises(
        MemoryRefusedError, match=r"needs about 3\.2 GB in float32, and 1\.0 GB are free; choose bf"
    ):
        refuse_unless(MemoryNeed(3_200_000_000, 1_000_000_000), ("float32",))
    with pytest.raises(MemoryRefusedError, match="choose a smaller model"):
        refuse_unless(MemoryNeed(2, 1), ("bfloat16",))
    with pytest.raises(MemoryRefusedError, match=r"float32 and bfloat16.*choose fewer dtypes"):
        refuse_unless(MemoryNeed(2, 1), ("float32", "bfloat16"))


def test_a_model_that_does_not_fit_is_not_loaded(tmp_path, monkeypatch):
    folder = save_tiny_folder(tmp_path / "tiny")
    set_free(monkeypatch, 100 << 20)
    monkeypatch.setattr("ctxviz.models.loading._load_weights", lambda *_: pytest.fail("it was loaded"))
    with pytest.raises(MemoryRefusedError, match=r"0\.3 GB"):
        load_model(str(folder), device="cpu")


def test_a_model_of_the_catalogue_is_refused_before_it_is_fetched(monkeypatch):
    set_free(monkeypatch, 1 << 30)
    monkeypatch.setattr("ctxviz.models.loading.prepare", lambda *_: pytest.fail("it was fetched"))
    with pytest.raises(MemoryRefusedError, match="choose"):
        load_model("gemma-3-27b-it", dtypes=("bfloat16",), device="cpu")


def test_a_second_dtype_is_refused_and_the_first_stays_usable(tmp_path, monkeypatch):
    model = load_model(str(save_tiny_folder(tmp_path / "tiny")), device="cpu")
    set_free(monkeypatch, 0)
    with pytest.raises(MemoryRefusedError):
        model.in_dtype("bfloat16")
    assert model.dtypes == ("float32",)
    model.in_dtype("float32")(input_ids=torch.tensor([[2, 5]]))


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"),
    ],
)
def test_running_out_all_the_same_is_told_the_same_way(tmp_path, monkeypatch, error):
    def run_out(*args, **kwargs):
        raise error

    folder = save_tiny_folder(tmp_path / "tiny")
    monkeypatch.setattr("transformers.AutoModelForCausalLM.from_pretrained", run_out)
    with pytest.raises(MemoryRefusedError, match="choose a smaller dtype"):
        load_model(str(folder), device="cpu")


def control_group(folder, limit: str, used: int, stat: str):
    folder.mkdir()
    (folder / "memory.max").write_text(limit)
    (folder / "memory.current").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(stat)
    return ((str(folder), "memory.max", "memory.current"),)


def test_a_containers_limit_counts(tmp_path, monkeypatch):
    set_free(monkeypatch, 10_000)
    stat = "anon 500\nactive_file 30\ninactive_file 70\nfile 999\n"
    monkeypatch.setattr(memory, "_CONTROL_GROUPS", control_group(tmp_path / "g", "1000\n", 600, stat))
    # 1000 allowed, 600 used, of which 100 are cached files that can be dropped.
    assert free_bytes("cpu") == 500


@pytest.mark.parametrize("limit", ["max\n", "garbage", ""])
def test_a_container_without_a_limit_does_not(tmp_path, monkeypatch, limit):
    set_free(monkeypatch, 10_000)
    monkeypatch.setattr(memory, "_CONTROL_GROUPS", control_group(tmp_path / "g", limit, 600, ""))
    assert free_bytes("cpu") == 10_000


def test_other_devices_are_asked(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (7 if device == "cuda:1" else 8, 9))
    assert (free_bytes("cuda"), free_bytes("cuda:1")) == (8, 7)
    monkeypatch.setattr(torch.mps, "recommended_max_memory", lambda: 9)
    monkeypatch.setattr(torch.mps, "current_allocated_memory", lambda: 4)
    assert free_bytes("mps") == 5
