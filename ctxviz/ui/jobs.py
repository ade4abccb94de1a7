"""What a reader can ask of the worker: a run, a run again with replays, a patch, a prompt's tokens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ctxviz.exporting import ExportCheck
from ctxviz.folds import Context
from ctxviz.records import Step
from ctxviz.run import Run
from ctxviz.settings import RunSettings
from ctxviz.ui import without_context
from ctxviz.ui.special_tokens import learn
from ctxviz.ui.turns import Job

if TYPE_CHECKING:
    from ctxviz.engine import Rebuilt, Stream
    from ctxviz.models import LoadedModel
    from ctxviz.pictures import Picture
    from ctxviz.ui.views import View


class Measurement:
    """A run being made: every turn reads a part of the prompt, or adds one record from the engine to ``run``.

    The run is shown once it has a token, so that one stopped or failed before that leaves nothing to look at.
    """

    def __init__(self, stream: Stream, run: Run, job: Job, notes: tuple[str, ...] = ()) -> None:
        self._stream = stream
        self.run = run
        self._job = job
        self._notes = notes

    @property
    def complete(self) -> bool:
        return self._stream.outcome is not None or len(self.run) >= self.run.settings.max_new_tokens

    def __next__(self) -> bool:
        reading = next(self._stream.reading, None)
        if reading is not None:
            self._job.view.tell("running", stage=reading.words, progress=reading.share)
            return False
        try:
            record = next(self._stream)
        except StopIteration:
            self.run.outcome = self._stream.outcome
            without_context.ask(self._job.reference, self.run)
            raise
        if not isinstance(record, Step):
            self.run.refer(record)
            return False
        self.run.append(record)
        if len(self.run) == 1:
            self._job.view.show(self.run, "running", self._notes)
        return True

    def settle(self) -> None:
        """Add the references that wait for a full batch, and have the model asked without the context."""
        for reference in self._stream.flush():
            self.run.refer(reference)
        without_context.ask(self._job.reference, self.run)


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
        request = self._request
        request.context = prepare(self._model, request.prompt, settings, request.pictures)
        self._done = True
        return False

    def settle(self) -> None:
        """Nothing waits."""


class TokenRequest:
    """A prompt whose tokens a reader wants to see; ``context`` is there once ``view.state`` is ``done``."""

    def __init__(self, view: View, reference: str, prompt: str, pictures: tuple[Picture, ...] = ()) -> None:
        self.view = view
        self.reference = reference
        self.prompt = prompt
        self.pictures = pictures
        self.context: Context | None = None

    def job(self) -> Job:
        return Job(self.view, self.reference, ("float32",), lambda model: Listing(self, model))


def notes_of(model: LoadedModel, dtypes: tuple[str, ...]) -> tuple[str, ...]:
    """What a reader should know of a model, as far as it concerns these dtypes."""
    return tuple(w for w in model.warnings if "float16" in dtypes or not w.startswith("float16"))


def wish_of(
    reference: str, prompt: str, settings: RunSettings, pictures: tuple[Picture, ...] = ()
) -> tuple[object, ...]:
    """What tells whether two requests ask for the same run."""
    return reference, prompt, settings, tuple(picture.sha256 for picture in pictures)


def run_job(
    view: View,
    reference: str,
    prompt: str,
    settings: RunSettings,
    tokens: int | None = None,
    pictures: tuple[Picture, ...] = (),
) -> Job:
    """A job that makes a run and shows it in ``view``; ``tokens`` as in :class:`Job`."""

    def begin(model: LoadedModel) -> Measurement:
        from ctxviz.engine import stream

        engine = stream(model, prompt, settings, pictures=pictures)
        return _measurement(engine, model, settings, job)

    wish = wish_of(reference, prompt, settings, pictures)
    job = Job(view, reference, settings.needed_dtypes, begin, tokens, wish=wish)
    return job


def replay_job(view: View, reference: str, run: Run, settings: RunSettings) -> Job:
    """A job that makes ``run`` again, token for token, with the replays of ``settings``."""
    follow = [run.token(k)[3] for k in range(len(run))]

    def begin(model: LoadedModel) -> Measurement:
        from ctxviz.engine import check_model, stream

        check_model(model, run)
        engine = stream(model, run.context.prompt, settings, pictures=run.pictures, follow=follow)
        making = _measurement(engine, model, settings, job)
        if run.dtypes[0] == settings.ordered_dtypes[0]:
            making.run.without_context = run.without_context
        return making

    job = Job(view, reference, settings.needed_dtypes, begin)
    return job


def _measurement(engine: Stream, model: LoadedModel, settings: RunSettings, job: Job) -> Measurement:
    run = Run(engine.identity, engine.context, settings, engine.pictures)
    learn(run, model)
    return Measurement(engine, run, job, notes_of(model, settings.dtypes))


@dataclass(frozen=True, slots=True)
class PatchFiles:
    """A patch's file by ``name`` and bytes, the script that applies it, and a PEFT adapter's zip."""

    name: str
    patch: bytes
    script: str
    adapter: bytes | None
    """None where there can be none or it would not carry its context."""
    adapter_words: str
    """What it was measured to do, or why there is none."""


class PatchRequest:
    """One token's patch of a run, built again; ``patch`` is there once ``view.state`` is ``done``.

    ``files`` are made of it once and kept for the next time the page is drawn.
    """

    def __init__(self, view: View, reference: str, run: Run, step: int, variant: int) -> None:
        self.view = view
        self.reference = reference
        self.run = run
        self.step = step
        self.variant = variant
        self.patch: Rebuilt | None = None
        self.check: ExportCheck | None = None
        """What it is worth to those who take it away; there with ``patch``."""
        self.files: PatchFiles | None = None

    def job(self) -> Job:
        dtype = self.run.variants[self.variant].dtype
        return Job(self.view, self.reference, (dtype,), lambda model: _Building(self, model))


class _Building:
    """The history is read token by token, one a turn; then the patch is built, and run as others will."""

    complete = True

    def __init__(self, request: PatchRequest, model: LoadedModel) -> None:
        from ctxviz.engine import rebuild

        self._request, self._model = request, model
        variant = request.run.variants[request.variant]
        self._steps: Iterator[float | Rebuilt | ExportCheck]
        self._steps = rebuild(model, request.run, request.step, variant)
        self._built: Rebuilt | None = None

    def __next__(self) -> bool:
        from ctxviz.engine import Rebuilt
        from ctxviz.engine.export_check import check_export

        made, request = next(self._steps), self._request
        if isinstance(made, Rebuilt):
            self._built = made
            self._steps = check_export(self._model, request.run, made)
        elif isinstance(made, ExportCheck):
            request.check, request.patch = made, self._built
        else:
            stage = "running what will be taken away" if self._built else "reading the history"
            request.view.tell("running", stage=stage, progress=made)
        return False

    def settle(self) -> None:
        """Nothing waits."""
