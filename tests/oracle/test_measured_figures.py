import copy
import numpy as np, pytest, torch
from ctxviz.engine import context_pass, stream
from ctxviz.engine.anatomy import anatomy_of
from ctxviz.models import load_model
from ctxviz.records import SOLVER_CASES, UPDATE_RULES, Fold, Rank1Update, Reference, RunSettings, Step
from tests.oracle.stock import tvd, with_context, without_context, written_copy
from tests.tiny_models import save_tiny_folder, tiny_gemma3
PROMPT = "the robot on mars says that dust will fall from the sky"

@pytest.fixture(scope="module")
def model(tmp_path_factory):
    tiny = tiny_gemma3()
    tiny.model.layers[1].post_feedforward_layernorm.weight[3] = -1  # m = 0: a dead coordinate
    tiny.model.layers[2].post_feedforward_layernorm.weight[5] = 100  # bfloat16 swallows small changes here
    return load_model(str(save_tiny_folder(tmp_path_factory.mktemp("t"), tiny)), dtypes=("float64", "float32", "bfloat16"))

def seen(model, arch, call):
    """resid_mid, z, h_down of every layer at the last token, and call()'s (layer_out, logits)."""
    got, handles = {"v": [], "z": [], "down": []}, []
    for layer in model.get_submodule(arch.layers):
        handles += [layer.get_submodule(arch.pre_mlp_norm).register_forward_hook(lambda _, a, o: (got["v"].append(a[0][0, -1].double().numpy()), got["z"].append(o[0, -1].double().numpy())) and None),
                    layer.get_submodule(arch.post_mlp_norm).register_forward_hook(lambda _, a, o: got["down"].append(a[0][0, -1].double().numpy()))]
    out, logits = call()
    for h in handles: h.remove()
    return got, out, logits

@pytest.mark.parametrize("rule", UPDATE_RULES)
@pytest.mark.parametrize("fold", ["all", "2:6"])
def test_layer_figures(model, rule, fold):
    arch, stock, norm = model.architecture, model.in_dtype("float64"), np.linalg.norm
    step = next(stream(model, PROMPT, RunSettings(updates=(rule,), fold=Fold.parse(fold), dtypes=("float64",), small_h=0.3), keep_patches=True))
    r = step.variants[0]; s, w = r.layers, dict(stock.named_parameters())
    ids = [int(i) for i in model.tokenizer(PROMPT)["input_ids"]]
    c, c_out, _ = seen(stock, arch, lambda: with_context(stock, arch.layers, ids))
    twin = written_copy(stock, r.patches)
    p, p_out, _ = seen(twin, arch, lambda: without_context(twin, arch.layers, step.kept_ids, step.kept_positions))
    for i, patch in enumerate(r.patches):
        dv, h = c["v"][i] - p["v"][i], p["down"][i] / np.sqrt(np.mean(p["down"][i] ** 2) + 1e-6)
        m, dm = 1 + w[patch.updates[-1].parameter].numpy(), patch.updates[-1].delta.astype(float)
        near = lambda x: pytest.approx(x, rel=1e-4)
        assert s.resid_ratio[i] == near(norm(dv) / norm(c["v"][i]))
        assert s.cosine[i] == near(c["z"][i] @ p["z"][i] / norm(c["z"][i]) / norm(p["z"][i]))
        assert s.output_error[i] == pytest.approx(norm(p_out[i] - c_out[i]) / norm(c_out[i]), rel=1e-2)
        assert s.scale_ratio[i] == near(norm(dm) / norm(m)) and s.scale_max_abs[i] == near(abs(dm).max())
        assert s.h_abs_min[i] == near(abs(h).min())
        assert (s.scale_argmax[i], s.h_argmin[i], s.h_small[i]) == (abs(dm).argmax(), abs(h).argmin(), (abs(h) < 0.3).sum())
        assert (s.dead[i], s.uncontrolled[i]) == (int(i == 1), 0)
        np.testing.assert_allclose(r.vectors.scale[i], m, rtol=1e-6)
        np.testing.assert_allclose(r.vectors.delta_v[i], dv, rtol=1e-4, atol=1e-6)
        np.testing.assert_array_equal(r.vectors.delta_scale[i], dm.astype(np.float32))
        for u in patch.updates:
            if isinstance(u, Rank1Update):
                field = next(f for f in ("gate", "up", "down") if f"{f}_proj" in u.parameter)
                assert getattr(s, f"{field}_ratio")[i] == near(norm(np.outer(u.left, u.right)) / norm(w[u.parameter].numpy()))
        live = m != 0
        assert SOLVER_CASES[s.solver_case[i]] in (("closed form",) if rule in ("direct", "rescaled") else ("regular", "unconstrained", "hard"))
        if rule == "floored":
            assert abs(h).min() > 0.6 * (1 - 1e-3)
        if rule == "rescaled":
            factor = (dm / np.where(live, m, 1))[live]
            np.testing.assert_allclose(factor, np.median(factor), rtol=1e-2, atol=1e-4)
        if rule == "stable":
            np.testing.assert_allclose(dm[live] * m[live], s.multiplier[i], rtol=1e-3, atol=1e-4)

