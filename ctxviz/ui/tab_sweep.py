"""The sweep of one tab: the one that it asked for last."""

from __future__ import annotations

from dataclasses import dataclass

from ctxviz.sweep.spec import SweepSpec
from ctxviz.ui.sweeping import SweepRequest, requested
from ctxviz.ui.views import views
from ctxviz.ui.worker import worker


@dataclass(kw_only=True)
class TabSweep:
    """A sweep that goes on while its reader looks at other pages."""

    sweep: SweepRequest | None = None

    def start_sweep(self, spec: SweepSpec) -> None:
        """Have the worker make a sweep's missing cells, or follow another tab's request for the same.

        Raises:
            CtxvizError: the worker is busy.
        """
        request = requested(spec)
        if request is None or not worker().has(request.view.id):
            request = SweepRequest(views().create(), spec)
            worker().submit(request.job())
        self.sweep = request

    def stop_sweep(self) -> None:
        if self.sweep is not None:
            worker().stop(self.sweep.view.id)
