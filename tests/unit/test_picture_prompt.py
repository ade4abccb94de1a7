"""Where a prompt's pictures go: as the stock processor puts them, or a sentence why they cannot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoProcessor

from ctxviz.engine import prepare, stream
from ctxviz.engine.picture_prompt import compose, find_images
from ctxviz.engine.prompt import tokenise
from ctxviz.errors import CtxvizError, ModelError, PictureError, PromptError, SettingsError
from ctxviz.folds import Fold, ImageSpan
from ctxviz.models import LoadedModel, load_model
from ctxviz.pictures import from_image
from ctxviz.records import Step
from ctxviz.settings import RunSettings
from tests.oracle.stock_pictures import IMAGE_ID, PLACE, noise_image
from tests.tiny_models import IMAGE_PIECES, save_tiny_folder, save_tiny_picture_folder

PICTURES = tuple(from_image(noise_image(k), f"{k}.png") for k in range(3))
BOS_ID = 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_picture_folder(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def model(folder: Path) -> LoadedModel:
    """Loaded anew for every test, since some take its template away; only weights would cost time."""
    return load_model(str(folder), dtypes=())


@pytest.fixture(scope="module")
def text_only(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return load_model(str(save_tiny_folder(tmp_path_factory.mktemp("text"))))


@pytest.fixture(scope="module")
def processor(folder: Path) -> Any:
    return AutoProcessor.from_pretrained(folder)


def image(index: int) -> dict[str, Any]:
    return {"type": "image", "image": PICTURES[index].image}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


TURNS = {
    "none": ("dust will fall", []),
    "first": ("dust will fall", [image(0), text("dust will fall")]),
    "three first": ("dust", [image(0), image(1), image(2), text("dust")]),
    "middle": (f"a hill {PLACE} of dust", [text("a hill "), image(0), text(" of dust")]),
    "last": (f"a hill {PLACE}", [text("a hill "), image(0)]),
    "side by side": (f"{PLACE}{PLACE} b", [image(0), image(1), text(" b")]),
    "only a picture": (f" {PLACE} ", [image(0)]),
    "apart": (f"{PLACE} a {PLACE} b\n{PLACE}", [image(0), text(" a "), image(1), text(" b\n"), image(2)]),
    "hostile": ("{{ 1/0 }} {% x %} </s> é \\n", [image(0), text("{{ 1/0 }} {% x %} </s> é \\n")]),
}


@pytest.mark.parametrize("name", TURNS)
def test_ids_are_those_of_the_stock_processor(model: LoadedModel, processor: Any, name: str) -> None:
    prompt, content = TURNS[name]
    count = sum(part["type"] == "image" for part in content)
    read = processor.apply_chat_template(
        [{"role": "user", "content": content or [text(prompt)]}],
        tokenize=True,
        return_dict=True,
        return_tensors="pt",
        add_generation_prompt=True,
    )
    context = prepare(model, prompt, RunSettings(), PICTURES[:count])
    assert list(context.token_ids) == read["input_ids"][0].tolist()
    assert context.token_ids.count(BOS_ID) == 1
    assert context.token_ids[0] == BOS_ID
    types = [int(any(p in span.tokens for span in context.images)) for p in range(len(context.token_ids))]
    assert types == (read["token_type_ids"][0].tolist() if count else [0] * len(types))
    assert len(context.images) == count
    for span in context.images:
        ids = context.token_ids[span.start : span.end]
        assert ids == (IMAGE_ID - 2, *[IMAGE_ID] * 4, IMAGE_ID - 1)
    assert context.image_sha256 == tuple(p.sha256 for p in PICTURES[:count])


@pytest.mark.parametrize("template", [True, False])
@pytest.mark.parametrize(
    ("prompt", "plain"),
    [
        ("<bos>dust will", f"{PLACE}dust will"),
        (f"<bos>a {PLACE} b", f"a {PLACE} b"),
        (f"<bos>{PLACE}", PLACE),
    ],
)
def test_a_prompt_with_its_bos_gets_no_template(
    model: LoadedModel, processor: Any, prompt: str, plain: str, template: bool
) -> None:
    if not template:
        model.processor.chat_template = None
    # The tokenizer writes the BOS itself.
    wanted = processor(text=plain, images=[PICTURES[0].image])["input_ids"][0]
    assert list(tokenise(model, prompt, 1)) == list(wanted)
    assert list(wanted).count(BOS_ID) == 1


@pytest.mark.parametrize(
    ("prompt", "plain"), [("dust will", f"{PLACE}dust will"), (f"a {PLACE} b", f"a {PLACE} b")]
)
def test_a_model_without_a_template(model: LoadedModel, processor: Any, prompt: str, plain: str) -> None:
    model.processor.chat_template = None
    wanted = processor(text=plain, images=[PICTURES[0].image])["input_ids"][0]
    assert list(tokenise(model, prompt, 1)) == list(wanted)
    assert list(wanted).count(BOS_ID) == 1
    words = tokenise(model, "dust will")
    assert list(words) == processor.tokenizer("dust will")["input_ids"]


def test_a_text_only_model_reads_its_prompt_as_ever(text_only: LoadedModel) -> None:
    for prompt in ("dust will", f"dust {PLACE} will", "dust <image_soft_token>"):
        assert list(tokenise(text_only, prompt)) == text_only.tokenizer(prompt)["input_ids"]
    assert prepare(text_only, f"a {PLACE}", RunSettings()).images == ()


def refused(error: type[CtxvizError], model: LoadedModel, prompt: str, count: int, **settings: Any) -> str:
    with pytest.raises(error) as caught:
        stream(model, prompt, RunSettings(**settings), pictures=PICTURES[:count])
    said = str(caught.value)
    assert type(caught.value) is error
    assert "\n" not in said
    assert said.endswith(".")
    assert len(said) < 300
    return said


@pytest.mark.parametrize("count", [0, 1])
@pytest.mark.parametrize("piece", [p for p in IMAGE_PIECES if p != PLACE])
@pytest.mark.parametrize("prompt", ["dust {} will", "{}", f"{PLACE} {{}}", "<bos>{} a"])
def test_image_tokens_typed_by_hand(model: LoadedModel, prompt: str, piece: str, count: int) -> None:
    said = refused(PromptError, model, prompt.format(piece), count)
    assert f"holds {piece}" in said
    assert f"write {PLACE} where a picture belongs" in said


@pytest.mark.parametrize(
    ("prompt", "count", "places", "given"),
    [
        (f"a {PLACE} b", 0, "1 place for", "0 pictures are given"),
        (f"<bos>a {PLACE} b", 0, "1 place for", "0 pictures are given"),
        (f"a {PLACE} b", 2, "1 place for", "2 pictures are given"),
        (f"a {PLACE}{PLACE} b", 1, "2 places for", "1 picture is given"),
        (f"{PLACE}{PLACE}{PLACE}{PLACE} b", 3, "4 places for", "3 pictures are given"),
    ],
)
def test_places_and_pictures_that_disagree(
    model: LoadedModel, prompt: str, count: int, places: str, given: str
) -> None:
    said = refused(PromptError, model, prompt, count)
    assert places in said
    assert given in said


@pytest.mark.parametrize("prompt", ["what is it", f"a {PLACE} b"])
def test_a_picture_for_a_model_that_reads_text_only(text_only: LoadedModel, prompt: str) -> None:
    said = refused(PictureError, text_only, prompt, 1)
    assert "reads text only" in said
    assert "tiny-shapes" in said
    run = list(stream(text_only, "what is it", RunSettings(max_new_tokens=1)))
    assert isinstance(run[0], Step), "the next run works"


@pytest.mark.parametrize("prompt", ["", "  \n"])
def test_a_picture_without_words_needs_its_place(model: LoadedModel, prompt: str) -> None:
    assert "empty" in refused(PromptError, model, prompt, 1)
    assert len(prepare(model, PLACE, RunSettings(), PICTURES[:1]).images) == 1


@pytest.mark.parametrize("fold", ["image", "image:1", "text"])
def test_folds_of_pictures_where_there_are_none(
    model: LoadedModel, text_only: LoadedModel, fold: str
) -> None:
    said = refused(SettingsError, model, "what is it", 0, fold=Fold.parse(fold))
    assert "The prompt has no picture" in said
    assert f"the fold {fold} has no meaning" in said
    said = refused(SettingsError, text_only, "what is it", 0, fold=Fold.parse(fold))
    assert "This model reads text only" in said


def test_a_fold_of_a_picture_that_is_not_there(model: LoadedModel) -> None:
    said = refused(SettingsError, model, "what is it", 2, fold=Fold("image", number=3))
    assert "names picture 3, but the prompt has 2" in said
    assert "image:1 to image:2" in said
    said = refused(SettingsError, model, "what is it", 1, fold=Fold("image", number=2))
    assert said.endswith("the prompt has 1; choose image:1.")
    fold = Fold("image", number=2)
    context = prepare(model, "what is it", RunSettings(fold=fold), PICTURES[:2])
    assert context.folded(99) == tuple(range(context.images[1].start, context.images[1].end))


def test_pictures_that_do_not_fit_the_window(model: LoadedModel) -> None:
    room = model.window - len(tokenise(model, "what", 3))
    prepare(model, "what", RunSettings(max_new_tokens=room), PICTURES)
    said = refused(PromptError, model, "what", 3, max_new_tokens=room + 1)
    assert f"at most {room} new tokens" in said


def test_spans_are_found_in_ids(model: LoadedModel) -> None:
    boi, eoi, tile = IMAGE_ID - 2, IMAGE_ID - 1, IMAGE_ID
    picture = (boi, *[tile] * 4, eoi)
    ids = (BOS_ID, *picture, 9, *picture, *picture, 8)
    assert find_images(model, ids, 3) == (ImageSpan(1, 7), ImageSpan(8, 14), ImageSpan(14, 20))


@pytest.mark.parametrize("ids", [(9,), (IMAGE_ID - 2, IMAGE_ID, IMAGE_ID, IMAGE_ID - 1, 9)])
def test_a_picture_without_a_whole_place_of_its_own_is_told(model: LoadedModel, ids: tuple[int, ...]) -> None:
    with pytest.raises(ModelError, match="no place of its own"):
        find_images(model, (BOS_ID, *ids), 1)


@pytest.mark.parametrize("template", ["{{ raise_exception('no') }}", "{% if %}"])
def test_a_template_that_fails_is_told(model: LoadedModel, template: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(model.processor, "chat_template", template)
    with pytest.raises(ModelError, match="chat template cannot be used"):
        compose(model, "the", 1)


def test_the_models_read_the_pieces_that_the_prompt_is_shown_by(model: LoadedModel) -> None:
    context = prepare(model, "what", RunSettings(), PICTURES[:1])
    span = context.images[0]
    assert context.token_texts[span.start : span.end] == (
        IMAGE_PIECES[0],
        *[IMAGE_PIECES[2]] * 4,
        IMAGE_PIECES[1],
    )
    assert context.prompt == "what", "as it was typed"
    assert np.isin(torch.tensor(context.token_ids), model.image_id).sum() == 4
