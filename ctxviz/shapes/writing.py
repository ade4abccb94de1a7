"""Scenes as short text, for links: ``red-circle-4.blue-square-0.white``."""

from __future__ import annotations

import re
from typing import Final

from ctxviz.shapes.scenes import BACKGROUNDS, COLOURS, MOST, PLACES, SHAPES, Scene, Thing

_THING: Final = re.compile(rf"({'|'.join(COLOURS)})-({'|'.join(SHAPES)})-([0-{len(PLACES) - 1}])", re.ASCII)


def write(scene: Scene) -> str:
    """Colour, shape and place (0 to 8 in reading order) of each thing, then the background.

    It needs no escapes in an address, and is at most 60 characters long.
    """
    things = [f"{thing.colour}-{thing.shape}-{thing.place}" for thing in scene.things]
    return ".".join([*things, scene.background])


def read(text: str) -> Scene:
    """What :func:`write` wrote, things in any order.

    Raises:
        ValueError: the text is anything else, or puts two things in one place.
    """
    *parts, background = text.split(".", MOST + 1)
    if background not in BACKGROUNDS:
        raise ValueError("the text does not end in a background")
    things = []
    for part in parts:
        match = _THING.fullmatch(part)
        if match is None:
            raise ValueError("a part of the text is no thing with a colour, a shape and a place")
        things.append(Thing(int(match[3]), match[1], match[2]))
    return Scene(tuple(things), background)
