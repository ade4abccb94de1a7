"""How much memory a model takes, and how much there is, before anything is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from ctxviz.errors import MemoryRefusedError
from ctxviz.models.catalogue import DTYPE_BYTES

PROGRAM_BYTES: Final = 300 << 20
"""Libraries, tokenizer and records: 0.3 GB."""
WORKING_TOKENS: Final = 2048
"""Room is kept for the cache of a context of this many tokens, and the logits of a few passes."""
LOGIT_ROWS: Final = 16


@dataclass(frozen=True, slots=True)
class MemoryNeed:
    """Bytes a model takes and bytes there are; need is None where it is not known before a download."""

    need_bytes: int | None
    free_bytes: int

    @property
    def fits(self) -> bool:
        return self.need_bytes is None or self.need_bytes <= self.free_bytes


@dataclass(frozen=True, slots=True)
class Vision:
    """What decides the memory that a vision tower takes while it reads a picture."""

    width: int
    hidden: int
    """Width of the MLP's hidden activation."""
    squares: int
    """Rows of a picture inside the tower: (pixels of its side / pixels of a square's side) squared."""

    @property
    def moment(self) -> int:
        """Numbers held at once for one picture, the weights not counted; an estimate.

        The larger of two moments of a layer, for each square: its attention (residual stream, normed row,
        query, key and value) and its MLP (residual stream, normed row, hidden activation before and after).
        Attention scores are not counted, which fused kernels never hold. Pictures of one prompt are read
        together and take this each.
        """
        return self.squares * max(5 * self.width, 2 * self.width + 2 * self.hidden)


@dataclass(frozen=True, slots=True)
class Shape:
    """What decides a model's memory."""

    parameters: int
    n_layers: int
    width: int
    hidden: int
    """Width of the MLP's hidden activation."""
    kv_width: int
    """Keys and values of one token in one layer: 2 x KV heads x head size."""
    vocabulary: int
    vision: Vision | None = None
    """Of a model that reads pictures."""


def need_of(shape: Shape, dtypes: Sequence[str]) -> int:
    """Bytes for a model in each of the dtypes: weights, a layer's scratch, a context's cache, and logits.

    Where it reads pictures also :attr:`Vision.moment`, once and in the widest dtype: each dtype's tower runs
    at another time. All of it is an estimate.
    """
    number = sum(DTYPE_BYTES[d] for d in dtypes)
    widest = max((DTYPE_BYTES[d] for d in dtypes), default=0)
    seeing = 0 if shape.vision is None else shape.vision.moment * widest
    cache = shape.n_layers * shape.kv_width * WORKING_TOKENS * number
    # W' of one layer's three matrices, and one of them in float64 while it is formed.
    scratch = shape.width * shape.hidden * (3 * number + 8)
    logits = LOGIT_ROWS * shape.vocabulary * 8
    return shape.parameters * number + cache + scratch + logits + seeing + PROGRAM_BYTES


def weight_bytes(shape: Shape, dtype: str) -> int:
    """Bytes of the weights alone, in one dtype."""
    return shape.parameters * DTYPE_BYTES[dtype]


def free_bytes(device: str) -> int:
    """Bytes that may still be taken on ``cpu``, ``cuda:1`` or ``mps``, or on ``cuda:0,cuda:1`` together."""
    if "," in device:
        return sum(map(free_bytes, device.split(",")))
    if device.startswith("cuda"):
        import torch

        try:
            return torch.cuda.mem_get_info(device)[0]
        except RuntimeError:  # another program has it for itself, or it is broken
            return 0
    if device == "mps":
        import torch

        return max(0, torch.mps.recommended_max_memory() - torch.mps.current_allocated_memory())
    return min([psutil.virtual_memory().available, *_control_group_rooms()])


_CONTROL_GROUPS: Final = (
    ("/sys/fs/cgroup", "memory.max", "memory.current"),
    ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
)


def _control_group_rooms() -> list[int]:
    # A container's own limit is lower than what the machine has free.
    rooms = []
    for folder, limit, used in _CONTROL_GROUPS:
        try:
            limit_bytes, used_bytes = (int((Path(folder) / name).read_text()) for name in (limit, used))
            lines = (Path(folder) / "memory.stat").read_text().splitlines()
            # Cached files count as used, and are given up before anything is killed.
            cached = sum(int(v) for k, v in map(str.split, lines) if k in ("active_file", "inactive_file"))
        except (OSError, ValueError):
            continue
        rooms.append(max(0, limit_bytes - used_bytes + cached))
    return rooms


def refuse_unless(memory: MemoryNeed, dtypes: Sequence[str]) -> None:
    """Raise where it does not fit.

    Raises:
        MemoryRefusedError: naming need, free memory and a remedy.
    """
    if memory.fits or memory.need_bytes is None:
        return
    raise MemoryRefusedError(
        f"The model needs about {gigabytes(memory.need_bytes)} in {' and '.join(dtypes)}, and "
        f"{gigabytes(memory.free_bytes)} are free; choose {remedy(dtypes)}, or close other programs."
    )


def remedy(dtypes: Sequence[str]) -> str:
    """What to choose where these dtypes do not fit."""
    if len(dtypes) > 1:
        return "fewer dtypes or a smaller model"
    return "a smaller model" if dtypes[0] in ("bfloat16", "float16") else "bfloat16 or a smaller model"


def gigabytes(count: int) -> str:
    """Bytes as a reader says them: ``1.2 GB``."""
    return f"{count / 1e9:.1f} GB"
