"""Replays, rebuilt patches and exports in their corners: orders, dtypes, folds, numbers that are none."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
import torch

from ctxviz import replaying
from ctxviz.alarm_cells import drift_limit
from ctxviz.alarms import find
from ctxviz.engine import rebuild, replay, stream
from ctxviz.engine.anatomy import anatomy_of
from ctxviz.engine.rebuild import Rebuilt, check_model
from ctxviz.engine.twin import Twin
from ctxviz.errors import SettingsError
from ctxviz.folds import Fold
from ctxviz.models import load_model
from ctxviz.models.architectures import GEMMA3_TEXT
from ctxviz.numerics.rounding import round_through
from ctxviz.records import LayerPatch, Rank1Update, Replay, Step
from ctxviz.run import Run, replay_name
from ctxviz.settings import REPLAYS, RunSettings
from ctxviz.store import adapter_files
from tests.bundles import same
from tests.synthetic import synthetic_items, synthetic_run
from tests.tiny_models import save_tiny_folder, tiny_gemma3

PROMPT = "the robot on mars says that dust will fall"


def recorded(folder: Path, **settings: Any) -> tuple[Any, Run, list[Step]]:
    model = load_model(str(save_tiny_folder(folder)), dtypes=("float32", "bfloat16"))
    chosen = RunSettings(("direct", "stable"), dtypes=("float32", "bfloat16"), max_new_tokens=3, **settings)
    engine = stream(model, PROMPT, chosen, keep_patches=True)
    run, steps = Run(model.identity, engine.context, chosen), []
    for item in engine:
        if isinstance(item, Step):
            run.append(item)
            steps.append(item)
    return model, run, steps


@pytest.mark.parametrize("fold", ["all", "all-but-bos", "2:5"])
def test_each_variant_of_each_fold_is_rebuilt_as_it_was(tmp_path: Path, fold: str) -> None:
    model, run, steps = recorded(tmp_path, fold=Fold.parse(fold))
    step = steps[2]
    for k, variant in enumerate(run.variants):
        *_, built = rebuild(model, run, 2, variant)
        assert isinstance(built, Rebuilt)
        assert same(built.patches, step.variants[k].patches)
        assert (built.kept_ids, built.kept_positions) == (step.kept_ids, step.kept_positions)
        assert (built.variant, built.step, built.position) == (variant, 2, step.position)
        assert built.context_ids == (*run.context.token_ids, *(s.next_token_id for s in steps[:2]))
        stock = model.in_dtype(variant.dtype)
        assert built.stored_scales
        for name, scale in built.stored_scales.items():
            np.testing.assert_array_equal(scale, stock.get_parameter(name).double().numpy())


def test_a_prompt_read_as_other_tokens_is_refused(tmp_path: Path) -> None:
    model, run, _ = recorded(tmp_path)
    ids = run.context.token_ids
    object.__setattr__(run.context, "token_ids", (*ids[:-1], ids[-1] + 1))
    with pytest.raises(SettingsError, match="as other tokens"):
        check_model(model, run)


def test_a_replay_without_numbers_is_the_worst_and_hides_nothing() -> None:
    inf = math.inf
    good, bad = (Replay("ulp", True, 0.9, 1.0, 0.0), Replay("ulp", False, inf, inf, 0.0))
    assert max((good, bad), key=replay._severity) is bad
    whole = replay._of_all([good, bad], bad)
    assert (whole.match, whole.tvd, whole.shift) == (False, inf, inf)
    drift = replay._drift(np.array([[math.nan, 1.0], [1.0, 1.0]]), np.ones((2, 2)))
    assert drift[0] == inf
    assert drift[1] == 0


def test_every_row_is_rounded() -> None:
    weight = torch.randn(200, 5)
    wanted = weight.to(torch.bfloat16).float()
    round_through(weight, torch.bfloat16)
    assert torch.equal(weight, wanted)


def test_a_twin_has_neither_hooks_nor_a_forward_of_the_loaded_model() -> None:
    stock = tiny_gemma3()
    layer = stock.model.layers[1]
    ids = torch.tensor([[2, 30, 31]])
    with torch.no_grad():
        wanted = stock(input_ids=ids, use_cache=False).logits
        layer.register_forward_hook(lambda *_: 1 / 0)
        layer.forward = lambda *_, **__: 1 / 0
        twin = Twin(anatomy_of(stock, GEMMA3_TEXT))
        assert torch.equal(twin.model(input_ids=ids, use_cache=False).logits, wanted)


def test_the_memory_of_written_weights_is_that_of_three_matrices() -> None:
    stock = tiny_gemma3()
    matrices = [p for n, p in stock.named_parameters() if ".mlp." in n]
    anatomy = anatomy_of(stock, GEMMA3_TEXT)
    assert replay.written_bytes(anatomy).total() == sum(4 * p.numel() for p in matrices)


def test_limits_and_ties_are_of_the_variants_own_dtype() -> None:
    run = synthetic_run(replays=REPLAYS, hold=3, budget=True)
    stable_low = 3
    run._series["tvd"].array[:, stable_low] = 1e-6
    run._series["tie"].array[:, stable_low] = 0
    run._series["tie"].array[2, stable_low] = 1
    for name, other, own in (
        ("noise_floor_tvd", 0.9, 0.05), ("ulp_tvd", 0.9, 0.07), ("noise_floor_linf", 1e9, 0.0),
    ):  # fmt: skip
        run._references[name].array[:, 0], run._references[name].array[:, 1] = other, own
    assert replaying.limit(run, stable_low, "batch")[5] == pytest.approx(0.5)
    assert replaying.limit(run, stable_low, "ulp")[5] == pytest.approx(0.7)
    assert np.flatnonzero(replaying.ties(run, stable_low)).tolist() == [2]
    assert drift_limit("bfloat16") > drift_limit("float32") == 1e-3


def test_the_kind_that_fails_most_is_the_worst_though_another_fails_further() -> None:
    run = synthetic_run(replays=REPLAYS, hold=3, budget=True)
    run._series[replay_name("batch", "tvd")].array[2, 1] = 0.99
    run._series[replay_name("ulp", "tvd")].array[2:5, 1] = 0.2
    assert replaying.worst_kind(run, 1) == "ulp"


def test_weights_are_held_before_a_replay_rounds_them(tmp_path: Path) -> None:
    model = load_model(str(save_tiny_folder(tmp_path)))
    rounded = RunSettings(("stable",), replays=("rounded",), hold=0, max_new_tokens=2)
    plain = RunSettings(("stable",), hold=0, max_new_tokens=2)
    one, other = (
        [s.variants[0].replays[-1] for s in stream(model, PROMPT, c) if isinstance(s, Step)]
        for c in (rounded, plain)
    )
    assert [r.kind for r in one] == ["held", "held"]
    assert [(r.tvd, r.shift) for r in one] == [(r.tvd, r.shift) for r in other]


def test_replays_are_the_same_in_whatever_order_they_are_asked_for(tmp_path: Path) -> None:
    """Rounding overwrites the weights, so it must come last."""
    model = load_model(str(save_tiny_folder(tmp_path)))
    found = []
    for kinds in (("rounded", "batch", "same"), ("same", "batch", "rounded")):
        step = next(iter(stream(model, PROMPT, RunSettings(replays=kinds))))
        assert isinstance(step, Step)
        found.append({r.kind: (r.tvd, r.shift) for r in step.variants[0].replays})
    assert found[0] == found[1]
    assert found[0]["same"][1] == 0.0


def test_margins_follow_a_run_that_grows_in_each_dtype() -> None:
    whole = synthetic_run(3, 8, 6)
    run = Run(whole.model, whole.context, whole.settings)
    for step in synthetic_items(run, 6):
        if isinstance(step, Step):
            run.append(step)
            for dtype in run.dtypes:
                wanted = [run.baseline(k, dtype).margin for k in range(len(run))]
                assert replaying.margins(run, dtype)[: len(run)].tolist() == wanted
    assert replaying.margins(run, "float32").tolist() != replaying.margins(run, "bfloat16").tolist()


def test_an_adapter_keeps_the_sides_of_a_square_matrix_apart() -> None:
    left, right = np.array([1, 2], np.float32), np.array([3, 4], np.float32)
    patch = LayerPatch(0, (Rank1Update("model.layers.0.mlp.up_proj.weight", left, right),))
    files = adapter_files([patch], base_model="m", dtype="float32", stored_scales={})
    tensors = safetensors.numpy.load(files["adapter_model.safetensors"])
    (a,) = (t for name, t in tensors.items() if "lora_A" in name)
    (b,) = (t for name, t in tensors.items() if "lora_B" in name)
    assert a.tolist() == [[3, 4]]
    assert b.tolist() == [[1], [2]]


def test_a_failing_replay_is_placed_by_its_own_drift_and_dead_by_any_variant() -> None:
    run = synthetic_run(6, 16, 4, updates=["stable"], replays=["batch", "ulp"], faults=False)
    for kind in ("batch", "ulp"):
        run._fields[f"drift_{kind}"].array[:] = 0
    run._series[replay_name("ulp", "tvd")].array[1, 0] = 0.9
    run._fields["drift_ulp"].array[1, 0, 4:] = 1
    (alarm,) = [a for a in find(run, ["replay-failure"]) if a.variant == 0]
    assert (alarm.step, alarm.layer) == (1, 4)
    run._fields["dead"].array[:] = 0
    run._fields["dead"].array[:, 1, 2] = 3
    assert [(a.layer, a.value) for a in find(run, ["dead"])] == [(2, 3)]
