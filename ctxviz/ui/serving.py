"""What the server does as it starts and ends: read the recorded run early, and join the worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any, Final

from ctxviz.ui.recorded import recorded_run
from ctxviz.ui.worker import worker

PARTING_SECONDS: Final = 20.0
"""Longer than a token of any model that fits; a download in progress is not waited for."""


@asynccontextmanager
async def lifespan(_app: Any) -> AsyncIterator[None]:
    """Read the recorded run while the browser opens; join the worker at the end, or torch aborts."""
    reading = asyncio.create_task(asyncio.to_thread(_prepare))
    try:
        yield
    finally:
        await reading
        await asyncio.to_thread(worker().shutdown, PARTING_SECONDS)


def _prepare() -> None:
    """What the first page needs anyway."""
    recorded_run()
    import_module("ctxviz.figures.coordinates")
    import_module("ctxviz.figures.tops")
