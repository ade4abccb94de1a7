"""What a reader can ask about a run's pictures, done by the worker unit by unit, and what it found so far."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ctxviz.errors import PromptError
from ctxviz.picture_findings import GREY, Colour, Occlusion, Swap, WithoutPictures
from ctxviz.pictures import Picture
from ctxviz.run import Run
from ctxviz.ui.special_tokens import learn
from ctxviz.ui.turns import Job
from ctxviz.ui.views import ACTIVE, FINISHED, View, views
from ctxviz.ui.worker import worker

if TYPE_CHECKING:
    from ctxviz.models import LoadedModel
    from ctxviz.ui.session import Session

Finding = WithoutPictures | Occlusion | Swap
_UNITS = {"without": "token", "occlusion": "square", "swap": "picture"}


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked; two that are equal have one answer. Pictures and tokens are counted from 0."""

    kind: Literal["without", "occlusion", "swap"]
    picture: int = 0
    step: int = 0
    variant: int = 0
    grid: int = 0
    """Squares a side; for an occlusion."""
    colour: Colour = GREY
    """What squares are covered with; for an occlusion."""
    other: str = ""
    """The sha256 of picture B; for a swap."""

    def units(self, run: Run) -> int:
        """How many times the worker is asked for a piece of the answer."""
        return {"without": len(run), "occlusion": self.grid**2, "swap": 2}[self.kind]


class PictureRequest:
    """A question about a run's pictures; ``found`` is what is known so far, the answer once it is done."""

    def __init__(
        self, view: View, reference: str, run: Run, question: Question, other: Picture | None = None
    ) -> None:
        self.view = view
        self.reference = reference
        self.run = run
        self.question = question
        self.other = other
        self.found: Finding | None = None

    def job(self) -> Job:
        kind, variant = self.question.kind, self.run.variants[self.question.variant]
        dtype = self.run.dtypes[0] if kind == "without" else variant.dtype
        return Job(self.view, self.reference, (dtype,), lambda model: _Working(self, model))

    def begin(self, model: LoadedModel) -> Iterator[float | Finding]:
        """The engine's iterator that answers it."""
        from ctxviz import engine

        asked, run = self.question, self.run
        if asked.kind == "without":
            return engine.without_pictures(model, run)
        variant = run.variants[asked.variant]
        if asked.kind == "occlusion":
            where = {"picture": asked.picture, "grid": asked.grid}
            return engine.occlude(model, run, asked.step, variant, colour=asked.colour, **where)
        # The engine's alone from here on: a large photograph is let go of with its job.
        other, self.other = self.other, None
        assert other is not None
        return engine.swap(model, run, other, asked.step, variant, picture=asked.picture)


class _Working:
    """One piece of an answer a turn."""

    complete = True

    def __init__(self, request: PictureRequest, model: LoadedModel) -> None:
        self._request = request
        self._model: LoadedModel | None = model
        self._steps = request.begin(model)
        self._done = -1 if request.question.kind == "occlusion" else 0

    def __next__(self) -> bool:
        made = next(self._steps)
        request = self._request
        if self._model is not None:
            # The engine has found it to be the run's by now.
            learn(request.run, self._model)
            self._model = None
        if isinstance(made, WithoutPictures | Occlusion | Swap):
            request.found = made
            request.view.pieces += 1
        self._done += 1
        total = request.question.units(request.run)
        if self._done < total:
            stage = f"{_UNITS[request.question.kind]} {self._done + 1} of {total}"
            request.view.tell("running", stage=stage, progress=self._done / total)
        return False

    def settle(self) -> None:
        """Nothing waits."""


def tidy(session: Session) -> None:
    """Answers are kept while their run is on screen; what is still asked about another run is stopped.

    A run that has not begun takes the place of none: it may fail.
    """
    run = session.view.run
    for question, request in list(session.looks.items()):
        if run is not None and request.run is not run:
            worker().stop(request.view.id)
            del session.looks[question]
        elif request.view.state in FINISHED:
            request.other = None


def ask(session: Session, reference: str, question: Question, other: Picture | None = None) -> None:
    """Have the worker answer a question about the run on screen; one of the same kind is stopped for it.

    Raises:
        CtxvizError: there is no finished run, or the worker is busy.
    """
    run = session.view.run
    if run is None or not len(run) or worker().has(session.view.id):
        raise PromptError("There is no finished run to ask about; make one, or wait until it has ended.")
    request = PictureRequest(views().create(), reference, run, question, other)
    worker().submit(request.job())
    for before in session.looks.values():
        if before.question.kind == question.kind and before.view.state in ACTIVE:
            worker().stop(before.view.id)
    session.looks[question] = request
