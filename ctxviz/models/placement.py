"""Which device each part of a model goes to where there are several.

accelerate shares the parts out, and moves activations between the devices while the model runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ctxviz.errors import MemoryRefusedError
from ctxviz.models import memory
from ctxviz.models.devices import Devices, named
from ctxviz.models.memory import Shape, gigabytes


def rooms(devices: Sequence[torch.device], shape: Shape, dtype: str) -> list[int]:
    """Bytes of each device that weights may take: what is free, less what a pass needs beside them.

    The whole of a pass is kept room for on every device, though each runs a part of it.
    """
    beside = memory.need_of(shape, [dtype]) - memory.weight_bytes(shape, dtype)
    return [max(0, memory.free_bytes(str(device)) - beside) for device in devices]


def share_out(config: Any, dtype: torch.dtype, devices: Devices, room: Sequence[int]) -> dict[str, Any]:
    """A ``device_map`` for ``from_pretrained``: the devices are filled in turn, and no layer is cut in two.

    Raises:
        MemoryRefusedError: the devices together have room, but not for whole layers.
    """
    from accelerate import infer_auto_device_map, init_empty_weights
    from transformers import AutoModelForCausalLM

    with init_empty_weights():
        empty: Any = AutoModelForCausalLM.from_config(config, trust_remote_code=False)
    empty.tie_weights()
    found: dict[str, Any] = infer_auto_device_map(
        empty,
        max_memory=dict(enumerate(room)),
        no_split_module_classes=list(empty._no_split_modules or ()),
        dtype=dtype,
    )
    if any(not isinstance(place, int) for place in found.values()):
        # "cpu" or "disk": weights there would be moved to and fro for every token, and could not be patched.
        raise MemoryRefusedError(
            f"The layers do not fit on {named(devices)} ({' + '.join(map(gigabytes, room))} for weights); "
            "choose bfloat16 or a smaller model, or close other programs."
        )
    return {part: devices[place] for part, place in found.items()}
