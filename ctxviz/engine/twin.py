"""A stock model with other tensors in place of some parameters, while the loaded one stays as it is.

The twin is the same tree of stock modules: those on the way to a patched parameter are shallow copies, all
others and all other parameters are shared. Its forward is the stock one, without any of our hooks.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import nn

from ctxviz.engine.anatomy import KEPT, Anatomy
from ctxviz.engine.application import HOOK_TABLES


class Twin:
    """``model`` may be called like the stock model once :meth:`hold` has said which tensors it has."""

    def __init__(self, anatomy: Anatomy) -> None:
        self.model = _shell(anatomy.model)
        self._shells: dict[str, nn.Module] = {"": self.model}
        self._leaves = {
            name: self._reach(name.rpartition(".")[0])
            for part in anatomy.layers
            for name in (part.gate_name, part.up_name, part.down_name, part.scale_name)
        }
        self._stock = {name: module._parameters["weight"] for name, module in self._leaves.items()}
        paths = {id(module): path for path, module in anatomy.model.named_modules()}
        self.layers = tuple(self._reach(paths[id(part.layer)]) for part in anatomy.layers)
        """The twin's decoder layers; hooks on them do not reach the loaded model."""

    def hold(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Take ``tensors``, by name of parameter; the others are the stock model's again."""
        for name, module in self._leaves.items():
            given = tensors.get(name)
            weight = self._stock[name] if given is None else nn.Parameter(given, requires_grad=False)
            module._parameters["weight"] = weight

    def _reach(self, path: str) -> nn.Module:
        """The shell of a submodule; it and those above it are made where they are still shared."""
        if path not in self._shells:
            above, _, name = path.rpartition(".")
            parent = self._reach(above)
            found = parent._modules[name]
            assert found is not None
            self._shells[path] = parent._modules[name] = _shell(found)
        return self._shells[path]


def _shell(module: nn.Module) -> Any:
    """A copy of the module object that shares its parameters and children and has no hooks."""
    shell = copy.copy(module)
    shell._modules = dict(module._modules)
    shell._parameters = dict(module._parameters)
    shell.__dict__.pop(KEPT, None)
    for table in HOOK_TABLES:
        setattr(shell, table, OrderedDict())
    # What accelerate wrapped around the loaded module would call that one.
    wrapped = shell.__dict__.pop("forward", None)
    shell.__dict__.pop("_old_forward", None)
    mover = shell.__dict__.pop("_hf_hook", None)
    if wrapped is not None and mover is not None:
        shell.forward = partial(_moved, shell, mover)
    return shell


def _moved(shell: nn.Module, mover: Any, *args: Any, **kwargs: Any) -> Any:
    """The stock forward, with its inputs brought to the device of its weights as for the loaded module."""
    args, kwargs = mover.pre_forward(shell, *args, **kwargs)
    return mover.post_forward(shell, type(shell).forward(shell, *args, **kwargs))
