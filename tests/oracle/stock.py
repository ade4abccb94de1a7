"""The oracle: a stock transformers model with exported updates written into it by independent code.

Nothing here comes from ctxviz but the record types. Forward passes are plain calls of the stock model.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable

import numpy as np
import torch

from ctxviz.records import LayerPatch, Rank1Update


def outputs_of(model: torch.nn.Module, layers: str, **inputs: object) -> tuple[np.ndarray, torch.Tensor]:
    """Residual stream after every layer at the last token [n_layers, d], and the last token's logits."""
    seen: list[np.ndarray] = []

    def keep(_: object, __: object, output: object) -> None:
        hidden = output[0] if isinstance(output, tuple) else output
        seen.append(hidden[0, -1].double().numpy())

    handles = [layer.register_forward_hook(keep) for layer in model.get_submodule(layers)]
    try:
        with torch.no_grad():
            logits = model(**inputs).logits[0, -1]
    finally:
        for handle in handles:
            handle.remove()
    return np.stack(seen), logits


def with_context(model: torch.nn.Module, layers: str, ids: list[int]) -> tuple[np.ndarray, torch.Tensor]:
    """The whole history through the stock model at once, without a cache."""
    return outputs_of(model, layers, input_ids=torch.tensor([ids]), use_cache=False)


def without_context(
    model: torch.nn.Module, layers: str, kept_ids: Iterable[int], kept_positions: Iterable[int]
) -> tuple[np.ndarray, torch.Tensor]:
    """The kept tokens alone, at their original positions."""
    ids = torch.tensor([list(kept_ids)])
    return outputs_of(
        model,
        layers,
        input_ids=ids,
        position_ids=torch.tensor([list(kept_positions)]),
        attention_mask=torch.ones_like(ids),
        use_cache=False,
    )


def written_copy(model: torch.nn.Module, patches: Iterable[LayerPatch]) -> torch.nn.Module:
    """A copy of the stock model with P <- round_dtype(float64(P) + update) done for every update."""
    patched = copy.deepcopy(model)
    parameters = dict(patched.named_parameters())
    with torch.no_grad():
        for patch in patches:
            for update in patch.updates:
                parameter = parameters[update.parameter]
                if isinstance(update, Rank1Update):
                    change = np.outer(update.left.astype(np.float64), update.right.astype(np.float64))
                else:
                    change = update.delta.astype(np.float64)
                parameter.copy_((parameter.double() + torch.from_numpy(change)).to(parameter.dtype))
    return patched


def relative_error(found: np.ndarray, wanted: np.ndarray) -> float:
    """Largest over layers of ||found - wanted|| / ||wanted||."""
    return float((np.linalg.norm(found - wanted, axis=-1) / np.linalg.norm(wanted, axis=-1)).max())


def tvd(p: torch.Tensor, q: torch.Tensor) -> float:
    """Total-variation distance of two logit vectors, written out on its own."""
    a, b = (np.exp(x.double().numpy() - x.double().numpy().max()) for x in (p, q))
    return float(0.5 * np.abs(a / a.sum() - b / b.sum()).sum())
