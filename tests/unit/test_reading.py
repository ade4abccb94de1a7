"""A long prompt is read part by part: how far is told, it can be left off, and the numbers are the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ctxviz.engine import context_pass, stream
from ctxviz.engine.reading import Reading
from ctxviz.errors import OutOfMemoryError
from ctxviz.models import LoadedModel, load_model
from ctxviz.pictures import from_image
from ctxviz.records import Step
from ctxviz.settings import RunSettings
from tests.oracle.stock_pictures import PLACE, noise_image
from tests.tiny_models import save_tiny_folder, save_tiny_picture_folder, tiny_gemma3, tiny_image_gemma3

CHUNK = context_pass.PREFILL_CHUNK
WINDOW: dict[str, Any] = {"max_position_embeddings": 4 * CHUNK, "num_hidden_layers": 2}
LONG = "x" * (3 * CHUNK)
"""A letter is a token, and BOS comes first: four parts, the last of them of one token less the query."""
SETTINGS = RunSettings(("direct",), dtypes=("float32", "bfloat16"), max_new_tokens=2)


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    folder = save_tiny_folder(tmp_path_factory.mktemp("models") / "long", tiny_gemma3(**WINDOW))
    return load_model(str(folder), dtypes=SETTINGS.dtypes)


@pytest.fixture
def passes(model: LoadedModel) -> Iterator[list[tuple[str, int]]]:
    """Dtype and length of every pass of the models so far."""
    seen: list[tuple[str, int]] = []

    def counting(dtype: str) -> Callable[..., None]:
        def count(_: Any, __: Any, given: dict[str, Any]) -> None:
            seen.append((dtype, given["input_ids"].shape[1]))

        return count

    handles = [
        model.in_dtype(dtype).register_forward_pre_hook(counting(dtype), with_kwargs=True)
        for dtype in SETTINGS.dtypes
    ]
    yield seen
    for handle in handles:
        handle.remove()


def test_every_part_is_one_pass_that_is_told_before_it_is_made(
    model: LoadedModel, passes: list[tuple[str, int]]
) -> None:
    run = stream(model, LONG + "xx", SETTINGS)
    counts = []
    for reading in run.reading:
        assert reading.total == 8
        assert len(passes) == reading.done
        counts.append(reading.done)
    assert counts == list(range(9))
    lengths = [CHUNK, CHUNK, CHUNK, 2]
    assert passes == [(dtype, n) for dtype in SETTINGS.ordered_dtypes for n in lengths]
    assert next(iter(run.reading), None) is None
    next(run)
    assert [n for _, n in passes[8:10]] == [1, 1], "the first step reads nothing again"


def test_words_and_share() -> None:
    assert Reading(3, 9).words == "reading the prompt, 3 of 9 parts"
    assert Reading(3, 9).share == pytest.approx(1 / 3)


def test_leaving_off_in_the_middle_costs_no_further_pass(
    model: LoadedModel, passes: list[tuple[str, int]]
) -> None:
    run = stream(model, LONG, SETTINGS)
    next(reading for reading in run.reading if reading.done == 2)
    assert len(passes) == 2
    assert run.flush() == []
    assert len(passes) == 2


@pytest.mark.parametrize("asked", [0, 1, 3, 99])
def test_the_numbers_are_the_same_wherever_a_reader_left_off_asking(model: LoadedModel, asked: int) -> None:
    def steps(asked: int) -> list[Step]:
        run = stream(model, LONG, SETTINGS)
        for _, _ in zip(range(asked), run.reading, strict=False):
            pass
        return [item for item in run if isinstance(item, Step)]

    for one, other in zip(steps(asked), steps(99), strict=True):
        assert one.next_token_id == other.next_token_id
        for a, b in zip(one.variants, other.variants, strict=True):
            assert (a.tvd, a.logit_linf, a.kl) == (b.tvd, b.logit_linf, b.kl)
            np.testing.assert_array_equal(a.layers.output_error, b.layers.output_error)


def test_a_short_prompt_says_nothing_and_its_reading_is_time_of_the_first_token(model: LoadedModel) -> None:
    run = stream(model, "the dust", SETTINGS)
    assert list(run.reading) == []
    long = stream(model, LONG, SETTINGS)
    seconds = long.reading.finish()
    first = next(long)
    assert isinstance(first, Step)
    assert first.seconds > seconds > 0


def test_everything_up_to_a_picture_is_one_part(tmp_path: Path) -> None:
    folder = save_tiny_picture_folder(tmp_path, tiny_image_gemma3(**WINDOW))
    seeing = load_model(str(folder))
    prompt = "x" * (CHUNK + 20) + PLACE + "y" * (CHUNK + 20)
    picture = from_image(noise_image(1), "a.png")
    run = stream(seeing, prompt, RunSettings(max_new_tokens=1), pictures=(picture,))
    assert [reading.total for reading in run.reading] == [3] * 4


def test_memory_that_runs_out_while_reading_is_said_in_a_sentence(
    model: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise MemoryError

    run = stream(model, LONG, SETTINGS)
    monkeypatch.setattr(context_pass.ContextPass, "read", full)
    with pytest.raises(OutOfMemoryError, match="shorter prompt"):
        list(run.reading)
