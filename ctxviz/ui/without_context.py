"""What a run's model writes without the context: asked of it once the run's own tokens are made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from ctxviz.errors import CtxvizError
from ctxviz.run import Run
from ctxviz.ui.turns import Job
from ctxviz.ui.views import View
from ctxviz.ui.worker import worker

if TYPE_CHECKING:
    from ctxviz.models import LoadedModel

_ASKED: Final[WeakKeyDictionary[Run, View]] = WeakKeyDictionary()
"""How it goes with the runs whose model was asked."""


def is_written(run: Run) -> bool:
    """Whether ``run.without_context`` is still growing: a page that shows the run asks for it again."""
    view = _ASKED.get(run)
    return view is not None and view.active


def fault_of(run: Run) -> str:
    """Why ``run.without_context`` is not there, or ends early, in a sentence; empty where all is well."""
    view = _ASKED.get(run)
    return view.message if view is not None and view.state == "failed" else ""


def ask(reference: str, run: Run) -> None:
    """Have the worker ask the model, one token a turn; what is there of the text is gone on with.

    Its job has a view that nobody sees, so that the run's own is done when its tokens are. Where the worker
    is shutting down there will be no text.
    """
    if is_written(run) or not _wants_more(run):
        return
    view = View()
    _ASKED[run] = view
    try:
        worker().submit(
            Job(view, reference, (run.dtypes[0],), lambda model: _Writing(run, model), aside=True)
        )
    except CtxvizError:
        del _ASKED[run]


def _wants_more(run: Run) -> bool:
    from ctxviz.engine import MOST_WITHOUT

    found = run.without_context
    return bool(len(run)) and (
        found is None or not (found.ended or len(found.ids) >= min(len(run), MOST_WITHOUT))
    )


class _Writing:
    """One token of the text a turn."""

    complete = True

    def __init__(self, run: Run, model: LoadedModel) -> None:
        from ctxviz.engine import without_context

        self._run = run
        self._texts = without_context(model, run)

    def __next__(self) -> bool:
        self._run.without_context = next(self._texts)
        return False

    def settle(self) -> None:
        """Nothing waits."""
