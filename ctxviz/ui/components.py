"""The browser components: the live view, which pulls what is new, a figure with its downloads, a sentence.

Their code is served by :mod:`ctxviz.ui.routes`. Streamlit sends a component's inline code again with every
message, so what it carries is a bootstrap that passes on what it was given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from streamlit.components.v2 import component

from ctxviz.figures.card import FigureCard, to_csv
from ctxviz.figures.palette import THEMES
from ctxviz.ui.delta import METRICS
from ctxviz.ui.routes import DEFAULT_METRIC, asset_url
from ctxviz.ui.views import views

MANY: Final = 10**9


@dataclass(frozen=True, slots=True)
class Focus:
    """What is outlined in the live view, and what its heat map shows at first."""

    step: int | None = None
    layer: int | None = None
    variant: int = 0
    metric: str = DEFAULT_METRIC


@dataclass(frozen=True, slots=True)
class Picked:
    """A token or a cell that was clicked; ``layer`` is None for a token."""

    step: int
    layer: int | None
    variant: int


@dataclass(frozen=True, slots=True)
class Event:
    """What the reader did in the live view.

    ``picked`` is what was clicked just now, None in every other script run; the heat map shows ``metric`` of
    ``variant``.
    """

    picked: Picked | None
    metric: str
    variant: int


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


def live(view_id: str, *, key: str = "live", focus: Focus | None = None) -> Event:
    """Mount the live view: verdict, tokens, three charts, heat map. It then draws by itself what is new.

    Keep ``key`` the same in every script run. Call it after the view's state was told, or the browser may
    think that nothing happens any more.
    """
    focus = focus or Focus()
    view = views().get(view_id)
    result = _live(
        key=key,
        data={"view": view_id, "revision": 0 if view is None else view.revision, "focus": asdict(focus)},
        on_picked_change=nothing,
        on_field_change=nothing,
    )
    run = None if view is None else view.run
    steps, layers, variants = (0, 0, 0) if run is None else (len(run), run.model.n_layers, len(run.variants))
    return Event(
        _picked(result.get("picked"), steps, layers, variants), *_field(result.get("field"), variants, focus)
    )


def figure(card: FigureCard, *, key: str, name: str = "ctxviz-figure") -> Clicked | None:
    """Mount a card: its figure, title, caption, text alternative, and SVG, PNG and CSV to download.

    ``name`` is what the files are called. Returns the point clicked just now, or None.
    """
    result = _figure(
        key=key,
        data={
            "figure": card.figure.to_json(),
            "title": card.title,
            "caption": card.caption,
            "alt": card.alt,
            "csv": to_csv(card.table),
            "name": name,
            "themes": {theme: asdict(colours) for theme, colours in THEMES.items()},
        },
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


def _picked(value: Any, steps: int, layers: int, variants: int) -> Picked | None:
    """What the browser says was clicked, if the run has such a token."""
    if not isinstance(value, Mapping):
        return None
    step, variant = index(value.get("step"), steps), index(value.get("variant"), variants)
    if step is None or variant is None:
        return None
    return Picked(step, index(value.get("layer"), layers), variant)


def _field(value: Any, variants: int, focus: Focus) -> tuple[str, int]:
    """The metric and variant that the heat map shows."""
    if not isinstance(value, Mapping) or value.get("metric") not in METRICS:
        return focus.metric, focus.variant
    variant = index(value.get("variant"), variants)
    return str(value["metric"]), focus.variant if variant is None else variant


def index(value: Any, limit: int) -> int | None:
    """What a browser sent, if it is a whole number from 0 below ``limit``."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < limit else None


def nothing() -> None:
    """Streamlit knows a component's values by their callbacks; the script reads them from the result."""
