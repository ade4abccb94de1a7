"""The records of a running program, seen through its side door (door.py), and the program started with it."""

from __future__ import annotations

import io
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from ctxviz.run import Run
from ctxviz.store import load_run
from tests.browser.conftest import ROOT

ACTIVE: Final = ("queued", "loading", "running")
LONGEST: Final = 120.0
"""Seconds that a run may take."""


class Door:
    """The records of a server started by door.py."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._read: dict[tuple[Any, ...], Run] = {}

    def views(self) -> dict[str, dict[str, Any]]:
        with urllib.request.urlopen(f"{self.address}/door/views", timeout=60) as answer:
            return {view["id"]: view for view in json.load(answer)}

    def content(self, view: str) -> bytes:
        with urllib.request.urlopen(f"{self.address}/door/run/{view}", timeout=60) as answer:
            return answer.read()

    def run(self, view: str) -> Run:
        """The run of a view as a file holds it; read again where it has grown."""
        about = self.views()[view]
        key = (view, about["n"], about["without"], about["state"], about["epoch"])
        if key not in self._read:
            self._read[key] = load_run(io.BytesIO(self.content(view)))
        return self._read[key]

    def wait(self, view: str) -> str:
        """The state of a view once it is none in which it changes by itself."""
        deadline = time.monotonic() + LONGEST
        while time.monotonic() < deadline:
            about = self.views()[view]
            if about["state"] not in ACTIVE and (about["state"] == "paused" or not about["held"]):
                return about["state"]
            time.sleep(0.05)
        raise TimeoutError(f"a run of {view[:6]} does not end")


@contextmanager
def door_server(log: Path) -> Iterator[Door]:
    """The program with its side door, until the block ends."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    command = [sys.executable, str(Path(__file__).with_name("door.py")), str(port)]
    with log.open("w") as out:
        process = subprocess.Popen(
            command, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=out, stderr=out
        )
    try:
        yield _answering(f"http://localhost:{port}", process, log)
    finally:
        process.terminate()
        process.wait(timeout=60)


def _answering(address: str, process: subprocess.Popen[bytes], log: Path) -> Door:
    deadline = time.monotonic() + 120
    while True:
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, "the server did not come up"
        try:
            with urllib.request.urlopen(f"{address}/_stcore/health", timeout=2):
                return Door(address)
        except OSError:
            time.sleep(0.1)
