"""What in a picture do a token's patches carry? Squares of it are covered, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from ctxviz.engine.application import Scratch
from ctxviz.engine.seeing import Onlooker, Seen, distance, probability
from ctxviz.errors import SettingsError
from ctxviz.numerics.distances import Distribution
from ctxviz.picture_findings import FINEST, GREY, Colour, Occlusion, Square, grids
from ctxviz.pictures import Picture
from ctxviz.run import Run
from ctxviz.settings import Variant

if TYPE_CHECKING:
    from ctxviz.models import LoadedModel


def covered(picture: Picture, grid: int, row: int, column: int, colour: Colour = GREY) -> Picture:
    """``picture`` with one of grid x grid squares in a colour; it has no bytes and no checksum of its own."""
    image = picture.image.copy()
    across = [round(k * image.width / grid) for k in (column, column + 1)]
    down = [round(k * image.height / grid) for k in (row, row + 1)]
    image.paste(colour, (across[0], down[0], across[1], down[1]))
    return Picture(image, "", picture.name, (*picture.notes, "partly covered"), b"")


def occlude(
    model: LoadedModel,
    run: Run,
    step: int,
    variant: Variant,
    *,
    picture: int = 0,
    grid: int | None = None,
    colour: Colour = GREY,
) -> Iterator[Occlusion]:
    """Cover a picture square by square and make the patches of token ``step`` anew each time.

    The history stays the run's. Yields what was found so far: without squares at first, then after each one.

    Args:
        model: the one that made the run.
        step: the token whose patches are made.
        picture: which picture is covered, from 0.
        grid: squares a side, at most one per tile or FINEST, whichever is finer; the finest of
            :func:`~ctxviz.picture_findings.grids` unless given.
        colour: what squares are covered with.

    Raises:
        SettingsError: the model is not the run's, its pictures are not at hand, there is no such token,
            picture or grid, or the fold leaves the picture in the input.
    """
    onlooker = Onlooker(model, run, step, variant, picture, Scratch())
    whole = run.pictures[picture]
    grid = grids(run, picture)[-1] if grid is None else grid
    most = min(max(FINEST, run.context.images[picture].side), *whole.image.size)
    if not 1 <= grid <= most:
        raise SettingsError(f"{grid} squares a side cannot be drawn on this picture; choose 1 to {most}.")
    token, text = run.token(step)[3:5]
    seen = onlooker.see()
    before = _distributions(seen)
    patched, context = probability(before[1], token), probability(before[0], token)
    found = Occlusion(picture, step, variant, grid, text, patched, context, colour=colour)
    yield found
    for row, column in ((r, c) for r in range(grid) for c in range(grid)):
        after = _distributions(onlooker.see(covered(whole, grid, row, column, colour)))
        says = onlooker.top(after[1]).texts
        square = Square(
            row,
            column,
            distance(before[1], after[1]),
            probability(after[1], token),
            says[0] if says else "",
            distance(before[0], after[0]),
            probability(after[0], token),
        )
        found = replace(found, squares=(*found.squares, square))
        yield found


def _distributions(seen: Seen) -> tuple[Distribution, Distribution]:
    """With context, and patched."""
    return Distribution(seen.context.logits), Distribution(seen.patched.logits)
