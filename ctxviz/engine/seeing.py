"""One token of a recorded run once more, with pictures of choice in the place of its own.

The history is read in one piece, so that every choice of pictures goes the same way and the run's own
pictures give the same bits each time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ctxviz.engine.anatomy import anatomy_of
from ctxviz.engine.application import Scratch
from ctxviz.engine.context_pass import ContextPass, ContextState
from ctxviz.engine.patched_pass import PatchedState, patched_pass
from ctxviz.engine.prompt import look
from ctxviz.engine.rebuild import check_model
from ctxviz.engine.sight import Sight
from ctxviz.errors import SettingsError
from ctxviz.numerics import distances
from ctxviz.numerics.distances import Distribution
from ctxviz.picture_findings import folded_pictures
from ctxviz.pictures import Picture
from ctxviz.records import TopTokens
from ctxviz.run import Run
from ctxviz.settings import Variant

if TYPE_CHECKING:
    from ctxviz.models import LoadedModel

SHOWN: Final = 8
"""Most probable tokens kept."""


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """The query token with some pictures: the model with its context, and the patches that carry it."""

    context: ContextState
    patched: PatchedState
    sight: Sight


class Onlooker:
    """Sees token ``step`` of ``run`` with other pictures, for one variant."""

    def __init__(
        self, model: LoadedModel, run: Run, step: int, variant: Variant, picture: int, scratch: Scratch
    ) -> None:
        """``picture`` is the one to be exchanged, from 0.

        Raises:
            SettingsError: the model is not the run's, the run's pictures are not at hand, there is no such
                token or picture, or the fold keeps that picture in the input.
        """
        check_model(model, run)
        if not 0 <= step < len(run):
            raise SettingsError(f"The run has no token {step}; choose 0 to {len(run) - 1}.")
        require_folded(run, picture)
        self.anatomy = anatomy_of(model.in_dtype(variant.dtype), model.architecture)
        self.ids = (*run.context.token_ids, *(run.token(k)[3] for k in range(step)))
        self.positions = run.context.kept(len(self.ids))
        self.kept_ids = tuple(self.ids[p] for p in self.positions)
        self._model = model
        self._run = run
        self._variant = variant
        self._picture = picture
        self._scratch = scratch

    def see(self, picture: Picture | None = None, *, keep_patches: bool = False) -> Seen:
        """The token with ``picture`` in its place, or with the run's own pictures."""
        pictures: Sequence[Picture] = self._run.pictures
        if picture is not None:
            pictures = [*pictures[: self._picture], picture, *pictures[self._picture + 1 :]]
        sight = look(self._model, pictures, self._run.context)
        reader = ContextPass(self.anatomy, sight)
        reader.prefill(list(self.ids[:-1]))
        context = reader.advance(self.ids[-1])
        patched = patched_pass(
            self.anatomy,
            self._variant,
            self.kept_ids,
            self.positions,
            context,
            scratch=self._scratch,
            small_h=self._run.settings.small_h,
            keep_vectors=False,
            keep_patches=keep_patches,
            sight=sight,
        )
        return Seen(context, patched, sight)

    def top(self, distribution: Distribution) -> TopTokens:
        """The most probable tokens; none where there is no distribution."""
        ids, probabilities = distances.top(distribution, SHOWN)
        return TopTokens(ids, probabilities, tuple(self._model.piece(int(i)) for i in ids))


def require_folded(run: Run, picture: int) -> None:
    """See that a run has this picture, from 0, and that its fold puts all of it into weights.

    Raises:
        SettingsError: it does not.
    """
    count = len(run.context.images)
    if not count:
        raise SettingsError("The run has no picture; make one with a picture on the Live page.")
    if not 0 <= picture < count:
        raise SettingsError(f"The run has no picture {picture + 1}; choose 1 to {count}.")
    if picture not in folded_pictures(run.context):
        raise SettingsError(
            f"The fold {run.context.fold} leaves picture {picture + 1} in the input, so its patches do not "
            "carry it; make the run again with the fold all or image."
        )


def distance(one: Distribution, other: Distribution) -> float:
    """Total-variation distance; NaN where a side is no distribution."""
    found = distances.compare(one, other).tvd
    return float("nan") if found is None else found


def probability(distribution: Distribution, token: int) -> float:
    """Of a token; NaN where there is no distribution."""
    return float(distribution.probs[token]) if distribution.valid else float("nan")
