"""The pictures of a run inside its bundle: files as they were given, under ``images/0``, ``images/1``, ..."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from ctxviz.errors import BundleError, PictureError
from ctxviz.folds import Context
from ctxviz.pictures import Picture, read_bytes
from ctxviz.shapes.recognition import scene_named, scene_of
from ctxviz.shapes.writing import write
from ctxviz.store.archive import PICTURE
from ctxviz.store.limits import MIB, PICTURE_BYTES, PICTURE_PIXELS, PICTURES, broken


def check_pictures(pictures: Sequence[Picture]) -> None:
    """See that a bundle can hold these pictures.

    Raises:
        BundleError: they are too many, or have too many bytes or pixels together.
    """
    if len(pictures) > PICTURES:
        raise BundleError(
            f"The run has {len(pictures)} pictures, and a file holds {PICTURES} at most; "
            "save it without them."
        )
    size = sum(len(picture.data) for picture in pictures)
    if size > PICTURE_BYTES:
        raise BundleError(
            f"The run's pictures take {size:,} bytes, and a file holds {PICTURE_BYTES // MIB} MiB of them "
            "at most; save it without them, or make them smaller."
        )
    pixels = sum(picture.image.width * picture.image.height for picture in pictures)
    if pixels > PICTURE_PIXELS:
        raise BundleError(
            f"The run's pictures have {pixels:,} pixels together, and a file holds {PICTURE_PIXELS:,} "
            "at most; save it without them, or make them smaller."
        )


def check_places(context: Context) -> None:
    """See that a prompt's tokens agree with where its pictures are said to stand, as far as ids alone tell.

    Raises:
        BundleError: image tokens are not all the same token, stand outside the pictures too, or the pictures
            begin or end with different tokens.
    """
    ids, images = context.token_ids, context.images
    if not images:
        return
    places = {position for span in images for position in span.tokens}
    inside = {ids[position] for position in places}
    begins, ends = {ids[span.start] for span in images}, {ids[span.end - 1] for span in images}
    if max(map(len, (inside, begins, ends))) > 1:
        raise broken("the places of its pictures hold other tokens than a picture's")
    if any(token in inside for position, token in enumerate(ids) if position not in places):
        raise broken("its prompt holds an image token outside the places of its pictures")


def written(pictures: Sequence[Picture], context: Context) -> dict[str, bytes]:
    """The entries that hold the pictures of ``context``.

    Raises:
        BundleError: they are not at hand, or a bundle cannot hold them.
    """
    if tuple(picture.sha256 for picture in pictures) != context.image_sha256:
        raise BundleError("The run's pictures are not at hand; save it without them.")
    check_pictures(pictures)
    return {f"{PICTURE}{index}": picture.data for index, picture in enumerate(pictures)}


def scenes(pictures: Sequence[Picture]) -> tuple[str | None, ...]:
    """The text of the scene that each picture was drawn from; None for any other picture."""
    found = map(scene_of, pictures)
    return tuple(None if scene is None else write(scene) for scene in found)


def read(parts: Mapping[str, bytes], context: Context, scenes: Sequence[str | None]) -> tuple[Picture, ...]:
    """The pictures of ``context`` from a bundle's entries; none where any of them is missing.

    ``scenes``: what the bundle says that each was drawn from. It becomes the picture's name if the scene,
    drawn here, is that very picture; a photograph cannot pass for a drawing.

    Raises:
        BundleError: one cannot be read or is not the context's, or there are more than the context has.
    """
    expected = [f"{PICTURE}{index}" for index in range(len(context.image_sha256))]
    if any(name.startswith(PICTURE) and name not in expected for name in parts):
        raise broken("it holds more pictures than its prompt")
    found: list[Picture] = []
    pixels = 0
    told = zip(expected, context.image_sha256, scenes, strict=True)
    for number, (name, sha256, scene) in enumerate(told, 1):
        if name not in parts:
            continue
        if hashlib.sha256(parts[name]).hexdigest() != sha256:
            raise broken(f"its picture {number} is another than the one in its prompt")
        try:
            drawn = scene is not None and scene_named(scene, sha256) is not None
            picture = read_bytes(parts[name], scene if scene is not None and drawn else "")
        except PictureError:
            raise broken(f"its picture {number} cannot be decoded") from None
        pixels += picture.image.width * picture.image.height
        if pixels > PICTURE_PIXELS:
            raise broken(f"its pictures have more than {PICTURE_PIXELS:,} pixels together")
        found.append(picture)
    return tuple(found) if len(found) == len(expected) else ()
