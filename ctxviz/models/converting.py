"""GGUF to a folder of float32 safetensors, tensor by tensor, so that little memory is needed.

Why not transformers' own reading: it parses the vocabulary three times, which takes about 80 s for Gemma 3
270M, drops the rope scaling of the 4B and larger files, and fills a missing tensor with random numbers.
"""

from __future__ import annotations

import errno
import json
import mmap
import re
import struct
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, Final

import numpy as np

from ctxviz.errors import ModelError
from ctxviz.models.gguf_files import GgufHeader, GgufTensor, unpacker
from ctxviz.models.memory import Shape
from ctxviz.models.progress import Progress
from ctxviz.models.quiet import quiet_transformers
from ctxviz.models.sources import reason, show

GGUF_ARCHITECTURES: Final = ("gemma3",)
MAX_LAYERS: Final = 1024
_CHUNK: Final = 1 << 22
"""Numbers unpacked at once: 16 MB of float32."""
_TOP: Final = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_LAYER: Final = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "post_ffw_norm": "post_feedforward_layernorm",
}
_BLOCK = re.compile(r"blk\.(\d+)\.([a-z_]+)\.weight")


def require_supported(header: GgufHeader, name: str) -> None:
    """Check architecture, tokenizer and completeness of a GGUF file from its header.

    Raises:
        ModelError: it cannot be converted.
    """
    if header.architecture not in GGUF_ARCHITECTURES:
        raise ModelError(
            f"{show(name)} is a GGUF file of architecture {header.architecture[:40]!r}; "
            f"supported are: {', '.join(GGUF_ARCHITECTURES)}."
        )
    if not header.metadata.get("tokenizer.ggml.tokens"):
        raise ModelError(f"{show(name)} has no tokenizer in it; use a GGUF file that carries one.")
    count = _key(header, "block_count", name)
    if type(count) is not int or not 0 < count <= MAX_LAYERS:
        raise _impossible(name, f"it has {str(count)[:20]} layers")
    layers = range(count)
    wanted = {"token_embd.weight", "output_norm.weight"}
    wanted |= {f"blk.{i}.{part}.weight" for i in layers for part in _LAYER}
    absent = sorted(wanted - header.tensors.keys())
    foreign = sorted(header.tensors.keys() - wanted - {"output.weight", "rope_freqs.weight"})
    if absent or foreign:
        raise ModelError(
            f"{show(name)} lacks {len(absent)} tensors of a Gemma 3 and has {len(foreign)} others "
            f"({(absent + foreign)[0][:60]}); download it again."
        )


def _impossible(name: str, why: str) -> ModelError:
    return ModelError(f"{show(name)} describes no possible model ({why}); download it again.")


def convert(path: Path, header: GgufHeader, folder: Path, progress: Progress) -> None:
    """Write config.json, tokenizer files and model.safetensors (float32) of a GGUF file into a folder.

    Raises:
        ModelError: it is not supported, or damaged.
        OSError: the folder cannot be written.
    """
    require_supported(header, path.name)
    progress("reading the tokenizer", None)
    _write_tokenizer(path, folder)
    _write_config(header, path.name, folder)
    with (folder / "model.safetensors").open("wb") as out:
        _write_weights(path, header, out, progress)


def _write_tokenizer(path: Path, folder: Path) -> None:
    if path.parent == folder:
        _save_tokenizer(path, folder)
        return
    with TemporaryDirectory() as empty:
        # transformers prefers a tokenizer.json lying beside the file to what is in the file.
        alone = Path(empty) / "source.gguf"
        alone.symlink_to(path.absolute())
        _save_tokenizer(alone, folder)


def _save_tokenizer(path: Path, folder: Path) -> None:
    try:
        with quiet_transformers():
            from transformers import GemmaTokenizer

            # The class is named, since AutoTokenizer would parse the file once more for its configuration.
            tokenizer = GemmaTokenizer.from_pretrained(
                str(path.parent), gguf_file=path.name, local_files_only=True, trust_remote_code=False
            )
    except Exception as error:
        raise ModelError(
            f"The tokenizer in the GGUF file cannot be read ({reason(error)}); get it again."
        ) from error
    try:
        tokenizer.save_pretrained(folder)
    except Exception as error:
        # The tokenizers library raises a bare Exception when the disk is full.
        full = "os error 28" in str(error)
        raise OSError(errno.ENOSPC if full else errno.EIO, reason(error)) from error


def _key(header: GgufHeader, key: str, name: str) -> Any:
    try:
        return header.metadata[f"{header.architecture}.{key}"]
    except KeyError:
        raise ModelError(f"{show(name)} does not say its {key}; download it again.") from None


def gguf_shape(header: GgufHeader, name: str) -> Shape:
    """What decides the memory of the model in a GGUF file that :func:`require_supported` accepts."""
    fields = _config_fields(header, name)
    kv_width = 2 * fields["num_key_value_heads"] * fields["head_dim"]
    return Shape(
        header.parameters,
        fields["num_hidden_layers"],
        fields["hidden_size"],
        fields["intermediate_size"],
        kv_width,
        fields["vocab_size"],
    )


