"""The two things a reader can ask of the worker: a run, and a prompt's tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxviz.records import Context, RunSettings, Step
from ctxviz.run import Run
from ctxviz.ui.turns import Job

if TYPE_CHECKING:
    from ctxviz.engine import Stream
    from ctxviz.models import LoadedModel
    from ctxviz.ui.views import View


class Measurement:
    """A run being made: every turn takes one record from the engine and adds it to ``run``."""

    def __init__(self, stream: Stream, run: Run) -> None:
        self._stream = stream
        self._run = run

    @property
    def complete(self) -> bool:
        return self._stream.outcome is not None or len(self._run) >= self._run.settings.max_new_tokens

    def __next__(self) -> bool:
        try:
            record = next(self._stream)
        except StopIteration:
            self._run.outcome = self._stream.outcome
            raise
        if isinstance(record, Step):
            self._run.append(record)
            return True
        self._run.refer(record)
        return False

    def settle(self) -> None:
        """Add the references that wait for a full batch."""
        for reference in self._stream.flush():
            self._run.refer(reference)


class Listing:
    """The prompt's tokens, read in one turn without running the model."""

    complete = True

    def __init__(self, request: TokenRequest, model: LoadedModel) -> None:
        self._request = request
        self._model = model
        self._done = False

    def __next__(self) -> bool:
        if self._done:
            raise StopIteration
        from ctxviz.engine import prepare

        settings = RunSettings(max_new_tokens=1)
        self._request.context = prepare(self._model, self._request.prompt, settings)
        self._done = True
        return False

    def settle(self) -> None:
        """Nothing waits."""


class TokenRequest:
    """A prompt whose tokens a reader wants to see; ``context`` is there once ``view.state`` is ``done``."""

    def __init__(self, view: View, reference: str, prompt: str) -> None:
        self.view = view
        self.reference = reference
        self.prompt = prompt
        self.context: Context | None = None

    def job(self) -> Job:
        return Job(self.view, self.reference, ("float32",), lambda model: Listing(self, model))


def notes_of(model: LoadedModel, dtypes: tuple[str, ...]) -> tuple[str, ...]:
    """What a reader should know of a model, as far as it concerns these dtypes."""
    return tuple(w for w in model.warnings if "float16" in dtypes or not w.startswith("float16"))


def run_job(view: View, reference: str, prompt: str, settings: RunSettings, tokens: int | None = None) -> Job:
    """A job that makes a run and shows it in ``view``; ``tokens`` as in :class:`Job`."""

    def begin(model: LoadedModel) -> Measurement:
        from ctxviz.engine import stream

        engine = stream(model, prompt, settings)
        run = Run(model.identity, engine.context, settings)
        view.show(run, "running", notes_of(model, settings.dtypes))
        return Measurement(engine, run)

    return Job(view, reference, settings.ordered_dtypes, begin, tokens, wish=(reference, prompt, settings))
