"""A tiny model in which one denominator h_j is a mere rounding error: what a direct patch breaks on."""

from __future__ import annotations

from pathlib import Path

import torch

from tests.tiny_models import save_tiny_folder, tiny_gemma3, tiny_tokenizer

LAYER, COORDINATE = 2, 5


def save_fragile_folder(path: Path, prompt: str) -> Path:
    """A folder as :func:`save_tiny_folder`'s, fragile at the last token of ``prompt``.

    A row of W_down is made orthogonal to the MLP's hidden vector there, which the patched pass reproduces.
    """
    tiny = tiny_gemma3()
    down = tiny.get_submodule("model.layers")[LAYER].mlp.down_proj
    seen: list[torch.Tensor] = []
    handle = down.register_forward_hook(lambda _, args, __: seen.append(args[0][0, -1].double()))
    tiny(input_ids=torch.tensor([tiny_tokenizer().encode(prompt).ids]), use_cache=False)
    handle.remove()
    (hidden,) = seen
    row = down.weight[COORDINATE].double()
    down.weight[COORDINATE] = (row - (row @ hidden) / (hidden @ hidden) * hidden).float()
    return save_tiny_folder(path, tiny)
