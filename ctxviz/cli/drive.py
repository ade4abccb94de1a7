"""One run from the command line: load, generate, write, save."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ctxviz import alarms
from ctxviz.cli.lines import JsonLines
from ctxviz.cli.report import Report
from ctxviz.cli.stopping import INTERRUPTED, Asked, asking_to_stop
from ctxviz.cli.terminal import Bar, OutputError, ReaderGoneError, bar, sentence, write
from ctxviz.errors import CtxvizError, SettingsError
from ctxviz.records import Reference, Step
from ctxviz.run import Run
from ctxviz.settings import RunSettings

if TYPE_CHECKING:
    from ctxviz.engine import Stream
    from ctxviz.models import LoadedModel
    from ctxviz.pictures import Picture

ALARMED = 3
"""Exit status of a run in which an alarm of ``--fail-on`` fired."""


class Output(Protocol):
    """Where a growing run is written to."""

    def step(self, run: Run, step: Step) -> None: ...

    def reference(self, run: Run, reference: Reference) -> None: ...

    def finish(self, run: Run) -> None: ...


@dataclass(frozen=True, slots=True)
class Job:
    """What ``run`` was asked for, checked as far as it can be without a model."""

    model: str
    prompt: str
    settings: RunSettings
    save: Path | None
    patches: Path | None
    as_json: bool
    threads: int | None
    device: str
    with_bar: bool
    fail_on: tuple[str, ...] = ()
    """Alarms, keys of ``alarms.KINDS``, that make the run end with ALARMED."""
    pictures: tuple[Picture, ...] = ()
    keep_pictures: bool = False
    """Whether they go into the file of ``save``."""


def run_job(job: Job) -> int:
    """Do it.

    Returns:
        The exit status: 0, also when whoever read the output had enough; ALARMED where an alarm of
        ``fail_on`` fired, stopped or not; or 128 and the number of the signal that stopped it: 130 after
        Ctrl-C.

    Raises:
        CtxvizError: bad input, or a failure on the way; the steps made so far are written and saved, and
            their alarms told.
    """
    output = JsonLines(write) if job.as_json else Report()
    with bar(job.with_bar) as shown:
        model, stream = _start(job, shown)
        run = Run(stream.identity, stream.context, job.settings, stream.pictures)
        try:
            status = _follow(job, stream, run, output, shown) or _ask_without(job, model, run)
        except CtxvizError:
            _alarmed(job, run)
            raise
        finally:
            shown.close()
            if job.save is not None and len(run):
                _save(run, job.save, job.keep_pictures)
    return ALARMED if _alarmed(job, run) else status


def _alarmed(job: Job, run: Run) -> bool:
    """Whether an alarm fired that should not have; told in one line, the worst kind in full."""
    counts = {kind: n for kind, n in alarms.count(run, job.fail_on).items() if n}
    if not counts:
        return False
    kind, *others = counts
    place = alarms.first(run, kind)
    places = "1 place" if counts[kind] == 1 else f"{counts[kind]} places, first"
    rest = f" Also: {', '.join(f'{other} in {counts[other]}' for other in others)}." if others else ""
    told = f"Alarm {kind} in {places}: {place.sentence if place else ''}{rest}"
    with contextlib.suppress(OSError):  # a terminal that is gone
        print(f"ctxviz: {sentence(told)}", file=sys.stderr, flush=True)
    return True


def _start(job: Job, progress: Bar) -> tuple[LoadedModel, Stream]:
    progress("importing torch and transformers", None)
    from ctxviz.engine import stream
    from ctxviz.models import load_model

    model = load_model(
        job.model,
        dtypes=job.settings.needed_dtypes,
        device=job.device,
        progress=progress,
        threads=job.threads,
    )
    progress("reading the prompt", None)
    keep_patches = job.patches is not None
    started = stream(model, job.prompt, job.settings, pictures=job.pictures, keep_patches=keep_patches)
    for warning in model.warnings:
        print(f"ctxviz: {sentence(warning)}", file=sys.stderr)
    return model, started


def _follow(job: Job, stream: Stream, run: Run, output: Output, progress: Bar) -> int:
    """Take every step and reference into the run; on a failure write what there is, then let it through."""
    status, asked = 0, Asked()
    try:
        with asking_to_stop(asked):
            for _ in _records(job, stream, run, output, progress):
                if asked.status:
                    status = asked.status
                    break
            run.outcome = "stopped" if status else stream.outcome
            for reference in stream.flush():
                run.refer(reference)
            output.finish(run)
    except ReaderGoneError:
        run.outcome = "stopped"
    except KeyboardInterrupt:
        status, run.outcome = INTERRUPTED, "stopped"
    except OutputError as error:
        # A terminal that hung up takes the output with it, and says so by a signal first.
        status, run.outcome = asked.status, "stopped" if asked.status else f"failed: {sentence(error)}"
        if not status:
            raise
    except BaseException as error:
        known = isinstance(error, CtxvizError)
        run.outcome = f"failed: {sentence(error)}" if known else "failed: an internal error"
        with contextlib.suppress(ReaderGoneError, OutputError):
            output.finish(run)
        raise
    return status


def _records(job: Job, stream: Stream, run: Run, output: Output, progress: Bar) -> Iterator[None]:
    """Read the prompt, then take every step and reference into the run; yields where one may stop."""
    wanted = job.settings.max_new_tokens
    for reading in stream.reading:
        progress(reading.words, reading.share)
        yield
    if not job.as_json and sys.stdout.isatty():
        progress.close()  # the text itself shows how far it is
        progress = Bar(False)
    progress(f"token 1 of {wanted}", 0.0)
    for item in stream:
        _take(job, item, run, output)
        progress(f"token {min(len(run) + 1, wanted)} of {wanted}", len(run) / wanted)
        yield


def _ask_without(job: Job, model: LoadedModel, run: Run) -> int:
    """For a file that will show it, have the model write without the context; returns as :func:`_follow`."""
    if job.save is None:
        return 0
    from ctxviz.engine import MOST_WITHOUT, without_context

    asked, wanted = Asked(), min(len(run), MOST_WITHOUT)
    with bar(job.with_bar) as progress, asking_to_stop(asked):
        try:
            for found in without_context(model, run):
                run.without_context = found
                progress(f"without the context, token {len(found.ids)} of {wanted}", len(found.ids) / wanted)
                if asked.status:
                    break
        except CtxvizError as error:
            progress.say(str(error))
    return asked.status


def _take(job: Job, item: Step | Reference, run: Run, output: Output) -> None:
    if isinstance(item, Reference):
        run.refer(item)
        output.reference(run, item)
        return
    run.append(item)
    if job.patches is not None:
        _save_patches(job.patches, run, item)
    output.step(run, item)


def _save_patches(folder: Path, run: Run, step: Step) -> None:
    from ctxviz.store import save_patch

    for variant in step.variants:
        try:
            save_patch(folder, run, step, variant)
        except OSError as error:
            raise SettingsError(
                f"The patches cannot be written to {str(folder)!r} ({error.strerror or error}); "
                "make room or choose another folder."
            ) from None


def _save(run: Run, target: Path, pictures: bool) -> None:
    from ctxviz.store import save_run

    try:
        save_run(run, target, pictures=pictures)
    except OSError as error:
        raise SettingsError(
            f"The run cannot be written to {str(target)!r} ({error.strerror or error}); "
            "make room or choose another file."
        ) from None
