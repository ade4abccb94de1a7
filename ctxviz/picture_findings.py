"""What was found out about a run's pictures, as records: without one, with a part covered, with another.

Pictures are counted from 0 here, in the prompt's order; people are told numbers from 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from PIL import Image

from ctxviz.folds import Context
from ctxviz.pictures import Picture
from ctxviz.records import Flags, Floats, TopTokens
from ctxviz.run import Run
from ctxviz.settings import Variant

FINEST: Final = 8
"""Squares a side at most: covering each costs a pass over the whole context."""
Colour = tuple[int, int, int]
"""Red, green and blue, 0 to 255."""
GREY: Final[Colour] = (127, 127, 127)
LEAST_GROUND: Final = 0.5
"""Share of a picture that its commonest colour fills where it is called the ground."""
MATRICES: Final = ("gate", "up", "down")
PARTS: Final = (*MATRICES, "scale")
"""What a layer's patch consists of, in the order in which it is made."""


def folded_pictures(context: Context) -> tuple[int, ...]:
    """The pictures whose image tokens are all folded into weights."""
    folded = set(context.folded(len(context.token_ids)))
    return tuple(k for k, span in enumerate(context.images) if folded.issuperset(span.tokens))


def ground_of(picture: Picture) -> Colour | None:
    """The colour that a picture's things stand on; None where no colour fills half of it."""
    small = picture.image.resize((64, 64), Image.Resampling.NEAREST)
    colours, counts = np.unique(np.asarray(small).reshape(-1, 3), axis=0, return_counts=True)
    red, green, blue = (int(part) for part in colours[counts.argmax()])
    return (red, green, blue) if counts.max() >= LEAST_GROUND * counts.sum() else None


def grids(run: Run, picture: int = 0) -> tuple[int, ...]:
    """Squares a side that fit a picture, coarsest first: those that its rows of image tokens divide into.

    1 is the whole picture. None has more than FINEST squares a side, or squares of less than a pixel. The
    picture must be at hand.
    """
    side = run.context.images[picture].side
    most = min(FINEST, *run.pictures[picture].image.size)
    return tuple(g for g in range(1, most + 1) if side % g == 0)


@dataclass(frozen=True, slots=True)
class WithoutPictures:
    """What the stock model writes where pictures are dropped from the prompt and nothing is in weights."""

    dtype: str
    dropped: tuple[int, ...]
    """The pictures dropped; the rest of the prompt stays, at its own positions."""
    ids: tuple[int, ...]
    """Written so far, greedily."""
    texts: tuple[str, ...]
    ended: bool
    """Whether it wrote an end of text, the last of ``ids``."""


@dataclass(frozen=True, slots=True)
class Square:
    """One square covered: what the patches made from that picture say, against the whole one's.

    Distances are total-variation distances, probabilities are of the run's token; NaN where the logits are no
    numbers.
    """

    row: int
    column: int
    tvd: float
    probability: float
    says: str
    """Most probable token."""
    context_tvd: float
    """The same distance for the model with its context, patched by nothing."""
    context_probability: float


@dataclass(frozen=True, slots=True)
class Occlusion:
    """A picture covered square by square, as far as it has come."""

    picture: int
    step: int
    variant: Variant
    grid: int
    """Squares a side."""
    token: str
    """What the run wrote at this step."""
    probability: float
    """Of it, by the patches of the whole picture."""
    context_probability: float
    squares: tuple[Square, ...] = ()
    """Row by row."""
    colour: Colour = GREY
    """What the squares are covered with."""


@dataclass(frozen=True, slots=True, eq=False)
class Voice:
    """One of two pictures: what the model says with it in its context, and what its written patches say.

    The patches run on a stock model that has no picture in its input.
    """

    context: TopTokens
    patched: TopTokens
    tvd_own: float
    """Of the patches against the model with this picture."""
    tvd_other: float
    """Of the patches against the model with the other picture."""


@dataclass(frozen=True, slots=True, eq=False)
class Swap:
    """Picture B in the place of picture A, for one query token after the same history."""

    picture: int
    step: int
    variant: Variant
    names: tuple[str, str]
    """What A and B are called: a drawn scene's caption, or the file's name; may be empty, or the same."""
    distances: dict[str, Floats]
    """For each of PARTS ||dA - dB|| / ||dA|| (Frobenius for matrices) by layer [n_layers]; NaN where either
    picture gives no such update, infinite where A's is zero or one is no number."""
    voices: tuple[Voice, Voice]
    context_tvd: float
    """Of the model with A against the model with B."""
    made: dict[str, Flags]
    """For each of PARTS whether both pictures give such an update, by layer [n_layers]."""
