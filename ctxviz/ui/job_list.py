"""The jobs of a worker, and what anyone may ask about them."""

from __future__ import annotations

import threading

from ctxviz.ui.turns import Job


class JobList:
    """Jobs by the id of their view. All methods may be called from any thread and return at once."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._jobs: dict[str, Job] = {}

    def has(self, view_id: str) -> bool:
        """Whether a job is waiting, running or paused."""
        with self._changed:
            job = self._alive(view_id)
            return job is not None and not job.halted

    def holds(self, view_id: str) -> bool:
        """Whether a job may change its run by itself: as :meth:`has`, or stopped and not at rest yet."""
        with self._changed:
            job = self._jobs.get(view_id)
            return job is not None and not (job.halted and job.parked)

    def rests(self, view_id: str) -> bool:
        """Whether a job was stopped and is kept, so that it can go on."""
        with self._changed:
            job = self._alive(view_id)
            return job is not None and job.halted and job.parked

    def wish(self, view_id: str) -> object:
        """The wish of a job that is waiting, running, paused, or stopped and kept; else None."""
        with self._changed:
            job = self._alive(view_id)
            return None if job is None else job.wish

    def _alive(self, view_id: str) -> Job | None:
        """A job that was not given up."""
        job = self._jobs.get(view_id)
        return None if job is None or job.stopped else job
