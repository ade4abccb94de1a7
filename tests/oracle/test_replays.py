"""Replays are right when a separate stock model with the exported weights, run that way, says the same."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest
import torch

from ctxviz.engine import check_model, stream
from ctxviz.engine.references import floor_is_due
from ctxviz.errors import MemoryRefusedError, SettingsError
from ctxviz.folds import Fold
from ctxviz.models import LoadedModel, load_model, memory
from ctxviz.numerics.rounding import moved_by_ulps
from ctxviz.records import LayerPatch, Reference, Replay, Step, VariantStep
from ctxviz.run import Run
from ctxviz.settings import RunSettings
from tests.oracle.stock import outputs_of, tvd, written_copy
from tests.tiny_models import save_tiny_folder, tiny_gemma3

PROMPT = "the robot on mars says that dust will fall from the sky"
RULES = ("direct", "stable", "floored")
KINDS = ("same", "batch", "ulp", "rounded")
FOLDS = {"all": Fold(), "all-but-bos": Fold("all-but-bos"), "middle": Fold("span", 2, 6)}
HOLD = 1
# Two ways to sum the same probabilities in float64.
SAME_NUMBER = 1e-12


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    folder: Path = save_tiny_folder(tmp_path_factory.mktemp("tiny"))
    return load_model(str(folder), dtypes=("float64", "float32", "bfloat16"))


def events_of(model: LoadedModel, settings: RunSettings, **options: object) -> list[Step | Reference]:
    return list(stream(model, PROMPT, settings, keep_patches=True, **options))  # type: ignore[arg-type]


def steps_of(model: LoadedModel, settings: RunSettings, **options: object) -> list[Step]:
    return [event for event in events_of(model, settings, **options) if isinstance(event, Step)]


def found(result: VariantStep, kind: str) -> Replay:
    return next(replay for replay in result.replays if replay.kind == kind)


def patches_of(result: VariantStep) -> tuple[LayerPatch, ...]:
    assert result.patches is not None
    return result.patches


def run_stock(
    model: torch.nn.Module, layers: str, step: Step, *, rows: int = 1, embeds: torch.Tensor | None = None
) -> tuple[np.ndarray, torch.Tensor]:
    ids = torch.tensor([list(step.kept_ids)] * rows)
    inputs = {"input_ids": ids} if embeds is None else {"inputs_embeds": embeds}
    return outputs_of(
        model,
        layers,
        **inputs,
        position_ids=torch.tensor([list(step.kept_positions)] * rows),
        attention_mask=torch.ones_like(ids),
        use_cache=False,
    )


def baseline_logits(model: LoadedModel, dtype: str, steps: list[Step], step: Step) -> torch.Tensor:
    """The stock model with its context, cached as the engine's baseline is: prefill, then one token."""
    stock = model.in_dtype(dtype)
    ids = [int(i) for i in model.tokenizer(PROMPT)["input_ids"]] + [s.next_token_id for s in steps]
    ids = ids[: step.position + 1]
    prompt = len(model.tokenizer(PROMPT)["input_ids"]) - 1
    with torch.no_grad():
        output = stock(input_ids=torch.tensor([ids[:prompt]]), use_cache=True)
        for token in ids[prompt:]:
            output = stock(input_ids=torch.tensor([[token]]), cache=output.cache, use_cache=True)
    return output.logits[0, -1]


def last_logits(model: torch.nn.Module, ids: list[int]) -> torch.Tensor:
    with torch.no_grad():
        return model(input_ids=torch.tensor([ids]), use_cache=False, logits_to_keep=1).logits[0, -1]


def shift(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one.double() - other.double()).abs().max())


def rounded_copy(
    written: torch.nn.Module, patches: tuple[LayerPatch, ...], other: torch.dtype
) -> torch.nn.Module:
    model = copy.deepcopy(written)
    parameters = dict(model.named_parameters())
    with torch.no_grad():
        for name in {u.parameter for patch in patches for u in patch.updates}:
            parameters[name].copy_(parameters[name].to(other).to(parameters[name].dtype))
    return model


