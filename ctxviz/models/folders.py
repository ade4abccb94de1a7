"""Is this folder a model that may be loaded? Told from small files, before transformers sees it."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Final

from ctxviz.errors import ModelError
from ctxviz.models.architectures import Architecture, for_model_type
from ctxviz.models.memory import Shape, Vision
from ctxviz.models.sources import PICKLE_SUFFIXES, open_regular, pickle_refusal, reason, require_regular, show

_JSON_LIMIT: Final = 64 << 20
"""Bytes of a configuration or tokenizer file; Gemma 3's tokenizer.json has 33 MB."""
_HEADER_LIMIT: Final = 100 << 20
"""The format's own limit."""
_STORED_BYTES: Final = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4}
"""Integers are positions and the like; anything smaller or newer is a quantised weight."""
_FOREIGN_KEYS: Final = ("transformers_weights", "fusion_config", "kernel_config", "custom_generate")
"""Configuration keys that point transformers at other files, kernels or code."""
_IMPLEMENTATIONS: Final = ("_implementation", "_implementation_internal")
"""Ends of keys such as _attn_implementation, which may name a kernel on the Hub."""
_OWN_IMPLEMENTATIONS: Final = (None, "sdpa", "eager")
_SMALL_SUFFIXES: Final = (".json", ".jinja", ".model", ".txt")
_TEMPLATES: Final = "additional_chat_templates"


@dataclass(frozen=True, slots=True)
class FolderFacts:
    """What a folder's headers and small files say."""

    architecture: Architecture
    weights: tuple[Path, ...]
    shape: Shape


def inspect(folder: Path) -> FolderFacts:
    """Check configuration, tokenizer and weight files of a model folder.

    Raises:
        ModelError: it is no model, of an unsupported kind, unsafe, truncated, or incomplete.
    """
    weights = _weight_files(folder)
    _check_files(folder)
    config = read_configuration(folder)
    architecture = for_model_type(config.get("model_type"))
    if not (folder / "tokenizer.json").is_file():
        raise ModelError(
            f"The folder {show(folder.name)} has no tokenizer.json; add the model's tokenizer files to it."
        )
    parameters = sum(map(count_parameters, weights))
    text_config = config if architecture.text_config is None else config.get(architecture.text_config)
    vision = _vision(config.get("vision_config")) if architecture.reads_pictures else None
    return FolderFacts(architecture, weights, _shape(parameters, text_config, vision))


def _check_files(folder: Path) -> None:
    """Whatever transformers might read of a folder is a regular file, and not huge where it is read whole."""
    try:
        for path in (*folder.iterdir(), *(folder / _TEMPLATES).glob("*")):
            suffix = path.suffix.lower()
            if suffix not in (*_SMALL_SUFFIXES, ".safetensors") or not path.exists():
                continue
            status = path.stat()
            require_regular(path, status)
            if suffix in _SMALL_SUFFIXES and status.st_size > _JSON_LIMIT:
                raise _too_large(path)
    except OSError as error:
        raise ModelError(
            f"The folder {show(folder.name)} cannot be read ({reason(error)}); check its permissions."
        ) from None


def _too_large(path: Path) -> ModelError:
    return ModelError(f"{show(path.name)} is too large to be what its name says; download the model again.")


def _shape(parameters: int, text_config: Any, vision: Vision | None) -> Shape:
    # A published config.json leaves out what equals transformers' defaults for Gemma 3.
    defaults = {
        "num_hidden_layers": 26,
        "hidden_size": 2304,
        "intermediate_size": 9216,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "vocab_size": 262_208,
        "max_position_embeddings": 131_072,
    }
    layers, width, hidden, kv_heads, head, vocabulary, _ = _numbers(text_config, defaults)
    return Shape(parameters, layers, width, hidden, 2 * kv_heads * head, vocabulary, vision)


