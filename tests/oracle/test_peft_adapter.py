"""An adapter folder, loaded by the real PEFT, stands in for the context."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peft import PeftModel
from safetensors.numpy import load

from ctxviz.engine import stream
from ctxviz.engine.anatomy import anatomy_of
from ctxviz.errors import BundleError
from ctxviz.exporting import ExportCheck, Trial
from ctxviz.folds import Fold
from ctxviz.models import LoadedModel, load_model
from ctxviz.records import LayerPatch, Rank1Update, Step, VectorUpdate
from ctxviz.settings import RunSettings
from ctxviz.store.peft_adapter import adapter_files, adapter_zip
from tests.oracle.stock import tvd, with_context, without_context, written_copy
from tests.synthetic import synthetic_patches
from tests.tiny_models import save_tiny_folder, tiny_gemma3

PROMPT = "the robot on mars says that dust will fall from the sky"
# The tolerances of test_written_patches.py: what a patched float32 model may be off, and a control must be.
TOLERANCE = 3e-3
WRONG = 5e-2
LAYERS = "model.layers"

# PEFT asks transformers by an old name.
pytestmark = pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing. is deprecated:FutureWarning")


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    """The model that test_written_patches.py has its tolerances for."""
    return load_model(str(save_tiny_folder(tmp_path_factory.mktemp("tiny"))))


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    """Twelve layers: two digits in names, and more names than PEFT keeps in full (it shortens from 20 on)."""
    folder = save_tiny_folder(tmp_path_factory.mktemp("deep"), tiny_gemma3(num_hidden_layers=12))
    return load_model(str(folder))


def scales_of(model: LoadedModel, dtype: str = "float32") -> dict[str, np.ndarray]:
    layers = anatomy_of(model.in_dtype(dtype), model.architecture).layers
    return {layer.scale_name: layer.stored_scale for layer in layers}


def adapted(folder: Path, dtype: str = "float32") -> Any:
    """A fresh stock model with the adapter in ``folder``."""
    from transformers import AutoModelForCausalLM

    stock = AutoModelForCausalLM.from_pretrained(
        json.loads((folder / "adapter_config.json").read_text())["base_model_name_or_path"],
        dtype=dtype,
        attn_implementation="sdpa",
    )
    return PeftModel.from_pretrained(stock, folder).eval().requires_grad_(False)


def write(model: LoadedModel, step: Step, folder: Path, dtype: str = "float32") -> Path:
    patches = step.variants[0].patches
    assert patches is not None
    folder.mkdir()
    files = adapter_files(
        patches,
        base_model=str(model._ready.folder),
        dtype=dtype,
        stored_scales=scales_of(model, dtype),
        kept_ids=step.kept_ids,
        kept_positions=step.kept_positions,
    )
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


def steps_of(model: LoadedModel, rule: str, fold: str, **settings: Any) -> list[Step]:
    chosen = RunSettings(updates=(rule,), fold=Fold.parse(fold), max_new_tokens=2, **settings)
    return [i for i in stream(model, PROMPT, chosen, keep_patches=True) if isinstance(i, Step)]


@pytest.mark.parametrize("fold", ["all", "all-but-bos"])
@pytest.mark.parametrize("rule", ["stable", "direct"])
def test_peft_gives_the_logits_of_the_context(
    model: LoadedModel, tmp_path: Path, rule: str, fold: str
) -> None:
    first, second = steps_of(model, rule, fold)
    ids = list(model.tokenizer(PROMPT)["input_ids"])
    _, wanted = with_context(model.in_dtype("float32"), LAYERS, ids)
    peft = adapted(write(model, first, tmp_path / "first"))

    def error(chosen: Any, step: Step = first) -> float:
        # The stock model inside, so that the plain forward is what is compared.
        inner = chosen.get_base_model() if isinstance(chosen, PeftModel) else chosen
        return tvd(without_context(inner, LAYERS, step.kept_ids, step.kept_positions)[1], wanted)

    assert error(peft) < TOLERANCE
    with peft.disable_adapter():
        assert error(peft) > WRONG, "disabled"
    assert error(peft) < TOLERANCE
    other = adapted(write(model, second, tmp_path / "second"))
    assert error(other) > WRONG, "another token's"
    merged = peft.merge_and_unload()
    assert not any("lora" in name for name, _ in merged.named_modules())
    assert error(merged) < TOLERANCE


def test_the_code_in_the_readme_runs(
    model: LoadedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = steps_of(model, "stable", "all-but-bos")[0]
    folder = write(model, step, tmp_path / "adapter")
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {}
    with torch.no_grad():
        exec((folder / "README.md").read_text().split("```")[1].removeprefix("python"), names)
    _, wanted = with_context(model.in_dtype("float32"), LAYERS, list(model.tokenizer(PROMPT)["input_ids"]))
    assert tvd(names["logits"], wanted) < TOLERANCE


def test_only_what_was_patched_is_in_the_adapter(deep: LoadedModel, tmp_path: Path) -> None:
    first = 2
    step, _ = steps_of(deep, "direct", "all", first_layer=first)
    base = adapted(write(deep, step, tmp_path / "late")).get_base_model()
    names = [name for name, _ in base.named_modules()]
    lora = {name.removesuffix(".lora_A.default") for name in names if name.endswith(".lora_A.default")}
    assert lora == {f"{LAYERS}.{i}.mlp.{part}_proj" for i in range(first, 12) for part in ("gate", "up")}
    replaced = {name.split(".modules_to_save")[0] for name in names if name.endswith("modules_to_save")}
    assert replaced == {f"{LAYERS}.{i}.post_feedforward_layernorm" for i in range(first, 12)}
    stock = dict(deep.in_dtype("float32").named_parameters())
    for layer in range(first):
        name = f"{LAYERS}.{layer}.post_feedforward_layernorm.weight"
        assert torch.equal(base.get_parameter(name), stock[name])


@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
def test_replaced_scales_are_the_written_ones_bit_for_bit(
    model: LoadedModel, tmp_path: Path, dtype: str
) -> None:
    step, _ = steps_of(model, "stable", "all", dtypes=(dtype,))
    peft = adapted(write(model, step, tmp_path / "a", dtype), dtype)
    patches = step.variants[0].patches
    assert patches is not None
    written = dict(written_copy(model.in_dtype(dtype), patches).named_parameters())
    stock = dict(model.in_dtype(dtype).named_parameters())
    merged = dict(peft.merge_and_unload().named_parameters())
    changed = 0
    for layer in range(4):
        name = f"{LAYERS}.{layer}.post_feedforward_layernorm.weight"
        assert merged[name].dtype == getattr(torch, dtype)
        assert torch.equal(merged[name], written[name])
        changed += int(not torch.equal(written[name], stock[name]))
        matrix = f"{LAYERS}.{layer}.mlp.down_proj.weight"
        torch.testing.assert_close(merged[matrix], written[matrix])
    assert changed == 4


def files_of(patches: tuple[LayerPatch, ...], **changes: Any) -> dict[str, bytes]:
    rng = np.random.default_rng(1)
    scales = {
        u.parameter: rng.normal(size=8) for p in patches for u in p.updates if isinstance(u, VectorUpdate)
    }
    arguments = {"base_model": "org/name", "dtype": "float32", "stored_scales": scales} | changes
    return adapter_files(patches, **arguments)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_replaced_scales_are_rounded_as_torch_rounds(dtype: str) -> None:
    parameter = "model.layers.0.post_feedforward_layernorm.weight"
    values = np.random.default_rng(0).normal(0, 100, 4000)
    ties = 1 + np.arange(256) / 256 / 2
    delta = np.concatenate([values, -values, ties, -ties, [0.0, 1e-30, 3e38 if dtype == "bfloat16" else 6e4]])
    patch = LayerPatch(
        0,
        (
            Rank1Update("model.layers.0.mlp.up_proj.weight", np.ones(3, np.float32), np.ones(2, np.float32)),
            VectorUpdate(parameter, delta.astype(np.float32)),
        ),
    )
    made = files_of((patch,), dtype=dtype, stored_scales={parameter: np.zeros(len(delta))})
    found = load(made["adapter_model.safetensors"])[f"base_model.model.{parameter}"]
    rounded = torch.from_numpy(delta.astype(np.float32)).to(getattr(torch, dtype)).float().numpy()
    np.testing.assert_array_equal(found, rounded)


def test_the_readme_says_what_peft_cannot_hold() -> None:
    patches = synthetic_patches()
    text = files_of(patches, kept_ids=[2, 7], kept_positions=[0, 30])["README.md"].decode()
    for words in (
        "`kept_ids`: [2, 7]", "`kept_positions`: [0, 30]", "side branch", "W x + B (A x)",
        "factored, not written", "`merge_and_unload()`", "replaced module", "single token",
    ):  # fmt: skip
        assert words in text
    assert "as in the exported patch file" in files_of(patches)["README.md"].decode()
    assert "close" not in text


def test_the_readme_and_the_tensors_tell_what_was_measured() -> None:
    bare = files_of(synthetic_patches())
    assert "It was not run when it was made." in bare["README.md"].decode()
    check = ExportCheck(
        built=Trial(2e-7, True),
        written=Trial(3e-7, True),
        written_moved=Trial(0.9, False),
        adapter=Trial(0.0316, True),
        adapter_moved=Trial(np.inf, False),
        margin=1.0,
        floor_tvd=1e-6,
        floor_linf=1e-5,
        context_moved_tvd=1e-6,
    )
    files = files_of(synthetic_patches(), check=check)
    text = files["README.md"].decode()
    assert "not run when it was made" not in text
    rows = [line.split(" | ")[1:] for line in text.splitlines() if line.startswith("| ")][1:]
    assert rows == [["0.032", "yes |"], ["no number", "no |"], ["3e-07", "yes |"]]
    size = int.from_bytes(files["adapter_model.safetensors"][:8], "little")
    assert json.loads(files["adapter_model.safetensors"][8 : 8 + size])["__metadata__"] == {
        "format": "pt",
        "measured_tvd": "0.0316",
        "measured_same_token": "true",
        "measured_ulp_tvd": "no number",
        "measured_ulp_same_token": "false",
    }


@pytest.mark.parametrize("name", ["it's", '"\n---\nevil: yes', "```\n# x", "\udc80é"])
def test_a_model_name_stays_data(name: str) -> None:
    files = files_of(synthetic_patches(), base_model=name)
    assert json.loads(files["adapter_config.json"])["base_model_name_or_path"] == name
    usual = files_of(synthetic_patches())["README.md"].decode().splitlines()
    lines = files["README.md"].decode().splitlines()
    different = [i for i, pair in enumerate(zip(lines, usual, strict=True)) if pair[0] != pair[1]]
    assert [lines[i].split("(")[0].split(":")[0].strip() for i in different] == [
        "base_model",
        "model = AutoModelForCausalLM.from_pretrained",
    ]


def test_the_zip_holds_the_files_and_is_the_same_every_time() -> None:
    patches = synthetic_patches()
    scales = {u.parameter: np.zeros(8) for p in patches for u in p.updates if isinstance(u, VectorUpdate)}
    arguments: dict[str, Any] = {"base_model": "org/name", "dtype": "float32", "stored_scales": scales}
    data = adapter_zip(patches, **arguments)
    assert data == adapter_zip(synthetic_patches(), **arguments)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == adapter_files(
            patches, **arguments
        )
    assert data != adapter_zip(patches, **(arguments | {"base_model": "org/other"}))


def test_what_cannot_be_an_adapter_is_refused() -> None:
    patches = synthetic_patches()
    with pytest.raises(BundleError, match="changes no matrix"):
        files_of(())
    with pytest.raises(ValueError, match=r"stored scale of model\.layers\.0\..* is missing"):
        files_of(patches, stored_scales={})
    odd = LayerPatch(0, (Rank1Update("a.bias", np.ones(2, np.float32), np.ones(2, np.float32)),))
    with pytest.raises(ValueError, match=r"'a\.bias' is not a module's weight"):
        files_of((odd,))
