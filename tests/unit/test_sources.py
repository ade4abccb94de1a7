"""Where models come from: references, folders, GGUF headers, the Hub, and loading what is sound."""

import errno
import json
import os
import shutil
import struct
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import huggingface_hub
import pytest
import torch
from huggingface_hub import errors as hub_errors
from safetensors.torch import load_file, save_file

from ctxviz.errors import CtxvizError, ModelAccessError, ModelError, SettingsError
from ctxviz.models import devices, load_model, loading
from ctxviz.models.converting import require_supported
from ctxviz.models.folders import count_parameters, inspect
from ctxviz.models.gguf_files import read_header
from ctxviz.models.sources import resolve
from tests.tiny_gguf import gguf_model, save_tiny_gguf
from tests.tiny_models import save_tiny_folder, tiny_gemma3, tiny_image_gemma3, tiny_tokenizer

IDS = torch.tensor([[2, 70, 71, 300, 301, 302, 9, 8, 7, 6, 5, 4]])


@pytest.fixture
def folder(tmp_path) -> Path:
    return save_tiny_folder(tmp_path / "tiny")


def refusal(reference: object, error: type[CtxvizError] = ModelError) -> str:
    """What loading says; one sentence, short, with something to do."""
    with pytest.raises(error) as caught:
        load_model(reference, device="cpu")  # type: ignore[arg-type]
    text = str(caught.value)
    assert len(text) < 500
    assert "\n" not in text
    assert text.endswith(".")
    assert ";" in text
    text.encode("utf-8")
    return text


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


