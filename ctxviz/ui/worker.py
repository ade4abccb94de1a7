"""One thread that owns the models and makes tokens in turn for everyone.

The thread takes one job after the other, lets it make one token, and puts it at the end of the queue. It
writes to the job's view and never calls streamlit, so a page that is reloaded, closed or slow cannot hold it
up. torch is imported here, by the first job or by :meth:`Worker.warm`, not earlier.
"""

from __future__ import annotations

import gc
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Final

from ctxviz.errors import CtxvizError, MemoryRefusedError
from ctxviz.ui.failures import explain, guarded
from ctxviz.ui.job_list import JobList
from ctxviz.ui.shelf import Shelf
from ctxviz.ui.turns import Job, advance, waiting

if TYPE_CHECKING:
    from ctxviz.models import LoadedModel
    from ctxviz.ui.views import State

MAX_JOBS: Final = 12
"""Jobs that may wait or run at the same time."""
MAX_PARKED: Final = 8
"""Jobs that are paused, or stopped and kept; beyond that the one parked first is given up."""
PATIENCE_SECONDS: Final = 180.0
"""A job nobody asked about for so long is stopped. Browsers let hidden tabs ask once a minute."""
TICK_SECONDS: Final = 1.0
_GIVEN_UP: Final = "What was made is kept, but this run cannot go on"


class _CancelledError(Exception):
    """Raised through a loader whose reader no longer waits."""


