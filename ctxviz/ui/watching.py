"""Runs the page again once a view has changed, and says how far one is, without running any script meanwhile.

A fragment that runs by itself would ask the server to run it even after the page has gone on to draw without
it. Here the browser asks a route, and only what changes the page runs its script.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from streamlit.components.v2 import component

from ctxviz.ui.components import bootstrap, nothing
from ctxviz.ui.views import ACTIVE, View, views
from ctxviz.ui.worker import worker

GONE: Final = "gone"
_WORDS: Final = {"queued": "waiting for a turn"}
_watch = component("ctxviz.watch", js=bootstrap("watch.js"), isolate_styles=False)


class Watches:
    """The views that one run of a page's script is drawn from, and how each was going when it began.

    A change while the page is drawn must not be missed, so what is compared later is what was there before.
    """

    def __init__(self, shown: Mapping[str, View]) -> None:
        """``shown`` by names that stay the same from one run of the script to the next."""
        self._shown = dict(shown)
        self._marks = {view.id: mark(view) for view in shown.values()}
        self._watched: set[str] = set()

    def bar(self, view: View) -> None:
        """A bar and a few words on how far a view is, here and now."""
        name = next(name for name, shown in self._shown.items() if shown is view)
        self._watch(name, view, progress=True)

    def end(self) -> None:
        """Have the page run again once a view is not as it was drawn; keeps those at work in use.

        What goes on while its reader looks at another page is stopped only for a tab that is gone.
        """
        for name, view in self._shown.items():
            restless = changes(view) or mark(view) != self._marks[view.id]
            if restless and view.id not in self._watched:
                self._watch(name, view, progress=False)

    def _watch(self, name: str, view: View, *, progress: bool) -> None:
        self._watched.add(view.id)
        data = {"view": view.id, "shown": self._marks[view.id], "progress": progress}
        _watch(key=f"watch-{name}", data=data, on_changed_change=nothing)


def changes(view: View) -> bool:
    """Whether a view may change by itself. A job that was stopped ends with its token in progress."""
    return view.state in ACTIVE or worker().holds(view.id)


def mark(view: View) -> str:
    """What is drawn anew where it changes: how it is going, whether there is a run that has a token, how much
    there is of an answer that is drawn piece by piece, whether the worker still ends it, and whether a
    stopped run can go on."""
    parts = [view.state]
    if view.state in ACTIVE:
        parts += ["begun"] if view.run is not None and len(view.run) else []
        parts += [f"{view.pieces} found"] if view.pieces else []
    elif worker().holds(view.id):
        parts.append("ending")
    if worker().rests(view.id):
        parts.append("kept")
    return ", ".join(parts)


def how_far(view: View) -> tuple[float, str]:
    """A share from 0 to 1, and a few words."""
    run = view.run
    if run is None:
        return min(1.0, view.progress or 0.0), view.stage or _WORDS.get(view.state, view.state)
    made, wanted = len(run), run.settings.max_new_tokens
    return min(1.0, made / wanted), f"token {min(made + 1, wanted)} of {wanted}"


def routes() -> list[Route]:
    """The route that the browser asks."""
    return [Route("/_ctxviz/state/{view_id}", _state)]


async def _state(request: Request) -> Response:
    view = views().get(str(request.path_params["view_id"]))
    share, words = (0.0, "") if view is None else how_far(view)
    answer = {"mark": GONE if view is None else mark(view), "share": share, "words": words}
    return JSONResponse(answer, headers={"Cache-Control": "no-store"})
