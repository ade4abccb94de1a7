"""Drawn scenes: what is said of them is true, one scene gives one picture, and text brings it back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctxviz.shapes.drawing import GROUNDS, TINTS, centre, draw, draw_variously
from ctxviz.shapes.gallery import GALLERY
from ctxviz.shapes.scenes import (
    BACKGROUNDS,
    COLOURS,
    MOST,
    NUMBERS,
    PLACES,
    SHAPES,
    Scene,
    Thing,
    held_out_scene,
    is_held_out,
    questions,
    random_scene,
    training_scene,
)
from ctxviz.shapes.writing import read, write

things = st.tuples(st.sampled_from(COLOURS), st.sampled_from(SHAPES))
scenes = st.builds(
    lambda places, kinds, ground: Scene(
        tuple(Thing(p, *k) for p, k in zip(places, kinds, strict=False)), ground
    ),
    st.permutations(range(len(PLACES))),
    st.lists(things, min_size=1, max_size=MOST),
    st.sampled_from(BACKGROUNDS),
)


@given(scenes)
def test_a_scene_survives_the_way_through_text(scene: Scene) -> None:
    text = write(scene)
    assert read(text) == scene
    assert len(text) <= 60
    assert set(text) <= set("abcdefghijklmnopqrstuvwxyz012345678.-")


def test_text_is_as_it_is_in_links() -> None:
    scene = Scene((Thing(4, "red", "circle"), Thing(0, "blue", "square")))
    assert write(scene) == "blue-square-0.red-circle-4.white"
    assert read("red-circle-4.blue-square-0.white") == scene


@pytest.mark.parametrize(
    "text",
    [
        "",
        "white",
        "red-circle-4",
        "red-circle-9.white",
        "red-circle-٤.white",
        "red-circle-4.pink",
        "red-circle-4.white\n",
        "pink-circle-4.white",
        "red-hexagon-4.white",
        "Red-circle-4.white",
        "red-circle-4..white",
        "red-circle-4.blue-square-4.white",
        "red-ring-0.red-ring-1.red-ring-2.red-ring-3.white",
        "red-circle-4.white.white",
        "x" * 100_000,
        "." * 100_000,
    ],
)
def test_any_other_text_is_no_scene(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        read(text)


@pytest.mark.parametrize("places", [(), (1, 1), (0, 1, 2, 3)])
def test_a_scene_holds_one_to_three_things_apart(places: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="one to 3 things"):
        Scene(tuple(Thing(place, "red", "circle") for place in places))


def test_things_stand_in_reading_order_in_the_caption() -> None:
    scene = Scene((Thing(8, "orange", "star"), Thing(0, "red", "circle"), Thing(4, "blue", "square")))
    assert scene.caption() == (
        "a red circle at the top left, a blue square in the middle and an orange star at the bottom right"
    )


@given(scenes, st.integers(0, 2**32 - 1))
def test_questions_have_one_true_answer(scene: Scene, seed: int) -> None:
    asked = list(questions(scene, np.random.default_rng(seed)))
    answers: dict[str, str] = {}
    for _, question, answer in asked:
        assert answers.setdefault(question, answer) == answer, "the same question has two answers"
    by_place = {thing.place: thing for thing in scene.things}
    for sort, question, answer in asked:
        if sort == "colour":
            shape = question.removeprefix("What colour is the ").removesuffix("?")
            assert [thing.colour for thing in scene.things if thing.shape == shape] == [answer]
        elif sort == "shape":
            colour = question.removeprefix("What shape is ").removesuffix("?")
            assert [thing.shape for thing in scene.things if thing.colour == colour] == [answer]
        elif sort == "where":
            named = question.removeprefix("Where is the ").removesuffix("?").split()
            key = "shape" if named[-1] in SHAPES else "colour"
            assert [PLACES[t.place] for t in scene.things if getattr(t, key) == named[0]] == [answer]
        elif sort == "what":
            thing = by_place.get(PLACES.index(question.removeprefix("What is ").removesuffix("?")))
            assert answer == (thing.name if thing else "nothing")
        elif sort == "any":
            name = question.removeprefix("Is there ").removesuffix("?")
            assert answer == ("yes" if name in {thing.name for thing in scene.things} else "no")
        elif sort == "number":
            assert NUMBERS.index(answer) + 1 == len(scene.things)
        else:
            assert (sort, answer) == ("background", scene.background)


@given(scenes)
def test_the_same_scene_gives_the_same_pixels(scene: Scene) -> None:
    assert draw(scene, 64).tobytes() == draw(read(write(scene)), 64).tobytes()


@given(scenes)
def test_each_thing_is_where_the_scene_says(scene: Scene) -> None:
    pixels = np.asarray(draw(scene, 96))
    for place in range(len(PLACES)):
        x, y = (int(96 * part) for part in centre(place))
        thing = next((thing for thing in scene.things if thing.place == place), None)
        ground = GROUNDS[scene.background][0]
        expected = ground if thing is None or thing.shape == "ring" else TINTS[thing.colour][0]
        assert tuple(pixels[y, x]) == expected
        cell = pixels[y - 14 : y + 14, x - 14 : x + 14].reshape(-1, 3)
        assert (thing is not None) == bool((cell != ground).any())


def test_every_kind_looks_different() -> None:
    pictures = {
        draw(Scene((Thing(4, colour, shape),), ground), 48).tobytes()
        for colour in COLOURS
        for shape in SHAPES
        for ground in BACKGROUNDS
    }
    assert len(pictures) == len(COLOURS) * len(SHAPES) * len(BACKGROUNDS)


@given(st.integers(0, 2**32 - 1))
def test_various_pictures_repeat_with_their_seed_and_keep_to_their_places(seed: int) -> None:
    scene = random_scene(np.random.default_rng(seed))
    one, looks = draw_variously(scene.things, scene.background, np.random.default_rng(seed))
    other, _ = draw_variously(scene.things, scene.background, np.random.default_rng(seed))
    assert one.tobytes() == other.tobytes()
    for thing, look in zip(scene.things, looks, strict=True):
        x, y = centre(thing.place)
        assert max(abs(look.x - x), abs(look.y - y)) < 1 / 6


def test_various_pictures_of_other_seeds_differ() -> None:
    scene = GALLERY[0].scene
    pictures = {
        draw_variously(scene.things, scene.background, np.random.default_rng(seed))[0].tobytes()
        for seed in range(8)
    }
    assert len(pictures) == 8


@given(st.integers(0, 2**32 - 1))
def test_what_is_held_out_is_never_trained_on(seed: int) -> None:
    generator = np.random.default_rng(seed)
    assert not is_held_out(training_scene(generator))
    assert is_held_out(held_out_scene(generator, 2))


def test_the_gallery_can_be_told_apart_and_was_not_held_out() -> None:
    assert len({sample.title for sample in GALLERY}) == len({s.scene for s in GALLERY}) == len(GALLERY) == 8
    assert not [sample.title for sample in GALLERY if is_held_out(sample.scene)]
