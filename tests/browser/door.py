"""The program with a side door through which a test sees the records: ``python tests/browser/door.py PORT``.

``/door/views`` lists every view in the order of their making, ``/door/run/ID`` is a view's run as a file.
The program itself is started as a person starts it, and nothing in it is changed.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path.cwd()))

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from streamlit.web import cli

import ctxviz.ui.routes as own
from ctxviz.store import save_run
from ctxviz.ui.views import View, views
from ctxviz.ui.worker import worker


def _about(view: View) -> dict[str, Any]:
    run = view.run
    return {
        "id": view.id,
        "state": view.state,
        "epoch": view.epoch,
        "message": view.message,
        "held": worker().holds(view.id),
        "goes_on": worker().wish(view.id) is not None,
        "n": None if run is None else len(run),
        "without": 0 if run is None or run.without_context is None else len(run.without_context.texts),
        "prompt": None if run is None else run.context.prompt,
        "run": None if run is None else id(run),
    }


def _views(_: Request) -> Response:
    return JSONResponse([_about(view) for view in list(views()._views.values())])


def _run(request: Request) -> Response:
    # Not by `get`: looking must not keep a view alive.
    view = views()._views.get(request.path_params["view"])
    if view is None or view.run is None:
        return Response(status_code=404)
    target = io.BytesIO()
    save_run(view.run, target, pictures=bool(view.run.pictures))
    return Response(target.getvalue())


def main(port: str) -> None:
    """Serve the program in the working folder until the process is ended."""
    routes = own.routes
    own.routes = lambda: [*routes(), Route("/door/views", _views), Route("/door/run/{view}", _run)]
    cli.main(["run", "app.py", "--server.port", port, "--server.headless", "true"])


if __name__ == "__main__":
    main(sys.argv[1])
