"""Converted models on disk: whatever is wrong with one, it is noticed and rebuilt, never half used."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from ctxviz.errors import ModelError
from ctxviz.models import cache, load_model, packaged
from ctxviz.models.catalogue import CATALOGUE
from ctxviz.models.hashing import HashMemo, sha256_of
from ctxviz.models.preparing import is_ready
from ctxviz.models.progress import silent
from tests.tiny_gguf import gguf_model, save_tiny_gguf

SHA = "ab" * 32
IDS = torch.tensor([[2, 70, 71, 300, 301, 302, 9, 8, 7, 6, 5, 4]])
FILES = {"config.json": b"{}", "tokenizer.json": b"{ }", "model.safetensors": bytes(range(256)) * 64}


@pytest.fixture(autouse=True)
def cache_folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("CTXVIZ_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "models"


class Builder:
    """Writes FILES and counts how often it was asked to."""

    def __init__(self) -> None:
        self.built = 0

    def __call__(self, folder, _progress):
        self.built += 1
        for name, content in FILES.items():
            (folder / name).write_bytes(content)


class Stages(list):
    def __call__(self, stage, fraction):
        assert fraction is None or 0 <= fraction <= 1
        self.append(stage)


def sound(place: Path) -> bool:
    return all((place / name).read_bytes() == content for name, content in FILES.items())


def leftovers(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if ".building-" in p.name or ".discarded-" in p.name)


class TestBuilding:
    def test_built_once_then_used(self, cache_folder):
        build, stages = Builder(), Stages()
        assert not cache.looks_ready(SHA)
        place = cache.ensure(SHA, build, stages)
        assert place.parent == cache_folder
        assert sound(place)
        assert cache.ensure(SHA, build, stages) == place
        assert build.built == 1
        assert cache.looks_ready(SHA)
        assert leftovers(cache_folder) == []
        assert not [s for s in stages if "unusable" in s]

    def test_the_manifest_says_what_was_made_of_what(self):
        manifest = json.loads((cache.ensure(SHA, Builder(), silent) / cache.MANIFEST).read_text())
        assert (manifest["format"], manifest["source_sha256"]) == (cache.FORMAT, SHA)
        assert manifest["files"].keys() == FILES.keys()
        assert manifest["libraries"].keys() >= {"transformers", "gguf"}

    def test_the_cache_can_be_moved(self, monkeypatch, tmp_path):
        monkeypatch.delenv("CTXVIZ_CACHE")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
        assert cache.models_folder() == tmp_path / "xdg" / "ctxviz" / "models"
        monkeypatch.setenv("CTXVIZ_CACHE", "relative")
        assert cache.models_folder().is_absolute()

    def test_a_builder_that_fails_leaves_nothing(self, cache_folder):
        def build(folder, progress):
            (folder / "model.safetensors").write_bytes(b"half")
            raise ModelError("It is broken; mend it.")

        with pytest.raises(ModelError, match="It is broken"):
            cache.ensure(SHA, build, silent)
        assert [p.suffix for p in cache_folder.iterdir()] == [".lock"]
        assert sound(cache.ensure(SHA, Builder(), silent))

    def test_a_listener_that_gives_up_leaves_nothing(self, cache_folder):
        def listener(stage, fraction):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            cache.ensure(SHA, Builder(), listener)
        assert leftovers(cache_folder) == []
        assert not cache.looks_ready(SHA)


def truncate(place):
    file = place / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1])


def flip_a_byte(place):
    with (place / "model.safetensors").open("r+b") as file:
        file.seek(1000)
        file.write(b"\xff")


def flip_a_byte_and_forget(place):
    flip_a_byte(place)
    (place.parent / "hashes.json").unlink()


def drop_manifest(place):
    (place / cache.MANIFEST).unlink()


def spoil_manifest(place):
    (place / cache.MANIFEST).write_text("{" * 100)


def edit_manifest(place, **changes):
    path = place / cache.MANIFEST
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def other_format(place):
    edit_manifest(place, format=cache.FORMAT + 1)


def other_source(place):
    edit_manifest(place, source_sha256="cd" * 32)


def empty_manifest(place):
    edit_manifest(place, files={})


def nonsense_manifest(place):
    edit_manifest(place, files=[1, 2])


def drop_a_file(place):
    (place / "tokenizer.json").unlink()


def add_a_file(place):
    (place / "adapter_config.json").write_text("{}")


def swap_for_a_link(place):
    (place / "config.json").rename(place.parent / "elsewhere")
    (place / "config.json").symlink_to(place.parent / "elsewhere")


def swap_for_a_folder(place):
    (place / "config.json").unlink()
    (place / "config.json").mkdir()


def put_a_file_there(place):
    move_away(place)
    place.write_text("mine")


def put_a_foreign_folder_there(place):
    move_away(place)
    place.mkdir()
    (place / "model.safetensors").write_bytes(FILES["model.safetensors"])


def put_a_link_there(place):
    move_away(place)
    place.symlink_to(place.parent / "away")


def put_a_dangling_link_there(place):
    move_away(place)
    place.symlink_to(place.parent / "nowhere")


def move_away(place):
    place.rename(place.parent / "away")


class TestDamage:
    @pytest.mark.parametrize(
        "damage",
        [
            *(truncate, flip_a_byte, flip_a_byte_and_forget, drop_manifest, spoil_manifest, other_format),
            *(other_source, empty_manifest, nonsense_manifest, drop_a_file, add_a_file, swap_for_a_link),
            *(swap_for_a_folder, put_a_file_there, put_a_foreign_folder_there, put_a_link_there),
            put_a_dangling_link_there,
        ],
    )
    def test_it_is_noticed_and_the_model_rebuilt(self, damage, cache_folder):
        build, stages = Builder(), Stages()
        place = cache.ensure(SHA, build, stages)
        damage(place)
        assert cache.ensure(SHA, build, stages) == place
        assert build.built == 2
        assert sound(place)
        assert not place.is_symlink()
        assert [s for s in stages if "unusable" in s and "made again" in s]
        assert leftovers(cache_folder) == []
        cache.ensure(SHA, build, stages)
        assert build.built == 2

    def test_a_link_is_removed_without_what_it_points_at(self, cache_folder):
        place = cache.ensure(SHA, Builder(), silent)
        put_a_link_there(place)
        cache.ensure(SHA, Builder(), silent)
        assert sound(cache_folder / "away")

    def test_a_forgotten_hash_costs_only_reading(self, cache_folder):
        build = Builder()
        cache.ensure(SHA, build, silent)
        for content in ("", "[]", "{", '{"x": 3}'):
            (cache_folder / "hashes.json").write_text(content)
            cache.ensure(SHA, build, silent)
        assert build.built == 1

    def test_leftovers_of_this_model_are_swept_when_it_is_built(self, cache_folder):
        cache_folder.mkdir(parents=True)
        for name in (f"{SHA}-1.building-x1", f"{SHA}-1.discarded-x2"):
            (cache_folder / name).mkdir()
            (cache_folder / name / "model.safetensors").write_bytes(b"half")
        other = cache_folder / f"{'cd' * 32}-1.building-x3"
        other.mkdir()
        cache.ensure(SHA, Builder(), silent)
        # Another model's builder may be at work in its own.
        assert leftovers(cache_folder) == [other.name]


class TestStorage:
    def test_a_full_disk(self, cache_folder):
        def build(folder, progress):
            raise OSError(errno.ENOSPC, "No space left on device")

        with pytest.raises(ModelError, match=r"no space left in .*; free some space, or set CTXVIZ_CACHE"):
            cache.ensure(SHA, build, silent)
        assert leftovers(cache_folder) == []

    def test_too_little_room_is_told_before_building(self):
        build = Builder()
        with pytest.raises(ModelError, match=r"needs 1000000000.0 GB in .* are free; free some space"):
            cache.ensure(SHA, build, silent, bytes_needed=10**18)
        assert build.built == 0

    def test_a_cache_that_cannot_be_written(self, tmp_path, monkeypatch):
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("CTXVIZ_CACHE", str(tmp_path / "file"))
        with pytest.raises(ModelError, match=r"cannot be prepared in .*CTXVIZ_CACHE"):
            cache.ensure(SHA, Builder(), silent)

    def test_permission_denied(self, monkeypatch):
        def refuse(*args, **kwargs):
            raise PermissionError(errno.EACCES, "Permission denied")

        monkeypatch.setattr(cache, "mkdtemp", refuse)
        with pytest.raises(ModelError, match=r"\(Permission denied\); make that folder writable"):
            cache.ensure(SHA, Builder(), silent)


SLOW_BUILD = """
import sys, time
from ctxviz.models import cache
def build(folder, progress):
    (folder / "model.safetensors").write_bytes(b"half")
    print("building", flush=True)
    sys.stdin.readline()
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
def progress(stage, fraction):
    print(stage, flush=True)
