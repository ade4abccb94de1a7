"""The stock model's own answer with something of its prompt missing, and nothing of it in weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import torch

from ctxviz.engine.anatomy import anatomy_of
from ctxviz.engine.patched_pass import kept_inputs
from ctxviz.engine.prompt import look
from ctxviz.engine.reading import memory_explained
from ctxviz.engine.rebuild import check_model
from ctxviz.engine.seeing import require_folded
from ctxviz.errors import PrecisionError
from ctxviz.numerics.distances import Distribution
from ctxviz.picture_findings import WithoutPictures, folded_pictures
from ctxviz.records import WithoutContext
from ctxviz.run import Run

if TYPE_CHECKING:
    from ctxviz.models import LoadedModel

MOST_WITHOUT: Final = 12
"""Tokens that show what a model says without the context; each costs a stock pass over the kept tokens."""


def without_context(model: LoadedModel, run: Run) -> Iterator[WithoutContext]:
    """Continue the prompt's kept tokens, greedily, at their own positions, with nothing in weights.

    It is the unpatched model of the references, going on from its own tokens. The dtype is the one that wrote
    the run's history. Yields after each token what is written so far, until there are as many as the run has,
    MOST_WITHOUT, or an end of text; goes on from ``run.without_context`` where that was begun.

    Raises:
        SettingsError: the model is not the run's, or its pictures are not at hand.
        PrecisionError, OutOfMemoryError: the logits are not numbers, or memory ran out; what was yielded
            before stays.
    """
    check_model(model, run)
    positions = run.context.kept(len(run.context.token_ids))
    begun = run.without_context
    if begun is not None and begun.ended:
        return
    ids = () if begun is None else begun.ids
    left = _Left(model, run, positions, "Without the context")
    # A run that goes on meanwhile asks for more.
    for answer in left.answers(lambda: min(len(run), MOST_WITHOUT), ids):
        yield WithoutContext(run.dtypes[0], answer.ids, answer.texts, answer.ended)


def without_pictures(model: LoadedModel, run: Run) -> Iterator[WithoutPictures]:
    """Continue the run's prompt less the pictures that its fold removes, greedily, with nothing in weights.

    Text that the fold removes stays here: it is the picture that is missing. The dtype is the one that wrote
    the run's history; the rest of the prompt keeps its positions, as in the unpatched reference. Yields after
    each token what is written so far, until there are as many as the run has or an end of text.

    Raises:
        SettingsError: the model is not the run's, its pictures are not at hand, or the fold removes none.
        PrecisionError, OutOfMemoryError: the logits are not numbers, or memory ran out; what was yielded
            before stays.
    """
    check_model(model, run)
    context = run.context
    dropped = folded_pictures(context)
    if not dropped:
        require_folded(run, 0)
    gone = {p for k in dropped for p in range(context.images[k].start, context.images[k].end)}
    positions = [p for p in range(len(context.token_ids)) if p not in gone]
    for answer in _Left(model, run, positions, "Without the picture").answers(lambda: len(run)):
        yield WithoutPictures(run.dtypes[0], dropped, answer.ids, answer.texts, answer.ended)


@dataclass(frozen=True, slots=True)
class _Answer:
    """What is written so far, and whether the last token is an end of text."""

    ids: tuple[int, ...]
    texts: tuple[str, ...]
    ended: bool


class _Left:
    """What is left of a run's prompt, at its own positions, and the stock model that continues it."""

    def __init__(self, model: LoadedModel, run: Run, positions: Sequence[int], missing: str) -> None:
        """``missing`` begins the sentence of an error, e.g. ``Without the picture``."""
        self._model = model
        self._dtype = run.dtypes[0]
        self._anatomy = anatomy_of(model.in_dtype(self._dtype), model.architecture)
        self._sight = look(model, run.pictures, run.context)
        self._ids = [run.context.token_ids[p] for p in positions]
        self._positions = list(positions)
        self._missing = missing

    def answers(self, limit: Callable[[], int], begun: Sequence[int] = ()) -> Iterator[_Answer]:
        """Greedy tokens after those of ``begun``, up to ``limit()`` in all or an end of text."""
        written = tuple(begun)
        while len(written) < limit():
            best = self._next(written)
            written = (*written, best)
            ended = best in self._model.eos_ids
            yield _Answer(written, tuple(map(self._model.piece, written)), ended)
            if ended:
                return

    def _next(self, written: tuple[int, ...]) -> int:
        first = self._positions[-1] + 1
        ids = (*self._ids, *written)
        positions = (*self._positions, *range(first, first + len(written)))
        # No cache: position gaps are read one way only, as everywhere else.
        inputs = kept_inputs(self._anatomy, [ids], [positions], self._sight)
        with memory_explained(), self._anatomy.lock, torch.inference_mode():
            logits = self._anatomy.model(**inputs, logits_to_keep=1).logits[0, -1]
        distribution = Distribution(logits)
        if not distribution.valid:
            raise PrecisionError(
                f"{self._missing} the model's logits are not numbers in {self._dtype}, so there is no answer "
                "to compare; make the run again with float32 or bfloat16 among its dtypes."
            )
        return distribution.best
