"""Patches are right when a stock model with them written into it gives the with-context output."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from ctxviz.engine import stream
from ctxviz.engine.anatomy import anatomy_of
from ctxviz.engine.application import Scratch
from ctxviz.engine.context_pass import ContextPass
from ctxviz.engine.patched_pass import patched_pass
from ctxviz.folds import Fold
from ctxviz.models import LoadedModel, load_model
from ctxviz.records import LayerPatch, Step
from ctxviz.settings import UPDATE_RULES, RunSettings, Variant
from tests.oracle.stock import relative_error, tvd, with_context, without_context, written_copy
from tests.tiny_models import save_tiny_folder

PROMPT = "the robot on mars says that dust will fall from the sky"

# Factors are stored in float32, so a float64 model is changed by updates good to about 6e-8 each; a few
# layers and an unlucky h raise that by an order of magnitude or two.
TOLERANCE = {"float64": 3e-5, "float32": 3e-3}
# A control must be wrong by far more than any tolerance.
WRONG = 5e-2

FOLDS = {"all": Fold(), "all-but-bos": Fold("all-but-bos"), "middle": Fold("span", 2, 6)}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    folder: Path = save_tiny_folder(tmp_path_factory.mktemp("tiny"))
    return load_model(str(folder), dtypes=("float64", "float32"))


def steps_of(model: LoadedModel, settings: RunSettings) -> list[Step]:
    events = list(stream(model, PROMPT, settings, keep_patches=True))
    return [event for event in events if isinstance(event, Step)]


def history(model: LoadedModel, steps: list[Step], step: Step) -> list[int]:
    ids = [int(i) for i in model.tokenizer(PROMPT)["input_ids"]]
    return ids + [s.next_token_id for s in steps[: step.index]]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("fold", FOLDS)
@pytest.mark.parametrize("rule", UPDATE_RULES)
def test_a_stock_model_with_the_patch_written_gives_the_context_output(
    model: LoadedModel, rule: str, fold: str, dtype: str
) -> None:
    settings = RunSettings(updates=(rule,), dtypes=(dtype,), fold=FOLDS[fold], max_new_tokens=3)
    stock, layers = model.in_dtype(dtype), model.architecture.layers
    steps = steps_of(model, settings)
    assert len(steps) == 3
    for step in steps:
        result = step.variants[0]
        assert result.patches is not None
        wanted, wanted_logits = with_context(stock, layers, history(model, steps, step))
        bare, bare_logits = without_context(stock, layers, step.kept_ids, step.kept_positions)
        found, logits = without_context(
            written_copy(stock, result.patches), layers, step.kept_ids, step.kept_positions
        )
        assert relative_error(bare, wanted) > WRONG, "the context makes no difference, so nothing is tested"
        assert tvd(bare_logits, wanted_logits) > 1e-3
        assert relative_error(found, wanted) < TOLERANCE[dtype]
        assert tvd(logits, wanted_logits) < TOLERANCE[dtype]
        assert result.tvd < TOLERANCE[dtype]


@pytest.mark.parametrize("rule", UPDATE_RULES)
def test_wrong_patches_are_noticed(model: LoadedModel, rule: str) -> None:
    stock, layers = model.in_dtype("float64"), model.architecture.layers
    settings = RunSettings(updates=(rule,), dtypes=("float64",), max_new_tokens=2)
    steps = steps_of(model, settings)
    first, second = steps
    patches = first.variants[0].patches
    others = second.variants[0].patches
    assert patches is not None
    assert others is not None
    wanted, _ = with_context(stock, layers, history(model, steps, first))

    def error(written: list[LayerPatch]) -> float:
        found, _ = without_context(written_copy(stock, written), layers, first.kept_ids, first.kept_positions)
        return relative_error(found, wanted)

    assert error(list(patches)) < TOLERANCE["float64"]
    assert error([]) > WRONG, "zeroed"
    assert error(list(others)) > WRONG, "another token's"
    assert error(_shifted(patches)) > WRONG, "another layer's"
    assert error([_without(p, ".down_proj.", ".gate_proj.", ".up_proj.") for p in patches]) > WRONG, (
        "scales alone"
    )
    assert error([_without(p, "layernorm") for p in patches]) > WRONG, "matrices alone"


def _shifted(patches: tuple[LayerPatch, ...]) -> list[LayerPatch]:
    """Each layer gets its neighbour's updates."""
    moved = []
    for patch in patches:
        donor = patches[(patch.layer + 1) % len(patches)]
        updates = tuple(
            replace(update, parameter=update.parameter.replace(f".{donor.layer}.", f".{patch.layer}.", 1))
            for update in donor.updates
        )
        moved.append(LayerPatch(patch.layer, updates))
    return moved


