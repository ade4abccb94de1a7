"""What the browser components fetch: deltas, whole fields, tables, pictures, and the front end's own files.

A custom Starlette route answers whatever name the server was reached by, so :func:`middleware` accepts only
names that are known to be this server, and forbids pages to load anything from elsewhere. Views are found
by unguessable ids; nothing of a request is repeated in an answer.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Awaitable, Callable, Container
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ctxviz.figures import metrics
from ctxviz.ui import cell_view, delta, enlarged, field_values, tables
from ctxviz.ui.card_data import card_data
from ctxviz.ui.focus import DEFAULT_METRIC
from ctxviz.ui.origins import OwnOriginOnly
from ctxviz.ui.shown_prompt import PICTURE_FILES
from ctxviz.ui.views import View, views

LOOPBACK: Final = ("localhost", "127.0.0.1", "[::1]")
ALLOWED_HOSTS: Final = "CTXVIZ_ALLOWED_HOSTS"
"""Environment variable: further names of this server, separated by commas."""

PLOTLY: Final = "plotly.min.js"

_FRONTEND: Final = Path(__file__).parent / "frontend"
_MIME: Final = {".js": "text/javascript", ".css": "text/css"}
_HOST: Final = re.compile(r"[A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\]", re.ASCII)
_COUNT: Final = re.compile(r"\d{1,9}", re.ASCII)


def routes() -> list[Route]:
    """The routes to hand to ``st.App``."""
    return [
        Route("/_ctxviz/delta/{view_id}", _answering(_delta)),
        Route("/_ctxviz/cell/{view_id}", _answering(_cell)),
        Route("/_ctxviz/figure/{view_id}", _figure),
        Route("/_ctxviz/values/{view_id}", _answering(_values)),
        Route("/_ctxviz/values/{view_id}/csv", _answering(_values_csv)),
        Route("/_ctxviz/table/{view_id}", _answering(_table)),
        Route("/_ctxviz/picture/{view_id}/{number}", _picture),
        Route("/_ctxviz/static/{version}/{name}", _static),
    ]


def middleware() -> list[Middleware]:
    """The middleware to hand to ``st.App``; it wraps Streamlit's own routes and its websocket too."""
    names = allowed_hosts()
    return [
        Middleware(TrustedHostMiddleware, allowed_hosts=names, www_redirect=False),
        Middleware(OwnOriginOnly, names=[name for name in names if name not in LOOPBACK]),
        Middleware(SecurityHeaders, policy=content_policy(names)),
    ]


def allowed_hosts() -> list[str]:
    """Names this server answers to: the loopback's and those of CTXVIZ_ALLOWED_HOSTS."""
    more = (name.strip() for name in os.environ.get(ALLOWED_HOSTS, "").split(","))
    return [*LOOPBACK, *(name for name in more if _HOST.fullmatch(name))]


def asset_url(name: str) -> str:
    """The address of a front-end file; it changes with the contents, so browsers may keep the file."""
    return f"/_ctxviz/static/{_version()}/{name}"


def content_policy(names: list[str]) -> str:
    """A Content-Security-Policy under which even a slip could fetch nothing from outside.

    ``unsafe-eval`` is for plotly.js, whose WebGL traces compile functions; inline scripts stay forbidden.
    """
    sockets = [f"{scheme}://{name}:*" for name in names if name[0] != "[" for scheme in ("ws", "wss")]
    rules = {
        "default-src": "'self'",
        "script-src": " ".join(["'self'", "blob:", "'unsafe-eval'", *_inline_scripts()]),
        "style-src": "'self' 'unsafe-inline'",
        "img-src": "'self' data: blob:",
        "media-src": "'self' data: blob:",
        "font-src": "'self' data:",
        "connect-src": " ".join(["'self'", *sockets]),
        "worker-src": "'self' blob:",
        "object-src": "'none'",
        "base-uri": "'self'",
        "form-action": "'self'",
        "frame-ancestors": "'self'",
    }
    return "; ".join(f"{name} {value}" for name, value in rules.items())


