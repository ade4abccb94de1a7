"""What the unpatched model writes without the context, against a stock model's own greedy loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from transformers import AutoModelForCausalLM, Gemma3Config, Gemma3ForConditionalGeneration

from ctxviz.engine import MOST_WITHOUT, stream, without_context
from ctxviz.errors import PrecisionError, SettingsError
from ctxviz.folds import Fold
from ctxviz.models import LoadedModel, load_model
from ctxviz.pictures import from_image
from ctxviz.records import Step, WithoutContext
from ctxviz.run import Run
from ctxviz.settings import RunSettings
from ctxviz.store import load_run
from tests.oracle.stock import without_context as stock_pass
from tests.oracle.stock_pictures import SHAPES, Stock, noise_image, save_shape
from tests.tiny_models import randomise, save_tiny_folder, tiny_gemma3

PROMPT = "the robot on mars says that dust will fall from the sky"
SHAPE = "4 tokens"
PICTURES = tuple(from_image(noise_image(k), f"{k}.png") for k in (1, 2))
FOLDS = ("all", "all-but-bos", "2:6")
PICTURE_FOLDS = ("all", "text", "image:1", "3:5")


UNTIED: dict[str, Any] = {"tie_word_embeddings": False}
"""A random model whose two embeddings are tied repeats its last token for ever, whatever it was given."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_folder(tmp_path_factory.mktemp("tiny"), tiny_gemma3(seed=5, **UNTIED))


@pytest.fixture(scope="module")
def picture_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = save_shape(tmp_path_factory.mktemp("tiny"), SHAPES[SHAPE])
    config: Any = Gemma3Config.from_pretrained(path)
    config.tie_word_embeddings = config.text_config.tie_word_embeddings = False
    model = Gemma3ForConditionalGeneration(config)
    randomise(model, seed=3)
    model.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def model(folder: Path) -> LoadedModel:
    return load_model(str(folder), dtypes=("float32", "bfloat16"))


@pytest.fixture(scope="module")
def stock(folder: Path) -> Any:
    """Loaded on its own, its parameters taken out of the mapped file, whose addresses change rounding."""
    found = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    for parameter in found.parameters():
        parameter.data = parameter.data.clone()
    return found


def made(model: LoadedModel, fold: str = "all", tokens: int = 5, **how: Any) -> Run:
    settings = RunSettings(("direct",), fold=Fold.parse(fold), max_new_tokens=tokens)
    source = stream(model, how.pop("prompt", PROMPT), replace(settings, **how.pop("settings", {})), **how)
    run = Run(source.identity, source.context, source._settings, source.pictures)
    for record in source:
        run.append(record) if isinstance(record, Step) else run.refer(record)
    return run


def told(model: LoadedModel, run: Run) -> WithoutContext:
    *_, last = without_context(model, run)
    return last


def greedy(stock: Any, layers: str, ids: Sequence[int], positions: Sequence[int], count: int) -> list[int]:
    """The stock model's own tokens, each from a plain pass over all that it has."""
    ids, positions, written = list(ids), list(positions), []
    for _ in range(count):
        written.append(int(stock_pass(stock, layers, ids, positions)[1].argmax()))
        ids.append(written[-1])
        positions.append(positions[-1] + 1)
    return written


@pytest.mark.parametrize("fold", FOLDS)
def test_it_is_what_a_stock_model_writes_from_the_kept_tokens(
    model: LoadedModel, stock: Any, fold: str
) -> None:
    run = made(model, fold)
    found = told(model, run)
    ids = run.context.token_ids
    removed = {"all": range(len(ids) - 1), "all-but-bos": range(1, len(ids) - 1), "2:6": range(2, 6)}[fold]
    kept = [p for p in range(len(ids)) if p not in removed]
    layers = model.architecture.layers
    assert list(found.ids) == greedy(stock, layers, [ids[p] for p in kept], kept, 5)
    assert (found.dtype, found.ended) == ("float32", False)
    assert found.texts == tuple(model.piece(i) for i in found.ids)
    # The control: the same loop with the context writes the run's tokens, which are others.
    with_context = greedy(stock, layers, ids, range(len(ids)), 5)
    assert with_context == [run.token(k)[3] for k in range(5)]
    assert with_context != list(found.ids)


@pytest.mark.parametrize("fold", PICTURE_FOLDS)
def test_pictures_that_are_kept_stay_in_its_input(picture_folder: Path, fold: str) -> None:
    model, stock = load_model(str(picture_folder)), Stock(picture_folder, "float32")
    run = made(model, fold, 4, prompt="what is on the hill", pictures=PICTURES)
    found = told(model, run)
    history, images = run.context.token_ids, [picture.image for picture in PICTURES]
    kept = run.context.kept(len(history))

    def written(images: list[Image.Image]) -> list[int]:
        ids, positions = [history[p] for p in kept], list(kept)
        for _ in range(4):
            whole = [*history, *ids[len(kept) :]]
            logits = stock.on_kept(stock.model, ids, positions, whole, images)[1]
            ids.append(int(logits.argmax()))
            positions.append(positions[-1] + 1)
        return ids[len(kept) :]

    assert list(found.ids) == written(images)
    # The controls: with the context, and where both pictures are kept with one in the other's place.
    assert list(found.ids) != [run.token(k)[3] for k in range(4)]
    assert fold != "text" or list(found.ids) != written(images[::-1])


def test_a_text_begun_is_gone_on_with_and_never_longer_than_the_run(model: LoadedModel) -> None:
    long = made(model, tokens=MOST_WITHOUT + 3)
    whole = list(without_context(model, long))
    assert [len(one.ids) for one in whole] == list(range(1, MOST_WITHOUT + 1))
    short = made(model, tokens=3)
    short.without_context = told(model, short)
    assert short.without_context == whole[2]
    assert list(without_context(model, short)) == []
    long.without_context = whole[2]
    assert list(without_context(model, long)) == whole[3:]


def test_an_end_of_text_ends_it(model: LoadedModel, tmp_path: Path) -> None:
    written = told(model, made(model)).ids
    end = next(k for k, token in enumerate(written) if token not in written[:k] and k)
    ending = load_model(
        str(save_tiny_folder(tmp_path, tiny_gemma3(seed=5, eos_token_id=written[end], **UNTIED)))
    )
    run = made(ending)
    found = told(ending, run)
    assert (found.ids, found.ended) == (written[: end + 1], True)
    run.without_context = found
    assert list(without_context(ending, run)) == []


def test_the_recorded_run_of_tiny_shapes_tells_what_its_model_writes() -> None:
    run = load_run(Path(__file__).parents[2] / "assets" / "figure5-tiny-shapes.ctxviz")
    recorded, run.without_context = run.without_context, None
    assert told(load_model("tiny-shapes", dtypes=("float32",)), run) == recorded


def test_logits_that_are_no_numbers_and_another_model_are_refused(
    model: LoadedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = made(model)
    other = load_model(str(save_tiny_folder(tmp_path / "other", tiny_gemma3(num_hidden_layers=3))))
    with pytest.raises(SettingsError, match="other weights"):
        next(without_context(other, run))
    bad = load_model(str(save_tiny_folder(tmp_path / "tiny")))
    for parameter in bad.in_dtype("float32").parameters():
        parameter.data = torch.full_like(parameter, float("nan"))
    run.model = bad.identity_in(run.dtypes)
    with pytest.raises(PrecisionError, match="Without the context the model's logits are not numbers"):
        next(without_context(bad, run))
