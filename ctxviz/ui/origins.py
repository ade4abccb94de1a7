"""Requests of foreign pages are refused before Streamlit sees them.

Any page that a reader has open may send requests to this server; what the browser adds is the page's origin.
Streamlit, asked by a foreign one, looks its own addresses up on the internet, on the thread that answers
everybody. So the origin is judged here, and what comes through carries none that could be judged again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

_PORTS: Final = {"http": 80, "https": 443}


class OwnOriginOnly:
    """ASGI middleware: a request with an ``Origin`` is answered only where that is this server's own.

    Its own is the name and port that the request was sent to, or, behind a proxy that sends it to another
    name, one of ``names`` on its scheme's usual port. No origin at all is sent by programs other than
    browsers, and by browsers for what their own page or address line asks for.
    """

    def __init__(self, app: ASGIApp, names: Iterable[str]) -> None:
        self.app = app
        self._names = frozenset(name.lower() for name in names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        origins = _values(scope, b"origin")
        if not origins:
            await self.app(scope, receive, send)
        elif self._own(origins, _values(scope, b"host")):
            rest = [(name, value) for name, value in scope["headers"] if name.lower() != b"origin"]
            await self.app(dict(scope, headers=rest), receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            refusal = PlainTextResponse("Another page's request is not answered.", status_code=403)
            await refusal(scope, receive, send)

    def _own(self, origins: list[str], hosts: list[str]) -> bool:
        if len(origins) != 1 or len(hosts) != 1:
            return False
        origin = _place(origins[0])
        if origin is None:
            return False
        scheme, name, port = origin
        # A proxy may have taken the encryption off, so the port that is left out is that of the page.
        host = _place(f"{scheme}://{hosts[0]}")
        return origin == host or (name in self._names and port == _PORTS[scheme])


def _values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name]


def _place(origin: str) -> tuple[str, str, int] | None:
    """Scheme, name and port of ``scheme://name[:port]``; None for anything else, ``null`` included."""
    try:
        parts = urlsplit(origin)
        port = parts.port
    except ValueError:
        return None
    if (
        parts.scheme not in _PORTS
        or not parts.hostname
        or origin.lower() != f"{parts.scheme}://{parts.netloc.lower()}"
    ):
        return None
    if "@" in parts.netloc:
        return None
    return parts.scheme, parts.hostname, _PORTS[parts.scheme] if port is None else port
