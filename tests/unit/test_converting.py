"""GGUF files and the packaged model, converted into the cache and loaded from it."""

import pytest
import torch

from ctxviz.errors import ModelError
from ctxviz.models import load_model, packaged
from ctxviz.models.catalogue import CATALOGUE
from ctxviz.models.hashing import sha256_of
from ctxviz.models.preparing import is_ready
from tests.tiny_gguf import gguf_model, save_tiny_gguf

IDS = torch.tensor([[2, 70, 71, 300, 301, 302, 9, 8, 7, 6, 5, 4]])


@pytest.fixture(autouse=True)
def cache_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("CTXVIZ_CACHE", str(tmp_path / "cache"))


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
