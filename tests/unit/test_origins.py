"""Requests that other pages make a browser send reach neither our routes nor Streamlit's."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket, WebSocketDisconnect

from ctxviz.ui import routes


async def _socket(websocket: WebSocket) -> None:
    await websocket.accept()
    await websocket.send_json(websocket.headers.get("origin"))
    await websocket.close()


async def _answer(request: Request) -> JSONResponse:
    return JSONResponse(request.headers.get("origin"))


def client(host: str = "localhost:8501") -> TestClient:
    inner = [WebSocketRoute("/stream", _socket), Route("/health", _answer, methods=["GET", "POST"])]
    return TestClient(Starlette(routes=inner, middleware=routes.middleware()), base_url=f"http://{host}")


OWN = [
    ("localhost:8501", "http://localhost:8501"),
    ("LocalHost:8501", "http://localhost:8501"),
    ("127.0.0.1:8501", "http://127.0.0.1:8501"),
    ("[::1]:8501", "http://[::1]:8501"),
    ("localhost", "http://localhost"),
    ("localhost", "http://localhost:80"),
    ("localhost", "https://localhost"),
    ("lab.example", "https://lab.example"),
    ("lab.example:443", "https://lab.example"),
    ("localhost:8501", "https://lab.example"),
]
FOREIGN = [
    ("localhost:8501", "http://evil.example"),
    ("localhost:8501", "http://localhost:8502"),
    ("localhost:8501", "http://localhost"),
    ("localhost:8501", "http://127.0.0.1:8501"),
    ("localhost:8501", "null"),
    ("localhost:8501", ""),
    ("localhost:8501", "http://localhost:8501/"),
    ("localhost:8501", "http://localhost:8501@evil.example"),
    ("localhost:8501", "http://evil@localhost:8501"),
    ("localhost:8501", "http://localhost:8501.evil.example"),
    ("localhost:8501", "http://localhost:99999"),
    ("localhost:8501", "http://[::1"),
    ("localhost:8501", "file://localhost:8501"),
    ("localhost:8501", "chrome-extension://localhost:8501"),
    ("localhost:8501", "http://localhost:8501 http://evil.example"),
    ("localhost:8501", "http://" + "a" * 5000),
    ("localhost:8501", "https://lab.example:8443"),
    ("localhost:8501", "https://other.example"),
    ("lab.example", "https://lab.example:8443"),
]


@pytest.fixture(autouse=True)
def lab(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(routes.ALLOWED_HOSTS, "lab.example")


@pytest.mark.parametrize(("host", "origin"), OWN)
def test_this_servers_own_pages_are_answered_and_streamlit_sees_no_origin(host: str, origin: str) -> None:
    with client(host) as asking:
        for method in ("GET", "POST"):
            answer = asking.request(method, "/health", headers={"origin": origin})
            assert (answer.status_code, answer.json()) == (200, None)
        with asking.websocket_connect(f"ws://{host}/stream", headers={"origin": origin}) as socket:
            assert socket.receive_json() is None


@pytest.mark.parametrize(("host", "origin"), FOREIGN)
def test_other_pages_are_not(host: str, origin: str) -> None:
    with client(host) as asking:
        for method in ("GET", "POST"):
            answer = asking.request(method, "/health", headers={"origin": origin})
            assert answer.status_code == 403
            assert answer.text == "Another page's request is not answered."
        socket = asking.websocket_connect(f"ws://{host}/stream", headers={"origin": origin})
        with pytest.raises(WebSocketDisconnect), socket:
            pass


def test_two_origins_are_none_of_ours() -> None:
    both: Any = [("origin", "http://localhost:8501"), ("origin", "http://evil.example")]
    with client() as asking:
        assert asking.get("/health", headers=both).status_code == 403


def test_what_is_no_browser_sends_none() -> None:
    with client() as asking:
        assert asking.get("/health").status_code == 200
