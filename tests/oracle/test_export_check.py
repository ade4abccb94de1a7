"""What is measured when a patch is taken away is what the real PEFT, a stock copy and a replay then give."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peft import PeftModel
from PIL import Image

from ctxviz.engine import export_check, rebuild, stream
from ctxviz.engine.anatomy import anatomy_of
from ctxviz.engine.application import Scratch
from ctxviz.engine.export_check import Exported, adapter_hooks, check_export, written_hooks
from ctxviz.engine.rebuild import Rebuilt
from ctxviz.engine.sight import BLIND
from ctxviz.exporting import ExportCheck
from ctxviz.folds import Fold
from ctxviz.models import LoadedModel, load_model
from ctxviz.pictures import read_file
from ctxviz.records import Rank1Update, Step
from ctxviz.replaying import failed, limit
from ctxviz.run import Run
from ctxviz.settings import RunSettings, Variant
from ctxviz.store import adapter_files
from tests.fragile import save_fragile_folder
from tests.oracle.stock import tvd, without_context, written_copy
from tests.tiny_models import save_tiny_picture_folder

PROMPT = "the robot on mars says that dust will fall from the sky"
LAYERS = "model.layers"
STEP = 0

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
    folder = save_fragile_folder(tmp_path_factory.mktemp("fragile"), PROMPT)
    return load_model(str(folder), dtypes=("float32", "bfloat16", "float16", "float64"))


def run_of(model: LoadedModel, rule: str, dtype: str, fold: str = "all", **more: Any) -> Run:
    settings = RunSettings((rule,), dtypes=(dtype,), fold=Fold.parse(fold), max_new_tokens=2, **more)
    engine = stream(model, PROMPT, settings)
    run = Run(model.identity, engine.context, settings)
    for item in engine:
        if isinstance(item, Step):
            run.append(item)
        else:
            run.refer(item)
    return run


def rebuilt(model: LoadedModel, run: Run, variant: Variant | None = None) -> Rebuilt:
    *_, built = rebuild(model, run, STEP, variant or run.variants[0])
    assert isinstance(built, Rebuilt)
    return built


def check_of(model: LoadedModel, run: Run, variant: Variant | None = None) -> ExportCheck:
    *shares, check = check_export(model, run, rebuilt(model, run, variant))
    assert isinstance(check, ExportCheck)
    assert shares == sorted(shares)
    assert 0 <= shares[0] < shares[-1] < 1
    return check


def peft_logits(model: LoadedModel, built: Rebuilt, folder: Path) -> torch.Tensor:
    """The exported folder, loaded by PEFT onto a stock model whose parameters are aligned as ours are."""
    from transformers import AutoModelForCausalLM

    files = adapter_files(
        built.patches,
        base_model=built.reference,
        dtype=built.variant.dtype,
        stored_scales=built.stored_scales,
    )
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    base = json.loads(files["adapter_config.json"])["base_model_name_or_path"]
    stock = AutoModelForCausalLM.from_pretrained(base, dtype=built.variant.dtype, attn_implementation="sdpa")
    peft = PeftModel.from_pretrained(stock, folder).eval().requires_grad_(False)
    for parameter in peft.parameters():
        parameter.data = parameter.data.clone()
    inner: Any = peft.get_base_model()
    return without_context(inner, LAYERS, built.kept_ids, built.kept_positions)[1]


def exported(model: LoadedModel, built: Rebuilt) -> Exported:
    anatomy = anatomy_of(model.in_dtype(built.variant.dtype), model.architecture)
    return Exported(anatomy, built.kept_ids, built.kept_positions, BLIND)


CASES = [
    (rule, dtype, fold)
    for rule in ("direct", "stable", "floored")
    for dtype, fold in (("float32", "all"), ("float32", "all-but-bos"), ("bfloat16", "all"))
] + [("stable", "float16", "all"), ("stable", "float64", "all")]


@pytest.mark.parametrize(("rule", "dtype", "fold"), CASES)
def test_the_trials_are_what_stock_copy_and_peft_give(
    model: LoadedModel, tmp_path: Path, rule: str, dtype: str, fold: str
) -> None:
    run = run_of(model, rule, dtype, fold)
    built, check = rebuilt(model, run), check_of(model, run)
    anatomy = anatomy_of(model.in_dtype(dtype), model.architecture)

    stock = written_copy(model.in_dtype(dtype), built.patches)
    written = without_context(stock, LAYERS, built.kept_ids, built.kept_positions)[1]
    hooks = written_hooks(anatomy, built.patches, Scratch())
    assert torch.equal(exported(model, built).logits(hooks), written)

    peft = peft_logits(model, built, tmp_path / "adapter")
    ours = exported(model, built).logits(adapter_hooks(anatomy, built.patches))
    assert torch.equal(ours, peft)

    baseline = built.baseline.logits
    for trial, logits in ((check.written, written), (check.adapter, peft)):
        assert trial.tvd == pytest.approx(tvd(baseline, logits), rel=1e-6, abs=1e-12)
        assert trial.match == (int(logits.argmax()) == int(baseline.argmax()))
    if dtype != "float64":  # whose differences are lost in the norms, which transformers computes in float32
        assert not torch.equal(written, peft), "a side branch does not round as a written weight does"


def test_a_branch_computed_otherwise_is_noticed(model: LoadedModel, tmp_path: Path) -> None:
    """The control of the comparison with PEFT: in bfloat16 a branch in the model's own dtype is another."""
    built = rebuilt(model, run_of(model, "floored", "bfloat16"))
    anatomy = anatomy_of(model.in_dtype("bfloat16"), model.architecture)
    peft = peft_logits(model, built, tmp_path / "adapter")

    def narrow(update: Rank1Update) -> export_check.Hook:
        left, right = (torch.from_numpy(f).bfloat16() for f in (update.left, update.right))
        return lambda _, args, output: output + (args[0] @ right)[..., None] * left

    made = export_check._hooks(anatomy, built.patches, narrow)
    assert not torch.equal(exported(model, built).logits(made), peft)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("rule", ["direct", "floored"])
