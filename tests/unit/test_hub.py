"""Why a Hub model cannot be had, in plain words, and that only what is needed is fetched."""

import errno
import shutil
from types import SimpleNamespace

import huggingface_hub
import pytest
from huggingface_hub import errors as hub_errors

from ctxviz.errors import ModelAccessError, ModelError
from ctxviz.models import load_model
from tests.tiny_models import save_tiny_folder
from tests.unit.refusals import refusal


def hub_error(kind: type[hub_errors.HfHubHTTPError], status: int) -> hub_errors.HfHubHTTPError:
    return kind("the hub said no", response=SimpleNamespace(status_code=status, headers={}, request=None))


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


class TestHub:
    @pytest.mark.parametrize(
        ("raised", "error", "said"),
        [
            (hub_error(hub_errors.GatedRepoError, 401), ModelAccessError, "needs a Hugging Face token"),
            (hub_errors.LocalTokenNotFoundError("none"), ModelAccessError, "needs a Hugging Face token"),
            (hub_error(hub_errors.GatedRepoError, 403), ModelAccessError, "licence of google/gemma-3-1b-it"),
            (hub_error(hub_errors.RepositoryNotFoundError, 404), ModelAccessError, "There is no model"),
            (hub_errors.OfflineModeIsEnabled("off"), ModelAccessError, "cannot be reached"),
            (ConnectionError("refused"), ModelAccessError, "cannot be reached"),
            (TimeoutError("slow"), ModelAccessError, "cannot be reached"),
            (hub_errors.LocalEntryNotFoundError("none"), ModelAccessError, "cannot be reached"),
            (hub_error(hub_errors.HfHubHTTPError, 500), ModelAccessError, "try again later"),
            (
                caused(hub_errors.LocalEntryNotFoundError("none"), hub_error(hub_errors.HfHubHTTPError, 503)),
                ModelAccessError,
                "try again later",
            ),
            (OSError(errno.ENOSPC, "No space left on device"), ModelError, "no space left"),
            (PermissionError(errno.EACCES, "Permission denied"), ModelAccessError, "Permission denied"),
            (hub_errors.XetDownloadError("bad chunk"), ModelAccessError, "bad chunk"),
            (hub_errors.HFValidationError("bad name"), ModelError, "not a name the Hub can have"),
        ],
    )
    def test_why_a_model_cannot_be_had(self, monkeypatch, raised, error, said):
        def snapshot_download(*args, **kwargs):
            raise raised

        monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
        text = refusal("gemma-3-1b-it", error)
        assert said in text
        if "licence" in said or "token" in said:
            assert "https://huggingface.co/google/gemma-3-1b-it" in text

    def test_without_a_network_the_real_client_is_told_apart(self, monkeypatch, tmp_path):
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
        assert "cannot be reached" in refusal("someone/never-downloaded", ModelAccessError)

    def test_a_download(self, monkeypatch, tmp_path):
        commit = "0123456789" * 4
        source = save_tiny_folder(tmp_path / "source")
        (source / "pytorch_model.bin").write_bytes(b"x")
        asked = []

        def snapshot_download(repo_id, *, revision, allow_patterns, tqdm_class):
            asked.append((repo_id, revision))
            target = tmp_path / commit
            target.mkdir(exist_ok=True)
            for pattern in allow_patterns:
                for file in source.glob(pattern):
                    shutil.copy(file, target)
            with tqdm_class(total=10, unit="B", desc="bytes", name="x") as bar:
                bar.update(10)
                bar.refresh()
            return str(target)

        monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
        stages = []
        model = load_model(
            "some/tiny", device="cpu", progress=lambda stage, done: stages.append((stage, done))
        )
        assert asked == [("some/tiny", None), ("some/tiny", commit)]
        assert (model.identity.key, model.identity.revision) == ("some/tiny", commit)
        assert ("downloading the model", 1.0) in stages
        assert not (tmp_path / commit / "pytorch_model.bin").exists()

    def test_weights_of_an_unsupported_model_are_not_fetched(self, monkeypatch, tmp_path):
        (tmp_path / "config.json").write_text('{"model_type": "llama"}')
        calls = []

        def snapshot_download(*args, allow_patterns, **kwargs):
            calls.append(allow_patterns)
            return str(tmp_path)

        monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
        refusal("some/llama")
        (patterns,) = calls
        assert "*.safetensors" not in patterns
