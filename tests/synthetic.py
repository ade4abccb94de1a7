"""Invented but plausible runs, for tests of whatever reads a run: figures, words, store, pages.

A run from :func:`synthetic_run` holds one mismatch (first variant of the lowest precision, half-way), one tie
(last variant, a quarter of the way), one step with a distance of exactly zero (last variant of the highest
precision, step 2), seven dead coordinates in layer 4 and one in layer 1, and under the direct rule small
denominators in layer 4, the smallest of them half-way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np

from ctxviz.folds import Context, Fold
from ctxviz.records import (
    SOLVER_CASES,
    Baseline,
    LayerPatch,
    LayerStats,
    LayerVectors,
    ModelIdentity,
    Rank1Update,
    Reference,
    Replay,
    Step,
    TopTokens,
    VariantStep,
    VectorUpdate,
)
from ctxviz.run import Run
from ctxviz.settings import HELD, REPLAYS, RunSettings, Variant

WORDS = tuple(
    re.findall(
        r"<0x..>|\n| ?\w+|[^\w ]",
        " The forecast for Mars tomorrow:\n dust, more dust, and a wind that nobody asked for, minus sixty"
        " degrees<0xE2><0x84><0x83>, so please stop asking me about the weather.",
    )
)
PROMPT_TOKENS = ("<bos>", "As", " a", " slightly", " irrit", "able", " robot", " on", " Mars", ":")
BAD_LAYER = 4
TINY_H = 3e-8
NOISE_STEPS = frozenset({0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512})


def synthetic_run(
    n_layers: int = 18,
    width: int = 64,
    steps: int = 12,
    *,
    updates: Sequence[str] = ("direct", "stable"),
    arithmetics: Sequence[str] = ("written",),
    dtypes: Sequence[str] = ("float32", "bfloat16"),
    first_layer: int = 0,
    fold: Fold | None = None,
    seed: int = 0,
    vectors: bool = True,
    texts: Sequence[str] = WORDS,
    faults: bool = True,
    outcome: str | None = "finished",
    replays: Sequence[str] = (),
    hold: int | None = None,
    budget: bool = False,
) -> Run:
    """A finished run of invented numbers; the same arguments give the same run.

    With replays, direct falls apart in a batch of two and after a move by one unit in the last place.

    ``texts`` are the new tokens' pieces, repeated as needed; ``faults=False`` leaves out the mismatch, the
    tie and the exact zero.
    """
    fold = fold or Fold()
    settings = RunSettings(
        updates=tuple(updates),
        arithmetics=tuple(arithmetics),
        dtypes=tuple(dtypes),
        first_layer=first_layer,
        fold=fold,
        max_new_tokens=max(steps, 1),
        replays=tuple(replays),
        hold=hold,
        budget=budget,
    )
    run = Run(synthetic_identity(n_layers, width), synthetic_context(fold), settings)
    for item in synthetic_items(run, steps, seed=seed, vectors=vectors, texts=texts, faults=faults):
        if isinstance(item, Step):
            run.append(item)
        else:
            run.refer(item)
    run.outcome = outcome
    return run


def synthetic_identity(n_layers: int = 18, width: int = 64) -> ModelIdentity:
    return ModelIdentity(
        key="synthetic",
        name="Synthetic",
        architecture="gemma3_text",
        n_layers=n_layers,
        width=width,
        vocabulary=1000,
        sha256="0" * 64,
        threads=2,
        libraries=(("numpy", np.__version__),),
    )


def synthetic_context(fold: Fold) -> Context:
    ids = tuple(range(2, 2 + len(PROMPT_TOKENS)))
    return Context("As a slightly irritable robot on Mars:", ids, PROMPT_TOKENS, fold)


def synthetic_items(
    run: Run,
    steps: int,
    *,
    seed: int = 0,
    vectors: bool = True,
    texts: Sequence[str] = WORDS,
    faults: bool = True,
) -> Iterator[Step | Reference]:
    """What an engine would yield for ``run``: each step, then its references."""
    rng = np.random.default_rng(seed)
    scale = _scale(rng, run.model.n_layers, run.model.width)
    text, token_id = run.context.token_texts[-1], run.context.token_ids[-1]
    for k in range(steps):
        next_text, next_id = texts[k % len(texts)], 100 + k % len(texts)
        yield _step(run, k, (token_id, text), (next_id, next_text), steps // 2, faults, scale, rng, vectors)
        text, token_id = next_text, next_id
        for dtype in run.dtypes:
            noise = _floor(dtype) * float(rng.uniform(0.8, 1.2)) if k in NOISE_STEPS else None
            linf = None if noise is None else 40 * noise
            more = None if noise is None or not run.settings.budget else noise * 1.3
            wide = None if more is None else _floor(dtype) * 3
            yield Reference(
                k, dtype, float(rng.uniform(0.9, 0.999)), noise, linf, None, more, wide, wide, more
            )


def synthetic_patches(
    layers: Sequence[int] = (0, 1), width: int = 8, hidden: int = 16
) -> tuple[LayerPatch, ...]:
    """Random updates of gate, up and down matrices and of the post-norm, one patch per layer."""
    rng = np.random.default_rng(0)

    def draw(n: int) -> np.ndarray:
        return rng.standard_normal(n).astype(np.float32)

    return tuple(
        LayerPatch(
            layer,
            (
                Rank1Update(f"model.layers.{layer}.mlp.gate_proj.weight", draw(hidden), draw(width)),
                Rank1Update(f"model.layers.{layer}.mlp.up_proj.weight", draw(hidden), draw(width)),
                Rank1Update(f"model.layers.{layer}.mlp.down_proj.weight", draw(width), draw(hidden)),
                VectorUpdate(f"model.layers.{layer}.post_feedforward_layernorm.weight", draw(width)),
            ),
        )
        for layer in layers
    )


def _floor(dtype: str) -> float:
    return {"float64": 3e-15, "float32": 2e-7}.get(dtype, 2e-3)


def _scale(rng: np.random.Generator, n_layers: int, width: int) -> np.ndarray:
    m = np.exp(rng.normal(2, 1.5, (n_layers, width))).astype(np.float32)
    m[:, 0] *= -1
    if n_layers > 1:
        m[1, width // 3] = 0
    if n_layers > BAD_LAYER and width >= 16:
        m[BAD_LAYER, 1:8] = 0
    return m


def _step(
    run: Run,
    k: int,
    query: tuple[int, str],
    new: tuple[int, str],
    half: int,
    faults: bool,
    scale: np.ndarray,
    rng: np.random.Generator,
    vectors: bool,
) -> Step:
    baselines = tuple(
        Baseline(d, float(rng.uniform(0.5, 6)), _top(rng, new), float(rng.uniform(0.02, 0.03)))
        for d in run.dtypes
    )
    delta_v = rng.normal(0, 8, scale.shape).astype(np.float32)
    variants = tuple(
        _variant_step(run, k, i, variant, new, half, faults, scale, delta_v, rng, vectors)
        for i, variant in enumerate(run.variants)
    )
    position = len(run.context.token_ids) - 1 + k
    seconds = sum(b.seconds for b in baselines) + sum(v.seconds for v in variants)
    return Step(k, position, *query, *new, baselines, variants, seconds, (query[0],), (position,))


def _variant_step(
    run: Run,
    k: int,
    i: int,
    variant: Variant,
    new: tuple[int, str],
    half: int,
    faults: bool,
    scale: np.ndarray,
    delta_v: np.ndarray,
    rng: np.random.Generator,
    vectors: bool,
) -> VariantStep:
    first_low = next(j for j, v in enumerate(run.variants) if v.dtype == run.dtypes[-1])
    last_high = max(j for j, v in enumerate(run.variants) if v.dtype == run.dtypes[0])
    mismatch = faults and i == first_low and k == half
    tie = faults and i == len(run.variants) - 1 and k == half // 2
    zero = faults and i == last_high and k == 2
    match = not (mismatch or tie)
    tvd = 0.0 if zero else _floor(variant.dtype) * float(np.exp(rng.normal(0.7, 0.8)))
    made = _vectors(variant, scale, delta_v, rng, tiny=k == half)
    return VariantStep(
        variant=variant,
        match=match,
        tie=tie,
        tvd=tvd,
        logit_linf=40 * tvd,
        kl=tvd**2,
        rank=0 if match else 1,
        top=_top(rng, new if match else (500, " sand"), None if match else new),
        seconds=float(rng.uniform(0.05, 0.09)),
        layers=_stats(run, variant, made, rng),
        vectors=made if vectors else None,
        replays=tuple(_replay(kind, k, variant, tvd, run, rng) for kind in _kinds(run, variant, k)),
    )


def _kinds(run: Run, variant: Variant, k: int) -> list[str]:
    """What is replayed at step k: nothing that was factored, and nothing held before it was built."""
    if variant.arithmetic != "written":
        return []
    hold = run.settings.hold
    return [kind for kind in run.settings.replay_kinds if kind != HELD or (hold is not None and k >= hold)]


def _replay(kind: str, k: int, variant: Variant, built: float, run: Run, rng: np.random.Generator) -> Replay:
    size = {"same": 0.0, "rounded": 0.02, HELD: 0.0 if k == run.settings.hold else 0.8}.get(kind)
    if size is None:
        size = 0.97 if variant.update == "direct" else 1e-5
    size *= float(rng.uniform(0.7, 1.0))
    return Replay(kind, size < 0.5, min(1.0, built + size), 40 * size, 0.03)


def _drift(run: Run, kind: str, variant: Variant, rng: np.random.Generator) -> np.ndarray:
    """Grows from layer to layer, for direct to about one; NaN where not replayed."""
    n = run.model.n_layers
    if kind not in run.settings.replays or variant.arithmetic != "written":
        return np.full(n, np.nan, np.float32)
    if kind == "same":
        return np.zeros(n, np.float32)
    end = 0.0 if variant.update == "direct" else -5.0
    return (10 ** (np.linspace(-7, end, n) + rng.normal(0, 0.2, n))).astype(np.float32)


def _top(
    rng: np.random.Generator, first: tuple[int, str], second: tuple[int, str] | None = None
) -> TopTokens:
    rest = [(500, " sand"), (501, " storms"), (502, " \u202e"), (503, "<b>x</b>"), (504, " wind")]
    tokens = list(dict([first, *([second] if second else []), *rest]).items())[:5]
    p = np.sort(rng.dirichlet(np.full(8, 0.5)))[::-1][:5].astype(np.float32)
    return TopTokens(np.array([t[0] for t in tokens], np.int32), p, tuple(t[1] for t in tokens))


def _vectors(
    variant: Variant, m: np.ndarray, delta_v: np.ndarray, rng: np.random.Generator, *, tiny: bool
) -> LayerVectors:
    h = rng.normal(0, 1, m.shape).astype(np.float32)
    if variant.update == "direct":
        if len(m) > BAD_LAYER:
            h[BAD_LAYER, -1] = TINY_H * (1 if tiny else float(np.exp(rng.uniform(1, 6))))
        dm = delta_v / h
    else:
        lam = np.exp(rng.normal(-9, 2, (len(m), 1)))
        with np.errstate(divide="ignore"):
            dm = np.where(m == 0, delta_v / np.sign(h), lam / np.where(m == 0, 1, m))
    dm = dm.astype(np.float32)
    first = variant.first_layer
    for array in (h, dm):
        array[:first] = np.nan
    delta = delta_v.copy()
    delta[:first] = np.nan
    none = np.zeros(m.shape, bool)
    return LayerVectors(h, delta, m, dm, m - 1, none, none.copy())


def _stats(run: Run, variant: Variant, made: LayerVectors, rng: np.random.Generator) -> LayerStats:
    n, first = len(made.h), variant.first_layer
    patched = np.arange(n) >= first
    size, h = np.abs(np.nan_to_num(made.delta_scale)), np.abs(made.h)
    safe = np.where(np.isnan(h), np.inf, h)

    def floats(values: np.ndarray) -> np.ndarray:
        return np.where(patched, values, np.nan).astype(np.float32)

    def ints(values: np.ndarray) -> np.ndarray:
        return np.where(patched, values, -1).astype(np.int32)

    def drawn(mean: float) -> np.ndarray:
        return np.exp(rng.normal(mean, 0.7, n))

    direct = variant.update == "direct"
    case = SOLVER_CASES.index("closed form" if direct else "regular")
    return LayerStats(
        scale_ratio=floats(np.linalg.norm(size, axis=1) / np.linalg.norm(made.scale, axis=1)),
        scale_max_abs=floats(size.max(axis=1)),
        scale_argmax=ints(size.argmax(axis=1)),
        h_abs_min=floats(safe.min(axis=1)),
        h_argmin=ints(safe.argmin(axis=1)),
        h_small=ints((safe < run.settings.small_h).sum(axis=1)),
        dead=ints((made.scale == 0).sum(axis=1)),
        uncontrolled=ints(np.zeros(n)),
        swallowed=ints(np.full(n, 0 if variant.dtype == "float32" else 3)),
        gate_ratio=floats(drawn(-3)),
        up_ratio=floats(drawn(-3)),
        down_ratio=floats(np.full(n, np.nan) if direct else drawn(-2)),
        resid_ratio=drawn(-1).astype(np.float32),
        cosine=rng.uniform(0.2, 0.9, n).astype(np.float32),
        output_error=(drawn(-1) * _floor(variant.dtype)).astype(np.float32),
        multiplier=floats(np.full(n, np.nan) if direct else drawn(-9)),
        solver_case=ints(np.full(n, case)),
        output_max_abs=np.linspace(20, 900, n).astype(np.float32),
        **{f"drift_{kind}": _drift(run, kind, variant, rng) for kind in REPLAYS},
    )
