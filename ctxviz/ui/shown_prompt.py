"""The prompt as a browser is sent it: pieces of text, and pictures as grids of their image tokens."""

from __future__ import annotations

import io
import threading
from collections import OrderedDict
from typing import Any, Final

from PIL import Image

from ctxviz.figures.text import readable
from ctxviz.pictures import Picture
from ctxviz.run import Run

PROMPT_ENDS: Final = 150
"""Of a prompt of more items, this many at each end are sent, and the pictures between them."""
LARGEST_SIDE: Final = 512
"""Pixels of a picture that is sent, at most; a larger one is reduced."""
HASH_DIGITS: Final = 12
_FILES_KEPT: Final = 32

Item = list[Any] | int | dict[str, int]


def describe(run: Run, view_id: str = "") -> dict[str, Any]:
    """What a browser shows of the prompt.

    ``items`` are, in order, ``[readable text, 1 where folded]``, a number for the picture that stands there
    (an index into ``images``; its start and end tokens are part of it), and ``{"omitted": tokens}``. Tokens
    of text in the middle of a long prompt are left out, a picture never is.
    """
    length = len(run.context.token_ids)
    folded = frozenset(run.context.folded(length))
    items = _items(run, folded)
    return {
        "items": items,
        "omitted": sum(item["omitted"] for item in items if isinstance(item, dict)),
        "folded": len(folded),
        "length": length,
        "images": _images(run, folded, view_id),
    }


def _items(run: Run, folded: frozenset[int]) -> list[Item]:
    texts, images = run.context.token_texts, run.context.images
    starts = {span.start: k for k, span in enumerate(images)}
    inside = {p for span in images for p in range(span.start + 1, span.end)}
    standing = [p for p in range(len(texts)) if p not in inside]
    middle = range(PROMPT_ENDS, len(standing) - PROMPT_ENDS)
    items: list[Item] = []
    for i, p in enumerate(standing):
        if p in starts:
            items.append(starts[p])
        elif i not in middle:
            items.append([readable(texts[p]), int(p in folded)])
        elif items and isinstance(items[-1], dict):
            items[-1]["omitted"] += 1
        else:
            items.append({"omitted": 1})
    return items


def _images(run: Run, folded: frozenset[int], view_id: str) -> list[dict[str, Any]]:
    """What is sent of each picture.

    ``start``, ``end`` and ``side`` are those of its ImageSpan, ``tokens`` is the number of image tokens,
    ``folded`` how many of them are, and ``folded_tokens`` which: half-open ranges, the first token being 0;
    ``folded_marks`` is how many of its start and end tokens are.
    ``sha256`` is the hash's beginning. ``src``, the address of the picture, and ``size``, its pixels in width
    and height, are None where the run lacks it.
    """
    images = []
    for k, (span, sha256) in enumerate(zip(run.context.images, run.context.image_sha256, strict=True)):
        picture = run.pictures[k] if view_id and k < len(run.pictures) else None
        digits = sha256[:HASH_DIGITS]
        gone = [i for i, p in enumerate(span.tokens) if p in folded]
        images.append(
            {
                "start": span.start,
                "end": span.end,
                "side": span.side,
                "tokens": len(span.tokens),
                "folded": len(gone),
                "folded_tokens": _runs(gone),
                "folded_marks": len(folded.intersection((span.start, span.end - 1))),
                "sha256": digits,
                # The hash keeps a browser from showing the picture of a run that the view held before.
                "src": None if picture is None else f"/_ctxviz/picture/{view_id}/{k}?sha256={digits}",
                "size": None if picture is None else list(picture.image.size),
            }
        )
    return images


def _runs(numbers: list[int]) -> list[list[int]]:
    """Ascending numbers as half-open ranges."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number:
            ranges[-1][1] += 1
        else:
            ranges.append([number, number + 1])
    return ranges


class PictureFiles:
    """PNG files of pictures, at most LARGEST_SIDE pixels wide and high, the latest used kept."""

    def __init__(self) -> None:
        self._files: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def png(self, picture: Picture) -> bytes:
        """The upright picture, encoded anew: nothing of the file that was given is in it."""
        with self._lock:
            if picture.sha256 in self._files:
                self._files.move_to_end(picture.sha256)
                return self._files[picture.sha256]
        data = _encode(picture.image)
        with self._lock:
            self._files[picture.sha256] = data
            while len(self._files) > _FILES_KEPT:
                self._files.popitem(last=False)
        return data


PICTURE_FILES: Final = PictureFiles()
"""Of this process."""


def shown_width(picture: Picture, pixels: int) -> int:
    """How wide a picture is shown that is to fit into a square of ``pixels``."""
    width, height = picture.image.size
    return max(1, round(pixels * min(1.0, width / height)))


def _encode(image: Image.Image) -> bytes:
    longest = max(image.size)
    if longest > LARGEST_SIDE:
        width, height = (max(1, round(side * LARGEST_SIDE / longest)) for side in image.size)
        image = image.resize((width, height), Image.Resampling.LANCZOS, reducing_gap=3.0)
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()