class TestFolders:
    def test_loading_gives_the_saved_model(self, folder):
        model = load_model(str(folder), dtypes=("float32", "bfloat16"), device="cpu")
        assert model.dtypes == ("float32", "bfloat16")
        expected = tiny_gemma3()
        assert torch.equal(model.in_dtype("float32")(input_ids=IDS).logits, expected(input_ids=IDS).logits)
        assert model.in_dtype("float64").dtype == torch.float64
        assert model.in_dtype("bfloat16") is model.in_dtype("bfloat16")
        for dtype in model.dtypes:
            stock = model.in_dtype(dtype)
            assert type(stock).__name__ == "Gemma3ForCausalLM"
            assert not stock.training
            assert not any(p.requires_grad for p in stock.parameters())
            assert stock.lm_head.weight is stock.model.embed_tokens.weight
        assert (model.n_layers, model.width, model.window, model.vocabulary) == (4, 48, 256, 384)
        assert (model.bos_id, model.eos_ids) == (2, {1})
        assert model.special_ids == {0, 1, 2, 3}

    def test_identity(self, folder):
        identity = load_model(str(folder), device="cpu", threads=torch.get_num_threads()).identity
        assert (identity.key, identity.architecture, identity.device) == ("tiny", "Gemma 3 (text)", "cpu")
        assert (identity.n_layers, identity.width, identity.vocabulary) == (4, 48, 384)
        assert dict(identity.libraries).keys() == {"ctxviz", "torch", "transformers", "numpy"}
        assert identity.threads == torch.get_num_threads()

    def test_an_image_model_runs_as_text(self, tmp_path):
        stock = tiny_image_gemma3()
        model = load_model(str(save_tiny_folder(tmp_path / "image", stock)), device="cpu")
        assert model.architecture.layers == "model.language_model.layers"
        assert (model.n_layers, model.width) == (4, 48)
        loaded = model.in_dtype("float32")
        assert torch.equal(loaded(input_ids=IDS).logits, stock(input_ids=IDS).logits)
        text = tiny_gemma3()
        text.model.load_state_dict(stock.model.language_model.state_dict())
        torch.testing.assert_close(loaded(input_ids=IDS).logits, text(input_ids=IDS).logits)

    def test_pieces_are_readable_for_any_id(self, folder):
        model = load_model(str(folder), device="cpu")
        ids = tiny_tokenizer().encode("and  thé").ids
        assert [model.piece(i) for i in ids] == ["<bos>", "and", "  ", "th", "<0xC3>", "<0xA9>"]
        for unknown in (-1, 384, 10**30):
            assert model.piece(unknown) == f"<id {unknown}>"

    def test_a_changed_file_does_not_reach_a_loaded_model(self, folder):
        model = load_model(str(folder), device="cpu").in_dtype("float32")
        before = model(input_ids=IDS).logits
        with (folder / "model.safetensors").open("r+b") as file:
            file.seek(4096)
            file.write(bytes(4096))
        assert torch.equal(model(input_ids=IDS).logits, before)

    def test_float16_comes_with_a_warning(self, folder):
        model = load_model(str(folder), device="cpu")
        assert model.warnings == ()
        model.in_dtype("float16")
        model.in_dtype("float16")
        (warning,) = model.warnings
        assert "float16" in warning

    def test_two_threads_load_a_dtype_once(self, folder, monkeypatch):
        model = load_model(str(folder), device="cpu")
        loads = []
        load = loading._load_weights

        def slow(*args):
            loads.append(args)
            time.sleep(0.2)
            return load(*args)

        monkeypatch.setattr(loading, "_load_weights", slow)
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda _: model.in_dtype("bfloat16"), range(4)))
        assert len(loads) == 1
        assert len(set(map(id, found))) == 1

    def test_a_closed_model_refuses(self, folder):
        model = load_model(str(folder), device="cpu")
        model.close()
        with pytest.raises(ModelError, match="load it again"):
            model.in_dtype("float32")

    def test_nothing_is_printed_and_no_socket_is_opened(self, folder):
        code = (
            "import socket, sys\n"
            "def no(*a, **k): raise AssertionError('a socket was opened')\n"
            "socket.socket.connect = socket.create_connection = socket.getaddrinfo = no\n"
            "from ctxviz.models import load_model\n"
            "load_model(sys.argv[1], dtypes=('float32', 'bfloat16'), device='cpu')\n"
        )
        environment = {k: v for k, v in os.environ.items() if k != "HF_HUB_OFFLINE"}
        command = [sys.executable, "-W", "error", "-c", code, str(folder)]
        result = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        assert (result.stdout, result.stderr) == ("", "")

    def test_an_empty_folder(self, tmp_path):
        assert "not a model" in refusal(str(tmp_path))

    @pytest.mark.parametrize(
        ("removed", "said"),
        [
            ("config.json", "has no config.json"),
            ("tokenizer.json", "has no tokenizer.json"),
            ("model.safetensors", "has no weights"),
        ],
    )
    def test_an_incomplete_folder(self, folder, removed, said):
        (folder / removed).unlink()
        assert said in refusal(str(folder))

    @pytest.mark.parametrize("name", ["pytorch_model.bin", "consolidated.00.pth", "model.pt", "x.ckpt"])
    def test_a_pickle_checkpoint_is_refused_unopened(self, folder, name):
        (folder / "model.safetensors").unlink()
        # What a pickle would do if it were opened.
        (folder / name).write_bytes(b"cos\nsystem\n(S'touch " + str(folder / "ran").encode() + b"'\ntR.")
        text = refusal(str(folder))
        assert "pickle" in text
        assert name in text
        assert not (folder / "ran").exists()

    def test_safetensors_are_used_where_a_pickle_lies_beside_them(self, folder):
        (folder / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'false'\ntR.")
        load_model(str(folder), device="cpu")

    def test_a_gguf_inside_is_pointed_at(self, folder):
        (folder / "model.safetensors").unlink()
        (folder / "m.gguf").write_bytes(b"GGUF")
        assert "'m.gguf'; name that file itself" in refusal(str(folder))

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ({"model_type": "llama"}, "'llama' is not supported"),
            (
                {"model_type": "custom", "auto_map": {"AutoConfig": "x.Y"}},
                "code of its own, which is never run",
            ),
            ({"quantization_config": {"quant_method": "gptq"}}, "stored quantised"),
            ({"transformers_weights": "../evil.bin"}, "asks for other files"),
            ({"num_hidden_layers": "many"}, "no possible model"),
            ({"hidden_size": 50}, "download or export it again"),
            ({"num_hidden_layers": 5, "layer_types": ["full_attention"] * 5}, "lack 13 parameters"),
            ({"intermediate_size": 64}, "in another shape"),
        ],
    )
    def test_a_bad_configuration(self, folder, change, said):
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | change))
        assert said in refusal(str(folder))

    def test_code_in_a_folder_is_never_run(self, folder):
        (folder / "evil.py").write_text(f"open({str(folder / 'ran')!r}, 'w')\nclass Evil: pass\n")
        for name, kind in (
            ("config.json", "AutoModelForCausalLM"),
            ("tokenizer_config.json", "AutoTokenizer"),
        ):
            path = folder / name
            path.write_text(json.dumps(json.loads(path.read_text()) | {"auto_map": {kind: "evil.Evil"}}))
        load_model(str(folder), device="cpu")
        assert not (folder / "ran").exists()

    @pytest.mark.parametrize("text", ["", "[]", "{", "\x00", '{"a":' * 5000])
    def test_configurations_that_are_not_json_objects(self, folder, text):
        (folder / "config.json").write_text(text)
        refusal(str(folder))

    def test_a_broken_tokenizer(self, folder):
        (folder / "tokenizer.json").write_text("{}")
        refusal(str(folder))


