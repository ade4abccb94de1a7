"""The script that is handed out with a patch gives the engine's bits, with stock libraries alone."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from ctxviz.engine import stream
from ctxviz.engine.anatomy import anatomy_of
from ctxviz.engine.application import Scratch
from ctxviz.engine.context_pass import ContextPass
from ctxviz.engine.patched_pass import patched_pass
from ctxviz.folds import Fold
from ctxviz.models import LoadedModel, load_model
from ctxviz.records import LayerPatch, Step, VectorUpdate
from ctxviz.run import Run
from ctxviz.settings import RunSettings
from ctxviz.store import save_patch
from ctxviz.store.apply_script import script
from tests.tiny_models import save_tiny_folder

PROMPT = "the robot on mars says that dust will fall from the sky"


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """As in the script's process; the number of threads may change the order of a sum."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def built_logits(model: LoadedModel, settings: RunSettings, step: Step) -> np.ndarray:
    """The engine's logits of step 0 of the only variant, float32 [vocabulary]."""
    (dtype,) = settings.dtypes
    ids = list(model.tokenizer(PROMPT)["input_ids"])
    anatomy = anatomy_of(model.in_dtype(dtype), model.architecture)
    context = ContextPass(anatomy)
    context.prefill(ids[:-1])
    made = patched_pass(
        anatomy,
        settings.variants[0],
        step.kept_ids,
        step.kept_positions,
        context.advance(ids[-1]),
        scratch=Scratch(),
        small_h=1e-3,
        keep_patches=True,
    )
    return made.logits.float().numpy()


def said(folder: Path, patch: str, reference: str) -> tuple[np.ndarray, str]:
    """What the script's ``logits`` hold, float32, and what it prints; run in ``folder`` without ctxviz."""
    (folder / "apply.py").write_text(
        script(patch, reference)
        + "\nimport sys, numpy\nassert not any(m.split('.')[0] == 'ctxviz' for m in sys.modules)"
        + "\nnumpy.save('logits.npy', logits.float().numpy())\n",
        encoding="utf-8",
    )
    offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "apply.py"],
        cwd=folder,
        env=os.environ | offline,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return np.load(folder / "logits.npy"), done.stdout


def zeroed(patches: tuple[LayerPatch, ...]) -> tuple[LayerPatch, ...]:
    """The same updates, of zeros."""
    return tuple(
        replace(
            patch,
            updates=tuple(
                replace(u, delta=0 * u.delta) if isinstance(u, VectorUpdate) else replace(u, left=0 * u.left)
                for u in patch.updates
            ),
        )
        for patch in patches
    )


@pytest.mark.parametrize(
    ("dtype", "rule", "fold"), [("float32", "stable", "all"), ("bfloat16", "direct", "all-but-bos")]
)
def test_the_script_gives_the_written_logits_bit_for_bit(
    tmp_path: Path, dtype: str, rule: str, fold: str
) -> None:
    reference = 'it\'s a "model" é'
    folder = save_tiny_folder(tmp_path / reference)
    model = load_model(str(folder), dtypes=(dtype,))
    settings = RunSettings(updates=(rule,), dtypes=(dtype,), fold=Fold.parse(fold), max_new_tokens=1)
    running = stream(model, PROMPT, settings, keep_patches=True)
    run = Run(model.identity, running.context, settings)
    step = next(item for item in running if isinstance(item, Step))
    run.append(step)
    patch = save_patch(tmp_path, run, step, step.variants[0])
    logits, printed = said(tmp_path, patch.name, reference)
    np.testing.assert_array_equal(logits, built_logits(model, settings, step))
    token = int(logits.argmax())
    assert token == step.variants[0].top.ids[0]
    assert ast.literal_eval(printed) == model.tokenizer.decode([token])

    patches = step.variants[0].patches
    assert patches is not None
    nothing = replace(step.variants[0], patches=zeroed(patches))
    empty = save_patch(tmp_path, run, step, nothing)
    assert not any(value.any() for name, value in load_file(empty).items() if not name.endswith(".right"))
    unpatched, _ = said(tmp_path, empty.name, reference)
    assert np.abs(unpatched - logits).max() > 0.01


HOSTILE = (
    "it's",
    'say "no"',
    "'''\nimport os",
    '"""\nraise SystemExit(1)\n"""',
    "{parts}",
    "\\",
    "\u202e\udc80",
)


@pytest.mark.parametrize("name", HOSTILE)
def test_names_stay_data(name: str) -> None:
    usual, text = (ast.parse(script(*names)) for names in (("patch", "model"), (name, name + "/m")))
    constants = {
        node.targets[0].id: node.value.value  # type: ignore[attr-defined]
        for node in text.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
    }
    assert constants == {"PATCH": name, "MODEL": name + "/m"}
    for tree in (usual, text):
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
                node.value.value = ""
    assert ast.dump(usual) == ast.dump(text)


def test_the_script_is_short_and_fits_a_page() -> None:
    lines = script("step00000-stable-written-float32-from0.safetensors", "google/gemma-3-270m").splitlines()
    assert len(lines) < 30
    assert max(map(len, lines)) <= 110
