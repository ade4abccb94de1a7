"""Scenes as pictures: one plain way for the page, and many ways (size, tilt, tint, place) for training."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from PIL import Image, ImageDraw

from ctxviz.shapes.scenes import Scene, Thing

Rgb = tuple[int, int, int]

TINTS: Final[dict[str, tuple[Rgb, ...]]] = {
    "red": ((214, 39, 40), (255, 0, 0), (196, 16, 28), (235, 60, 60)),
    "orange": ((245, 133, 24), (255, 165, 0), (230, 120, 10), (255, 140, 0)),
    "yellow": ((240, 220, 50), (255, 255, 0), (250, 208, 0), (255, 225, 25)),
    "green": ((30, 150, 70), (0, 128, 0), (0, 200, 0), (60, 180, 75)),
    "blue": ((40, 90, 210), (0, 0, 255), (0, 90, 200), (67, 99, 216)),
    "purple": ((140, 60, 180), (128, 0, 128), (145, 30, 180), (110, 40, 160)),
}
"""What each colour may look like; the first is the plain one, training mixes them."""
GROUNDS: Final[dict[str, tuple[Rgb, ...]]] = {
    "white": ((255, 255, 255), (244, 244, 240)),
    "black": ((0, 0, 0), (26, 26, 30)),
    "grey": ((170, 170, 170), (130, 130, 130)),
}
RADIUS: Final = 0.14
"""Of a plain thing, in widths of the picture."""
SHARPNESS: Final = 4
"""A plain picture is drawn so many times larger and then reduced, which smooths its edges."""


@dataclass(frozen=True, slots=True)
class Look:
    """How one thing is drawn; lengths in widths of the picture."""

    x: float
    y: float
    radius: float
    tilt: float
    """Radians."""
    tint: Rgb


def draw(scene: Scene, size: int = 256) -> Image.Image:
    """The plain picture of a scene, size x size pixels, RGB; the same scene gives the same pixels."""
    looks = [Look(*centre(thing.place), RADIUS, 0.0, TINTS[thing.colour][0]) for thing in scene.things]
    picture = _paint(scene.things, looks, GROUNDS[scene.background][0], size * SHARPNESS)
    return picture.reduce(SHARPNESS)


def draw_variously(
    things: Sequence[Thing], background: str, generator: np.random.Generator
) -> tuple[Image.Image, list[Look]]:
    """One of the many pictures of these things, RGB, 96 to 256 pixels wide, and where they are."""
    looks = []
    for thing in things:
        x, y = centre(thing.place)
        radius = generator.uniform(0.12, 0.16)
        shift = generator.uniform(-0.03, 0.03, size=2)
        looks.append(
            Look(
                x + shift[0],
                y + shift[1],
                radius,
                generator.uniform(-0.12, 0.12),
                _mix(TINTS[thing.colour], generator),
            )
        )
    ground = _mix(GROUNDS[background], generator)
    return _paint(things, looks, ground, int(generator.integers(96, 257))), looks


def centre(place: int) -> tuple[float, float]:
    """The middle of one of the nine places, in widths of the picture."""
    row, column = divmod(place, 3)
    return (column + 0.5) / 3, (row + 0.5) / 3


def _mix(tints: tuple[Rgb, ...], generator: np.random.Generator) -> Rgb:
    """Between two of the tints, and a little beside."""
    one, other = (np.array(tints[int(generator.integers(len(tints)))], dtype=float) for _ in range(2))
    mixed = one + generator.random() * (other - one) + generator.normal(0.0, 6.0, size=3)
    red, green, blue = (int(value) for value in np.clip(mixed, 0, 255))
    return red, green, blue


def _paint(things: Sequence[Thing], looks: Sequence[Look], ground: Rgb, size: int) -> Image.Image:
    picture = Image.new("RGB", (size, size), ground)
    pen = ImageDraw.Draw(picture)
    for thing, look in zip(things, looks, strict=True):
        _draw_thing(pen, thing, look, ground, size)
    return picture


def _draw_thing(pen: ImageDraw.ImageDraw, thing: Thing, look: Look, ground: Rgb, size: int) -> None:
    x, y, radius = look.x * size, look.y * size, look.radius * size
    box = (x - radius, y - radius, x + radius, y + radius)
    if thing.shape == "circle":
        pen.ellipse(box, fill=look.tint)
    elif thing.shape == "ring":
        pen.ellipse(box, fill=look.tint)
        hole = 0.55 * radius
        pen.ellipse((x - hole, y - hole, x + hole, y + hole), fill=ground)
    else:
        cos, sin = math.cos(look.tilt), math.sin(look.tilt)
        corners = [
            (x + radius * (cos * across - sin * down), y + radius * (sin * across + cos * down))
            for across, down in OUTLINES[thing.shape]
        ]
        pen.polygon(corners, fill=look.tint)


def _around(distances: list[float], first: float = -0.5) -> list[tuple[float, float]]:
    """Corners at equal angles, the first at ``first`` times pi, at these distances from the middle."""
    angles = [math.pi * (first + 2 * i / len(distances)) for i in range(len(distances))]
    return [(r * math.cos(a), r * math.sin(a)) for r, a in zip(distances, angles, strict=True)]


_ARM: Final = 0.33
OUTLINES: Final[dict[str, list[tuple[float, float]]]] = {
    "square": [(-0.86, -0.86), (0.86, -0.86), (0.86, 0.86), (-0.86, 0.86)],
    "triangle": [(0.0, -1.0), (1.0, 0.8), (-1.0, 0.8)],
    "star": _around([1.1, 0.45] * 5),
    "cross": [
        (-_ARM, -1), (_ARM, -1), (_ARM, -_ARM), (1, -_ARM), (1, _ARM), (_ARM, _ARM),
        (_ARM, 1), (-_ARM, 1), (-_ARM, _ARM), (-1, _ARM), (-1, -_ARM), (-_ARM, -_ARM),
    ],
}  # fmt: skip
"""Corners of the straight-edged shapes, in radii, y downwards."""
