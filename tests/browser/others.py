"""Files of runs made elsewhere, for a reader to open: what the program does not make within a short walk."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ctxviz.run import Run
from ctxviz.store import save_run
from tests.browser import harness
from tests.browser.conftest import ROOT

ASSETS: Final = Path(ROOT) / "assets"


def _saved(run: Run) -> bytes:
    target = io.BytesIO()
    save_run(run, target, pictures=bool(run.pictures))
    return target.getvalue()


OTHERS: Final[dict[str, Callable[[], bytes]]] = {
    "parts that are no number": lambda: _saved(harness.overflowed(6, 10)),
    "replays and a held patch": lambda: _saved(harness.replayed(6, 12)),
    "one token": lambda: _saved(harness.whole(4, 1)),
    "the model's own text": lambda: _saved(harness.answered(6, 12)),
    "two pictures": lambda: _saved(harness.pictured((4, 2), "image")),
    "pictures that are not in the file": lambda: _saved(harness.pictured((4,), "all", stored=False)),
    "a real picture": lambda: (ASSETS / "figure5-tiny-shapes.ctxviz").read_bytes(),
}
"""By what is odd in them."""
