"""A scene of one to three coloured shapes, and what can be said and asked about it: data, no drawing."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

COLOURS: Final = ("red", "orange", "yellow", "green", "blue", "purple")
SHAPES: Final = ("circle", "square", "triangle", "star", "cross", "ring")
PLACES: Final = (
    "at the top left",
    "at the top",
    "at the top right",
    "at the left",
    "in the middle",
    "at the right",
    "at the bottom left",
    "at the bottom",
    "at the bottom right",
)
"""The nine cells of a 3 x 3 grid, in reading order."""
BACKGROUNDS: Final = ("white", "black", "grey")
NUMBERS: Final = ("one", "two", "three")
MOST: Final = len(NUMBERS)
"""The most shapes a scene holds."""
DESCRIBE: Final = "Describe the picture."
"""The request that a caption answers."""
NEW_KINDS: Final = frozenset({("green", "star"), ("purple", "ring"), ("orange", "cross")})
"""Colours of shapes that no training scene shows."""


@dataclass(frozen=True, slots=True, order=True)
class Thing:
    """One coloured shape in one of the nine places."""

    place: int
    """Index into PLACES."""
    colour: str
    shape: str

    @property
    def kind(self) -> tuple[str, str]:
        return self.colour, self.shape

    @property
    def name(self) -> str:
        article = "an" if self.colour[0] in "aeiou" else "a"
        return f"{article} {self.colour} {self.shape}"


@dataclass(frozen=True, slots=True)
class Scene:
    """One to three things, each in a place of its own, kept in reading order, on a plain background."""

    things: tuple[Thing, ...]
    background: str = "white"

    def __post_init__(self) -> None:
        object.__setattr__(self, "things", tuple(sorted(self.things)))
        places = [thing.place for thing in self.things]
        if not 1 <= len(places) <= MOST or len(set(places)) < len(places):
            raise ValueError(f"a scene holds one to {MOST} things in different places")

    def caption(self) -> str:
        """The whole scene in words, things in reading order."""
        said = [f"{thing.name} {PLACES[thing.place]}" for thing in self.things]
        return said[0] if len(said) == 1 else f"{', '.join(said[:-1])} and {said[-1]}"


def is_held_out(scene: Scene) -> bool:
    """Whether the scene shows a combination that training never shows: a new kind, or a new pair of kinds."""
    return has_new_kind(scene.things) or has_new_pair(scene.things)


def has_new_kind(things: Iterable[Thing]) -> bool:
    """Whether a thing has a colour that its shape never has in training."""
    return any(thing.kind in NEW_KINDS for thing in things)


def has_new_pair(things: Iterable[Thing]) -> bool:
    """Whether two things stand together that never do in training: an eighth of all pairs of kinds."""
    return any(_is_new_pair(one, other) for one, other in itertools.combinations(things, 2))


def _is_new_pair(one: Thing, other: Thing) -> bool:
    names = sorted((" ".join(one.kind), " ".join(other.kind)))
    return zlib.crc32("|".join(names).encode()) % 8 == 0


def random_scene(generator: np.random.Generator, count: int | None = None) -> Scene:
    """Any scene, held out or not; of ``count`` things, or of one to three."""
    count = int(generator.integers(1, MOST + 1)) if count is None else count
    places = generator.choice(len(PLACES), size=count, replace=False)
    things = tuple(
        Thing(int(place), str(generator.choice(COLOURS)), str(generator.choice(SHAPES))) for place in places
    )
    return Scene(things, str(generator.choice(BACKGROUNDS, p=(0.4, 0.35, 0.25))))


def training_scene(generator: np.random.Generator, count: int | None = None) -> Scene:
    """A scene that training may show."""
    while is_held_out(scene := random_scene(generator, count)):
        pass
    return scene


def training_crowd(generator: np.random.Generator, count: int) -> tuple[Thing, ...]:
    """Up to nine things in places of their own, more than a scene holds; no combination is a held-out one."""
    places = iter(generator.permutation(len(PLACES))[:count])
    crowd: tuple[Thing, ...] = ()
    for place in places:
        while True:
            thing = Thing(int(place), str(generator.choice(COLOURS)), str(generator.choice(SHAPES)))
            if thing.kind not in NEW_KINDS and not any(_is_new_pair(thing, other) for other in crowd):
                break
        crowd += (thing,)
    return crowd


def held_out_scene(generator: np.random.Generator, count: int | None = None) -> Scene:
    """A scene of two or three things of trained kinds, two of which training never shows together."""
    while True:
        scene = random_scene(generator, count or int(generator.integers(2, MOST + 1)))
        if has_new_pair(scene.things) and not has_new_kind(scene.things):
            return scene


def new_kind_scene(generator: np.random.Generator, count: int | None = None) -> Scene:
    """A scene with a thing in a colour that its shape never has in training: the harder test."""
    while not has_new_kind((scene := random_scene(generator, count)).things):
        pass
    return scene


QUESTIONS: Final = ("colour", "shape", "where", "what", "number", "any", "background")
"""The sorts of question there are."""


def questions(
    scene: Scene, generator: np.random.Generator, new_kinds: bool = True
) -> Iterator[tuple[str, str, str]]:
    """The scene's questions with one answer each: (sort, question, answer).

    Without ``new_kinds`` none asks about a thing that training never shows.

    A shape is asked for by its colour, and a colour by its shape, only where that names one thing.
    """
    shapes = [thing.shape for thing in scene.things]
    colours = [thing.colour for thing in scene.things]
    for thing in scene.things:
        if shapes.count(thing.shape) == 1:
            yield "colour", f"What colour is the {thing.shape}?", thing.colour
            yield "where", f"Where is the {thing.shape}?", PLACES[thing.place]
        if colours.count(thing.colour) == 1:
            yield "shape", f"What shape is {thing.colour}?", thing.shape
            yield "where", f"Where is the {thing.colour} shape?", PLACES[thing.place]
        yield "what", f"What is {PLACES[thing.place]}?", thing.name
        yield "any", f"Is there {thing.name}?", "yes"
    taken = {thing.place for thing in scene.things}
    empty = int(generator.choice([place for place in range(len(PLACES)) if place not in taken]))
    yield "what", f"What is {PLACES[empty]}?", "nothing"
    yield "number", "How many shapes are there?", NUMBERS[len(scene.things) - 1]
    yield "any", f"Is there {_absent(scene, generator, new_kinds).name}?", "no"
    yield "background", "What colour is the background?", scene.background


def _absent(scene: Scene, generator: np.random.Generator, new_kinds: bool) -> Thing:
    """A thing the scene does not show; half the time it shares a colour or a shape with one it shows."""
    kinds = {thing.kind for thing in scene.things}
    while True:
        colour, shape = str(generator.choice(COLOURS)), str(generator.choice(SHAPES))
        if generator.random() < 0.5:
            near = scene.things[int(generator.integers(len(scene.things)))]
            colour, shape = (near.colour, shape) if generator.random() < 0.5 else (colour, near.shape)
        if (colour, shape) not in kinds and (new_kinds or (colour, shape) not in NEW_KINDS):
            return Thing(0, colour, shape)
