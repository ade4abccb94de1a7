"""The stream of steps: history, references, errors, and what a stopped run leaves behind."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ctxviz.engine import Stream, stream
from ctxviz.errors import CtxvizError, OutOfMemoryError, PrecisionError, PromptError, SettingsError
from ctxviz.folds import Fold
from ctxviz.models import LoadedModel, load_model
from ctxviz.numerics import distances
from ctxviz.records import Reference, Step, VariantStep
from ctxviz.run import Run
from ctxviz.settings import UPDATE_RULES, RunSettings, Variant
from tests.oracle.stock import tvd, with_context, without_context, written_copy
from tests.tiny_models import save_tiny_folder

PROMPT = "the robot on mars says that dust will fall from the sky"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    folder: Path = save_tiny_folder(tmp_path_factory.mktemp("tiny"))
    return load_model(str(folder), dtypes=("float64", "float32", "bfloat16"))


def run_of(model: LoadedModel, settings: RunSettings, prompt: str = PROMPT) -> tuple[Run, list[Step]]:
    running = stream(model, prompt, settings, keep_patches=True)
    run, steps = Run(model.identity, running.context, settings), []
    for event in running:
        if isinstance(event, Step):
            run.append(event)
            steps.append(event)
        else:
            run.refer(event)
    run.outcome = running.outcome
    return run, steps


def test_the_history_is_stock_greedy_decoding_in_the_highest_precision(model: LoadedModel) -> None:
    settings = RunSettings(dtypes=("bfloat16", "float64"), max_new_tokens=12)
    _, steps = run_of(model, settings)
    ids = torch.tensor([model.tokenizer(PROMPT)["input_ids"]])
    wanted = model.in_dtype("float64").generate(ids, max_new_tokens=12, do_sample=False)
    assert [s.next_token_id for s in steps] == wanted[0, ids.shape[1] :].tolist()
    assert [s.token_id for s in steps[1:]] == [s.next_token_id for s in steps[:-1]]
    assert [b.dtype for b in steps[0].baselines] == ["float64", "bfloat16"]


def test_a_longer_run_is_recorded_whole(model: LoadedModel) -> None:
    settings = RunSettings(updates=("direct", "floored"), max_new_tokens=40, first_layer=1)
    run, steps = run_of(model, settings)
    assert len(run) == len(steps) <= 40
    for k, variant in enumerate(run.variants):
        assert run.series("tvd", k) == pytest.approx([s.variants[k].tvd for s in steps], nan_ok=True)
        table = run.field("h_abs_min", k)
        assert table.shape == (model.n_layers, len(steps))
        assert np.isnan(table[0]).all(), "layer 0 is not patched"
        assert np.isfinite(table[1:]).all()
        vectors = run.vectors(len(run) - 1, k)
        assert vectors is not None
        smallest = np.abs(vectors.h[1:]).min(axis=1)
        assert table[1:, -1] == pytest.approx(smallest), variant


def test_vectors_past_the_budget_are_dropped_oldest_first(model: LoadedModel) -> None:
    one = (3 * 4 + 2) * model.n_layers * model.width
    run, steps = run_of(model, RunSettings(max_new_tokens=5, vector_budget=2 * one))
    kept = [run.vectors(i, 0) is not None for i in range(len(steps))]
    assert kept == [False] * (len(steps) - 2) + [True, True]
    assert run.forgotten_vectors == len(steps) - 2


def test_references_come_for_every_step_and_are_what_they_say(model: LoadedModel) -> None:
    run, steps = run_of(model, RunSettings(dtypes=("float32",), max_new_tokens=11))
    stock, layers = model.in_dtype("float32"), model.architecture.layers
    ids = [int(i) for i in model.tokenizer(PROMPT)["input_ids"]]
    unpatched = run.reference("unpatched_tvd", "float32")
    gaps = run.reference("unpatched_linf", "float32")
    floors = run.reference("noise_floor_tvd", "float32")
    assert np.isfinite(unpatched).all()
    measured = [i for i in range(len(steps)) if i in (0, 1, 2, 4, 8)]
    assert np.flatnonzero(np.isfinite(floors)).tolist() == measured
    for step in steps:
        history = ids + [s.next_token_id for s in steps[: step.index]]
        _, baseline = with_context(stock, layers, history)
        _, bare = without_context(stock, layers, step.kept_ids, step.kept_positions)
        assert unpatched[step.index] == pytest.approx(tvd(bare, baseline), abs=1e-5)
        assert gaps[step.index] == pytest.approx(float((bare - baseline).abs().max()), rel=1e-4)


def test_the_metrics_are_those_of_the_written_model(model: LoadedModel) -> None:
    _, steps = run_of(model, RunSettings(dtypes=("bfloat16",), max_new_tokens=4))
    stock, layers = model.in_dtype("bfloat16"), model.architecture.layers
    ids = torch.tensor([model.tokenizer(PROMPT)["input_ids"]])
    with torch.no_grad():
        cache = stock(input_ids=ids[:, :-1], use_cache=True).cache
        baseline = stock(input_ids=ids[:, -1:], cache=cache, use_cache=True).logits[0, -1]
    result = steps[0].variants[0]
    assert result.patches is not None
    _, patched = without_context(
        written_copy(stock, result.patches), layers, steps[0].kept_ids, steps[0].kept_positions
    )
    assert result.tvd == pytest.approx(tvd(baseline, patched), rel=1e-9)
    assert result.logit_linf == float((baseline.double() - patched.double()).abs().max())
    assert result.match == (int(baseline.argmax()) == int(patched.argmax()))


def test_flush_measures_what_waits(model: LoadedModel) -> None:
    running = stream(model, PROMPT, RunSettings(max_new_tokens=20))
    events = list(islice(running, 8))
    last = max(e.step for e in events if isinstance(e, Reference) and e.unpatched_tvd is not None)
    steps = [e.index for e in events if isinstance(e, Step)]
    flushed = [r.step for r in running.flush() if r.unpatched_tvd is not None]
    assert flushed == list(range(last + 1, steps[-1] + 1))
    assert running.flush() == []


def test_running_out_of_memory_keeps_the_steps_and_the_next_run_works(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = stream(model, PROMPT, RunSettings(max_new_tokens=20))
    first = next(running)
    assert isinstance(first, Step)
    with monkeypatch.context() as patch:

        def exhausted(*args: object, **kwargs: object) -> None:
            raise torch.OutOfMemoryError("no memory")

        patch.setattr(model.in_dtype("float32"), "forward", exhausted)
        with pytest.raises(OutOfMemoryError, match="kept"):
            list(running)
    assert not any(m._forward_hooks for m in model.in_dtype("float32").modules())
    assert len([e for e in stream(model, PROMPT, RunSettings(max_new_tokens=2)) if isinstance(e, Step)]) == 2


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        ("", "empty"),
        (" \n\t ", "empty"),
        ("a\0b", "NUL"),
        ("dust \ud800 sky", "surrogate"),
        ("<bos><bos>", "special"),
        ("dust " * 4000, "window"),
        ("x" * 10_000_000, "window"),
    ],
)
def test_unusable_prompts(model: LoadedModel, prompt: str, words: str) -> None:
    with pytest.raises(PromptError, match=words) as caught:
        stream(model, prompt, RunSettings())
    assert len(str(caught.value)) < 300
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (RunSettings(fold=Fold("span", 2, 5000)), "past the prompt"),
        (RunSettings(first_layer=99), "first patched layer"),
        (RunSettings(fold=Fold("image")), "text only"),
    ],
)
def test_settings_that_do_not_fit_the_prompt_or_model(
    model: LoadedModel, settings: RunSettings, words: str
) -> None:
    with pytest.raises(SettingsError, match=words):
        stream(model, PROMPT, settings)


def test_folding_only_the_query_folds_nothing(model: LoadedModel) -> None:
    length = len(model.tokenizer(PROMPT)["input_ids"])
    with pytest.raises(SettingsError, match="folds nothing"):
        stream(model, PROMPT, RunSettings(fold=Fold("span", length - 1, length)))


@pytest.mark.parametrize("text", ["5:5", "6:2", ":3", "a:b", "", "1:2:3", "-1:4", "all "])
def test_folds_that_are_not_understood(text: str) -> None:
    with pytest.raises(CtxvizError):
        Fold.parse(text)


@pytest.mark.parametrize(
    ("fold", "kept"),
    [
        ("all", (6,)),
        ("all-but-bos", (0, 6)),
        ("2:4", (0, 1, 4, 5, 6)),
        ("0:7", (6,)),
        ("4:7", (0, 1, 2, 3, 6)),
    ],
)
def test_kept_positions(fold: str, kept: tuple[int, ...]) -> None:
    parsed = Fold.parse(fold)
    assert parsed.kept(7) == kept
    assert sorted({*kept, *parsed.folded(7)}) == list(range(7))


def test_a_tie_is_a_mismatch_inside_the_floor_of_its_own_step(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every step is made a mismatch; the floor and the baseline's margin are given."""
    floor, measured = 0.5, []

    def given_floor(_: object, wider: object, step: int, dtype: str, *rest: object) -> Reference:
        measured.append(step)
        return Reference(step, dtype, noise_floor_tvd=0.0, noise_floor_linf=floor)

    def ties(margin: float) -> list[bool]:
        measured.clear()
        with monkeypatch.context() as patch:
            compare = distances.compare
            patch.setattr("ctxviz.engine.streaming.error_budget", given_floor)
            patch.setattr("ctxviz.numerics.distances.margin", lambda _: margin)
            patch.setattr(
                "ctxviz.numerics.distances.compare", lambda p, q: replace(compare(p, q), match=False)
            )
            run, _ = run_of(model, RunSettings(max_new_tokens=6))
        return [bool(t) for t in run.series("tie", 0)]

    assert ties(0.49) == [True] * 6
    assert measured == list(range(6)), "near the floor it is measured at the step itself"
    assert ties(0.51) == [False] * 6
    assert ties(100.0) == [False] * 6
    assert measured == [0, 1, 2, 4], "far from it the schedule is enough"


