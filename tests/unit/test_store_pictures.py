"""Bundles of runs with pictures: kept where asked for, read back as they were, and never trusted."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from ctxviz.errors import BundleError
from ctxviz.folds import Context, Fold, ImageSpan
from ctxviz.pictures import MAX_BYTES, Picture, from_image
from ctxviz.records import Step
from ctxviz.run import Run
from ctxviz.shapes.recognition import scene_of, scene_picture
from ctxviz.shapes.scenes import Scene, Thing
from ctxviz.shapes.writing import write
from ctxviz.store import check_pictures, load_run, stored_pictures
from tests.bundles import PARTS, differences, packed, parts_of, saved
from tests.synthetic import synthetic_identity, synthetic_items, synthetic_run

ASSETS = Path(__file__).parents[2] / "assets"
SPANS = (ImageSpan(1, 7), ImageSpan(8, 14))


def picture(colour: str, size: tuple[int, int] = (6, 4)) -> Picture:
    return from_image(Image.new("RGB", size, colour), f"{colour}.png")


PICTURES = (picture("red"), picture("blue"))


def with_pictures(ids: Iterable[int], spans: Sequence[ImageSpan]) -> tuple[int, ...]:
    """``ids`` with the tokens that pictures are made of in these places: 101, 103 as often as needed, 102."""
    found = list(ids)
    for span in spans:
        found[span.start : span.end] = [101, *[103] * len(span.tokens), 102]
    return tuple(found)


def run_of(pictures: tuple[Picture, ...] = PICTURES, hashes: tuple[str, ...] | None = None) -> Run:
    """Two steps of a prompt with two pictures, or as many as there are hashes; the last one is folded."""
    hashes = tuple(p.sha256 for p in PICTURES) if hashes is None else hashes
    fold = Fold.parse(f"image:{len(hashes)}")
    spans = SPANS[: len(hashes)]
    ids = with_pictures(range(16), spans)
    context = Context("say", ids, tuple(f"t{i}" for i in ids), fold, hashes, spans)
    settings = synthetic_run(2, 8, 2, fold=fold).settings
    run = Run(synthetic_identity(2, 8), context, settings, pictures)
    for item in synthetic_items(run, 2):
        run.append(item) if isinstance(item, Step) else run.refer(item)
    return run


@pytest.fixture(scope="module")
def parts() -> dict[str, bytes]:
    return parts_of(saved(run_of(), pictures=True))


def test_pictures_come_back_as_they_were_given(parts: dict[str, bytes]) -> None:
    assert list(parts) == [*PARTS, "images/0", "images/1"]
    assert [parts[f"images/{i}"] for i in range(2)] == [p.data for p in PICTURES]
    back = load_run(packed(parts))
    assert differences(back, run_of()) == []
    assert back.context.images == SPANS
    for ours, theirs in zip(back.pictures, PICTURES, strict=True):
        assert (ours.sha256, ours.data) == (theirs.sha256, theirs.data)
        np.testing.assert_array_equal(np.asarray(ours.image), np.asarray(theirs.image))
    assert saved(back, pictures=True) == saved(run_of(), pictures=True)


def test_pictures_are_left_out_unless_wanted() -> None:
    parts = parts_of(saved(run_of()))
    assert list(parts) == list(PARTS)
    assert all(p.data not in saved(run_of()) for p in PICTURES)
    back = load_run(packed(parts))
    assert back.pictures == ()
    assert back.context.image_sha256 == tuple(p.sha256 for p in PICTURES)
    assert list(parts_of(saved(synthetic_run(2, 8, 1), pictures=True))) == list(PARTS)


@pytest.mark.parametrize("missing", [("images/0",), ("images/1",), ("images/0", "images/1")])
def test_missing_pictures_leave_the_run_without_any(
    parts: dict[str, bytes], missing: tuple[str, ...]
) -> None:
    back = load_run(packed({name: data for name, data in parts.items() if name not in missing}))
    assert back.pictures == ()
    assert differences(back, run_of()) == []


def test_other_entries_beside_the_pictures_do_not_matter(parts: dict[str, bytes]) -> None:
    others = dict.fromkeys(
        ("images/", "images/00", "images/0.png", "images/-1", "IMAGES/2", "images/²"), b"x"
    )
    assert [p.sha256 for p in load_run(packed(parts | others)).pictures] == [p.sha256 for p in PICTURES]


HOSTILE: dict[str, tuple[dict[str, bytes], str]] = {
    "cut short": ({"images/1": PICTURES[1].data[:-20]}, "picture 2 is another"),
    "empty": ({"images/0": b""}, "picture 1 is another"),
    "exchanged": ({"images/0": PICTURES[1].data, "images/1": PICTURES[0].data}, "picture 1 is another"),
    "one more": ({"images/2": PICTURES[0].data}, "more pictures than its prompt"),
    "far off": ({"images/99999": PICTURES[0].data}, "more pictures than its prompt"),
    "huge": ({"images/1": bytes(range(256)) * (MAX_BYTES // 256 + 1)}, "images/1 is larger than"),
}


@pytest.mark.parametrize(("changes", "words"), HOSTILE.values(), ids=HOSTILE)
def test_pictures_that_are_not_the_prompts_are_refused(
    parts: dict[str, bytes], changes: dict[str, bytes], words: str
) -> None:
    with pytest.raises(BundleError, match=words):
        load_run(packed(parts | changes))


@pytest.mark.parametrize("data", [b"", b"\x89PNG\r\n\x1a\n", b"hello", PICTURES[0].data[:45]])
def test_a_file_that_is_no_picture_is_refused_even_with_its_own_hash(data: bytes) -> None:
    hashes = (PICTURES[0].sha256, hashlib.sha256(data).hexdigest())
    bundle = parts_of(saved(run_of((), hashes))) | {"images/0": PICTURES[0].data, "images/1": data}
    with pytest.raises(BundleError, match="picture 2 cannot be decoded"):
        load_run(packed(bundle))


def test_a_run_of_text_holds_no_picture() -> None:
    bundle = parts_of(saved(synthetic_run(2, 8, 1))) | {"images/0": PICTURES[0].data}
    with pytest.raises(BundleError, match="more pictures than its prompt"):
        load_run(packed(bundle))


def test_pictures_that_are_many_or_large_are_refused_written_and_read(
    parts: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    pixels = sum(p.image.width * p.image.height for p in PICTURES)
    size = sum(len(p.data) for p in PICTURES)
    for name, value in (("PICTURES", 2), ("PICTURE_PIXELS", pixels), ("PICTURE_BYTES", size)):
        with monkeypatch.context() as patched:
            patched.setattr(stored_pictures, name, value)
            check_pictures(PICTURES)
            patched.setattr(stored_pictures, name, value - 1)
            with pytest.raises(BundleError, match="save it without them"):
                saved(run_of(), pictures=True)
            assert list(parts_of(saved(run_of()))) == list(PARTS)
            if name == "PICTURE_PIXELS":
                with pytest.raises(BundleError, match="pixels together"):
                    load_run(packed(parts))
    many = {f"images/{i}": b"x" for i in range(40)}
    with pytest.raises(BundleError, match="more than 32 pictures"):
        load_run(packed(parts | many))


def test_pictures_that_are_not_at_hand_cannot_be_saved() -> None:
    for pictures in ((), PICTURES[:1], PICTURES[::-1]):
        with pytest.raises(BundleError, match="not at hand"):
            saved(run_of(pictures), pictures=True)
        assert load_run(saved(run_of(pictures))).context == run_of().context


def described(parts: dict[str, bytes], change: Callable[[dict[str, Any]], Any]) -> bytes:
    run = json.loads(parts["run.json"])
    change(run["context"])
    return packed(parts | {"run.json": json.dumps(run).encode()})


PLACES: dict[str, tuple[object, str]] = {
    "text": ("1:7", "pair of positions"),
    "an object": ({"0": [1, 7]}, "pair of positions"),
    "a number": ([1, 7], "pair of positions"),
    "three numbers": ([[1, 7, 9], [8, 14]], "pair of positions"),
    "fractions": ([[1.0, 7.0], [8, 14]], "pair of positions"),
    "flags": ([[False, True], [8, 14]], "pair of positions"),
    "null": ([None, [8, 14]], "pair of positions"),
    "negative": ([[-1, 7], [8, 14]], "inside its prompt"),
    "overlapping": ([[1, 9], [8, 14]], "inside its prompt"),
    "out of order": ([[8, 14], [1, 7]], "inside its prompt"),
    "no image token": ([[1, 3], [8, 14]], "inside its prompt"),
    "backwards": ([[7, 1], [8, 14]], "inside its prompt"),
    "the query in it": ([[1, 7], [8, 16]], "inside its prompt"),
    "past the prompt": ([[1, 7], [8, 10**30]], "inside its prompt"),
    "one less": ([[1, 7]], "other numbers of pictures"),
    "none": ([], "other numbers of pictures"),
    "nothing": (None, "pair of positions"),
}


@pytest.mark.parametrize(("images", "words"), PLACES.values(), ids=PLACES)
def test_places_of_pictures_that_cannot_be_are_refused(
    parts: dict[str, bytes], images: object, words: str
) -> None:
    with pytest.raises(BundleError, match=words):
        load_run(described(parts, lambda context: context.update(images=images)))


INCOHERENT: dict[str, tuple[dict[int, int], str]] = {
    "another token in a picture": ({9: 5}, "other tokens than a picture's"),
    "pictures of different tokens": (dict.fromkeys(SPANS[1].tokens, 5), "other tokens than a picture's"),
    "another beginning": ({8: 5}, "other tokens than a picture's"),
    "another end": ({6: 5}, "other tokens than a picture's"),
    "an image token in the text": ({0: 103}, "outside the places"),
    "an image token as the query": ({15: 103}, "outside the places"),
    "an image token for every beginning": ({1: 103, 8: 103}, "outside the places"),
}


@pytest.mark.parametrize(("tokens", "words"), INCOHERENT.values(), ids=INCOHERENT)
def test_tokens_that_contradict_the_places_of_pictures_are_refused(
    parts: dict[str, bytes], tokens: dict[int, int], words: str
) -> None:
    def change(context: dict[str, Any]) -> None:
        for position, token in tokens.items():
            context["token_ids"][position] = token

    with pytest.raises(BundleError, match=words) as caught:
        load_run(described(parts, change))
    assert str(caught.value).endswith("use an intact .ctxviz file.")


def test_places_one_position_off_are_refused(parts: dict[str, bytes]) -> None:
    for images in ([[2, 8], [9, 15]], [[0, 6], [7, 13]], [[1, 6], [8, 14]]):
        with pytest.raises(BundleError, match=r"other tokens than a picture's|outside the places"):
            load_run(described(parts, lambda context, images=images: context.update(images=images)))


def test_the_shipped_runs_open() -> None:
    shipped = sorted(ASSETS.glob("*.ctxviz"))
    assert sum(len(load_run(path).context.images) > 0 for path in shipped) == 2


@pytest.mark.parametrize("fold", ["image:3", "image:9999"])
def test_a_fold_of_a_picture_that_is_not_there_is_refused(parts: dict[str, bytes], fold: str) -> None:
    with pytest.raises(BundleError, match="needs a picture that its prompt has not"):
        load_run(described(parts, lambda context: context.update(fold=fold)))
    assert load_run(described(parts, lambda context: context.update(fold="text"))).context.fold.kind == "text"


def test_a_bundle_of_before_pictures_opens() -> None:
    run = synthetic_run(2, 8, 2)
    back = load_run(described(parts_of(saved(run)), lambda context: context.pop("images")))
    assert differences(back, run) == []
    assert (back.context.images, back.pictures) == ((), ())


SCENE = Scene((Thing(0, "red", "circle"), Thing(4, "blue", "square")))
DRAWN = scene_picture(SCENE)


def with_scenes(texts: object, pictures: tuple[Picture, ...]) -> bytes:
    """A bundle with these pictures that says these scenes of them."""
    bundle = parts_of(saved(run_of(pictures, tuple(p.sha256 for p in pictures)), pictures=True))
    run = json.loads(bundle["run.json"]) | {"scenes": texts}
    return packed(bundle | {"run.json": json.dumps(run).encode()})


def test_a_drawn_picture_comes_back_as_its_scene() -> None:
    pictures = (PICTURES[0], DRAWN)
    run = run_of(pictures, tuple(p.sha256 for p in pictures))
    bundle = parts_of(saved(run, pictures=True))
    assert json.loads(bundle["run.json"])["scenes"] == [None, write(SCENE)]
    back = load_run(packed(bundle))
    assert [scene_of(p) for p in back.pictures] == [None, SCENE]
    assert [p.name for p in back.pictures] == ["", write(SCENE)]
    assert saved(back, pictures=True) == saved(run, pictures=True)


def test_scenes_are_told_only_with_their_pictures() -> None:
    run = run_of((DRAWN,), (DRAWN.sha256,))
    bundle = parts_of(saved(run))
    assert write(SCENE).encode() not in bundle["run.json"]
    assert "scenes" not in json.loads(parts_of(saved(run_of(), pictures=True))["run.json"])


def test_a_bundle_of_before_scenes_opens_and_its_drawing_is_a_file() -> None:
    bundle = parts_of(saved(run_of((DRAWN,), (DRAWN.sha256,)), pictures=True))
    run = json.loads(bundle["run.json"])
    del run["scenes"]
    (back,) = load_run(packed(bundle | {"run.json": json.dumps(run).encode()})).pictures
    assert (back.sha256, back.name) == (DRAWN.sha256, "")


def test_a_picture_that_is_not_the_scene_it_is_said_to_be_keeps_no_name() -> None:
    other = Scene((Thing(0, "green", "circle"),), "black")
    for text, pictures in ((write(SCENE), PICTURES[:1]), (write(other), (DRAWN,))):
        (back,) = load_run(with_scenes([text], pictures)).pictures
        assert (back.sha256, back.name) == (pictures[0].sha256, "")
    same = load_run(with_scenes([write(SCENE)], (DRAWN,))).pictures[0]
    assert same.name == write(SCENE)


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ([], "one for each picture"),
        ([None, None], "one for each picture"),
        ("red-circle-0.white", "one for each picture"),
        (None, "one for each picture"),
        ([{}], "has no meaning"),
        ([7], "has no meaning"),
        (["holiday.png"], "has no meaning"),
        (["red-circle-0.red-circle-0.white"], "has no meaning"),
        (["red-circle-0." * 10**3], "has no meaning"),
    ],
)
def test_scenes_that_cannot_be_are_refused(texts: object, words: str) -> None:
    with pytest.raises(BundleError, match=words):
        load_run(with_scenes(texts, (DRAWN,)))
