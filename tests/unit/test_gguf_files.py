"""GGUF headers: broken and hostile ones are told before their data is used."""

import struct

import pytest

from ctxviz.errors import ModelError
from ctxviz.models.converting import require_supported
from ctxviz.models.gguf_files import read_header
from tests.tiny_gguf import gguf_model, save_tiny_gguf
from tests.unit.refusals import refusal


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
