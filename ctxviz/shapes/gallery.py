"""Sample scenes, chosen so that two beside each other differ in one thing that is worth asking about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ctxviz.shapes.scenes import Scene, Thing


@dataclass(frozen=True, slots=True)
class Sample:
    """A scene and the few words it is offered under."""

    title: str
    scene: Scene


def _sample(title: str, background: str, *things: tuple[int, str, str]) -> Sample:
    return Sample(title, Scene(tuple(Thing(*thing) for thing in things), background))


GALLERY: Final = (
    _sample("Two shapes", "white", (0, "red", "circle"), (4, "blue", "square")),
    _sample("Colours swapped", "white", (0, "blue", "circle"), (4, "red", "square")),
    _sample("One moved", "white", (0, "red", "circle"), (8, "blue", "square")),
    _sample("Black background", "black", (0, "red", "circle"), (4, "blue", "square")),
    _sample("One alone", "white", (4, "yellow", "star")),
    _sample("Same shape twice", "white", (3, "green", "triangle"), (5, "purple", "triangle")),
    _sample("Same colour twice", "grey", (1, "orange", "circle"), (7, "orange", "ring")),
    _sample("Three shapes", "black", (2, "yellow", "ring"), (3, "red", "cross"), (7, "green", "circle")),
)
"""The first is what a model that reads drawn shapes is shown at first."""
