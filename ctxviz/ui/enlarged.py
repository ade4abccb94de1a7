"""The figures of the Live page once more, large, with Plotly's own zoom: for a run that stands still."""

from __future__ import annotations

from typing import Final

from ctxviz.figures.card import FigureCard
from ctxviz.run import Run

FIGURES: Final = ("field", "cell", "tvd", "logit_linf", "patch_ratio", "replay_tvd", "held_tvd")
"""Names of the figures that can be asked for."""


def card(run: Run, name: str, metric: str, variant: int, step: int, layer: int) -> FigureCard:
    """The figure of FIGURES; ``field`` draws ``metric`` of ``variant``, ``cell`` one cell's coordinates.

    Plotly is imported here: the first page does without it.
    """
    from ctxviz.figures import heatmap, lines, replays
    from ctxviz.figures.coordinates import coordinates

    make = {
        "field": lambda: heatmap.heatmap(run, variant, metric),
        "cell": lambda: coordinates(run, step, layer, variant),
        "tvd": lambda: lines.tvd_lines(run),
        "logit_linf": lambda: lines.logit_gap_lines(run),
        "patch_ratio": lambda: lines.patch_lines(run),
        "replay_tvd": lambda: replays.replay_lines(run, variant),
        "held_tvd": lambda: replays.held_lines(run, variant),
    }
    return make[name]()
