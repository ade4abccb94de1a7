"""Which device each part of a model goes to where there are several.

accelerate moves activations between the devices while the model runs. Which layer lies where is decided here:
its own planner keeps room for layers that would be brought back from the CPU, which never happens here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import torch

from ctxviz.errors import MemoryRefusedError
from ctxviz.models import memory
from ctxviz.models.devices import Devices, named
from ctxviz.models.memory import Shape, gigabytes

Places = dict[str, torch.device]
"""A ``device_map`` for ``from_pretrained``."""


SHARES: Final = tuple(step / 20 for step in range(1, 21))
"""Of the room of each device, tried in turn: all are filled alike, so that each keeps some for replays."""


def share_out(config: Any, layers: str, shape: Shape, dtype: torch.dtype, devices: Devices) -> Places:
    """The whole model on the first device that has room for it, or else its layers on all of them in turn.

    Embedding, vision tower and whatever else is no layer lie together on the first device that holds them; no
    layer is cut in two. On every device room is kept for what a pass needs beside the weights.

    Args:
        config: the model's transformers configuration.
        layers: path of the list of decoder layers, as in :class:`~ctxviz.models.architectures.Architecture`.

    Raises:
        MemoryRefusedError: the devices together have not enough room for whole layers.
    """
    name = str(dtype).removeprefix("torch.")
    whole = memory.weight_bytes(shape, name)
    beside = memory.need_of(shape, [name]) - whole
    rooms: list[int] = []
    for device in devices:
        rooms.append(max(0, memory.free_bytes(str(device)) - beside))
        if rooms[-1] >= whole:
            return {"": device}
    parts = _parts(config, layers, dtype)
    for share in SHARES:
        places = _fill(parts, devices, [int(share * room) for room in rooms])
        if places is not None:
            return places
    raise MemoryRefusedError(
        f"The layers do not fit on {named(devices)} ({' + '.join(map(gigabytes, rooms))} for "
        f"{gigabytes(whole)} of weights); choose {memory.remedy([name])}, or close other programs."
    )


def _parts(config: Any, layers: str, dtype: torch.dtype) -> list[tuple[list[str], int]]:
    """Modules that stay together, and their bytes: all that is no layer, then each layer."""
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        empty: Any = AutoModelForCausalLM.from_config(
            config, dtype=dtype, attn_implementation="sdpa", trust_remote_code=False
        )
    empty.tie_weights()
    stack = empty.get_submodule(layers)
    others = list(_beside(empty, layers))
    counted: set[int] = set()

    def size(names: Sequence[str]) -> int:
        tensors = [t for n in names for t in _tensors(empty.get_submodule(n)) if id(t) not in counted]
        counted.update(map(id, tensors))
        return sum({id(t): t.numel() * t.element_size() for t in tensors}.values())

    units = [others, *([f"{layers}.{index}"] for index in range(len(stack)))]
    return [(unit, size(unit)) for unit in units]


def _beside(model: Any, layers: str) -> Iterator[str]:
    """The modules beside the path to the layers."""
    above = ""
    for step in layers.split("."):
        for name, _ in model.get_submodule(above).named_children():
            if name != step:
                yield f"{above}.{name}".lstrip(".")
        above = f"{above}.{step}".lstrip(".")


def _tensors(module: Any) -> Iterator[torch.Tensor]:
    yield from module.parameters()
    yield from module.buffers()


def _fill(parts: list[tuple[list[str], int]], devices: Devices, rooms: Sequence[int]) -> Places | None:
    """Each part on the device of the part before it, or on the next with room; None where there is none."""
    places: Places = {}
    left = iter(zip(devices, rooms, strict=True))
    device, room = next(left)
    for names, size in parts:
        while size > room:
            found = next(left, None)
            if found is None:
                return None
            device, room = found
        room -= size
        places |= dict.fromkeys(names, device)
    return places
