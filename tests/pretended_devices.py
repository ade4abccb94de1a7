"""Devices that exist in name only: a tensor says that it is on ``pretend:1``, and its numbers are on the CPU.

An operation on tensors of two devices fails, as it would with two graphics cards, and where all is well the
numbers are those of the CPU. torch can have one such kind of device per process, for good, hence a process
of its own: ``python -m tests.pretended_devices ...``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

KIND = "pretend"
MOVES = (torch.ops.aten._to_copy, torch.ops.aten.copy_, torch.ops.aten.to)


class Placed(torch.Tensor):
    """``held`` [any shape] on the CPU, said to be on a device."""

    @staticmethod
    def __new__(cls, held: torch.Tensor, device: torch.device) -> Placed:
        return torch.Tensor._make_wrapper_subclass(
            cls, held.shape, strides=held.stride(), dtype=held.dtype, device=device, requires_grad=False
        )

    def __init__(self, held: torch.Tensor, device: torch.device) -> None:  # noqa: ARG002
        self.held = held

    def copy_(self, source: torch.Tensor, non_blocking: bool = False) -> Placed:  # noqa: ARG002
        self.held.copy_(held(source))
        return self

    def data_ptr(self) -> int:
        return self.held.data_ptr()

    def tolist(self) -> Any:
        return self.held.tolist()

    def __format__(self, form: str) -> str:
        return format(self.held, form)

    def __repr__(self) -> str:
        return f"{self.held!r} on {self.device}"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return compute(func, args, kwargs or {})


class Dispatch(TorchDispatchMode):
    """Sees to operations that name a device before there is a tensor on it."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return compute(func, args, kwargs or {})


class Birth(TorchFunctionMode):
    """``torch.tensor`` and indices that are lists are moved in ways that dispatch does not see."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func is torch.tensor and kwargs.get("device") is not None:
            device = kwargs.pop("device")
            return func(*args, **kwargs).to(device)
        if func in (torch.Tensor.__getitem__, torch.Tensor.__setitem__) and isinstance(args[0], Placed):
            where = args[1] if isinstance(args[1], tuple) else (args[1],)
            there = tuple(torch.tensor(k).to(args[0].device) if isinstance(k, list) else k for k in where)
            args = (args[0], there, *args[2:])
        return func(*args, **kwargs)


def held(thing: Any) -> Any:
    return thing.held if isinstance(thing, Placed) else thing


def compute(func: Any, args: Any, kwargs: Any) -> Any:
    """The operation on the CPU, its result on the device of its tensors, or on the one it names."""
    flat, _ = tree_flatten((args, kwargs))
    tensors = [t for t in flat if isinstance(t, torch.Tensor)]
    moves = func.overloadpacket in MOVES
    # As in torch, a number on the CPU may meet tensors anywhere.
    homes = {t.device for t in tensors if t.dim() or t.device.type != "cpu"}
    if len(homes) > 1 and not moves:
        raise RuntimeError(f"{func} of tensors on {sorted(map(str, homes))}")
    asked = next((x for x in flat if isinstance(x, torch.device)), None)
    home = asked or (args[0].device if moves else next(iter(homes), torch.device("cpu")))

    def bare(thing: Any) -> Any:
        if isinstance(thing, torch.device):
            return torch.device("cpu") if thing.type == KIND else thing
        return held(thing)

    before = {id(held(t)): t for t in tensors}

    def dressed(thing: Any) -> Any:
        if not isinstance(thing, torch.Tensor):
            return thing
        known = before.get(id(thing))
        if known is not None and known.device == home:
            return known
        if known is not None:
            # A move between devices copies, which also brings the numbers where the CPU's own are: aligned.
            thing = thing.clone()
        return Placed(thing, home) if home.type == KIND and thing.device.type == "cpu" else thing

    bare_args, bare_kwargs = tree_map(bare, (args, kwargs))
    return tree_map(dressed, func(*bare_args, **bare_kwargs))


def pretend() -> None:
    """Make the kind of device known to torch, in this process and for good."""
    from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

    _setup_privateuseone_for_python_backend(KIND)


def main(arguments: Sequence[str]) -> None:
    """``FOLDER OUT ROOM...``: the run of tests.oracle.test_sharing on as many devices as there are rooms."""
    from ctxviz.models import devices, memory, placement
    from tests.oracle.test_sharing import numbers_of

    folder, out, *room = arguments
    pretend()
    chosen = tuple(torch.device(KIND, index) for index in range(len(room)))
    devices.choose = lambda device: chosen  # noqa: ARG005
    devices.self_test = lambda device: None  # noqa: ARG005
    # What is free is given, and all of it is for weights; other questions for memory are answered yes.
    placement.memory = SimpleNamespace(
        weight_bytes=memory.weight_bytes,
        need_of=lambda shape, names: sum(memory.weight_bytes(shape, name) for name in names),
        free_bytes=lambda device: int(room[int(device.removeprefix(f"{KIND}:"))]),
    )
    memory.free_bytes = lambda device: 1 << 34  # noqa: ARG005
    with torch.inference_mode(), Dispatch(), Birth():
        a, b = (torch.ones(2, device=device) for device in chosen[:2])
        with pytest.raises(RuntimeError, match=r"pretend:0.*pretend:1"):
            a + b
        numbers = numbers_of(folder)
    Path(out).write_text(json.dumps(numbers))


if __name__ == "__main__":
    main(sys.argv[1:])