def _vision(vision_config: Any) -> Vision:
    # transformers' defaults for SigLIP.
    defaults = {
        "hidden_size": 768,
        "intermediate_size": 3072,
        "image_size": 224,
        "patch_size": 16,
    }
    width, hidden, side, square = _numbers(vision_config, defaults)
    return Vision(width, hidden, (side // square) ** 2)


def _numbers(config: Any, defaults: dict[str, int]) -> list[int]:
    """The configuration's numbers of these names, or the defaults where it leaves them out.

    Raises:
        ModelError: one is no whole number above 0.
    """
    stated = defaults | (config if isinstance(config, dict) else {})
    wrong = [name for name in defaults if type(stated[name]) is not int or not 0 < stated[name] < 1 << 31]
    if wrong:
        raise ModelError(
            f"The model's config.json describes no possible model ({wrong[0]} must be a whole number "
            "above 0); download it again."
        )
    return [stated[name] for name in defaults]


def read_configuration(folder: Path) -> dict[str, Any]:
    """config.json of a model that is supported and asks for nothing beyond its own weights.

    Raises:
        ModelError: it is not such a model.
    """
    config = read_json(folder / "config.json")
    try:
        for_model_type(config.get("model_type"))
    except ModelError as error:
        if "auto_map" not in config:
            raise
        raise ModelError(
            f"The model in {show(folder.name)} needs code of its own, which is never run. {error}"
        ) from None
    if "quantization_config" in config:
        raise ModelError(
            f"The model in {show(folder.name)} is stored quantised, and its weights could not be patched; "
            "use the original weights, or a GGUF file."
        )
    foreign = list(dict.fromkeys(_foreign_keys(config)))
    if foreign:
        raise ModelError(
            f"config.json in {show(folder.name)} asks for other files or code ({', '.join(foreign)}), "
            "which is not done; remove that from it."
        )
    return config


def _foreign_keys(config: dict[str, Any]) -> Iterator[str]:
    """Keys at any depth that would make transformers look beyond the model's own weights."""
    waiting: list[Any] = [config]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        if not isinstance(value, dict):
            continue
        waiting += value.values()
        for key, chosen in value.items():
            named = key.endswith(_IMPLEMENTATIONS)
            if key in _FOREIGN_KEYS or (named and chosen not in _OWN_IMPLEMENTATIONS):
                yield ascii(key[:60])[1:-1]


def _weight_files(folder: Path) -> tuple[Path, ...]:
    name = folder.name
    try:
        names = sorted(p.name for p in folder.iterdir())
    except OSError as error:
        raise ModelError(
            f"The folder {show(name)} cannot be read ({reason(error)}); check its permissions."
        ) from None
    index = folder / "model.safetensors.index.json"
    if "model.safetensors" in names:
        return (folder / "model.safetensors",)
    if index.name in names:
        return _shards(index)
    pickles = [n for n in names if n.lower().endswith(PICKLE_SUFFIXES)]
    if pickles:
        raise ModelError(pickle_refusal(pickles[0]))
    ggufs = [n for n in names if n.lower().endswith(".gguf")]
    if ggufs:
        raise ModelError(f"The folder {show(name)} holds {show(ggufs[0])}; name that file itself.")
    if "adapter_config.json" in names:
        raise ModelError(
            f"The folder {show(name)} holds an adapter only; merge it into its base model and save that."
        )
    if "config.json" not in names:
        raise ModelError(
            f"The folder {show(name)} is not a model: it has no config.json and no weights; "
            "name one with config.json, tokenizer.json and model.safetensors."
        )
    raise ModelError(f"The folder {show(name)} has no weights; add model.safetensors to it.")


def _shards(index: Path) -> tuple[Path, ...]:
    mapping = read_json(index).get("weight_map")
    files = (
        set(mapping.values())
        if isinstance(mapping, dict) and all(isinstance(v, str) for v in mapping.values())
        else set()
    )
    # A name with a folder in it would point outside the model.
    if not files or any(Path(f).name != f or "\\" in f or not f.endswith(".safetensors") for f in files):
        raise ModelError(f"{show(index.name)} does not list safetensors files; download the model again.")
    for file in sorted(files):
        if not (index.parent / file).is_file():
            raise ModelError(f"The weights file {show(file)} is missing; download the model again.")
    return tuple(index.parent / file for file in sorted(files))


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a small file.

    Raises:
        ModelError: missing, unreadable, too large, or not a JSON object.
    """
    try:
        with open_regular(path) as file:
            data = file.read(_JSON_LIMIT + 1)
        if len(data) > _JSON_LIMIT:
            raise _too_large(path)
        value = json.loads(data.decode("utf-8"))
    except FileNotFoundError:
        raise ModelError(
            f"The folder {show(path.parent.name)} has no {path.name}; it is not a complete model."
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(
            f"{show(path.name)} cannot be read ({reason(error)}); download the model again."
        ) from None
    if not isinstance(value, dict):
        raise ModelError(f"{show(path.name)} is not a JSON object; download the model again.")
    return value


def count_parameters(path: Path) -> int:
    """How many numbers a safetensors file holds; its header and length are checked, its data is not read.

    Raises:
        ModelError: truncated, not safetensors, or holding quantised blocks instead of floats.
    """
    broken = ModelError(
        f"{show(path.name)} is truncated or is not a safetensors file; download or export it again."
    )
    try:
        with open_regular(path) as file:
            size = path.stat().st_size
            (length,) = struct.unpack("<Q", file.read(8))
            if not 2 <= length <= min(_HEADER_LIMIT, size - 8):
                raise broken
            header = json.loads(file.read(length))
        tensors = {name: value for name, value in header.items() if name != "__metadata__"}
        end = max((t["data_offsets"][1] for t in tensors.values()), default=0)
        numbers = 0
        for tensor in tensors.values():
            size_of, (start, stop) = _STORED_BYTES.get(tensor["dtype"]), tensor["data_offsets"]
            if size_of is None:
                raise ModelError(
                    f"{show(path.name)} holds quantised weights; use the original weights, or a GGUF file."
                )
            if min(0, start, *tensor["shape"]) < 0 or stop - start != prod(tensor["shape"]) * size_of:
                raise broken
            numbers += prod(tensor["shape"])
    except OSError as error:
        raise ModelError(
            f"{show(path.name)} cannot be read ({reason(error)}); check its permissions."
        ) from None
    except (struct.error, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise broken from None
    if not tensors or end != size - 8 - length:
        raise broken
    return numbers
