"""An exported file, applied as its contract says by code of the test, gives the engine's bits."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open

from ctxviz.engine import stream
from ctxviz.models import load_model
from ctxviz.records import Step
from ctxviz.run import Run
from ctxviz.settings import RunSettings
from ctxviz.store import save_patch
from tests.tiny_models import save_tiny_folder

PROMPT = "the robot on mars says that dust will fall from the sky"


def apply(stock: torch.nn.Module, file: Path) -> tuple[torch.nn.Module, dict[str, str]]:
    """P <- round_dtype(float64(P) + left (x) right), or + delta."""
    patched = copy.deepcopy(stock)
    parameters = dict(patched.named_parameters())
    with safe_open(file, "numpy") as tensors, torch.no_grad():
        names = set(tensors.keys())
        touched = {name.rsplit(".", 1)[0] for name in names}
        for name in touched:
            if f"{name}.delta" in names:
                change = tensors.get_tensor(f"{name}.delta").astype(np.float64)
            else:
                left, right = tensors.get_tensor(f"{name}.left"), tensors.get_tensor(f"{name}.right")
                assert left.dtype == right.dtype == np.float32
                change = np.outer(left.astype(np.float64), right.astype(np.float64))
            parameter = parameters[name]
            parameter.copy_((parameter.double() + torch.from_numpy(change)).to(parameter.dtype))
        return patched, tensors.metadata()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_file_reproduces_the_written_logits(tmp_path: Path, dtype: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    model = load_model(str(save_tiny_folder(folder)), dtypes=(dtype,))
    settings = RunSettings(updates=("direct", "stable"), dtypes=(dtype,), max_new_tokens=3)
    running = stream(model, PROMPT, settings, keep_patches=True)
    run, stock = Run(model.identity, running.context, settings), model.in_dtype(dtype)
    ids = [int(i) for i in model.tokenizer(PROMPT)["input_ids"]]
    for step in running:
        if not isinstance(step, Step):
            run.refer(step)
            continue
        run.append(step)
        with torch.no_grad():
            cache = stock(input_ids=torch.tensor([ids[:-1]]), use_cache=True).cache
            baseline = stock(input_ids=torch.tensor([ids[-1:]]), cache=cache, use_cache=True).logits[0, -1]
        for result in step.variants:
            patched, metadata = apply(stock, save_patch(tmp_path, run, step, result))
            assert json.loads(metadata["context_ids"]) == ids
            assert json.loads(metadata["kept_ids"]) == ids[-1:]
            assert json.loads(metadata["kept_positions"]) == [len(ids) - 1]
            with torch.no_grad():
                logits = patched(
                    input_ids=torch.tensor([json.loads(metadata["kept_ids"])]),
                    position_ids=torch.tensor([json.loads(metadata["kept_positions"])]),
                ).logits[0, -1]
            # The prompt is decoded here in another chunking after step 0, so only step 0's baseline is the
            # engine's to the bit; the gap to it pins every logit of the patched model.
            gap = float((baseline.double() - logits.double()).abs().max())
            if step.index == 0:
                assert gap == result.logit_linf
            assert int(logits.argmax()) == int(result.top.ids[0])
            probabilities = torch.softmax(logits.double(), 0)[torch.from_numpy(result.top.ids).long()]
            np.testing.assert_array_equal(probabilities.numpy().astype(np.float32), result.top.probabilities)
        ids.append(step.next_token_id)
