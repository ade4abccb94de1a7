"""The program as a person starts it, and a real Chromium that looks at it and forgives nothing."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Locator, Page

ROOT = Path(__file__).parents[2]
CHROMIUM_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)
LOOPBACK = {"localhost", "127.0.0.1", "::1", None}
READY = (
    '[data-testid="stApp"][data-test-connection-state="CONNECTED"][data-test-script-state="notRunning"]'
    ":not(:has([data-testid='stSkeleton'])):not(:has([data-testid='stException']))"
)
PATIENCE = 120_000
"""Milliseconds; a busy machine takes its time, and a test that waits goes on as soon as it can."""


def chromium() -> str:
    """The browser; a test without one is skipped, or fails where CTXVIZ_REQUIRE_BROWSER=1 asks for it."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        if os.environ.get("CTXVIZ_REQUIRE_BROWSER") == "1":
            pytest.fail("no Chromium is installed, and CTXVIZ_REQUIRE_BROWSER=1 asks for one")
        pytest.skip("no Chromium is installed")
    return found


@dataclass
class Server:
    """A running ``streamlit run app.py``."""

    address: str
    process: subprocess.Popen[str]
    log: Path

    def end(self) -> int:
        """Ask it to end, as a terminal or a service would; its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=60)


def start_server(log: Path) -> Server:
    """Start the program on a free port and wait until it answers."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.port", str(port)]
    command += ["--server.headless", "true"]
    with log.open("w") as out:
        process = subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT, text=True)
    address = f"http://localhost:{port}"
    deadline = time.monotonic() + 60
    while True:
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, "the server did not come up"
        try:
            with urllib.request.urlopen(f"{address}/_stcore/health", timeout=2):
                return Server(address, process, log)
        except OSError:
            time.sleep(0.1)


@pytest.fixture(scope="module")
def app_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    chromium()
    server = start_server(tmp_path_factory.mktemp("server") / "log")
    yield server
    if server.process.poll() is None:
        assert server.end() in (0, -signal.SIGTERM), server.log.read_text()
    assert "Traceback" not in server.log.read_text()


@pytest.fixture(scope="module")
def harness() -> Iterator[str]:
    """The address of a server that shows made-up runs, for tests of the components alone."""
    chromium()
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    command = [sys.executable, str(Path(__file__).with_name("harness.py")), str(port)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address = f"http://localhost:{port}"
    try:
        _await_harness(address, process)
        yield address
    finally:
        process.terminate()
        process.wait(timeout=20)


def _await_harness(address: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        assert process.poll() is None, "the harness ended"
        try:
            with urllib.request.urlopen(f"{address}/_stcore/health", timeout=2):
                return
        except OSError:
            time.sleep(0.2)
    pytest.fail("the harness did not come up")


@pytest.fixture(scope="module")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserContext]:
    executable = chromium()
    if os.environ.get("CTXVIZ_REQUIRE_BROWSER") != "1":
        pytest.importorskip("playwright")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            str(tmp_path_factory.mktemp("profile")),
            executable_path=executable,
            args=list(CHROMIUM_FLAGS),
            viewport={"width": 1440, "height": 1000},
            accept_downloads=True,
        )
        context.set_default_timeout(PATIENCE)
        yield context
        context.close()


def has_value(field: Locator, value: str) -> None:
    """Until a field holds this text: the address may change a moment before it."""
    from playwright.sync_api import expect

    expect(field).to_have_value(value, timeout=PATIENCE)


@dataclass
class Tab:
    """One browser tab on the program, and everything that went wrong in it."""

    page: Page
    server: Server
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("pageerror", lambda error: self.problems.append(f"page error: {error.stack}"))
        self.page.on("console", self._hear)
        self.page.on("request", self._see)
        self.page.on("dialog", self._meet)

    def _hear(self, said: Any) -> None:
        if said.type == "error":
            self.problems.append(f"console: {said.text}")

    def _see(self, request: Any) -> None:
        address = urlsplit(request.url)
        if address.scheme in ("http", "https", "ws", "wss") and address.hostname not in LOOPBACK:
            self.problems.append(f"foreign request: {request.url}")

    def _meet(self, dialog: Any) -> None:
        self.problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def open(self, path: str = "", **query: str) -> Tab:
        names = {name.replace("_", "-"): value for name, value in query.items()}
        address = f"{self.server.address}/{path}"
        self.page.goto(f"{address}?{urlencode(names)}" if names else address)
        return self.ready()

    def ready(self) -> Tab:
        """Until the script has run and nothing is a placeholder or an exception."""
        self.page.wait_for_selector(READY)
        return self

    def press(self, name: str) -> Tab:
        self.page.get_by_role("button", name=name, exact=True).click()
        return self

    def until(self, *states: str) -> Tab:
        """Until the live view is in one of these states."""
        self.page.locator(", ".join(f".view[data-state={state}]" for state in states)).wait_for()
        return self

    def says(self, text: str) -> Tab:
        self.page.get_by_text(text).first.wait_for()
        return self

    def writes(self, count: int, patience: int = PATIENCE) -> Tab:
        """Until exactly so many tokens are on screen."""
        from playwright.sync_api import expect

        expect(self.tokens).to_have_count(count, timeout=patience)
        return self

    def type_prompt(self, text: str) -> Tab:
        field = self.page.get_by_role("textbox", name="Prompt")
        field.fill(text)
        field.press("Tab")
        return self.ready()

    def asks(self, **query: str) -> Tab:
        """Until the address carries these settings."""
        self.page.wait_for_url(lambda _: self.query | query == self.query)
        return self

    @property
    def tokens(self) -> Locator:
        """The chips of the tokens written so far."""
        return self.page.locator(".written .chip")

    @property
    def query(self) -> dict[str, str]:
        return {k: v[-1] for k, v in parse_qs(urlsplit(self.page.url).query, keep_blank_values=True).items()}


@pytest.fixture
def new_tab(chrome: BrowserContext, app_server: Server) -> Iterator[Any]:
    """Opens tabs; at the end none of them may have had a problem."""
    tabs: list[Tab] = []

    def open_tab(path: str = "", **query: str) -> Tab:
        tabs.append(Tab(chrome.new_page(), app_server))
        return tabs[-1].open(path, **query)

    yield open_tab
    problems = [problem for tab in tabs for problem in tab.problems]
    for tab in tabs:
        tab.page.close()
    assert problems == []
