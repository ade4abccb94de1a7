"""The browser component of two heat maps side by side: layers x tokens of one variant, linked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import streamlit as st
from streamlit.components.v2 import component

from ctxviz.figures.metrics import METRICS
from ctxviz.ui.components import bootstrap
from ctxviz.ui.focus import Picked, index
from ctxviz.ui.views import views

DEFAULT_METRICS: Final = ("scale_ratio", "output_error")


@dataclass(frozen=True, slots=True)
class FieldsEvent:
    """What the reader did: ``picked`` is the cell that was chosen, None where something else was done; the
    maps show ``metrics``, left and right."""

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
    told: Callable[[FieldsEvent], None] = lambda _: None,
) -> None:
    """Mount two maps of one variant of a view's run; they draw by themselves what is new.

    ``selected`` is the (step, layer) outlined, ``metrics`` what the maps show until the reader chooses.
    ``told`` hears what the reader does before the script runs for it, so that all of the page is drawn from
    it. Keep ``key`` the same in every script run. Zoom and ranges of colours live in the browser, by view.
    """
    view = views().get(view_id)

    def hear() -> None:
        state, run = st.session_state[key], None if view is None else view.run
        steps, layers = (0, 0) if run is None else (len(run), run.model.n_layers)
        picked = picked_cell(state.get("picked"), steps, layers, variant)
        told(FieldsEvent(picked, chosen_metrics(state.get("metrics"), metrics)))

    data = {
        "view": view_id,
        "revision": 0 if view is None else view.revision,
        "variant": variant,
        "selected": None if selected is None else list(selected),
        "metrics": list(metrics),
    }
    _fields(key=key, data=data, on_picked_change=hear, on_metrics_change=hear)


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
