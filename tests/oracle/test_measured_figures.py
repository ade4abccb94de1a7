"""Every figure that is shown is recomputed here from stock models and the exported updates.

The tiny model is given a dead coordinate (m = 0 in layer 1) and a scale so large that bfloat16 swallows a
small change of it (layer 2), so that every count has something to count.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from ctxviz.engine import context_pass, stream
from ctxviz.engine.anatomy import anatomy_of
from ctxviz.folds import Fold
from ctxviz.models import LoadedModel, load_model
from ctxviz.models.architectures import Architecture
from ctxviz.records import SOLVER_CASES, LayerPatch, Rank1Update, Reference, Step, VariantStep
from ctxviz.settings import UPDATE_RULES, RunSettings
from tests.oracle.stock import tvd, with_context, without_context, written_copy
from tests.tiny_models import save_tiny_folder, tiny_gemma3

PROMPT = "the robot on mars says that dust will fall from the sky"
SMALL_H = 0.3
DEAD_LAYER, HUGE_LAYER = 1, 2
norm = np.linalg.norm


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    tiny = tiny_gemma3()
    tiny.model.layers[DEAD_LAYER].post_feedforward_layernorm.weight[3] = -1
    tiny.model.layers[HUGE_LAYER].post_feedforward_layernorm.weight[5] = 100
    folder = save_tiny_folder(tmp_path_factory.mktemp("tiny"), tiny)
    return load_model(str(folder), dtypes=("float64", "float32", "bfloat16"))


def ids_of(model: LoadedModel) -> list[int]:
    return [int(i) for i in model.tokenizer(PROMPT)["input_ids"]]


def first_step(model: LoadedModel, settings: RunSettings) -> Step:
    step = next(stream(model, PROMPT, settings, keep_patches=True))
    assert isinstance(step, Step)
    return step


def near(value: float) -> Any:
    """float32 records of float64 figures, through factors stored in float32."""
    return pytest.approx(value, rel=1e-4)


class Seen:
    """What every layer of a stock model did at the last token: v, z, h_down, and the layer's output."""

    def __init__(
        self, model: torch.nn.Module, names: Architecture, call: Callable[[], tuple[np.ndarray, torch.Tensor]]
    ) -> None:
        self.v: list[np.ndarray] = []
        self.z: list[np.ndarray] = []
        self.h_down: list[np.ndarray] = []
        handles = []
        for layer in model.get_submodule(names.layers):
            pre, post = layer.get_submodule(names.pre_mlp_norm), layer.get_submodule(names.post_mlp_norm)
            handles += [pre.register_forward_hook(self.at_pre), post.register_forward_hook(self.at_post)]
        self.out, _ = call()
        for handle in handles:
            handle.remove()

    def at_pre(self, _: object, args: Any, output: torch.Tensor) -> None:
        self.v.append(args[0][0, -1].double().numpy())
        self.z.append(output[0, -1].double().numpy())

    def at_post(self, _: object, args: Any, __: object) -> None:
        self.h_down.append(args[0][0, -1].double().numpy())


@pytest.mark.parametrize("rule", UPDATE_RULES)
@pytest.mark.parametrize("fold", ["all", "2:6"])
def test_layer_figures(model: LoadedModel, rule: str, fold: str) -> None:
    names, stock = model.architecture, model.in_dtype("float64")
    settings = RunSettings(updates=(rule,), fold=Fold.parse(fold), dtypes=("float64",), small_h=SMALL_H)
    step = first_step(model, settings)
    result = step.variants[0]
    assert result.patches is not None
    context = Seen(stock, names, lambda: with_context(stock, names.layers, ids_of(model)))
    twin = written_copy(stock, result.patches)
    patched = Seen(
        twin, names, lambda: without_context(twin, names.layers, step.kept_ids, step.kept_positions)
    )
    weights = {name: p.numpy() for name, p in stock.named_parameters()}
    for i, patch in enumerate(result.patches):
        h_down = patched.h_down[i]
        h = h_down / np.sqrt(np.mean(h_down**2) + 1e-6)
        m = 1 + weights[patch.updates[-1].parameter]
        check_residual(result, i, context, patched)
        check_scale(result, i, patch, m, h, context.v[i] - patched.v[i])
        check_matrices(result, i, patch, weights)
        check_rule(rule, result, i, patch, m, h)


