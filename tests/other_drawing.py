"""Scenes drawn by another program than the project's: numpy masks, other colours and sizes, no smoothing."""

from __future__ import annotations

import numpy as np
from PIL import Image

from ctxviz.shapes.scenes import Scene

NAMED = {
    "red": (230, 25, 25),
    "orange": (255, 140, 0),
    "yellow": (255, 235, 0),
    "green": (0, 150, 0),
    "blue": (20, 40, 235),
    "purple": (140, 20, 160),
}
GROUNDS = {"white": (250, 250, 250), "black": (8, 8, 8), "grey": (150, 150, 150)}


def draw(scene: Scene, generator: np.random.Generator, size: int = 400) -> Image.Image:
    """RGB, ``size`` pixels wide; things differ in size and stand a little off the middle of their places."""
    down, across = np.mgrid[0:size, 0:size] / size
    pixels = np.empty((size, size, 3), np.uint8)
    pixels[:] = GROUNDS[scene.background]
    for thing in scene.things:
        row, column = divmod(thing.place, 3)
        radius = generator.uniform(0.125, 0.15)
        x = (across - (column + 0.5) / 3 - generator.uniform(-0.02, 0.02)) / radius
        y = (down - (row + 0.5) / 3 - generator.uniform(-0.02, 0.02)) / radius
        pixels[MASKS[thing.shape](x, y)] = NAMED[thing.colour]
    return Image.fromarray(pixels)


def _star(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Five triangles from the middle to each tip, as angle and distance."""
    turn = 2 * np.pi / 5
    angle = np.mod(np.arctan2(x, -y) + turn / 2, turn) - turn / 2
    along, aside = np.hypot(x, y) * np.cos(angle), np.hypot(x, y) * np.abs(np.sin(angle))
    tip, notch = np.array([1.1, 0.0]), 0.45 * np.array([np.cos(turn / 2), np.sin(turn / 2)])
    return (tip[0] - along) * notch[1] >= aside * (tip[0] - notch[0])


MASKS = {
    "circle": lambda x, y: x**2 + y**2 <= 1,
    "ring": lambda x, y: (x**2 + y**2 <= 1) & (x**2 + y**2 >= 0.55**2),
    "square": lambda x, y: (np.abs(x) <= 0.85) & (np.abs(y) <= 0.85),
    "triangle": lambda x, y: (y <= 0.8) & (y >= -1 + 1.8 * np.abs(x)),
    "cross": lambda x, y: ((np.abs(x) <= 0.34) & (np.abs(y) <= 1)) | ((np.abs(y) <= 0.34) & (np.abs(x) <= 1)),
    "star": _star,
}
