"""Converted models on disk: whatever is wrong with one, it is noticed and rebuilt, never half used."""

import errno
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ctxviz.errors import ModelError
from ctxviz.models import cache
from ctxviz.models.progress import silent

SHA = "ab" * 32
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
