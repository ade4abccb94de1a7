"""Folders: what is sound is loaded as it was saved, what is not is refused in a sentence."""

import json
import os
import struct
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from ctxviz.errors import ModelError
from ctxviz.models import load_model, loading
from ctxviz.models.folders import count_parameters, inspect
from ctxviz.models.preparing import estimate
from tests.tiny_models import save_tiny_folder, tiny_gemma3, tiny_image_gemma3, tiny_tokenizer
from tests.unit.refusals import refusal

IDS = torch.tensor([[2, 70, 71, 300, 301, 302, 9, 8, 7, 6, 5, 4]])


@pytest.fixture
def folder(tmp_path) -> Path:
    return save_tiny_folder(tmp_path / "tiny")


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


def changed_config(folder: Path, **values: object) -> str:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))
    return str(folder)


class TestHostileFolders:
    @pytest.mark.parametrize("key", ["_attn_implementation", "attn_implementation", "experts_implementation"])
    @pytest.mark.parametrize("value", ["org/kernel", "flash_attention_2", {"": "org/kernel"}, ["sdpa"]])
    def test_a_kernel_that_a_configuration_names_is_refused(self, folder, key, value):
        assert key in refusal(changed_config(folder, **{key: value}))
        assert key in refusal(changed_config(folder, **{key: None, "text_config": {key: value}}))

    @pytest.mark.parametrize("value", ["sdpa", "eager", None])
    def test_stock_attention_may_be_named(self, folder, value):
        model = load_model(changed_config(folder, _attn_implementation=value), device="cpu")
        assert model.in_dtype("float32").config._attn_implementation == (value or "sdpa")

    @pytest.mark.timeout(60)
    @pytest.mark.parametrize(
        "name",
        [
            "config.json",
            "generation_config.json",
            "tokenizer.json",
            "tokenizer_config.json",
            "special_tokens_map.json",
            "chat_template.jinja",
            "tokenizer.model",
            "model.safetensors",
        ],
    )
    def test_pipes_and_devices_are_refused_unopened(self, folder, name):
        path = folder / name
        path.unlink(missing_ok=True)
        os.mkfifo(path)
        said = {refusal(str(folder)), estimate_refusal(str(folder))}
        path.unlink()
        path.symlink_to("/dev/zero")
        said |= {refusal(str(folder)), estimate_refusal(str(folder))}
        assert said <= {
            f"'{name}' is not a regular file; replace it by the model's own file.",
            "The folder 'tiny' has no tokenizer.json; add the model's tokenizer files to it.",
        }

    @pytest.mark.timeout(60)
    def test_a_pipe_as_a_shard_or_its_index(self, folder):
        weights = folder / "model.safetensors"
        weights.rename(folder / "part.safetensors")
        index = folder / "model.safetensors.index.json"
        os.mkfifo(index)
        assert "not a regular file" in refusal(str(folder))
        index.unlink()
        index.write_text(json.dumps({"weight_map": {"a": "part.safetensors"}}))
        (folder / "part.safetensors").unlink()
        os.mkfifo(folder / "part.safetensors")
        assert "part.safetensors" in refusal(str(folder))

    @pytest.mark.parametrize("name", ["generation_config.json", "tokenizer.json", "chat_template.jinja"])
    def test_a_huge_small_file_is_refused_unread(self, folder, name):
        with (folder / name).open("wb") as file:
            file.truncate(1 << 36)
        assert "too large" in refusal(str(folder))

    @pytest.mark.parametrize("value", [0, -5, 1.5, "256", True])
    def test_a_window_without_room(self, folder, value):
        assert "max_position_embeddings" in refusal(changed_config(folder, max_position_embeddings=value))

    def test_reasons_say_something(self, folder):
        assert "field 'rms_norm_eps': " in refusal(changed_config(folder, rms_norm_eps="tiny"))


def estimate_refusal(reference: str) -> str:
    with pytest.raises(ModelError) as caught:
        estimate(reference)
    return str(caught.value)


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
