"""The named submodules of a stock model that the engine listens to, and the constants of each layer.

Found through the architecture's data (paths of submodules); nothing here runs a layer.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ctxviz.models.architectures import Architecture

Doubles = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class LayerAnatomy:
    """One decoder layer: its modules by the field's names, and what never changes during a run."""

    index: int
    layer: nn.Module
    pre_mlp_norm: nn.Module
    gate: nn.Module
    up: nn.Module
    down: nn.Module
    post_mlp_norm: nn.Module
    stored_scale: Doubles
    """w [d] as stored, in float64."""
    scale: Doubles
    """m [d], the effective scale."""
    epsilon: float
    delta_limit: float
    """Largest |dm_j| for which w + dm stays finite in the model's dtype and dm in float32."""
    gate_norm: float
    up_norm: float
    down_norm: float
    """Frobenius norms of the matrices."""
    gate_name: str
    up_name: str
    down_name: str
    scale_name: str
    """Parameter names inside the stock model."""


@dataclass(frozen=True, slots=True, eq=False)
class Anatomy:
    """A stock model seen through its architecture."""

    model: nn.Module
    layers: tuple[LayerAnatomy, ...]
    width: int
    lock: threading.RLock
    """Held during a pass: hooks of two passes must not meet on one model."""


class _Kept:
    """An anatomy on its model; a copy of the model has none, since its modules are others."""

    def __init__(self, anatomy: Anatomy | None = None) -> None:
        self.anatomy = anatomy

    def __deepcopy__(self, _: Any) -> _Kept:
        return _Kept()

    def __reduce__(self) -> tuple[Any, ...]:
        return _Kept, ()


KEPT = "_ctxviz_anatomy"
_known_lock = threading.Lock()


def anatomy_of(model: nn.Module, architecture: Architecture) -> Anatomy:
    """The model's anatomy, computed once per loaded model and kept on it, so that both end together."""
    with _known_lock:
        kept = model.__dict__.setdefault(KEPT, _Kept())
        if kept.anatomy is None:
            kept.anatomy = _dissect(model, architecture)
        return kept.anatomy


def _dissect(model: nn.Module, architecture: Architecture) -> Anatomy:
    stack = model.get_submodule(architecture.layers)
    layers = tuple(
        _dissect_layer(index, f"{architecture.layers}.{index}", layer, architecture)
        for index, layer in enumerate(stack.children())
    )
    return Anatomy(model, layers, len(layers[0].scale), threading.RLock())


def _dissect_layer(index: int, prefix: str, layer: nn.Module, architecture: Architecture) -> LayerAnatomy:
    gate, up, down = (
        layer.get_submodule(path) for path in (architecture.gate, architecture.up, architecture.down)
    )
    post = layer.get_submodule(architecture.post_mlp_norm)
    weight = _weight(post)
    stored = weight.detach().to("cpu", torch.float64).numpy()
    finite = min(float(torch.finfo(weight.dtype).max), float(np.finfo(np.float32).max))
    return LayerAnatomy(
        index=index,
        layer=layer,
        pre_mlp_norm=layer.get_submodule(architecture.pre_mlp_norm),
        gate=gate,
        up=up,
        down=down,
        post_mlp_norm=post,
        stored_scale=stored,
        scale=architecture.scale_offset + stored,
        epsilon=float(getattr(post, architecture.norm_epsilon)),
        delta_limit=finite - float(np.abs(stored).max()),
        gate_norm=_frobenius(gate),
        up_norm=_frobenius(up),
        down_norm=_frobenius(down),
        gate_name=f"{prefix}.{architecture.gate}.weight",
        up_name=f"{prefix}.{architecture.up}.weight",
        down_name=f"{prefix}.{architecture.down}.weight",
        scale_name=f"{prefix}.{architecture.post_mlp_norm}.weight",
    )


def _weight(module: nn.Module) -> torch.Tensor:
    weight = module.weight
    assert isinstance(weight, torch.Tensor)
    return weight


def _frobenius(module: nn.Module) -> float:
    weight = _weight(module).detach()
    # Row by row: a float64 copy of a large matrix would double the memory for a moment.
    rows = torch.linalg.vector_norm(weight.float(), dim=1)
    return float(torch.linalg.vector_norm(rows.cpu().double()))


@contextmanager
def listening(hooks: list[tuple[nn.Module, Any]]) -> Iterator[None]:
    """Forward hooks for the length of a pass; removed whatever happens."""
    handles = []
    try:
        for module, hook in hooks:
            handles.append(module.register_forward_hook(hook))
        yield
    finally:
        for handle in handles:
            handle.remove()


def first_tensor(output: Any) -> torch.Tensor:
    """A decoder layer's hidden state [batch, tokens, d], whether it returns it bare or in a tuple."""
    return output[0] if isinstance(output, tuple) else output


def to_double(vector: torch.Tensor) -> Doubles:
    """A vector [n] of the model as float64 numpy."""
    return vector.detach().to("cpu", torch.float64).numpy()
