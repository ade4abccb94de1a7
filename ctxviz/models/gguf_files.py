"""Reading a GGUF file's header with every length checked: a broken file is told before its data is used.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. (The gguf library's own reader builds
several numpy views per vocabulary entry, which takes half a minute for Gemma's.)
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ctxviz.errors import ModelError
from ctxviz.models.sources import open_regular, reason, show

_SCALARS: Final = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING: Final = 8
_ARRAY: Final = 9
_VERSIONS: Final = (2, 3)
_MAX_DIMENSIONS: Final = 4


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """Where a tensor lies: shape in torch's order, byte range in the file."""

    name: str
    shape: tuple[int, ...]
    type_id: int
    start: int
    nbytes: int

    @property
    def row_bytes(self) -> int:
        """Bytes of one row (the last axis), which is a whole number of quantised blocks."""
        return self.nbytes // max(1, prod(self.shape[:-1]))


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """Scalars and strings of the metadata (an array is given by its length), and the tensors by name."""

    metadata: dict[str, Any]
    tensors: dict[str, GgufTensor]

    @property
    def architecture(self) -> str:
        return str(self.metadata["general.architecture"])

    @property
    def parameters(self) -> int:
        return sum(prod(t.shape) for t in self.tensors.values())


def read_header(path: Path) -> GgufHeader:
    """Read the header and check that every tensor lies inside the file.

    Raises:
        ModelError: not GGUF, another version or byte order, truncated, or an unknown storage type.
    """
    try:
        with open_regular(path) as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _Reader(data, path.name).header()
    except OSError as error:
        raise ModelError(
            f"{show(path.name)} cannot be read ({reason(error)}); check its permissions."
        ) from None
    except (struct.error, KeyError, OverflowError, ValueError) as error:
        # ValueError: an empty file cannot be mapped, or a name is not UTF-8.
        raise ModelError(
            f"{show(path.name)} is truncated or damaged ({reason(error)}); download it again."
        ) from None


def _scalar(type_id: int) -> str:
    if type_id not in _SCALARS:
        raise ValueError(f"it holds a value of the unknown type {type_id}")
    return _SCALARS[type_id]


class _Reader:
    def __init__(self, data: mmap.mmap, name: str) -> None:
        self._data = data
        self._name = name
        self._at = 0

    def _take(self, code: str) -> Any:
        (value,) = struct.unpack_from("<" + code, self._data, self._at)
        self._at += struct.calcsize("<" + code)
        return value

    def _skip(self, count: int) -> int:
        start = self._at
        if count < 0 or start + count > len(self._data):
            raise ValueError("it ends in the middle of its header")
        self._at = start + count
        return start

    def _string(self) -> str:
        length = self._take("Q")
        start = self._skip(length)
        return self._data[start : start + length].decode("utf-8")

    def _value(self, type_id: int) -> Any:
        if type_id == _STRING:
            return self._string()
        if type_id != _ARRAY:
            return self._take(_scalar(type_id))
        element, length = self._take("I"), self._take("Q")
        if element == _STRING:
            for _ in range(length):
                self._skip(self._take("Q"))
        else:
            self._skip(length * struct.calcsize("<" + _scalar(element)))
        return length

    def header(self) -> GgufHeader:
        magic = self._data[:4]
        self._skip(4)
        if magic != b"GGUF":
            raise ModelError(
                f"{show(self._name)} is not a GGUF file; name one, or a folder with safetensors weights."
            )
        version = self._take("I")
        if version not in _VERSIONS:
            raise ModelError(
                f"{show(self._name)} is GGUF version {version} or of another byte order; "
                "convert it with a current llama.cpp."
            )
        tensor_count, entry_count = self._take("Q"), self._take("Q")
        metadata: dict[str, Any] = {}
        for _ in range(entry_count):
            key, type_id = self._string(), self._take("I")
            metadata[key] = self._value(type_id)
        if "general.architecture" not in metadata:
            raise ValueError("it names no architecture")
        entries = [self._tensor_entry() for _ in range(tensor_count)]
        return GgufHeader(metadata, self._placed(entries, metadata.get("general.alignment", 32)))

    def _tensor_entry(self) -> tuple[str, tuple[int, ...], int, int]:
        name, dimensions = self._string(), self._take("I")
        if not 1 <= dimensions <= _MAX_DIMENSIONS:
            raise ValueError(f"a tensor of {dimensions} dimensions")
        # ggml names the fastest-moving dimension first, torch last.
        shape = tuple(self._take("Q") for _ in range(dimensions))[::-1]
        return name, shape, self._take("I"), self._take("Q")

    def _placed(
        self, entries: list[tuple[str, tuple[int, ...], int, int]], alignment: int
    ) -> dict[str, GgufTensor]:
        if type(alignment) is not int or alignment < 1 or alignment & (alignment - 1):
            raise ValueError(f"an alignment of {str(alignment)[:20]}")
        begin = -(-self._at // alignment) * alignment
        tensors: dict[str, GgufTensor] = {}
        for name, shape, type_id, offset in entries:
            block, block_bytes = self._block(type_id)
            if shape[-1] % block or name in tensors:
                raise ValueError(f"tensor {name[:60]!r}")
            nbytes = prod(shape) // block * block_bytes
            if begin + offset + nbytes > len(self._data):
                raise ValueError("it ends before its last tensor")
            tensors[name] = GgufTensor(name, shape, type_id, begin + offset, nbytes)
        return tensors

    def _block(self, type_id: int) -> tuple[int, int]:
        from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

        try:
            return GGML_QUANT_SIZES[GGMLQuantizationType(type_id)]
        except (KeyError, ValueError):
            raise ModelError(
                f"{show(self._name)} stores weights in a format that is not known here (number {type_id}); "
                "use a Q4_K_M, Q8_0, F16 or BF16 file."
            ) from None


def unpacker(tensor: GgufTensor) -> Callable[[NDArray[np.uint8]], NDArray[np.float32]]:
    """A function from rows of stored bytes [rows, row_bytes] to float32 [rows, columns].

    Raises:
        ModelError: there is no dequantisation for this storage type.
    """
    from gguf import GGMLQuantizationType, dequantize

    kind = GGMLQuantizationType(tensor.type_id)

    def unpack(rows: NDArray[np.uint8]) -> NDArray[np.float32]:
        try:
            return dequantize(rows, kind).astype(np.float32, copy=False)
        except NotImplementedError:
            raise ModelError(
                f"The GGUF file stores weights as {kind.name}, which cannot be unpacked here; "
                "use a Q4_K_M, Q8_0, F16 or BF16 file."
            ) from None

    return unpack
