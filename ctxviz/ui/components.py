"""The browser components: the live view, which pulls what is new, a figure with its downloads, a sentence.

Their code is served by :mod:`ctxviz.ui.routes`. Streamlit sends a component's inline code again with every
message, so what it carries is a bootstrap that passes on what it was given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import streamlit as st
from streamlit.components.v2 import component

from ctxviz.figures.card import FigureCard
from ctxviz.ui.card_data import card_data
from ctxviz.ui.focus import MANY, Did, Focus, Picked, index
from ctxviz.ui.focus import did as told
from ctxviz.ui.routes import asset_url
from ctxviz.ui.views import views

__all__ = ["Focus", "Picked", "figure", "index", "live", "sentence", "text_with_tokens"]


@dataclass(frozen=True, slots=True)
class Clicked:
    """A point of a figure that was clicked.

    ``trace`` and ``point`` are its indices, ``data`` its customdata; a browser sent them, so check them.
    """

    trace: int | None
    point: int | None
    data: object


def bootstrap(module: str) -> str:
    """A component's inline code: load the module and hand it the component's arguments."""
    address = f"new URL({asset_url(module)!r}, location.origin)"
    # Streamlit takes text without a line break for the name of a file.
    return f"const address = {address};\nexport default async (c) => (await import(address)).default(c);"


_live = component("ctxviz.live", js=bootstrap("live.js"))
_figure = component("ctxviz.figure", js=bootstrap("figure.js"), isolate_styles=False)
_sentence = component("ctxviz.sentence", js=bootstrap("sentence.js"), isolate_styles=False)


def live(
    view_id: str,
    *,
    key: str = "live",
    focus: Focus | None = None,
    heard: int = 0,
    note: str = "",
    did: Callable[[Did], None] | None = None,
) -> None:
    """Mount the live view: verdict, answers, heat map, line chart and cell. It draws by itself what is new.

    ``did`` is called before the next script run, so that what is drawn there follows it; ``heard`` is the
    count of the last that it was called with. ``note`` is a sentence on where the run comes from. Keep
    ``key`` the same in every script run. Call it after the view's state was told, or the browser may think
    that nothing happens any more.
    """
    focus = focus or Focus()
    view = views().get(view_id)
    data = {
        "view": view_id,
        "revision": 0 if view is None else view.revision,
        "focus": asdict(focus),
        "heard": heard,
        "note": note,
    }

    def hear() -> None:
        value = st.session_state[key].get("did")
        run = None if view is None else view.run
        found = told(value, (0, 0, 0) if run is None else (len(run), run.model.n_layers, len(run.variants)))
        if found is not None and did is not None and value.get("view") == view_id:
            did(found)

    _live(key=key, data=data, on_did_change=hear)


def figure(card: FigureCard, *, key: str) -> Clicked | None:
    """Mount a card: its figure, title, caption, text alternative, and SVG, PNG and CSV to download.

    Returns the point clicked just now, or None.
    """
    result = _figure(
        key=key,
        data=card_data(card),
        on_point_change=nothing,
    )
    point = result.get("point")
    if not isinstance(point, Mapping):
        return None
    return Clicked(index(point.get("trace"), MANY), index(point.get("point"), MANY), point.get("data"))


def sentence(kind: Literal["h2", "h3", "alert"], text: str, *, key: str) -> None:
    """A heading, or a sentence that a screen reader is told at once; never read as Markdown or HTML."""
    _sentence(key=key, data={"kind": kind, "text": text})


def text_with_tokens(parts: Sequence[tuple[str, str]], *, key: str) -> None:
    """Text in parts, each with what it is about; one that is about something is a token, set off in a box."""
    text = "".join(text for text, _ in parts)
    _sentence(key=key, data={"kind": "parts", "text": text, "parts": [list(part) for part in parts]})


def nothing() -> None:
    """Streamlit knows a component's values by their callbacks; the script reads them from the result."""