def test_the_same_trials_in_a_replay_of_the_run_have_the_same_figures(
    model: LoadedModel, rule: str, dtype: str
) -> None:
    run = run_of(model, rule, dtype, replays=("same", "ulp"), budget=True)
    check = check_of(model, run)
    assert check.built.tvd == run.series("tvd", 0)[STEP]
    for kind, trial in (("same", check.written), ("ulp", check.written_moved)):
        assert trial.tvd == pytest.approx(run.replay(kind, "tvd", 0)[STEP], rel=1e-6, abs=1e-15)
        assert trial.match == (run.replay(kind, "match", 0)[STEP] == 1)
    assert check.limit() == pytest.approx(limit(run, 0)[STEP], rel=1e-6)
    moved = check.limit(check.context_moved_tvd)
    assert moved == pytest.approx(limit(run, 0, "ulp")[STEP], rel=1e-6)
    assert check.patch_carries == (not failed(run, 0, "same")[STEP])
    assert check.patch_survives == (not failed(run, 0, "ulp")[STEP])


def test_a_fragile_patch_is_told_from_a_sound_one(model: LoadedModel) -> None:
    """What h_j near zero does: direct's file works on this machine alone, and its adapter not at all."""
    direct = check_of(model, run_of(model, "direct", "float32"))
    assert direct.patch_carries
    assert not direct.patch_survives
    assert not direct.adapter_carries
    floored = check_of(model, run_of(model, "floored", "float32"))
    assert floored.patch_survives
    assert floored.adapter_carries
    assert floored.adapter.tvd < 1e-5 < 1e-2 < direct.adapter.tvd


@pytest.mark.parametrize("what", ["no move", "no update", "another token's patch"])
def test_an_unfaithful_measurement_is_noticed(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """The controls of the test before: each mistake changes a verdict."""
    run = run_of(model, "direct", "float32")
    if what == "no move":
        monkeypatch.setattr(export_check, "moved_by_ulps", lambda values, _: values)
        assert check_of(model, run).patch_survives
    elif what == "no update":
        monkeypatch.setattr(export_check, "_hooks", lambda *_: [])
        assert not check_of(model, run).patch_carries
    else:
        *_, other = rebuild(model, run, STEP + 1, run.variants[0])
        assert isinstance(other, Rebuilt)
        made = rebuilt(model, run)
        object.__setattr__(made, "patches", other.patches)
        *_, check = check_export(model, run, made)
        assert isinstance(check, ExportCheck)
        assert not check.patch_carries


def test_the_file_of_a_factored_variant_is_measured_as_written(model: LoadedModel) -> None:
    run = run_of(model, "floored", "bfloat16", arithmetics=("factored",))
    built, check = rebuilt(model, run), check_of(model, run)
    stock = written_copy(model.in_dtype("bfloat16"), built.patches)
    written = without_context(stock, LAYERS, built.kept_ids, built.kept_positions)[1]
    assert check.written.tvd == pytest.approx(tvd(built.baseline.logits, written), rel=1e-6)
    assert check.written.tvd != check.built.tvd


def test_the_loaded_model_is_not_written(model: LoadedModel) -> None:
    stock = model.in_dtype("float32")
    before = {name: parameter.clone() for name, parameter in stock.named_parameters()}
    check_of(model, run_of(model, "direct", "float32"))
    assert all(torch.equal(parameter, before[name]) for name, parameter in stock.named_parameters())
    assert not any(module._forward_hooks for module in stock.modules())


@pytest.mark.parametrize("fold", ["text", "image"])
def test_kept_and_folded_pictures_are_measured_as_a_replay_measures_them(tmp_path: Path, fold: str) -> None:
    seeing = load_model(str(save_tiny_picture_folder(tmp_path / "seeing")))
    noise = np.random.default_rng(0).integers(0, 256, (16, 16, 3), np.uint8)
    Image.fromarray(noise).save(tmp_path / "a.png")
    pictures = (read_file(tmp_path / "a.png"),)
    settings = RunSettings(
        ("direct",), fold=Fold.parse(fold), max_new_tokens=1, replays=("same", "ulp"), budget=True
    )
    engine = stream(seeing, "the robot on mars says", settings, pictures=pictures)
    run = Run(seeing.identity, engine.context, settings, pictures)
    for item in engine:
        if isinstance(item, Step):
            run.append(item)
        else:
            run.refer(item)
    check = check_of(seeing, run)
    assert check.written.tvd == pytest.approx(run.replay("same", "tvd", 0)[STEP], rel=1e-6, abs=1e-15)
    assert check.written_moved.tvd == pytest.approx(run.replay("ulp", "tvd", 0)[STEP], rel=1e-6, abs=1e-15)
    assert check.written.tvd < check.floor_tvd * 100 + 1e-3