class TestSafetensors:
    @pytest.mark.parametrize("keep", [0, 4, 8, 100, -1, -1000])
    def test_truncated(self, folder, keep):
        path = folder / "model.safetensors"
        path.write_bytes(path.read_bytes()[:keep])
        assert "truncated" in refusal(str(folder))

    @pytest.mark.parametrize(
        "header",
        [
            b"[]",
            b"{}",
            b'{"w": 3}',
            b'{"w":{"dtype":"F32","shape":[4],"data_offsets":[0,8]}}',
            b'{"w":{"dtype":"F32","shape":[-2,-1],"data_offsets":[0,8]}}',
            b'{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,"8"]}}',
            b"{" * 3000,
        ],
    )
    def test_nonsense_headers(self, tmp_path, header):
        path = tmp_path / "x.safetensors"
        path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(8))
        with pytest.raises(ModelError, match="truncated or is not a safetensors file"):
            count_parameters(path)

    def test_a_header_longer_than_the_file(self, tmp_path):
        path = tmp_path / "x.safetensors"
        path.write_bytes(struct.pack("<Q", 2**63) + bytes(64))
        with pytest.raises(ModelError, match="truncated"):
            count_parameters(path)

    def test_quantised_weights_are_refused(self, folder):
        tensors = load_file(folder / "model.safetensors")
        tensors["model.norm.weight"] = torch.zeros(48, dtype=torch.int8)
        save_file(tensors, folder / "model.safetensors")
        assert "quantised" in refusal(str(folder))

    def test_parameters_are_counted(self, folder):
        assert inspect(folder).shape.parameters == sum(p.numel() for p in tiny_gemma3().parameters())

    def test_shards(self, tmp_path):
        folder = save_tiny_folder(tmp_path / "sharded")
        tiny_gemma3().save_pretrained(folder, max_shard_size="100KB")
        (folder / "model.safetensors").unlink(missing_ok=True)
        shards = sorted(folder.glob("model-*.safetensors"))
        assert len(shards) > 1
        model = load_model(str(folder), device="cpu")
        assert torch.equal(
            model.in_dtype("float32")(input_ids=IDS).logits, tiny_gemma3()(input_ids=IDS).logits
        )
        shards[0].rename(tmp_path / "away")
        assert "is missing" in refusal(str(folder))

    @pytest.mark.parametrize("target", ["../other.safetensors", "/etc/passwd", "x.bin", "", 3])
    def test_an_index_cannot_point_outside(self, folder, target):
        (folder / "model.safetensors").rename(folder.parent / "other.safetensors")
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"w": target}}))
        assert "does not list safetensors files" in refusal(str(folder))


def gguf_bytes(*, version: int = 3, tensors: int = 0, entries: int = 1, body: bytes = b"") -> bytes:
    key = b"general.architecture"
    entry = struct.pack("<Q", len(key)) + key + struct.pack("<IQ", 8, 6) + b"gemma3"
    return b"GGUF" + struct.pack("<IQQ", version, tensors, entries) + entry + body