FILES = {files!r}
cache.ensure({sha!r}, build, progress)
print("ready", flush=True)
"""


def start_builder() -> subprocess.Popen[str]:
    code = SLOW_BUILD.replace("{files!r}", repr(FILES)).replace("{sha!r}", repr(SHA))
    return subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def wait_for(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdout is not None
    for printed in process.stdout:
        if printed.strip() == line:
            return
    raise AssertionError(f"{line!r} was never printed")


class TestProcesses:
    def test_killed_in_the_middle(self, cache_folder):
        process = start_builder()
        wait_for(process, "building")
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert len(leftovers(cache_folder)) == 1
        assert not cache.looks_ready(SHA)
        build = Builder()
        assert sound(cache.ensure(SHA, build, silent))
        assert build.built == 1
        assert leftovers(cache_folder) == []

    def test_two_at_once_build_once(self):
        first = start_builder()
        wait_for(first, "building")
        second = start_builder()
        wait_for(second, "waiting for another program that is preparing this model")
        out, _ = first.communicate("go on\n")
        assert "ready" in out
        out, _ = second.communicate(timeout=60)
        assert "ready" in out
        assert "building" not in out
        assert (first.returncode, second.returncode) == (0, 0)

    def test_the_one_that_waits_takes_over_from_a_killed_one(self):
        first = start_builder()
        wait_for(first, "building")
        second = start_builder()
        wait_for(second, "waiting for another program that is preparing this model")
        first.kill()
        first.communicate()
        wait_for(second, "building")
        out, _ = second.communicate("go on\n", timeout=60)
        assert "ready" in out
        assert sound(cache.ensure(SHA, Builder(), silent))


class TestHashes:
    def test_a_file_is_read_again_only_when_it_changed(self, tmp_path, monkeypatch):
        memo, file = HashMemo(tmp_path / "hashes.json"), tmp_path / "file"
        file.write_bytes(b"one")
        digest = memo.sha256(file)
        assert digest == sha256_of(file)
        read = []
        monkeypatch.setattr(
            "ctxviz.models.hashing.sha256_of", lambda f, _progress: read.append(f) or sha256_of(f)
        )
        assert memo.sha256(file) == digest
        assert read == []
        file.write_bytes(b"two")
        os.utime(file, ns=(time.time_ns() + 10**9,) * 2)
        assert memo.sha256(file) == sha256_of(file) != digest
        assert read == [file]

    def test_entries_of_vanished_files_go(self, tmp_path):
        memo = HashMemo(tmp_path / "hashes.json")
        for name in ("a", "b"):
            (tmp_path / name).write_bytes(b"x")
            memo.sha256(tmp_path / name)
        (tmp_path / "a").unlink()
        (tmp_path / "c").write_bytes(b"x")
        memo.sha256(tmp_path / "c")
        assert json.loads((tmp_path / "hashes.json").read_text()).keys() == {
            str(tmp_path / "b"),
            str(tmp_path / "c"),
        }

    def test_progress_is_a_fraction(self, tmp_path):
        (tmp_path / "file").write_bytes(bytes(9 << 20))
        fractions = []
        sha256_of(tmp_path / "file", fractions.append)
        assert fractions == sorted(fractions)
        assert fractions[-1] == 1.0


LINEAR = {
    "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
    "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
}


class TestGguf:
    @pytest.mark.parametrize("options", [{}, {"rope_parameters": LINEAR}, {"tie_word_embeddings": False}])
    def test_a_converted_file_computes_what_its_source_computes(self, tmp_path, options):
        stock = gguf_model(**options)
        path = save_tiny_gguf(tmp_path / "m.gguf", stock)
        model = load_model(str(path), device="cpu")
        found = model.in_dtype("float32")
        # A norm is stored as 1 + w, so w comes back rounded to the spacing of floats near 1.
        torch.testing.assert_close(found.state_dict(), stock.state_dict(), rtol=0, atol=2**-23)
        torch.testing.assert_close(
            found(input_ids=IDS).logits, stock(input_ids=IDS).logits, rtol=0, atol=1e-5
        )
        assert model.identity.sha256 == sha256_of(path)
        assert model.eos_ids == {1, 4}
        assert model.bos_id == 2

    def test_without_the_scaling_the_logits_would_differ(self):
        # The control of the test above: it can tell a dropped rope scaling.
        scaled, plain = gguf_model(rope_parameters=LINEAR), gguf_model()
        gap = (scaled(input_ids=IDS).logits - plain(input_ids=IDS).logits).abs().max()
        assert gap > 1e-3

    def test_the_tokenizer_is_the_files_own(self, tmp_path):
        path = save_tiny_gguf(tmp_path / "m.gguf", gguf_model())
        (tmp_path / "tokenizer.json").write_text("{}")
        (tmp_path / "tokenizer_config.json").write_text('{"bos_token": "<unused3>"}')
        model = load_model(str(path), device="cpu")
        ids = model.tokenizer("the and  thé").input_ids
        assert [model.piece(i) for i in ids] == ["<bos>", "the", " and", "  ", "th", "<0xC3>", "<0xA9>"]

    def test_the_second_load_reads_the_cache(self, tmp_path, monkeypatch):
        path = save_tiny_gguf(tmp_path / "m.gguf", gguf_model())
        load_model(str(path), device="cpu")
        monkeypatch.setattr("ctxviz.models.preparing.convert", lambda *_: pytest.fail("converted again"))
        load_model(str(path), device="cpu")
        # The cache goes by contents, not by name.
        load_model(str(path.rename(tmp_path / "other.gguf")), device="cpu")

    def test_stages_are_named_and_move(self, tmp_path):
        path = save_tiny_gguf(tmp_path / "m.gguf", gguf_model())
        seen = []
        load_model(str(path), device="cpu", progress=lambda stage, fraction: seen.append((stage, fraction)))
        assert list(dict.fromkeys(stage for stage, _ in seen)) == [
            "checking the file",
            "reading the tokenizer",
            "unpacking the weights",
            "storing the model",
            "reading the weights in float32",
        ]
        fractions = [f for stage, f in seen if stage == "unpacking the weights"]
        assert fractions == sorted(fractions)
        assert fractions[-1] == 1.0

    def test_a_storage_type_that_cannot_be_unpacked(self, tmp_path, monkeypatch):
        path = save_tiny_gguf(tmp_path / "m.gguf", gguf_model())

        def refuse(data, kind):
            raise NotImplementedError

        monkeypatch.setattr("gguf.dequantize", refuse)
        with pytest.raises(ModelError, match="stores weights as F32, which cannot be unpacked"):
            load_model(str(path), device="cpu")


class TestPackage:
    def test_a_damaged_package(self, tmp_path, monkeypatch):
        part = tmp_path / "part"
        part.write_bytes(b"not the model")
        monkeypatch.setattr(packaged, "_part_files", lambda: [part])
        with pytest.raises(ModelError, match="damaged or is another version; reinstall it"):
            load_model("gemma-3-270m", device="cpu")
        assert not is_ready(CATALOGUE["gemma-3-270m"])

    def test_a_package_that_is_not_installed(self, monkeypatch):
        monkeypatch.setattr(packaged, "_PACKAGE", "no_such_package_here")
        with pytest.raises(ModelError, match="not installed; install it with pip"):
            load_model("gemma-3-270m", device="cpu")

    def test_hub_models_are_not_ready_unless_downloaded(self, monkeypatch, tmp_path):
        import huggingface_hub

        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
        assert not is_ready(CATALOGUE["gemma-3-1b-it"])


@pytest.mark.weights
class TestRealWeights:
    @pytest.fixture(autouse=True)
    def default_cache(self, monkeypatch):
        # The cache the application itself uses, so that the model is converted at most once.
        monkeypatch.delenv("CTXVIZ_CACHE")

    def test_the_packaged_model(self):
        import psutil

        before = psutil.Process().memory_info().rss
        model = load_model("gemma-3-270m", dtypes=("float32", "bfloat16"), device="cpu")
        assert psutil.Process().memory_info().rss - before < 3.5e9
        entry = CATALOGUE["gemma-3-270m"]
        assert is_ready(entry)
        assert (model.n_layers, model.width, model.window) == (entry.n_layers, entry.width, 32768)
        assert model.vocabulary == entry.vocabulary
        assert model.identity.sha256 == entry.sha256
        stock = model.in_dtype("float32")
        assert sum(p.numel() for p in stock.parameters()) == entry.parameters
        ids = model.tokenizer("To be, or not to", return_tensors="pt").input_ids
        assert ids[0, 0] == model.bos_id
        with torch.inference_mode():
            best = int(stock(input_ids=ids).logits[0, -1].argmax())
        assert model.piece(best) == " be"
