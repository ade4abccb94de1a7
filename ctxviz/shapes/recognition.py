"""Which pictures were drawn from a scene, and what a picture is called."""

from __future__ import annotations

from functools import lru_cache

from ctxviz.pictures import Picture, from_image
from ctxviz.shapes.drawing import draw
from ctxviz.shapes.scenes import Scene
from ctxviz.shapes.writing import read, write


@lru_cache(maxsize=128)
def scene_picture(scene: Scene) -> Picture:
    """A scene as a picture whose name is the scene's text."""
    return from_image(draw(scene), write(scene))


def scene_of(picture: Picture) -> Scene | None:
    """The scene that a picture was drawn from; None for any other picture, whatever its name says."""
    return scene_named(picture.name, picture.sha256)


def scene_named(text: str, sha256: str) -> Scene | None:
    """The scene of this text, where its picture is the one with ``sha256``; otherwise None."""
    try:
        scene = read(text)
    except ValueError:
        return None
    return scene if scene_picture(scene).sha256 == sha256 else None


def words_of(picture: Picture) -> str:
    """What a picture is called: a scene's caption, or the file's name, which may be empty."""
    scene = scene_of(picture)
    return picture.name if scene is None else scene.caption()
