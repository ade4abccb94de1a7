"""Runs the page again once a view has changed, and says how far one is, without running any script meanwhile.

A fragment that runs by itself would ask the server to run it even after the page has gone on to draw without
it. Here the browser asks a route, and only what changes the page runs its script.
"""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from streamlit.components.v2 import component

from ctxviz.ui.components import bootstrap, nothing
from ctxviz.ui.views import View, views
from ctxviz.ui.worker import worker

GONE: Final = "gone"
_watch = component("ctxviz.watch", js=bootstrap("watch.js"), isolate_styles=False)


def watch(view: View, shown: str, *, progress: bool = False, key: str = "") -> None:
    """Have the page run again once ``view`` is not as it was drawn; keeps the view in use.

    ``shown`` is what :func:`mark` gave before the page was drawn: a change meanwhile must not be missed.
    With ``progress`` a bar and a few words say how far it is.
    """
    data = {"view": view.id, "shown": shown, "progress": progress}
    _watch(key=f"watch-{key or view.id}", data=data, on_changed_change=nothing)


def mark(view: View) -> str:
    """What is drawn anew where it changes: how it is going, and whether a stopped run can go on."""
    return f"{view.state}, kept" if worker().rests(view.id) else view.state


def how_far(view: View) -> tuple[float, str]:
    """A share from 0 to 1, and a few words."""
    run = view.run
    if run is None:
        return min(1.0, view.progress or 0.0), view.stage or view.state
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