def test_a_floor_measured_on_the_spot_leaves_those_of_other_dtypes_alone(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """bfloat16 differs at every step, so its floor is measured before the history has its next token."""
    settings = RunSettings(dtypes=("float32", "bfloat16"), max_new_tokens=5, budget=True)
    plain, _ = run_of(model, settings)
    made = Stream._variant

    def differing(self: Stream, variant: Variant, *rest: Any) -> VariantStep:
        result = made(self, variant, *rest)
        if variant.dtype == "bfloat16":
            self._is_tie(variant.dtype, 0.0)
        return result

    with monkeypatch.context() as patch:
        patch.setattr(Stream, "_variant", differing)
        noisy, _ = run_of(model, settings)
    for name in ("noise_floor_tvd", "eager_tvd", "float64_tvd", "ulp_tvd"):
        for dtype in settings.dtypes:
            kept = np.isfinite(plain.reference(name, dtype))
            assert kept.any()
            assert np.array_equal(noisy.reference(name, dtype)[kept], plain.reference(name, dtype)[kept])


def test_a_model_that_overflows_says_so_and_another_dtype_still_works(model: LoadedModel) -> None:
    half = model.in_dtype("float16")
    norm = half.get_submodule(model.architecture.layers)[0].post_attention_layernorm
    saved = norm.weight.detach().clone()
    with torch.no_grad():
        norm.weight.fill_(6e4)
    try:
        with pytest.raises(PrecisionError, match="float16"):
            list(stream(model, PROMPT, RunSettings(dtypes=("float16",))))
        settings = RunSettings(updates=UPDATE_RULES, dtypes=("float32", "float16"), max_new_tokens=3)
        run, _ = run_of(model, settings)
    finally:
        with torch.no_grad():
            norm.weight.copy_(saved)
    assert len(run) == 3
    for k, variant in enumerate(run.variants):
        assert bool(run.series("match", k).all()) == (variant.dtype == "float32")
        assert np.isfinite(run.series("tvd", k)).all() == (variant.dtype == "float32")
    for name in ("h_abs_min", "gate_ratio", "output_error", "multiplier"):
        values = run.field(name, len(run.variants) - 1)
        assert np.isinf(values).any(), "computed, and no number"
        assert not np.isnan(values).any(), "not measured"