def _without(patch: LayerPatch, *parts: str) -> LayerPatch:
    kept = tuple(u for u in patch.updates if not any(part in u.parameter for part in parts))
    return LayerPatch(patch.layer, kept)


@pytest.mark.parametrize("first_layer", [1, 3])
def test_patching_from_a_later_layer(model: LoadedModel, first_layer: int) -> None:
    stock, layers = model.in_dtype("float64"), model.architecture.layers
    settings = RunSettings(dtypes=("float64",), first_layer=first_layer, max_new_tokens=2)
    steps = steps_of(model, settings)
    for step in steps:
        patches = step.variants[0].patches
        assert patches is not None
        assert min(p.layer for p in patches) == first_layer
        wanted, _ = with_context(stock, layers, history(model, steps, step))
        found, _ = without_context(written_copy(stock, patches), layers, step.kept_ids, step.kept_positions)
        assert relative_error(found[first_layer:], wanted[first_layer:]) < TOLERANCE["float64"]
        assert relative_error(found[:first_layer], wanted[:first_layer]) > WRONG


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize("fold", FOLDS)
@pytest.mark.parametrize("rule", UPDATE_RULES)
def test_the_written_patch_replays_bit_for_bit(model: LoadedModel, rule: str, fold: str, dtype: str) -> None:
    stock = model.in_dtype(dtype)
    anatomy = anatomy_of(stock, model.architecture)
    ids = [int(i) for i in model.tokenizer(PROMPT)["input_ids"]]
    settings = RunSettings(updates=(rule,), fold=FOLDS[fold], dtypes=(dtype,), max_new_tokens=1)
    step = steps_of(model, settings)[0]
    context = ContextPass(anatomy)
    context.prefill(ids[:-1])
    built = patched_pass(
        anatomy,
        Variant(rule, "written", dtype, floor=0.6 if rule == "floored" else None),
        step.kept_ids,
        step.kept_positions,
        context.advance(ids[-1]),
        scratch=Scratch(),
        small_h=1e-3,
        keep_patches=True,
    )
    assert built.patches is not None
    replayed = written_copy(stock, built.patches)
    _, logits = without_context(replayed, model.architecture.layers, step.kept_ids, step.kept_positions)
    assert torch.equal(logits, built.logits)
    # The stock model's own default call (with a cache of its own) must agree as well.
    with torch.no_grad():
        default = replayed(
            input_ids=torch.tensor([step.kept_ids]), position_ids=torch.tensor([step.kept_positions])
        ).logits[0, -1]
    assert torch.equal(default, built.logits)
    zeroed = written_copy(stock, [])
    _, unpatched = without_context(zeroed, model.architecture.layers, step.kept_ids, step.kept_positions)
    assert not torch.equal(unpatched, built.logits)


def test_factored_matches_too_but_only_substitutes(model: LoadedModel) -> None:
    settings = RunSettings(arithmetics=("written", "factored"), dtypes=("float32",), max_new_tokens=3)
    for step in steps_of(model, settings):
        written, factored = step.variants
        assert written.match
        assert factored.match
        assert factored.tvd < TOLERANCE["float32"]


def test_the_loaded_model_is_never_written_and_keeps_no_hooks(model: LoadedModel) -> None:
    stock = model.in_dtype("float32")
    before = {name: p.detach().clone() for name, p in stock.named_parameters()}
    running = stream(model, PROMPT, RunSettings(updates=UPDATE_RULES, max_new_tokens=5))
    next(running)
    next(running)
    del running
    assert all(torch.equal(p, before[name]) for name, p in stock.named_parameters())
    assert not any(module._forward_hooks for module in stock.modules())


def test_norm_scales_of_the_tiny_model_are_not_trivial(model: LoadedModel) -> None:
    scales = [part.scale for part in anatomy_of(model.in_dtype("float64"), model.architecture).layers]
    assert all(np.ptp(scale) > 0.1 for scale in scales)