class SecurityHeaders:
    """ASGI middleware that adds the security headers to every answer."""

    def __init__(self, app: ASGIApp, policy: str) -> None:
        self.app = app
        self._headers = {
            "Content-Security-Policy": policy,
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(self._headers)
            await send(message)

        await self.app(scope, receive, send_with_headers if scope["type"] == "http" else send)


class _BadQueryError(Exception):
    """A query that cannot be answered; nothing of it is repeated."""


class _Query:
    """The checked query of one request for a view."""

    def __init__(self, request: Request) -> None:
        self._query = request.query_params
        self._view_id = str(request.path_params["view_id"])

    def view(self) -> View | None:
        return views().get(self._view_id)

    def count(self, name: str) -> int:
        """A whole number; 0 if it is not given."""
        text = self._query.get(name, "0")
        if not _COUNT.fullmatch(text):
            raise _BadQueryError
        return int(text)

    def maybe(self, name: str) -> int | None:
        """A whole number, or None if it is not given."""
        return self.count(name) if name in self._query else None

    def choice(self, name: str, known: Container[str], default: str) -> str:
        text = self._query.get(name, default)
        if text not in known:
            raise _BadQueryError
        return text


def _answering(answer: Callable[[_Query, View], Response]) -> Callable[[Request], Awaitable[Response]]:
    """A route for one view: 404 for an unknown id, 400 for a bad query."""

    async def endpoint(request: Request) -> Response:
        query = _Query(request)
        view = query.view()
        if view is None:
            return _json({"error": "unknown view"}, 404)
        try:
            return answer(query, view)
        except _BadQueryError:
            return _json({"error": "bad query"}, 400)

    return endpoint


def _json(content: Any, status: int = 200) -> Response:
    return JSONResponse(content, status, headers={"Cache-Control": "no-store"})


def _delta(query: _Query, view: View) -> Response:
    metric, variant = query.choice("metric", delta.METRICS, DEFAULT_METRIC), query.count("variant")
    held = delta.Held(query.count("from"), query.count("references"), query.count("epoch"))
    return _json(delta.delta(view, held, metric, variant))


def _cell(query: _Query, view: View) -> Response:
    step, layer = query.maybe("step"), query.maybe("layer")
    return _json(cell_view.answer(view, step, layer, query.count("variant")))


def _figure(request: Request) -> Response:
    """A figure of a run as the figure component reads it. No coroutine: plotly takes its time."""
    query = _Query(request)
    view = query.view()
    if view is None:
        return _json({"error": "unknown view"}, 404)
    try:
        return _drawn(query, view)
    except _BadQueryError:
        return _json({"error": "bad query"}, 400)


def _drawn(query: _Query, view: View) -> Response:
    name = query.choice("name", enlarged.FIGURES, "field")
    metric = query.choice("metric", delta.METRICS, DEFAULT_METRIC)
    step, layer, variant = query.count("step"), query.count("layer"), query.count("variant")
    now = view.snapshot()
    run = now.run
    if run is None or step >= len(run) or layer >= run.model.n_layers or variant >= len(run.variants):
        raise _BadQueryError
    card = enlarged.card(run, name, metric, variant, step, layer)
    return _json({"epoch": now.epoch, "card": card_data(card)})


def _values(query: _Query, view: View) -> Response:
    metric, variant = query.choice("metric", metrics.METRICS, DEFAULT_METRIC), query.count("variant")
    held = query.count("from"), query.count("epoch")
    return _json(field_values.answer(view, metric, variant, *held))


def _values_csv(query: _Query, view: View) -> Response:
    metric, variant = query.choice("metric", metrics.METRICS, DEFAULT_METRIC), query.count("variant")
    run = view.run
    if run is None or variant >= len(run.variants):
        raise _BadQueryError
    return _csv(field_values.csv(run, metric, variant))


def _csv(text: str) -> Response:
    return Response(text, media_type="text/csv", headers={"Cache-Control": "no-store"})


def _table(query: _Query, view: View) -> Response:
    chart, run = query.choice("chart", tables.CHARTS, "tokens"), view.run
    if run is None:
        raise _BadQueryError
    return _csv(tables.tokens_csv(run) if chart == "tokens" else tables.chart_csv(run, chart))


def _picture(request: Request) -> Response:
    """A picture of the prompt as PNG; 404 where the view holds none of that number (and hash, if given).

    No coroutine: encoding a large picture takes a while, and threads serve plain functions.
    """
    view, number = views().get(str(request.path_params["view_id"])), str(request.path_params["number"])
    run = None if view is None else view.run
    pictures = () if run is None else run.pictures
    if not _COUNT.fullmatch(number) or int(number) >= len(pictures):
        return _json({"error": "unknown picture"}, 404)
    picture = pictures[int(number)]
    if not picture.sha256.startswith(request.query_params.get("sha256", "")):
        return _json({"error": "unknown picture"}, 404)
    return Response(PICTURE_FILES.png(picture), media_type="image/png", headers={"Cache-Control": "no-store"})


async def _static(request: Request) -> Response:
    """A front-end file of this version; a browser may keep it, since another version has another address."""
    path = _assets().get(request.path_params["name"])
    if path is None or request.path_params["version"] != _version():
        return _json({"error": "unknown file"}, 404)
    headers = {"Cache-Control": "public, max-age=31536000, immutable"}
    if path.name == PLOTLY:
        # 5 MB would be compressed again for every browser; over the loopback that is slower than sending it.
        headers["Content-Encoding"] = "identity"
    return FileResponse(path, media_type=_MIME[path.suffix], headers=headers)


@cache
def _assets() -> dict[str, Path]:
    """Every file that is served, by name."""
    own = {path.name: path for path in _FRONTEND.iterdir() if path.suffix in _MIME}
    return own | {PLOTLY: Path(str(files("plotly"))) / "package_data" / PLOTLY}


@cache
def _version() -> str:
    digest = hashlib.sha256(f"{PLOTLY} {version('plotly')}".encode())
    for name, path in sorted(_assets().items()):
        if name != PLOTLY:
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _inline_scripts() -> list[str]:
    """CSP sources of the scripts written into Streamlit's own page, so that no other inline script runs."""
    page = (files("streamlit") / "static" / "index.html").read_bytes()
    scripts = re.findall(rb"<script>(.*?)</script>", page, re.DOTALL)
    return [f"'sha256-{base64.b64encode(hashlib.sha256(script).digest()).decode()}'" for script in scripts]