class Worker(JobList):
    """The queue and its thread. All methods may be called from any thread and return at once."""

    def __init__(self, shelf: Shelf | None = None, patience: float = PATIENCE_SECONDS) -> None:
        super().__init__()
        self._shelf = Shelf() if shelf is None else shelf
        self._patience = patience
        self._queue: deque[Job] = deque()
        self._warm_at: float | None = None
        self._closing = False
        self._litter = False
        self._thread: threading.Thread | None = None

    def submit(self, job: Job) -> None:
        """Put a job at the end of the queue.

        Raises:
            CtxvizError: too many jobs are under way, or ctxviz is shutting down.
        """
        with self._changed:
            if self._closing:
                raise CtxvizError("ctxviz is shutting down; start it again to make a new run.")
            ahead = sum(not (j.parked or j.aside) for j in self._jobs.values())
            if ahead >= MAX_JOBS and not job.aside:
                raise CtxvizError(
                    f"{MAX_JOBS} runs are already under way; wait until one ends, or stop one, and try again."
                )
            self._jobs[job.view.id] = job
            self._queue.append(job)
            job.view.tell("queued", stage="waiting for a turn", message=waiting(ahead))
            self._start()
            self._changed.notify_all()

    def stop(self, view_id: str) -> None:
        """Make no further token: the one in progress is finished, and the job is kept, so that it can go on.

        A job that has not made a token, or has nothing left to make, ends.
        """
        with self._changed:
            job = self._alive(view_id)
            if job is None or job.halted:
                return
            if job.turns is None:
                job.view.tell("stopped")
                self._give_up(job)
                return
            # Told once the references that wait are in the run: a browser then asks no more.
            job.halted = True
            if job.parked:
                self._park(job)
            else:
                # What is in progress may take its time: a part of a long prompt, a token of a large model.
                job.view.tell(stage="stopping", progress=job.view.progress)
            self._changed.notify_all()

    def end(self, view_id: str) -> None:
        """End a job for good; a token in progress is finished."""
        with self._changed:
            job = self._alive(view_id)
            if job is not None:
                self._give_up(job)

    def step(self, view_id: str) -> None:
        """Let a job make exactly one more token; one that runs pauses after the token in progress.

        Tokens asked for this way and not made yet add up.
        """
        with self._changed:
            job = self._alive(view_id)
            if job is not None:
                job.tokens = 1 if job.tokens is None or job.halted else max(0, job.tokens) + 1
                self._unpark(job)

    def go_on(self, view_id: str) -> None:
        """Let a paused or stopped job make the rest of its tokens."""
        with self._changed:
            job = self._alive(view_id)
            if job is not None:
                job.tokens = None
                self._unpark(job)

    def is_loaded(self, reference: str) -> bool:
        return self._shelf.has(reference)

    def loaded(self, reference: str) -> tuple[str, ...]:
        """The dtypes in which a model is loaded; empty where it is not."""
        return self._shelf.dtypes(reference)

    def warm(self, delay: float) -> None:
        """Import the heavy libraries in the worker's thread once it is idle, ``delay`` seconds from now."""
        with self._changed:
            if self._warm_at is None and not self._closing:
                self._warm_at = time.monotonic() + delay
                self._start()
                self._changed.notify_all()

    def shutdown(self, timeout: float | None = None) -> bool:
        """Stop every job, join the thread, free the models; True if the thread has ended."""
        with self._changed:
            self._closing = True
            for job in self._jobs.values():
                job.stopped = True
            self._changed.notify_all()
        if self._thread is None:
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._live, name="ctxviz-worker", daemon=False)
            self._thread.start()

    def _unpark(self, job: Job) -> None:
        job.halted = False
        run = job.view.run
        if run is not None and not job.stopped:
            run.outcome = None
        if job.parked:
            job.parked = False
            self._queue.append(job)
            if not job.stopped:
                job.view.tell("running")
        self._changed.notify_all()

    def _park(self, job: Job) -> None:
        """Put a job aside; where too many are, the one that has been there for longest is given up."""
        job.parked = True
        run = job.view.run
        if job.halted and run is not None:
            run.outcome = "stopped"
        job.view.tell("stopped" if job.halted else "paused")
        self._jobs[job.view.id] = self._jobs.pop(job.view.id)
        parked = [j for j in self._jobs.values() if j.parked]
        for oldest in parked[:-MAX_PARKED]:
            self._give_up(oldest, f"{_GIVEN_UP}: only {MAX_PARKED} runs are kept that wait to go on.")

    def _give_up(self, job: Job, farewell: str = "") -> None:
        job.stopped, job.farewell = True, farewell
        self._unpark(job)

    def _live(self) -> None:
        while (job := self._next()) is not None:
            self._turn(job)
            if self._litter:
                self._litter = False
                gc.collect()
        for job in list(self._jobs.values()):
            self._end(job, "stopped")
        self._shelf.clear()

    def _next(self) -> Job | None:
        """The job whose turn it is, waiting for one; None when it is time to go."""
        while True:
            with self._changed:
                self._drop_abandoned()
                # Checked because a non-daemon thread would otherwise keep a finished interpreter alive.
                if self._closing or not threading.main_thread().is_alive():
                    return None
                if self._queue:
                    return self._queue.popleft()
                warm = self._warm_at is not None and time.monotonic() >= self._warm_at
                if not warm:
                    self._changed.wait(TICK_SECONDS)
            if warm:
                self._warm_at = float("inf")
                guarded(self._shelf.warm)

    def _drop_abandoned(self) -> None:
        oldest = time.monotonic() - self._patience
        for job in list(self._jobs.values()):
            if job.view.last_used < oldest and not job.stopped:
                self._give_up(job, f"{_GIVEN_UP}: no page has shown it for {self._patience:.0f} seconds.")

    def _turn(self, job: Job) -> None:
        """Let one job make one token or one reference, or begin it."""
        made: bool | None = False
        try:
            if not job.stopped and job.turns is None:
                self._begin(job)
            if job.turns is not None and not (job.stopped or job.halted):
                made = advance(job.turns)
        except BaseException as error:  # the thread must outlive whatever a job does
            self._fail(job, error)
            return
        with self._changed:
            job.made += bool(made)
            if made and job.tokens is not None:
                job.tokens -= 1
            over, stopped = made is None or job.ends, job.stopped or job.halted
            may_pause = job.may_pause
            if not (over or may_pause):
                self._queue.append(job)
        if over:
            self._end(job, "stopped" if stopped else "done")
        elif may_pause:
            self._pause(job)

    def _pause(self, job: Job) -> None:
        if job.turns is not None:
            guarded(job.turns.settle)
        with self._changed:
            # Stop, step or continue may have come meanwhile.
            if job.may_pause:
                self._park(job)
            else:
                self._queue.append(job)

    def _begin(self, job: Job) -> None:
        def report(stage: str, fraction: float | None) -> None:
            with self._changed:
                if job.stopped or self._closing:
                    raise _CancelledError
                job.view.tell("loading", stage=stage, progress=fraction)

        def fetch() -> LoadedModel:
            with self._changed:
                needed = {j.reference for j in self._jobs.values()}
            return self._shelf.fetch(job.reference, job.dtypes, report, needed)

        try:
            model = fetch()
        except MemoryRefusedError:
            if not self._release(job.reference):
                raise
            model = fetch()
        if not job.stopped:
            job.turns = job.work(model)
            job.view.tell("running")

    def _release(self, wanted: str) -> bool:
        """End the stopped jobs that keep other models than the one ``wanted``; whether there were any."""
        with self._changed:
            resting = [j for j in self._jobs.values() if j.halted and j.parked and j.reference != wanted]
        for job in resting:
            self._end(job, "stopped", f"{_GIVEN_UP}: another run needed the memory of its model.")
        return bool(resting)

    def _fail(self, job: Job, error: BaseException) -> None:
        if job.stopped or job.halted or self._closing:
            self._end(job, "stopped")
            return
        sentence = explain(error)
        if job.view.run is not None and job.view.run.outcome is None:
            job.view.run.outcome = f"failed: {sentence}"
        self._end(job, "failed", sentence)

    def _end(self, job: Job, state: State, message: str = "") -> None:
        """Take a job off the books, free what it held, and say how it ended."""
        turns, job.turns = job.turns, None
        if turns is not None and state == "stopped":
            guarded(turns.settle)
        run = job.view.run
        if run is not None and run.outcome is None:
            run.outcome = "stopped" if state == "stopped" else "finished"
        with self._changed:
            self._jobs.pop(job.view.id, None)
            job.view.tell(state, message=message or job.farewell)
        # Collected once the exception that ended the job, if any, no longer holds its frames.
        self._litter = turns is not None


_WORKER: Worker | None = None
_WORKER_LOCK = threading.Lock()


def worker() -> Worker:
    """The process's one worker."""
    global _WORKER
    with _WORKER_LOCK:
        if _WORKER is None:
            _WORKER = Worker()
        return _WORKER
