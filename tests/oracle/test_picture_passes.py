"""Long prefills, references, replays and rebuilt patches of prompts with pictures, against a stock model."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ctxviz.engine import check_model, context_pass, rebuild, stream
from ctxviz.engine.anatomy import anatomy_of
from ctxviz.engine.context_pass import ContextPass, ContextState
from ctxviz.engine.prompt import look
from ctxviz.engine.rebuild import Rebuilt
from ctxviz.errors import SettingsError
from ctxviz.folds import Context, Fold
from ctxviz.models import LoadedModel, load_model
from ctxviz.numerics.rounding import moved_by_ulps
from ctxviz.pictures import Picture, from_image
from ctxviz.records import LayerPatch, Rank1Update, Reference, Replay, Step
from ctxviz.run import Run
from ctxviz.settings import RunSettings
from tests.oracle.stock import outputs_of, relative_error, tvd, written_copy
from tests.oracle.stock_pictures import (
    IMAGE_ID,
    LAYERS,
    PLACE,
    SHAPES,
    Stock,
    folder_of,
    noise_image,
    save_shape,
    stock_of,
)

NAME = "9 tokens"
ONE, OTHER, THIRD = (from_image(noise_image(k), f"{k}.png") for k in (1, 2, 3))
PROMPT = f"here {PLACE} the sky and {PLACE} the sand"
PAIR = (ONE, OTHER)
# Two ways to sum the same probabilities in float64.
SAME_NUMBER = 1e-12
# Stock Gemma computes its norms in float32 whatever the dtype, so another order of sums shows there.
CHUNKED, WRONG = 1e-5, 1e-3


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return load_model(str(folder_of(NAME)), dtypes=("float64", "float32", "bfloat16"))


def images_of(pictures: Sequence[Picture]) -> list[Any]:
    return [picture.image for picture in pictures]


def context_state(model: LoadedModel, prompt: str, pictures: Sequence[Picture]) -> tuple[ContextState, Any]:
    context = stream(model, prompt, RunSettings(), pictures=pictures).context
    ids = list(context.token_ids)
    reading = ContextPass(
        anatomy_of(model.in_dtype("float64"), model.architecture), look(model, pictures, context)
    )
    reading.prefill(ids[:-1])
    return reading.advance(ids[-1]), context


def gap(state: ContextState, wanted: tuple[np.ndarray, torch.Tensor]) -> float:
    logits = (state.logits - wanted[1]).norm() / wanted[1].norm()
    return max(relative_error(state.layer_out, wanted[0]), float(logits))


PLACES = {
    "start": f"{PLACE} and then a long way over the sand to the hill",
    "middle": f"a long way over the {PLACE} sand to the hill and the sky",
    "beyond the first chunk": f"a long way over the sand to the hill {PLACE} and",
    "start and end": f"{PLACE} a long way over the sand to the hill {PLACE} and",
}


@pytest.mark.parametrize("chunk", [4, 8, 16, 20])
@pytest.mark.parametrize("where", PLACES)
def test_a_prefill_in_chunks_is_one_forward(
    model: LoadedModel, where: str, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context_pass, "PREFILL_CHUNK", chunk)
    prompt, pictures = PLACES[where], PAIR[: PLACES[where].count(PLACE)]
    state, context = context_state(model, prompt, pictures)
    assert len(context.token_ids) > 2 * chunk
    stock = stock_of(NAME, "float64")
    assert gap(state, stock.with_context(context.token_ids, images_of(pictures))) < CHUNKED
    assert gap(state, stock.with_context(context.token_ids, images_of(pictures), causal=True)) > WRONG
    assert gap(state, stock.with_context(context.token_ids, images_of((THIRD, OTHER)[: len(pictures)]))) > (
        WRONG
    )


def test_prefills_longer_than_the_real_chunk(tmp_path: Path) -> None:
    """The window reaches back to a picture before, across and after the first 1024 tokens."""
    folder = save_shape(
        tmp_path, SHAPES["4 tokens"], max_position_embeddings=4096, sliding_window=64, num_hidden_layers=3
    )
    model, stock = load_model(str(folder), dtypes=("float64",)), Stock(folder, "float64")
    long = context_pass.PREFILL_CHUNK
    for before, after in ((3, long + 20), (long - 9, 40), (long + 20, 5), (long // 2, long)):
        prompt = "x" * before + PLACE + "y" * after
        state, context = context_state(model, prompt, (ONE,))
        assert len(context.token_ids) > long
        assert gap(state, stock.with_context(context.token_ids, [ONE.image])) < CHUNKED
    assert any(p < long for p in context.images[0].tokens)


def history(context: Context, steps: list[Step], step: Step) -> list[int]:
    return [*context.token_ids, *(s.next_token_id for s in steps[: step.index])]


def cached(stock: Stock, ids: list[int], prompt: int, attention: str = "sdpa") -> torch.Tensor:
    """Logits of the last id: the stock prefill of ``prompt`` tokens with pictures, then token by token."""
    tokens = torch.tensor([ids[:prompt]])
    with torch.no_grad():
        output = stock.model(
            input_ids=tokens,
            pixel_values=stock.pixels(images_of(PAIR)).to(stock.model.dtype),
            token_type_ids=(tokens == IMAGE_ID).long(),
            use_cache=True,
        )
        for token in ids[prompt:]:
            output = stock.model(input_ids=torch.tensor([[token]]), cache=output.cache, use_cache=True)
    return output.logits[0, -1]


def full(
    stock: Stock, ids: list[int], kept: Sequence[int] = (), seed: int | None = None, model: Any = None
) -> torch.Tensor:
    """The same without a cache; with a seed the kept embeddings are moved before pictures are put in.

    ``model`` may be a copy with another attention: the pictures' rows stay those of ``stock``.
    """
    tokens = torch.tensor([ids])

    def move(embeds: torch.Tensor) -> torch.Tensor:
        if seed is not None:
            generator = torch.Generator().manual_seed(seed)
            embeds[:, list(kept)] = moved_by_ulps(embeds[:, list(kept)], generator)
        return embeds

    embeds = stock.kept_embeds(tokens, [*range((tokens == IMAGE_ID).sum())], images_of(PAIR), move)
    types = (tokens == IMAGE_ID).long()
    with torch.no_grad():
        return (model or stock.model)(
            inputs_embeds=embeds, token_type_ids=types, use_cache=False, logits_to_keep=1
        ).logits[0, -1]


@pytest.mark.parametrize("fold", ["all", "image:1", "text"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_references_are_those_of_stock_models(model: LoadedModel, dtype: str, fold: str) -> None:
    settings = RunSettings(dtypes=(dtype,), fold=Fold.parse(fold), budget=True, max_new_tokens=3)
    running = stream(model, PROMPT, settings, pictures=PAIR, keep_patches=True)
    events = list(running)
    steps = [event for event in events if isinstance(event, Step)]
    stock, prompt = stock_of(NAME, dtype), len(running.context.token_ids) - 1
    eager = copy.deepcopy(stock.model)
    eager.set_attn_implementation("eager")
    seen = set()
    for event in events:
        if not isinstance(event, Reference):
            continue
        step = steps[event.step]
        ids = history(running.context, steps, step)
        baseline, plain = cached(stock, ids, prompt), full(stock, ids)

        def near(one: torch.Tensor, other: torch.Tensor) -> Any:
            return pytest.approx(tvd(one, other), abs=SAME_NUMBER)

        if event.unpatched_tvd is not None:
            _, bare = stock.on_kept(stock.model, step.kept_ids, step.kept_positions, ids, images_of(PAIR))
            # Steps share a batch, which changes the order of sums.
            assert event.unpatched_tvd == pytest.approx(tvd(bare, baseline), abs=2e-2, rel=1e-3)
            assert event.unpatched_tvd > 1e-2
            seen.add("unpatched")
        if event.noise_floor_tvd is not None:
            assert event.noise_floor_tvd == near(plain, baseline)
            assert event.noise_floor_linf == float((plain.double() - baseline.double()).abs().max())
            assert event.eager_tvd == near(full(stock, ids, model=eager), plain)
            wide = full(stock_of(NAME, "float64"), ids)
            assert event.float64_tvd == near(wide, baseline)
            seeds = range(3 * step.index, 3 * step.index + 3)
            moved = [tvd(full(stock, ids, step.kept_positions, seed), plain) for seed in seeds]
            assert event.ulp_tvd == pytest.approx(max(moved), abs=SAME_NUMBER)
            # The baseline is nearer than it would be with another mask.
            assert tvd(stock.with_context(ids, images_of(PAIR), causal=True)[1], baseline) > 3 * (
                event.noise_floor_tvd
            )
            seen.add("floor")
    assert seen == {"unpatched", "floor"}


@pytest.mark.parametrize("fold", ["text", "image:1"])
def test_unpatched_steps_in_one_batch_each_see_the_kept_pictures(model: LoadedModel, fold: str) -> None:
    settings = RunSettings(dtypes=("float64",), fold=Fold.parse(fold), max_new_tokens=8)
    running = stream(model, PROMPT, settings, pictures=PAIR)
    events = list(running)
    steps = [event for event in events if isinstance(event, Step)]
    stock = stock_of(NAME, "float64")
    found = {
        e.step: e.unpatched_tvd for e in events if isinstance(e, Reference) and e.unpatched_tvd is not None
    }
    assert sorted(found) == [*range(len(steps))]
    assert len(steps) > 4, "batches of one, two and more"
    swapped = []
    for step in steps:
        ids = history(running.context, steps, step)
        baseline = stock.with_context(ids, images_of(PAIR))[1]
        kept = (stock.model, step.kept_ids, step.kept_positions, ids)
        assert found[step.index] == pytest.approx(
            tvd(stock.on_kept(*kept, images_of(PAIR))[1], baseline), abs=1e-5
        )
        others = tvd(stock.on_kept(*kept, images_of((THIRD, ONE)))[1], baseline)
        swapped.append(abs(others - (found[step.index] or 0)))
    assert max(swapped) > 1e-3


def patches_of(step: Step) -> tuple[LayerPatch, ...]:
    patches = step.variants[0].patches
    assert patches is not None
    return patches


@pytest.mark.parametrize("fold", ["text", "image:2", "cut"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
def test_replays_with_kept_image_tokens(model: LoadedModel, dtype: str, fold: str) -> None:
    images = stream(model, PROMPT, RunSettings(), pictures=PAIR).context.images
    cut = Fold("span", images[0].tokens[4], images[1].tokens[3])
    kinds = ("same", "batch", "ulp", "rounded")
    settings = RunSettings(
        ("stable",),
        dtypes=(dtype,),
        fold=cut if fold == "cut" else Fold.parse(fold),
        replays=kinds,
        hold=0,
        max_new_tokens=2,
    )
    running = stream(model, PROMPT, settings, pictures=PAIR, keep_patches=True)
    steps = [event for event in running if isinstance(event, Step)]
    stock, prompt = stock_of(NAME, dtype), len(running.context.token_ids) - 1
    for step in steps:
        ids = history(running.context, steps, step)
        baseline = cached(stock, ids, prompt)
        written = written_copy(stock.model, patches_of(step))

        def run(weights: Any, ids: list[int] = ids, step: Step = step, **how: Any) -> torch.Tensor:
            kept = (step.kept_ids, step.kept_positions, ids, images_of(PAIR))
            # Rows of both pictures from one batch of the tower, as the engine has them.
            return stock.on_kept(weights, *kept, **{"move": None} | how)[1]

        built, replays = run(written), {r.kind: r for r in step.variants[0].replays}
        assert replays["same"].shift == 0.0
        assert replays["same"].tvd == pytest.approx(tvd(built, baseline), abs=SAME_NUMBER)
        check(replays["batch"], [run(written, batch=2)], built, baseline)
        moves = [mover(seed) for seed in range(3 * step.index, 3 * step.index + 3)]
        check(replays["ulp"], [run(written, move=move) for move in moves], built, baseline)
        check(replays["rounded"], [run(rounded(written, step, dtype))], built, baseline)
        held = run(written_copy(stock.model, patches_of(steps[0])))
        assert replays["held"].tvd == pytest.approx(tvd(held, baseline), abs=SAME_NUMBER)
        assert tvd(run(stock.model), baseline) > 1e-2, "nothing is folded"


def mover(seed: int) -> Any:
    generator = torch.Generator().manual_seed(seed)
    return lambda embeds: moved_by_ulps(embeds, generator)


def rounded(written: torch.nn.Module, step: Step, dtype: str) -> torch.nn.Module:
    other = {"float64": torch.float32, "float32": torch.bfloat16, "bfloat16": torch.float16}[dtype]
    changed = copy.deepcopy(written)
    parameters = dict(changed.named_parameters())
    with torch.no_grad():
        for name in {u.parameter for patch in patches_of(step) for u in patch.updates}:
            parameters[name].copy_(parameters[name].to(other).to(parameters[name].dtype))
    return changed


def check(replay: Replay, found: list[torch.Tensor], built: torch.Tensor, baseline: torch.Tensor) -> None:
    assert replay.shift == max(float((one.double() - built.double()).abs().max()) for one in found)
    assert replay.tvd == pytest.approx(max(tvd(one, baseline) for one in found), abs=SAME_NUMBER)


@pytest.mark.parametrize("fold", ["all", "image", "text", "image:2"])
def test_a_rebuilt_patch_is_the_patch(model: LoadedModel, fold: str) -> None:
    settings = RunSettings(dtypes=("float32",), fold=Fold.parse(fold), max_new_tokens=3)
    running = stream(model, PROMPT, settings, pictures=PAIR, keep_patches=True)
    run = Run(model.identity, running.context, settings, PAIR)
    steps = [event for event in running if isinstance(event, Step)]
    for step in steps:
        run.append(step)
    for step in steps:
        *shares, made = rebuild(model, run, step.index, run.variants[0])
        assert len(shares) == step.index
        assert isinstance(made, Rebuilt)
        assert (made.kept_ids, made.kept_positions) == (step.kept_ids, step.kept_positions)
        for ours, theirs in zip(made.patches, patches_of(step), strict=True):
            for one, other in zip(ours.updates, theirs.updates, strict=True):
                assert one.parameter == other.parameter
                if isinstance(one, Rank1Update) and isinstance(other, Rank1Update):
                    assert np.array_equal(one.left, other.left)
                    assert np.array_equal(one.right, other.right)
                else:
                    assert np.array_equal(one.delta, other.delta)  # type: ignore[union-attr]
    for others in ((), (OTHER, ONE), (ONE,), (ONE, THIRD)):
        bare = Run(model.identity, running.context, settings, others)
        with pytest.raises(SettingsError, match="does not hold its pictures"):
            check_model(model, bare)
        with pytest.raises(SettingsError, match="does not hold its pictures"):
            next(rebuild(model, bare, 0, run.variants[0]))


def test_the_stock_oracle_tells_its_own_ways_apart() -> None:
    """Pixels and rows put into the embeddings are two routes to the same answer; other rows are not."""
    stock = stock_of(NAME, "float64")
    ids = [2, 300, *[IMAGE_ID] * 9, 301, 302]
    tokens = torch.tensor([ids])
    by_pixels = stock.with_context(ids, [ONE.image])
    types = (tokens == IMAGE_ID).long()
    for rows, same in (([*range(9)], True), ([*range(8, -1, -1)], False)):
        embeds = stock.kept_embeds(tokens, rows, [ONE.image])
        found = outputs_of(stock.model, LAYERS, inputs_embeds=embeds, token_type_ids=types, use_cache=False)
        assert (relative_error(found[0], by_pixels[0]) < SAME_NUMBER) is same