@pytest.mark.parametrize("fold", FOLDS)
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize("rule", RULES)
def test_every_replay_is_what_a_stock_model_with_those_weights_says(
    model: LoadedModel, rule: str, dtype: str, fold: str
) -> None:
    settings = RunSettings((rule,), dtypes=(dtype,), fold=FOLDS[fold], replays=KINDS, max_new_tokens=2)
    stock, layers = model.in_dtype(dtype), model.architecture.layers
    steps = steps_of(model, settings)
    for step in steps:
        result = step.variants[0]
        written = written_copy(stock, patches_of(result))
        outs, built = run_stock(written, layers, step)
        baseline = baseline_logits(model, dtype, steps, step)

        same = found(result, "same")
        assert same.shift == 0.0
        assert same.tvd == pytest.approx(tvd(built, baseline), abs=SAME_NUMBER)
        assert (result.layers.drift_same == 0).all()

        batch_outs, batch = run_stock(written, layers, step, rows=2)
        check(found(result, "batch"), batch, built, baseline)
        assert result.layers.drift_batch == pytest.approx(drift(batch_outs, outs), rel=1e-5)

        moved = [
            moved_logits(written, layers, step, seed) for seed in range(3 * step.index, 3 * step.index + 3)
        ]
        ulp_outs, ulp = max(moved, key=lambda one: tvd(one[1], baseline))
        replay = found(result, "ulp")
        assert replay.tvd == pytest.approx(tvd(ulp, baseline), abs=SAME_NUMBER)
        assert replay.shift == max(shift(logits, built) for _, logits in moved)
        assert replay.match == all(int(logits.argmax()) == int(baseline.argmax()) for _, logits in moved)
        assert result.layers.drift_ulp == pytest.approx(drift(ulp_outs, outs), rel=1e-5)

        other = {"float64": torch.float32, "float32": torch.bfloat16, "bfloat16": torch.float16}[dtype]
        rounded_outs, rounded = run_stock(rounded_copy(written, patches_of(result), other), layers, step)
        check(found(result, "rounded"), rounded, built, baseline)
        assert result.layers.drift_rounded == pytest.approx(drift(rounded_outs, outs), rel=1e-5)