def check_residual(result: VariantStep, i: int, context: Seen, patched: Seen) -> None:
    stats, z, z_c = result.layers, patched.z[i], context.z[i]
    assert stats.resid_ratio[i] == near(norm(context.v[i] - patched.v[i]) / norm(context.v[i]))
    assert stats.cosine[i] == near(z @ z_c / norm(z) / norm(z_c))
    # A difference of nearly equal vectors: their own rounding shows.
    error = norm(patched.out[i] - context.out[i]) / norm(context.out[i])
    assert stats.output_error[i] == pytest.approx(error, rel=1e-2)


def check_scale(
    result: VariantStep, i: int, patch: LayerPatch, m: np.ndarray, h: np.ndarray, delta_v: np.ndarray
) -> None:
    stats, vectors = result.layers, result.vectors
    change = patch.updates[-1].delta  # type: ignore[union-attr]
    size = np.abs(change.astype(np.float64))
    assert stats.scale_ratio[i] == near(norm(size) / norm(m))
    assert stats.scale_max_abs[i] == near(size.max())
    assert stats.scale_argmax[i] == size.argmax()
    assert stats.h_abs_min[i] == near(np.abs(h).min())
    assert stats.h_argmin[i] == np.abs(h).argmin()
    assert stats.h_small[i] == (np.abs(h) < SMALL_H).sum()
    assert stats.h_small[i] > 0 or result.variant.update == "floored", "nothing to count"
    assert stats.dead[i] == int(i == DEAD_LAYER)
    assert stats.uncontrolled[i] == 0
    assert vectors is not None
    np.testing.assert_allclose(vectors.h[i], h, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(vectors.scale[i], m, rtol=1e-6)
    np.testing.assert_allclose(vectors.delta_v[i], delta_v, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(vectors.delta_scale[i], change)


def check_matrices(result: VariantStep, i: int, patch: LayerPatch, weights: dict[str, np.ndarray]) -> None:
    for update in patch.updates:
        if isinstance(update, Rank1Update):
            field = next(f for f in ("gate", "up", "down") if f"{f}_proj" in update.parameter)
            ratio = norm(np.outer(update.left, update.right)) / norm(weights[update.parameter])
            assert getattr(result.layers, f"{field}_ratio")[i] == near(ratio)


def check_rule(
    rule: str, result: VariantStep, i: int, patch: LayerPatch, m: np.ndarray, h: np.ndarray
) -> None:
    """What tells one rule from another, since dm alone would repair any choice of h."""
    change = patch.updates[-1].delta.astype(np.float64)  # type: ignore[union-attr]
    live = m != 0
    case = SOLVER_CASES[result.layers.solver_case[i]]
    solved = rule in ("stable", "floored")
    assert case in (("regular", "unconstrained", "hard") if solved else ("closed form",))
    if rule == "floored":
        assert np.abs(h).min() > 0.6 * (1 - 1e-3)
    if rule == "rescaled":
        stretch = change[live] / m[live]
        np.testing.assert_allclose(stretch, np.median(stretch), rtol=1e-2, atol=1e-4)
    if rule == "stable":
        np.testing.assert_allclose(change[live] * m[live], result.layers.multiplier[i], rtol=1e-3, atol=1e-4)


def test_every_dtype_and_arithmetic_has_its_own_baseline(model: LoadedModel) -> None:
    settings = RunSettings(
        dtypes=("float64", "bfloat16"), arithmetics=("written", "factored"), max_new_tokens=1
    )
    step = first_step(model, settings)
    ids, layers = torch.tensor([ids_of(model)]), model.architecture.layers
    for baseline in step.baselines:
        stock = model.in_dtype(baseline.dtype)
        with torch.no_grad():
            cache = stock(input_ids=ids[:, :-1], use_cache=True).cache
            p = stock(input_ids=ids[:, -1:], cache=cache, use_cache=True).logits[0, -1]
        first, second = p.double().sort(descending=True).values[:2].tolist()
        assert baseline.margin == pytest.approx(first - second, rel=1e-6)
        written, factored = (v for v in step.variants if v.variant.dtype == baseline.dtype)
        assert written.patches is not None
        _, q = without_context(
            written_copy(stock, written.patches), layers, step.kept_ids, step.kept_positions
        )
        log_p, log_q = p.double().log_softmax(0), q.double().log_softmax(0)
        assert written.tvd == pytest.approx(tvd(p, q), rel=1e-6, abs=1e-14)
        kl = float((log_p.exp() * (log_p - log_q)).sum())
        assert written.kl == pytest.approx(kl, rel=1e-6, abs=1e-13)
        assert written.rank == int((q > q[p.argmax()]).sum())
        np.testing.assert_allclose(written.top.probabilities, log_q.exp().topk(8).values.numpy(), rtol=1e-6)
        assert factored.tvd != written.tvd
        assert (factored.layers.swallowed == -1).all()
        if baseline.dtype == "float64":
            assert factored.tvd < 1e-6
        check_swallowed(stock, written)


def check_swallowed(stock: torch.nn.Module, written: VariantStep) -> None:
    weights = dict(stock.named_parameters())
    for i, patch in enumerate(written.patches or ()):
        update = patch.updates[-1]
        change = torch.from_numpy(update.delta)  # type: ignore[union-attr]
        old = weights[update.parameter]
        same = (old.double() + change.double()).to(old.dtype) == old
        if old.dtype == torch.bfloat16 and i == HUGE_LAYER:
            assert same[5], "nothing is swallowed, so the count is not tested"
        assert written.layers.swallowed[i] == int((same & (change != 0)).sum())


@pytest.mark.parametrize("fold", ["all", "2:6"])
def test_references_are_of_their_own_dtype_and_positions(model: LoadedModel, fold: str) -> None:
    settings = RunSettings(fold=Fold.parse(fold), dtypes=("float32", "bfloat16"), max_new_tokens=4)
    events = list(stream(model, PROMPT, settings))
    steps = [e for e in events if isinstance(e, Step)]
    ids, layers = ids_of(model), model.architecture.layers
    for reference in (e for e in events if isinstance(e, Reference)):
        stock, step = model.in_dtype(reference.dtype), steps[reference.step]
        history = ids + [s.next_token_id for s in steps[: reference.step]]
        cached, full = cached_and_full(stock, ids, history)
        if reference.noise_floor_tvd is not None:
            gap = float((cached.double() - full.double()).abs().max())
            assert reference.noise_floor_tvd == pytest.approx(tvd(cached, full), rel=1e-6, abs=0)
            assert reference.noise_floor_linf == pytest.approx(gap)
        if reference.unpatched_tvd is not None:
            _, bare = without_context(stock, layers, step.kept_ids, step.kept_positions)
            # A batch of several steps sums in another order, which bfloat16 shows.
            assert reference.unpatched_tvd == pytest.approx(tvd(bare, cached), rel=2e-2)


def cached_and_full(
    stock: torch.nn.Module, prompt: list[int], history: list[int]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Last logits of decoding ``history`` token by token after the prompt's prefill, and of all at once."""
    with torch.no_grad():
        full = stock(input_ids=torch.tensor([history]), use_cache=False, logits_to_keep=1)
        output = stock(input_ids=torch.tensor([prompt[:-1]]), use_cache=True, logits_to_keep=1)
        for token in history[len(prompt) - 1 :]:
            inputs = {"input_ids": torch.tensor([[token]]), "cache": output.cache}
            output = stock(**inputs, use_cache=True, logits_to_keep=1)
    return output.logits[0, -1], full.logits[0, -1]


def test_a_long_prompt_is_read_in_chunks(model: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context_pass, "PREFILL_CHUNK", 3)
    stock, ids = model.in_dtype("float64"), ids_of(model)
    passing = context_pass.ContextPass(anatomy_of(stock, model.architecture))
    passing.prefill(ids[:-1])
    _, wanted = with_context(stock, model.architecture.layers, ids)
    torch.testing.assert_close(passing.advance(ids[-1]).logits, wanted)
