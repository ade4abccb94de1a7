"""The browser component of two heat maps side by side: layers x tokens of one variant, linked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from streamlit.components.v2 import component

from ctxviz.figures.metrics import METRICS
from ctxviz.ui.components import Picked, bootstrap, index, nothing
from ctxviz.ui.views import views

DEFAULT_METRICS: Final = ("scale_ratio", "output_error")


@dataclass(frozen=True, slots=True)
class FieldsEvent:
    """What the reader did: ``picked`` is the cell chosen just now, None in every other script run; the maps
    show ``metrics``, left and right."""

    picked: Picked | None
    metrics: tuple[str, str]


_fields = component("ctxviz.fields", js=bootstrap("fields.js"))


def fields(
    view_id: str,
    *,
    key: str = "fields",
    variant: int = 0,
    selected: tuple[int, int] | None = None,
    metrics: tuple[str, str] = DEFAULT_METRICS,
) -> FieldsEvent:
    """Mount two maps of one variant of a view's run; they draw by themselves what is new.

    ``selected`` is the (step, layer) outlined, ``metrics`` what the maps show until the reader chooses. Keep
    ``key`` the same in every script run. Zoom and ranges of colours live in the browser, by view.
    """
    view = views().get(view_id)
    result = _fields(
        key=key,
        data={
            "view": view_id,
            "revision": 0 if view is None else view.revision,
            "variant": variant,
            "selected": None if selected is None else list(selected),
            "metrics": list(metrics),
        },
        on_picked_change=nothing,
        on_metrics_change=nothing,
    )
    run = None if view is None else view.run
    steps, layers = (0, 0) if run is None else (len(run), run.model.n_layers)
    return FieldsEvent(
        picked_cell(result.get("picked"), steps, layers, variant),
        chosen_metrics(result.get("metrics"), metrics),
    )


def picked_cell(value: Any, steps: int, layers: int, variant: int) -> Picked | None:
    """What the browser says was picked, if the run has such a cell."""
    if not isinstance(value, Mapping):
        return None
    step, layer = index(value.get("step"), steps), index(value.get("layer"), layers)
    return None if step is None or layer is None else Picked(step, layer, variant)


def chosen_metrics(value: Any, otherwise: tuple[str, str]) -> tuple[str, str]:
    """The two metrics that the browser says it shows, if both exist."""
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        return otherwise
    left, right = value
    known = isinstance(left, str) and isinstance(right, str) and left in METRICS and right in METRICS
    return (left, right) if known else otherwise