class TestGguf:
    def test_the_header_of_a_sound_file(self, tmp_path):
        model = gguf_model()
        header = read_header(save_tiny_gguf(tmp_path / "m.gguf", model))
        require_supported(header, "m.gguf")
        assert header.architecture == "gemma3"
        assert header.metadata["tokenizer.ggml.tokens"] == 384
        assert header.parameters == sum(p.numel() for p in model.parameters())
        assert header.tensors["blk.0.ffn_down.weight"].shape == (48, 96)

    def test_every_truncation_is_told(self, tmp_path):
        path = save_tiny_gguf(tmp_path / "m.gguf", gguf_model())
        whole = path.read_bytes()
        for keep in (*range(0, 3000, 97), len(whole) // 2, len(whole) - 4096, len(whole) - 1):
            path.write_bytes(whole[:keep])
            with pytest.raises(ModelError):
                read_header(path)
        path.write_bytes(whole)
        read_header(path)

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            (b"", "truncated or damaged"),
            (b"GGUF", "truncated or damaged"),
            (b"GGML" + bytes(200), "not a GGUF file"),
            (gguf_bytes(version=1), "GGUF version 1"),
            (gguf_bytes(version=3 << 24), "another byte order"),
            (gguf_bytes(entries=2**60), "truncated or damaged"),
            (gguf_bytes(tensors=2**60), "truncated or damaged"),
            (gguf_bytes(entries=0), "truncated or damaged"),
            # A string of 2^63 bytes, an array of 2^62 strings, a value of unknown type.
            (gguf_bytes(entries=2, body=struct.pack("<Q", 2**63) + bytes(50)), "truncated or damaged"),
            (
                gguf_bytes(entries=2, body=struct.pack("<Q1sIIQ", 1, b"k", 9, 8, 2**62) + bytes(80)),
                "truncated or damaged",
            ),
            (
                gguf_bytes(entries=2, body=struct.pack("<Q1sI", 1, b"k", 99) + bytes(50)),
                "truncated or damaged",
            ),
            # Tensors: five dimensions; beyond the end; a storage type that is not known.
            (
                gguf_bytes(tensors=1, body=struct.pack("<Q1sI", 1, b"t", 5) + bytes(80)),
                "truncated or damaged",
            ),
            (
                gguf_bytes(tensors=1, body=struct.pack("<Q1sIQIQ", 1, b"t", 1, 2**61, 0, 0)),
                "ends before its last",
            ),
            (
                gguf_bytes(tensors=1, body=struct.pack("<Q1sIQIQ", 1, b"t", 1, 8, 0, 2**60)),
                "ends before its last",
            ),
            (gguf_bytes(tensors=1, body=struct.pack("<Q1sIQIQ", 1, b"t", 1, 8, 9999, 0)), "not known here"),
        ],
    )
    def test_crafted_files(self, tmp_path, content, said):
        path = tmp_path / "crafted.gguf"
        path.write_bytes(content)
        assert said in refusal(str(path))

    def test_another_architecture(self, tmp_path):
        path = save_tiny_gguf(tmp_path / "m.gguf", gguf_model(), architecture="llama")
        assert "'llama'; supported are: gemma3" in refusal(str(path))

    def test_a_missing_tensor_is_not_made_up(self, tmp_path):
        path = save_tiny_gguf(tmp_path / "m.gguf", gguf_model(), skip="blk.3.ffn_up.weight")
        assert "blk.3.ffn_up.weight" in refusal(str(path))

    def test_a_missing_tokenizer(self, tmp_path):
        path = save_tiny_gguf(tmp_path / "m.gguf", gguf_model(), tokenizer=False)
        assert "no tokenizer" in refusal(str(path))


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


class TestDevices:
    @pytest.mark.parametrize("device", ["", "gpu", "cpu:1", "meta", "cuda:99", "mps", "\0", "tpu", 3])
    def test_unknown_or_absent(self, folder, device):
        with pytest.raises(SettingsError):
            load_model(str(folder), device=device)

    def test_no_float64_on_mps(self):
        with pytest.raises(SettingsError, match="no float64"):
            devices.check_dtype("float64", torch.device("mps"))

    def test_unknown_dtype_and_threads(self, folder):
        with pytest.raises(SettingsError, match="Unknown dtype 'int8'"):
            load_model(str(folder), dtypes=("int8",))
        for threads in (0, -1, 10**9):
            with pytest.raises(SettingsError, match="threads"):
                load_model(str(folder), threads=threads)

    def test_auto_prefers_what_there_is(self, monkeypatch):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
        assert devices.choose("auto").type == "cpu"
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
        assert devices.choose("auto").type == "mps"
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        assert devices.choose("auto").type == "cuda"

    def test_the_self_test_warns_of_a_device_that_computes_otherwise(self):
        assert devices.self_test(torch.device("cpu")) is None
        # The meta device computes nothing, so bringing its result back fails.
        warning = devices.self_test(torch.device("meta"))
        assert warning is not None
        assert "use the cpu device" in warning

    def test_the_self_tests_tolerance(self):
        logits = torch.linspace(-3, 3, 50)
        assert devices.disagreement(logits, logits + 1e-5) is None
        assert devices.disagreement(logits, logits + 0.1) is not None
        assert devices.disagreement(logits, logits * torch.nan) is not None