def test_every_dtype_and_arithmetic(model):
    settings = RunSettings(dtypes=("float64", "bfloat16"), arithmetics=("written", "factored"), max_new_tokens=1)
    step = next(stream(model, PROMPT, settings, keep_patches=True)); layers = model.architecture.layers
    ids = torch.tensor([model.tokenizer(PROMPT)["input_ids"]])
    for base, name in zip(step.baselines, ("float64", "bfloat16")):
        stock = model.in_dtype(name)
        with torch.no_grad():
            cache = stock(input_ids=ids[:, :-1], use_cache=True).cache
            p = stock(input_ids=ids[:, -1:], cache=cache, use_cache=True).logits[0, -1]
        two = p.double().sort(descending=True).values
        assert base.margin == pytest.approx(float(two[0] - two[1]), rel=1e-6)
        written, factored = (v for v in step.variants if v.variant.dtype == name)
        _, q = without_context(written_copy(stock, written.patches), layers, step.kept_ids, step.kept_positions)
        lp, lq = p.double().log_softmax(0), q.double().log_softmax(0)
        assert written.tvd == pytest.approx(tvd(p, q), rel=1e-6, abs=1e-14)
        assert written.kl == pytest.approx(float((lp.exp() * (lp - lq)).sum()), rel=1e-6, abs=1e-13)
        assert written.rank == int((q > q[p.argmax()]).sum())
        np.testing.assert_allclose(written.top.probabilities, lq.exp().topk(8).values.numpy(), rtol=1e-6)
        assert factored.tvd != written.tvd and (factored.layers.swallowed == -1).all()
        if name == "float64":
            assert factored.tvd < 1e-6
        w = dict(stock.named_parameters())
        for i, patch in enumerate(written.patches):
            u = patch.updates[-1]; old = w[u.parameter]
            same = ((old.double() + torch.from_numpy(u.delta).double()).to(old.dtype) == old).numpy()
            assert name == "float64" or i != 2 or same[5]
            assert written.layers.swallowed[i] == (same & (u.delta != 0)).sum()

@pytest.mark.parametrize("fold", ["all", "2:6"])
def test_references(model, fold):
    events = list(stream(model, PROMPT, RunSettings(fold=Fold.parse(fold), dtypes=("float32", "bfloat16"), max_new_tokens=4)))
    steps = [e for e in events if isinstance(e, Step)]
    ids = [int(i) for i in model.tokenizer(PROMPT)["input_ids"]]
    for e in (e for e in events if isinstance(e, Reference)):
        stock, layers, step = model.in_dtype(e.dtype), model.architecture.layers, steps[e.step]
        history = ids + [s.next_token_id for s in steps[: e.step]]
        with torch.no_grad():
            full = stock(input_ids=torch.tensor([history]), use_cache=False, logits_to_keep=1).logits[0, -1]
            cache = stock(input_ids=torch.tensor([ids[:-1]]), use_cache=True, logits_to_keep=1).cache
            for t in history[len(ids) - 1:]:
                out = stock(input_ids=torch.tensor([[t]]), cache=cache, use_cache=True, logits_to_keep=1); cache = out.cache
        cached = out.logits[0, -1]
        if e.noise_floor_tvd is not None:
            assert e.noise_floor_tvd == pytest.approx(tvd(cached, full), rel=1e-6, abs=0)
            assert e.noise_floor_linf == pytest.approx(float((cached.double() - full.double()).abs().max()))
        if e.unpatched_tvd is not None:
            _, bare = without_context(stock, layers, step.kept_ids, step.kept_positions)
            assert e.unpatched_tvd == pytest.approx(tvd(bare, cached), rel=2e-2)

def test_prefill_in_chunks(model, monkeypatch):
    monkeypatch.setattr(context_pass, "PREFILL_CHUNK", 3)
    stock, ids = model.in_dtype("float64"), [int(i) for i in model.tokenizer(PROMPT)["input_ids"]]
    run = context_pass.ContextPass(anatomy_of(stock, model.architecture)); run.prefill(ids[:-1])
    torch.testing.assert_close(run.advance(ids[-1]).logits, with_context(stock, model.architecture.layers, ids)[1])
