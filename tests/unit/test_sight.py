"""What the engine tells a stock model of its pictures: rows and token types, and the tower run once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoProcessor

from ctxviz.engine import stream
from ctxviz.engine.anatomy import Anatomy, anatomy_of
from ctxviz.engine.prompt import look, prepare
from ctxviz.engine.sight import BLIND, Sight
from ctxviz.folds import Fold
from ctxviz.models import LoadedModel, load_model
from ctxviz.pictures import from_image
from ctxviz.records import Step
from ctxviz.settings import RunSettings
from tests.oracle.stock_pictures import PLACE, noise_image
from tests.tiny_models import save_tiny_picture_folder

PICTURES = tuple(from_image(noise_image(k), f"{k}.png") for k in (1, 2))
PROMPT = f"a {PLACE} b {PLACE} c"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_picture_folder(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def model(folder: Path) -> LoadedModel:
    return load_model(str(folder), dtypes=("float64", "float32"))


def anatomy(model: LoadedModel, dtype: str = "float32") -> Anatomy:
    return anatomy_of(model.in_dtype(dtype), model.architecture)


@pytest.fixture
def towers(model: LoadedModel) -> Any:
    """Calls of each dtype's tower so far."""
    calls: dict[str, int] = {}
    handles = []

    def counting(dtype: str) -> Callable[..., None]:
        def count(*_: Any) -> None:
            calls[dtype] = calls.get(dtype, 0) + 1

        return count

    for dtype in ("float64", "float32"):
        tower = model.in_dtype(dtype).model.vision_tower
        handles.append(tower.register_forward_hook(counting(dtype)))
    yield calls
    for handle in handles:
        handle.remove()


def sight_of(model: LoadedModel) -> tuple[Sight, Any]:
    context = prepare(model, PROMPT, RunSettings(), PICTURES)
    return look(model, PICTURES, context), context


def rows_of(model: LoadedModel, dtype: str = "float32") -> torch.Tensor:
    """[8, d]: the two pictures' image tokens, through the stock model."""
    stock = model.in_dtype(dtype)
    pixels = model.processor.image_processor(images=[p.image for p in PICTURES], return_tensors="pt")
    with torch.no_grad():
        found = stock.get_image_features(pixels["pixel_values"].to(stock.dtype), return_dict=True)
    return found.pooler_output.reshape(8, -1)


def test_without_pictures_there_is_nothing_to_say(model: LoadedModel, towers: dict[str, int]) -> None:
    context = prepare(model, "dust will", RunSettings())
    for sight in (BLIND, look(model, (), context)):
        assert sight.end == 0
        assert sight.arguments(anatomy(model), [range(9)]) == {}
    assert towers == {}


def test_the_whole_context_has_all_rows_and_the_types_of_the_stock_processor(
    model: LoadedModel, folder: Path
) -> None:
    sight, context = sight_of(model)
    assert sight.end == context.images[1].end - 1
    given = sight.arguments(anatomy(model), [range(len(context.token_ids))])
    assert set(given) == {"token_type_ids", "mm_encoder_outputs"}
    stock = AutoProcessor.from_pretrained(folder)
    read = stock(
        text=stock.tokenizer.decode(context.token_ids)
        .replace(stock.full_image_sequence, PLACE)
        .removeprefix("<bos>"),
        images=[p.image for p in PICTURES],
        return_tensors="pt",
    )
    assert read["input_ids"][0].tolist() == list(context.token_ids)
    assert torch.equal(given["token_type_ids"], read["token_type_ids"])
    assert torch.equal(given["mm_encoder_outputs"]["image"].pooler_output[0], rows_of(model))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_kept_tokens_have_their_own_rows_in_every_row_of_a_batch(model: LoadedModel, dtype: str) -> None:
    sight, context = sight_of(model)
    first, second = (span.tokens for span in context.images)
    kept = (0, first[1], first[3], context.images[0].end, second[2], len(context.token_ids) - 1)
    other = (0, 1, second[0], second[1], second[3], len(context.token_ids) - 1)
    given = sight.arguments(anatomy(model, dtype), [kept, other, kept])
    assert given["token_type_ids"].tolist() == [[0, 1, 1, 0, 1, 0], [0, 0, 1, 1, 1, 0], [0, 1, 1, 0, 1, 0]]
    rows = given["mm_encoder_outputs"]["image"].pooler_output
    wanted = [1, 3, 6, 4, 5, 7, 1, 3, 6]
    assert rows.dtype == getattr(torch, dtype)
    assert torch.equal(rows[0], rows_of(model, dtype)[wanted])
    assert not torch.equal(rows[0], rows_of(model, dtype)[wanted[::-1]])


def test_text_alone_needs_neither_types_nor_the_tower(model: LoadedModel, towers: dict[str, int]) -> None:
    sight, context = sight_of(model)
    span = context.images[0]
    text = (0, span.start, span.end - 1, len(context.token_ids) - 1, 500)
    assert sight.arguments(anatomy(model), [text, text]) == {}
    assert towers == {}
    given = sight.arguments(anatomy(model), [text, (0, span.start + 1, 2, 3, 500)])
    assert given["token_type_ids"][0].tolist() == [0] * 5
    assert towers == {"float32": 1}


def test_the_pictures_are_those_of_the_stock_image_processor(model: LoadedModel, folder: Path) -> None:
    sight, _ = sight_of(model)
    stock = AutoProcessor.from_pretrained(folder).image_processor
    read = stock(images=[p.image for p in PICTURES], return_tensors="pt")["pixel_values"]
    assert torch.equal(sight._pixels, read)  # type: ignore[arg-type]
    assert not torch.equal(read[0], read[1])


def test_a_wide_picture_is_taken_whole(folder: Path) -> None:
    """Pan and scan, which would cut it up into more pictures than the prompt has places for, stays off."""
    model = load_model(str(folder), dtypes=())
    wide = from_image(noise_image(3, (640, 160)), "wide.png")
    scan = model.processor.image_processor
    context = prepare(model, "what", RunSettings(), (wide,))
    plain = scan(images=[wide.image], return_tensors="pt")["pixel_values"]
    scan.do_pan_and_scan, scan.pan_and_scan_min_crop_size = True, 16
    scan.pan_and_scan_max_num_crops, scan.pan_and_scan_min_ratio_to_activate = 4, 1.2
    assert len(scan(images=[wide.image], return_tensors="pt")["pixel_values"]) > 1, "it would"
    assert torch.equal(look(model, (wide,), context)._pixels, plain)  # type: ignore[arg-type]


@pytest.mark.parametrize("fold", ["all", "text", "image:1"])
def test_the_tower_runs_once_for_a_dtype_and_run(
    model: LoadedModel, towers: dict[str, int], fold: str
) -> None:
    settings = RunSettings(
        ("stable", "direct"),
        ("written", "factored"),
        ("float64", "float32"),
        fold=Fold.parse(fold),
        replays=("same", "batch", "ulp"),
        budget=True,
        hold=0,
        max_new_tokens=4,
    )
    events = list(stream(model, PROMPT, settings, pictures=PICTURES))
    assert sum(isinstance(event, Step) for event in events) == 4
    assert towers == {"float64": 1, "float32": 1}
    list(stream(model, PROMPT, RunSettings(max_new_tokens=2), pictures=PICTURES))
    assert towers == {"float64": 1, "float32": 2}
    list(stream(model, "dust will fall", RunSettings(max_new_tokens=2)))
    assert towers == {"float64": 1, "float32": 2}
