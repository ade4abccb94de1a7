"""The pictures of a tab: who can read them, where they come from, and how a choice is made and undone."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

from ctxviz.errors import PictureError
from ctxviz.models.catalogue import CATALOGUE
from ctxviz.pictures import MAX_BYTES, Picture, read_bytes
from ctxviz.shapes.recognition import scene_of, scene_picture
from ctxviz.shapes.recognition import words_of as _words_of
from ctxviz.shapes.writing import read, write

MOST_PICTURES: Final = 8
"""Of one prompt in the page; each may hold a large photograph in memory."""
MOST_PASTED: Final = 2 * MAX_BYTES
"""Bytes pasted at once; the browser sends them in one message."""
UNDONE: Final = 3
"""Choices that can be undone."""
DRAWN_ONLY: Final = ("tiny-shapes", "gemma-3-270m-pictures")
"""Models that were taught to see with drawn shapes and nothing else."""


class Holder(Protocol):
    """Whoever holds a tab's pictures: the session."""

    pictures: list[Picture]
    former: list[list[Picture]]
    notices: list[str]


def reads_pictures(reference: str) -> bool:
    """Whether a model may read pictures: a folder or Hub id may, and the engine knows better."""
    entry = CATALOGUE.get(reference)
    if entry is None:
        entry = next((e for e in CATALOGUE.values() if e.hub_id and e.hub_id == reference), None)
    if entry is not None:
        return entry.reads_pictures
    return bool(reference) and not reference.lower().endswith(".gguf")


def scenes_of(pictures: Iterable[Picture]) -> tuple[str, ...]:
    """The texts of those pictures that are drawn scenes: what a link can carry."""
    return tuple(write(scene) for scene in map(scene_of, pictures) if scene is not None)


def drawn(texts: Sequence[str]) -> list[Picture]:
    """The pictures of scenes' texts, each as :func:`ctxviz.shapes.writing.write` wrote it."""
    return [scene_picture(read(text)) for text in texts]


def words_of(picture: Picture) -> str:
    """What a picture is called in the page: a scene's caption, or the file's name."""
    return _words_of(picture) or "without a name"


def show(holder: Holder, pictures: Sequence[Picture]) -> None:
    """Put these in the place of the tab's pictures; the former ones can be had back."""
    holder.former.append(list(holder.pictures))
    del holder.former[:-UNDONE]
    holder.pictures[:] = pictures


def choose(holder: Holder, pictures: Iterable[Picture], *, beside: bool) -> None:
    """Take pictures in: instead of those there, or ``beside`` them. Too many are left out, and told."""
    choice = _Choice(holder, beside)
    for picture in pictures:
        choice.add(picture)
    choice.end()


def take_files(holder: Holder, files: Iterable[tuple[bytes, str]], *, beside: bool) -> None:
    """Read files of (bytes, name) and choose those that are pictures; each other one becomes a sentence.

    Files for which there is no room are not read.
    """
    choice = _Choice(holder, beside)
    for data, name in files:
        if choice.full:
            choice.too_many += 1
            continue
        try:
            choice.add(read_bytes(data, name))
        except PictureError as error:
            holder.notices.append(str(error))
    choice.end()


class _Choice:
    """Pictures taken in one after the other, as long as a prompt has room for them."""

    def __init__(self, holder: Holder, beside: bool) -> None:
        self._holder = holder
        self._kept = list(holder.pictures) if beside else []
        self._added = False
        self.too_many = 0
        self._too_large = 0

    @property
    def full(self) -> bool:
        return len(self._kept) >= MOST_PICTURES

    def add(self, picture: Picture) -> None:
        if self.full:
            self.too_many += 1
        elif sum(map(_pixels, (*self._kept, picture))) > _most_pixels():
            self._too_large += 1
        else:
            self._kept.append(picture)
            self._added = True

    def end(self) -> None:
        """Show what was taken in, where it is not what is shown already, and tell what was left out."""
        holder = self._holder
        if self.too_many:
            last = "the last one was" if self.too_many == 1 else f"the last {self.too_many} were"
            holder.notices.append(
                f"A prompt takes at most {MOST_PICTURES} pictures here; {last} left out. "
                "Remove one to make room."
            )
        if self._too_large:
            these = "one was" if self._too_large == 1 else f"{self._too_large} were"
            holder.notices.append(
                f"The pictures of a prompt may have {_most_pixels():,} pixels together; {these} left out. "
                "Remove one, or make them smaller."
            )
        before, after = ([picture.sha256 for picture in some] for some in (holder.pictures, self._kept))
        if self._added and before != after:
            show(holder, self._kept)


def _pixels(picture: Picture) -> int:
    return picture.image.width * picture.image.height


def _most_pixels() -> int:
    """As many as a run's file can hold."""
    from ctxviz.store.limits import PICTURE_PIXELS

    return PICTURE_PIXELS


def undo(holder: Holder) -> None:
    """Go back to the pictures before the last choice."""
    if holder.former:
        holder.pictures[:] = holder.former.pop()


def pasted_files(value: Any) -> tuple[list[tuple[bytes, str]], list[str]]:
    """Files of (bytes, name) that a browser says were pasted, and a sentence for each that cannot be taken.

    A browser sends a list of ``{"name", "data"}`` with base64 data, or ``{"name", "size"}`` of one too large,
    and ``{"left_out"}``, how many it did not send.
    """
    files: list[tuple[bytes, str]] = []
    problems: list[str] = []
    for item in value[: MOST_PICTURES + 1] if isinstance(value, list) else ():
        if not isinstance(item, Mapping):
            continue
        name, data, size, left_out = (item.get(key) for key in ("name", "data", "size", "left_out"))
        if isinstance(data, str):
            try:
                files.append((base64.b64decode(data, validate=True), name if isinstance(name, str) else ""))
            except ValueError:
                problems.append("The pasted picture did not arrive whole; paste it again.")
        elif isinstance(size, int):
            problems.append(
                f"The pasted picture is {size:,} bytes large, and at most {MAX_BYTES:,} are read; "
                "make it smaller."
            )
        elif isinstance(left_out, int) and left_out > 0:
            these = "One pasted file was" if left_out == 1 else f"{left_out:,} pasted files were"
            problems.append(
                f"{these} left out; at once paste at most {MOST_PICTURES} files, all of them pictures, of "
                f"{MOST_PASTED // 10**6} MB together."
            )
    return files, problems
