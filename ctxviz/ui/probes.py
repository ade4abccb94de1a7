"""Answers where Streamlit's front end looks for its server below the path of a page.

Opened at ``/layers`` it asks ``/layers/_stcore/health`` before ``/_stcore/health``, and an answer of 404 is
an error in the browser's console. Ours says that nothing is wrong, and that no server is to be found there:
the front end cannot take null for a host configuration, so it goes on to the root.
"""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

PAGES: Final = ("layers", "replay", "pictures", "compare")
"""Pages that have a path of their own."""
_FRESH: Final = {"Cache-Control": "no-store"}


def routes() -> list[Route]:
    """The routes to hand to ``st.App``."""
    return [
        Route(f"/{page}/_stcore/{name}", answer)
        for page in PAGES
        for name, answer in (("health", _health), ("host-config", _no_config))
    ]


async def _health(_: Request) -> Response:
    return PlainTextResponse("ok", headers=_FRESH)


async def _no_config(_: Request) -> Response:
    return JSONResponse(None, headers=_FRESH)