def moved_logits(
    model: torch.nn.Module, layers: str, step: Step, seed: int
) -> tuple[np.ndarray, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        embeds = model.get_input_embeddings()(torch.tensor([list(step.kept_ids)]))
    return run_stock(model, layers, step, embeds=moved_by_ulps(embeds, generator))


def check(replay: Replay, logits: torch.Tensor, built: torch.Tensor, baseline: torch.Tensor) -> None:
    assert replay.shift == shift(logits, built)
    assert replay.tvd == pytest.approx(tvd(logits, baseline), abs=SAME_NUMBER)
    assert replay.match == (int(logits.argmax()) == int(baseline.argmax()))


def drift(replayed: np.ndarray, built: np.ndarray) -> np.ndarray:
    return np.linalg.norm(replayed - built, axis=1) / np.linalg.norm(built, axis=1)


def test_a_replay_notices_what_is_fragile(model: LoadedModel) -> None:
    """The control: a replay that could not move would tell nothing."""
    settings = RunSettings(
        ("direct",), dtypes=("float32",), replays=("batch", "ulp", "rounded"), max_new_tokens=3
    )
    results = [step.variants[0] for step in steps_of(model, settings)]
    for kind in ("batch", "ulp", "rounded"):
        assert max(found(r, kind).shift for r in results) > 0
        assert max(found(r, kind).tvd for r in results) > 10 * max(r.tvd for r in results)


@pytest.mark.parametrize("fold", FOLDS)
def test_held_weights_are_those_of_the_token_they_were_built_for(model: LoadedModel, fold: str) -> None:
    settings = RunSettings(
        ("direct", "stable"), dtypes=("float32",), fold=FOLDS[fold], hold=HOLD, max_new_tokens=4
    )
    stock, layers = model.in_dtype("float32"), model.architecture.layers
    steps = steps_of(model, settings)
    assert steps[0].variants[0].replays == ()
    for k in (0, 1):
        written = written_copy(stock, patches_of(steps[HOLD].variants[k]))
        for step in steps[HOLD:]:
            _, logits = run_stock(written, layers, step)
            baseline = baseline_logits(model, "float32", steps, step)
            held = found(step.variants[k], "held")
            assert held.tvd == pytest.approx(tvd(logits, baseline), abs=SAME_NUMBER)
            assert held.shift == pytest.approx(shift(logits, baseline), rel=1e-6)
        # The theorem's weights belong to one token.
        assert found(steps[HOLD].variants[k], "held").tvd < 1e-5
        assert found(steps[HOLD + 1].variants[k], "held").tvd > 1e-2


def test_replays_leave_the_model_and_the_rest_of_the_run_alone(model: LoadedModel) -> None:
    stock = model.in_dtype("float32")
    before = {name: tensor.clone() for name, tensor in stock.state_dict().items()}
    plain = RunSettings(RULES, ("written", "factored"), max_new_tokens=3)
    more = RunSettings(RULES, ("written", "factored"), max_new_tokens=3, replays=KINDS, hold=0, budget=True)
    for one, other in zip(steps_of(model, plain), steps_of(model, more), strict=True):
        for a, b in zip(one.variants, other.variants, strict=True):
            assert (a.tvd, a.logit_linf, a.match) == (b.tvd, b.logit_linf, b.match)
            assert np.array_equal(a.layers.output_error, b.layers.output_error, equal_nan=True)
            assert b.replays == () or b.variant.arithmetic == "written"
    assert all(torch.equal(before[name], tensor) for name, tensor in stock.state_dict().items())
    assert all(not module._forward_hooks for module in stock.modules())
    assert stock.config._attn_implementation == "sdpa"


def test_the_error_budget_is_what_other_stock_models_say(model: LoadedModel) -> None:
    settings = RunSettings(dtypes=("float32", "bfloat16"), budget=True, max_new_tokens=3)
    events = events_of(model, settings)
    steps = [event for event in events if isinstance(event, Step)]
    floors = [r for r in events if isinstance(r, Reference) and r.noise_floor_tvd is not None]
    assert {(r.step, r.dtype) for r in floors} == {
        (k, d) for k in range(3) if floor_is_due(k) for d in settings.dtypes
    }
    prompt = [int(i) for i in model.tokenizer(PROMPT)["input_ids"]]
    for reference in floors:
        ids = prompt + [s.next_token_id for s in steps[: reference.step]]
        stock = model.in_dtype(reference.dtype)
        eager = copy.deepcopy(stock)
        eager.set_attn_implementation("eager")
        baseline = baseline_logits(model, reference.dtype, steps, steps[reference.step])
        plain, other = (last_logits(one, ids) for one in (stock, eager))
        assert reference.noise_floor_tvd == pytest.approx(tvd(plain, baseline), abs=SAME_NUMBER)
        assert reference.eager_tvd == pytest.approx(tvd(plain, other), abs=SAME_NUMBER)
        moved = []
        for seed in range(3 * reference.step, 3 * reference.step + 3):
            embeds = stock.get_input_embeddings()(torch.tensor([ids]))
            last = moved_by_ulps(embeds[:, -1:], torch.Generator().manual_seed(seed))
            with torch.no_grad():
                output = stock(
                    inputs_embeds=torch.cat([embeds[:, :-1], last], 1), use_cache=False, logits_to_keep=1
                )
            moved.append(tvd(plain, output.logits[0, -1]))
        assert reference.ulp_tvd == pytest.approx(max(moved), abs=SAME_NUMBER)
        for dtype in ("float32", "float64"):
            wide = last_logits(model.in_dtype(dtype), ids)
            value = getattr(reference, f"{dtype}_tvd")
            if dtype == reference.dtype:
                assert value is None, "it would be the noise floor again"
            else:
                assert value == pytest.approx(tvd(wide, baseline), abs=SAME_NUMBER)
    assert max(r.eager_tvd or 0 for r in floors) > 0
    assert max(r.float64_tvd or 0 for r in floors if r.dtype == "bfloat16") > 1e-4


def test_a_given_history_is_followed(model: LoadedModel) -> None:
    given = [40, 50, 60]
    steps = steps_of(model, RunSettings(max_new_tokens=5), follow=given)
    assert [s.next_token_id for s in steps[:3]] == given
    assert [s.token_id for s in steps[1:4]] == given
    assert steps[3].next_token_id == steps[3].baselines[0].top.ids[0]


def test_replays_that_do_not_fit_are_refused(model: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_bytes", lambda _: 1000)
    stream(model, PROMPT, RunSettings())
    with pytest.raises(MemoryRefusedError, match="written copies of the MLP weights"):
        stream(model, PROMPT, RunSettings(replays=("batch",)))


def test_a_unit_in_the_last_place_is_one() -> None:
    generator = torch.Generator().manual_seed(3)
    for dtype, kind in ((torch.float32, np.float32), (torch.float64, np.float64)):
        values = torch.randn(10_000, dtype=dtype)
        values[:10] = 0
        moved = moved_by_ulps(values, generator).numpy()
        up, down = (np.nextafter(values.numpy(), kind(end)) for end in (np.inf, -np.inf))
        kept, raised, lowered = (moved == v for v in (values.numpy(), up, down))
        assert (kept | raised | lowered).all()
        assert kept[:10].all()
        for share in (kept, raised, lowered):
            assert 0.3 < share.mean() < 0.37


def test_a_move_in_bfloat16_is_one_of_its_steps() -> None:
    values = torch.randn(1000).to(torch.bfloat16)
    moved = moved_by_ulps(values, torch.Generator().manual_seed(0))
    steps = (moved.view(torch.int16).int() - values.view(torch.int16).int()).abs()
    assert set(steps.tolist()) == {0, 1}
    largest = torch.tensor([torch.finfo(torch.bfloat16).max] * 50, dtype=torch.bfloat16)
    assert moved_by_ulps(largest, torch.Generator().manual_seed(0)).isfinite().all()


def test_a_twin_holds_other_tensors_while_the_model_keeps_its_own() -> None:
    from ctxviz.engine.anatomy import anatomy_of
    from ctxviz.engine.twin import Twin
    from ctxviz.models.architectures import GEMMA3_TEXT

    stock = tiny_gemma3()
    anatomy = anatomy_of(stock, GEMMA3_TEXT)
    twin = Twin(anatomy)
    name = anatomy.layers[0].gate_name
    ids = torch.tensor([[2, 30, 31]])
    with torch.no_grad():
        wanted = stock(input_ids=ids, use_cache=False).logits
        assert torch.equal(twin.model(input_ids=ids, use_cache=False).logits, wanted)
        twin.hold({name: 2 * stock.get_parameter(name)})
        assert not torch.equal(twin.model(input_ids=ids, use_cache=False).logits, wanted)
        assert torch.equal(stock(input_ids=ids, use_cache=False).logits, wanted)
        twin.hold({})
        assert torch.equal(twin.model(input_ids=ids, use_cache=False).logits, wanted)


@pytest.mark.parametrize(
    ("rules", "first_layer"), [(("direct", "stable", "rescaled", "floored"), 0), (("stable",), 2)]
)
def test_rules_that_share_a_replayer_and_later_first_layers(
    model: LoadedModel, rules: tuple[str, ...], first_layer: int
) -> None:
    """Each replay is of its own variant's weights, not of those written before it."""
    settings = RunSettings(rules, first_layer=first_layer, replays=("same", "batch"), max_new_tokens=2)
    stock, layers = model.in_dtype("float32"), model.architecture.layers
    steps = steps_of(model, settings)
    for step in steps:
        baseline = baseline_logits(model, "float32", steps, step)
        for result in step.variants:
            written = written_copy(stock, patches_of(result))
            _, built = run_stock(written, layers, step)
            _, batch = run_stock(written, layers, step, rows=2)
            assert found(result, "same").shift == 0.0
            check(found(result, "batch"), batch, built, baseline)


def test_a_replay_that_fails_leaves_the_stock_weights_in_the_twin(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = stream(model, PROMPT, RunSettings(("direct",), replays=("same",), max_new_tokens=2))
    twin = running._replayers["float32"]._twin
    ids = torch.tensor([[2, 30, 31]])
    with torch.no_grad():
        wanted = model.in_dtype("float32")(input_ids=ids, use_cache=False).logits
    broken = twin.layers[1].register_forward_hook(lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        next(running)
    broken.remove()
    with torch.no_grad():
        assert torch.equal(twin.model(input_ids=ids, use_cache=False).logits, wanted)
        assert torch.equal(model.in_dtype("float32")(input_ids=ids, use_cache=False).logits, wanted)


def test_a_run_that_the_model_did_not_make_is_not_replayed(model: LoadedModel, tmp_path: Path) -> None:
    settings = RunSettings(max_new_tokens=2)
    engine = stream(model, PROMPT, settings)
    run = Run(model.identity, engine.context, settings)
    for item in engine:
        if isinstance(item, Step):
            run.append(item)
    check_model(model, run)
    other = load_model(str(save_tiny_folder(tmp_path / "other", tiny_gemma3(num_hidden_layers=2))))
    with pytest.raises(SettingsError, match="choose the model that made it"):
        check_model(other, run)
    position, token_id, text, _, next_text, seconds = run.token(1)
    run._tokens[1] = (position, token_id, text, 10**6, next_text, seconds)
    with pytest.raises(SettingsError, match="vocabulary lacks"):
        check_model(model, run)
