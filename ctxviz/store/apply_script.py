"""A short Python script that gives an exported patch to the stock model, for people without ctxviz."""

from __future__ import annotations

from typing import Final

_SCRIPT: Final = '''\
"""Write one token's patch into the stock model; it then says the next token without its context."""

import json

import torch
from safetensors import safe_open
from transformers import AutoModelForCausalLM, AutoTokenizer

PATCH = {patch}
MODEL = {model}

with safe_open(PATCH, "pt") as file:
    about, parts = file.metadata(), {{name: file.get_tensor(name).double() for name in file.keys()}}
how = {{"attn_implementation": "sdpa", "use_safetensors": True}}
model = AutoModelForCausalLM.from_pretrained(MODEL, dtype=about["dtype"], **how).eval().requires_grad_(False)
for parameter in model.parameters():
    parameter.data = parameter.data.clone()  # out of the mapped file, whose alignment can change a rounding
for name in sorted({{name.rpartition(".")[0] for name in parts}}):
    delta, left, right = (parts.get(f"{{name}}.{{part}}") for part in ("delta", "left", "right"))
    parameter = model.get_parameter(name)
    parameter.copy_(parameter.double() + (torch.outer(left, right) if delta is None else delta))
ids, positions = (torch.tensor([json.loads(about[key])]) for key in ("kept_ids", "kept_positions"))
with torch.no_grad():
    logits = model(input_ids=ids, position_ids=positions, attention_mask=torch.ones_like(ids)).logits[0, -1]
print(repr(AutoTokenizer.from_pretrained(MODEL).decode([int(logits.argmax())])))
'''


def script(patch_file_name: str, model_reference: str) -> str:
    """A script that needs torch, safetensors and transformers alone.

    It writes the patch into the model by P <- round(float64(P) + left (x) right), or + delta, runs the kept
    tokens, leaves the last token's ``logits`` [vocabulary] and prints the most probable next token. On the
    machine and with the number of threads of the run the logits are the written ones bit for bit.

    Args:
        patch_file_name: of a ``ctxviz-patch/1`` file, as seen from where the script is run.
        model_reference: a model folder or a Hub id. Both names are quoted, whatever they hold.
    """
    return _SCRIPT.format(patch=repr(str(patch_file_name)), model=repr(str(model_reference)))
