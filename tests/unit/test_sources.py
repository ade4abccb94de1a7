"""What a person types to name a model: keys, Hub ids, folders, files, and hostile text."""

import os
from pathlib import Path

import pytest

from ctxviz.errors import ModelError
from ctxviz.models.gguf_files import read_header
from ctxviz.models.sources import open_regular, reason, resolve
from tests.tiny_models import save_tiny_folder
from tests.unit.refusals import refusal


@pytest.fixture
def folder(tmp_path) -> Path:
    return save_tiny_folder(tmp_path / "tiny")


class TestReferences:
    def test_a_catalogue_key(self):
        source = resolve("gemma-3-270m")
        assert (source.kind, source.key, source.path) == ("package", "gemma-3-270m", None)
        assert resolve("gemma-3-1b-it").hub_id == "google/gemma-3-1b-it"

    def test_a_hub_id(self):
        source = resolve("someone/some-model.v2")
        assert (source.kind, source.hub_id, source.entry) == ("hub", "someone/some-model.v2", None)
        assert resolve("google/gemma-3-1b-it") == resolve("gemma-3-1b-it")

    def test_a_folder_wins_over_a_hub_id_and_a_key_over_a_folder(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "org" / "name").mkdir(parents=True)
        (tmp_path / "gemma-3-270m").mkdir()
        assert resolve("org/name").kind == "folder"
        assert resolve("gemma-3-270m").kind == "package"
        assert resolve("./gemma-3-270m").kind == "folder"

    def test_a_records_key_holds_no_path(self, folder):
        assert resolve(str(folder)).key == "tiny"

    def test_home_is_expanded(self, folder, monkeypatch):
        monkeypatch.setenv("HOME", str(folder.parent))
        assert resolve("~/tiny").path == folder.resolve()

    def test_a_gguf_is_told_by_its_content_too(self, tmp_path):
        (tmp_path / "blob").write_bytes(b"GGUF" + bytes(100))
        assert resolve(str(tmp_path / "blob")).kind == "gguf"

    @pytest.mark.parametrize(
        "reference",
        [
            *(
                "",
                "   ",
                "\0",
                "a\0b",
                "\ud800",
                "x\udfff/y",
                "a\nb",
                "x" * 5000,
                "/" + "y" * 4000,
                "nonsense",
            ),
            *(
                "no/such/folder",
                "/nowhere",
                "missing.gguf",
                "a/b.gguf",
                "~nobody-here/x",
                "../..//x",
                "<img src=x>",
            ),
            *(None, 7, b"bytes", ["x"]),
        ],
    )
    def test_hostile_or_unknown_text(self, reference):
        refusal(reference)

    def test_an_unknown_name_lists_the_known_ones(self):
        assert "gemma-3-270m," in refusal("gemma-4")

    def test_files_that_are_no_models(self, tmp_path, folder):
        (tmp_path / "notes.txt").write_text("hello")
        assert "'notes.txt' is not a model" in refusal(str(tmp_path / "notes.txt"))
        assert "name the folder" in refusal(str(folder / "model.safetensors"))
        os.mkfifo(tmp_path / "pipe")
        assert "neither a folder nor a regular file" in refusal(str(tmp_path / "pipe"))

    @pytest.mark.parametrize("suffix", [".bin", ".pt", ".pth", ".ckpt", ".pkl", ".PT"])
    def test_a_pickle_file_is_refused_unopened(self, tmp_path, suffix):
        path = tmp_path / f"model{suffix}"
        path.write_bytes(b"GGUF")
        text = refusal(str(path))
        assert "pickle" in text
        assert "safetensors" in text

    @pytest.mark.timeout(30)
    def test_pipes_and_devices_are_never_opened(self, tmp_path):
        os.mkfifo(tmp_path / "a.gguf")
        (tmp_path / "b.gguf").symlink_to("/dev/zero")
        for name in ("a.gguf", "b.gguf"):
            assert "regular file" in refusal(str(tmp_path / name))
            for read in (read_header, open_regular):
                with pytest.raises(ModelError, match="not a regular file"):
                    read(tmp_path / name)


def test_reasons_say_something():
    assert reason(KeyError("evil")) == "missing or unknown: 'evil'"
    assert reason(ValueError("Validation error for field 'a':\n    must be positive.\n")) == (
        "Validation error for field 'a': must be positive"
    )
    assert reason(ValueError()) == "ValueError"
    assert reason(OSError(2, "No such file", "/secret/path")) == "No such file"
    reason(ValueError("\ud800")).encode("utf-8")
