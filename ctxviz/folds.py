"""A prompt as a model reads it, and which of its positions are folded into weights. Plain data, no I/O."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, Literal

from ctxviz.errors import SettingsError


@dataclass(frozen=True, slots=True)
class ImageSpan:
    """Where one picture stands in the prompt: positions ``start`` to ``end - 1``.

    The first is the start token, the last the end token, those between are its image tokens, row by row.
    """

    start: int
    end: int

    @property
    def tokens(self) -> range:
        """Positions of the image tokens."""
        return range(self.start + 1, self.end - 1)

    @property
    def side(self) -> int:
        """Image tokens in a row of the picture's square grid."""
        return round(len(self.tokens) ** 0.5)


FOLD_KINDS: Final = ("all", "all-but-bos", "image", "text")
"""Folds that need no positions."""


@dataclass(frozen=True, slots=True)
class Fold:
    """Which prompt positions are folded into weights and removed from the input.

    ``kind`` is ``all`` (kept: the query token alone), ``all-but-bos``, ``image`` (the pictures, or the one
    whose ``number`` is given, the first being 1), ``text`` (everything but the pictures) or ``span``: the
    half-open range ``start:end`` of positions in the prompt's own tokens, BOS included. The query token
    itself is always kept.
    """

    kind: Literal["all", "all-but-bos", "image", "text", "span"] = "all"
    start: int = 0
    end: int = 0
    number: int = 0
    """Of the picture folded, from 1; 0 folds all pictures."""

    @classmethod
    def parse(cls, text: str) -> Fold:
        """Read ``all``, ``all-but-bos``, ``image``, ``image:N``, ``text`` or ``START:END``.

        Raises:
            SettingsError: the text is none of these, or the range is empty.
        """
        if text in FOLD_KINDS:
            return cls(text)  # type: ignore[arg-type]
        picture = re.fullmatch(r"image:(\d{1,4})", text, re.ASCII)
        if picture is not None and int(picture[1]):
            return cls("image", number=int(picture[1]))
        match = re.fullmatch(r"(\d{1,9}):(\d{1,9})", text, re.ASCII)
        if match is None:
            raise SettingsError(
                f"The fold {text[:40]!r} is not understood; use all, all-but-bos, image, image:N with N from "
                "1, text, or START:END with token positions such as 1:5."
            )
        start, end = int(match[1]), int(match[2])
        if start >= end:
            raise SettingsError(f"The fold {text} folds nothing; END must be larger than START.")
        return cls("span", start, end)

    def folded(self, length: int, images: tuple[ImageSpan, ...] = ()) -> tuple[int, ...]:
        """Positions folded where the query token is the last of ``length`` tokens; the query never is."""
        query = length - 1
        if self.kind == "span":
            return tuple(range(self.start, min(self.end, query)))
        if self.kind == "all-but-bos":
            return tuple(range(1, query))
        if self.kind == "all":
            return tuple(range(query))
        chosen = images[self.number - 1 : self.number] if self.number else images
        pictured = {position for span in chosen for position in range(span.start, span.end)}
        return tuple(p for p in range(query) if (p in pictured) == (self.kind == "image"))

    def kept(self, length: int, images: tuple[ImageSpan, ...] = ()) -> tuple[int, ...]:
        """Positions left in the input of the patched pass, the query token last."""
        folded = set(self.folded(length, images))
        return tuple(position for position in range(length) if position not in folded)

    def __str__(self) -> str:
        if self.kind == "span":
            return f"{self.start}:{self.end}"
        return f"{self.kind}:{self.number}" if self.number else self.kind


@dataclass(frozen=True, slots=True)
class Context:
    """The prompt as the model reads it; ``token_texts`` are the readable pieces, one per id."""

    prompt: str
    token_ids: tuple[int, ...]
    token_texts: tuple[str, ...]
    fold: Fold = field(default_factory=Fold)
    image_sha256: tuple[str, ...] = ()
    """Of each picture's file, in the order of ``images``."""
    images: tuple[ImageSpan, ...] = ()
    """Where the pictures stand, in the prompt's order."""

    def kept(self, length: int) -> tuple[int, ...]:
        """Positions left in the input where the query token is the last of ``length`` tokens."""
        return self.fold.kept(length, self.images)

    def folded(self, length: int) -> tuple[int, ...]:
        """Positions folded into weights where the query token is the last of ``length`` tokens."""
        return self.fold.folded(length, self.images)