def _write_config(header: GgufHeader, name: str, folder: Path) -> None:
    with quiet_transformers():
        from transformers import Gemma3TextConfig

        try:
            config = Gemma3TextConfig(**_config_fields(header, name))
        except (ValueError, TypeError, ArithmeticError) as error:
            raise _impossible(name, reason(error)) from None
    config.architectures = ["Gemma3ForCausalLM"]
    config.save_pretrained(folder)


_COUNTS: Final = (
    "embedding_length",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "feed_forward_length",
    "context_length",
    "attention.sliding_window",
)


def _config_fields(header: GgufHeader, name: str) -> dict[str, Any]:
    for key in _COUNTS:
        count = _key(header, key, name)
        if type(count) is not int or not 0 < count < 1 << 31:
            raise _impossible(name, f"its {key} is {str(count)[:20]}")
    try:
        return _stated_fields(header, name)
    except (ValueError, TypeError, ArithmeticError) as error:
        raise _impossible(name, reason(error)) from None


def _stated_fields(header: GgufHeader, name: str) -> dict[str, Any]:
    meta, prefix = header.metadata, header.architecture
    width, heads, layers = (
        _key(header, k, name) for k in ("embedding_length", "attention.head_count", "block_count")
    )
    head_size = _key(header, "attention.key_length", name)
    full = {"rope_type": "default", "rope_theta": float(_key(header, "rope.freq_base", name))}
    if meta.get(f"{prefix}.rope.scaling.type", "none") == "linear":
        full |= {"rope_type": "linear", "factor": float(_key(header, "rope.scaling.factor", name))}
    sliding = {
        "rope_type": "default",
        "rope_theta": float(meta.get(f"{prefix}.rope.freq_base_swa", 10_000.0)),
    }
    ends = [meta.get("tokenizer.ggml.eos_token_id", 1), meta.get("tokenizer.ggml.eot_token_id")]
    return {
        "vocab_size": header.tensors["token_embd.weight"].shape[0],
        "hidden_size": width,
        "intermediate_size": _key(header, "feed_forward_length", name),
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": _key(header, "attention.head_count_kv", name),
        "head_dim": head_size,
        # The file does not say it; the 27B (62 layers) alone scales by width / heads.
        "query_pre_attn_scalar": width // heads if layers == 62 else head_size,
        "max_position_embeddings": _key(header, "context_length", name),
        "sliding_window": _key(header, "attention.sliding_window", name),
        "rms_norm_eps": _key(header, "attention.layer_norm_rms_epsilon", name),
        "rope_parameters": {"full_attention": full, "sliding_attention": sliding},
        "tie_word_embeddings": "output.weight" not in header.tensors,
        "bos_token_id": meta.get("tokenizer.ggml.bos_token_id", 2),
        "eos_token_id": [e for e in ends if e is not None] if ends[1] is not None else ends[0],
        "pad_token_id": meta.get("tokenizer.ggml.padding_token_id", 0),
        "dtype": "float32",
    }


def _target(name: str) -> str | None:
    """The transformers name of a GGUF tensor, or None where transformers has none."""
    match = _BLOCK.fullmatch(name)
    if match is None:
        return _TOP.get(name)
    return f"model.layers.{match[1]}.{_LAYER[match[2]]}.weight"


def _write_weights(path: Path, header: GgufHeader, out: BinaryIO, progress: Progress) -> None:
    tensors = [(target, t) for t in header.tensors.values() if (target := _target(t.name)) is not None]
    table: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for target, tensor in tensors:
        begin, end = end, end + 4 * prod(tensor.shape)
        table[target] = {"dtype": "F32", "shape": tensor.shape, "data_offsets": [begin, end]}
    text = json.dumps(table, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    out.write(struct.pack("<Q", len(text)) + text)
    done = 0
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        for _, tensor in tensors:
            unpack = unpacker(tensor)
            # llama.cpp stores a Gemma norm as the scale it applies, 1 + w; transformers stores w.
            offset = np.float32(1.0 if tensor.name.endswith("norm.weight") else 0.0)
            step = max(1, _CHUNK // tensor.shape[-1])
            for first, last in _row_ranges(tensor, step):
                # Copied, so that no view of the map outlives it.
                stored = np.frombuffer(
                    data[tensor.start + first * tensor.row_bytes : tensor.start + last * tensor.row_bytes],
                    np.uint8,
                )
                numbers = unpack(stored.reshape(last - first, tensor.row_bytes)) - offset
                out.write(np.ascontiguousarray(numbers).data.cast("B"))
                done += numbers.nbytes
                progress("unpacking the weights", done / end)


def _row_ranges(tensor: GgufTensor, step: int) -> list[tuple[int, int]]:
    rows = prod(tensor.shape[:-1])
    return [(first, min(first + step, rows)) for first in range(0, rows, step)]
