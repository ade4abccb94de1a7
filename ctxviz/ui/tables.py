"""The numbers behind the live view's figures as CSV text, in full precision."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from ctxviz.figures.card import Table, column, new_texts, to_csv
from ctxviz.run import Run
from ctxviz.settings import HELD
from ctxviz.ui import delta

CHARTS: Final = ("tokens", "tvd", "logit_linf", "patch_ratio", "replay_tvd", "held_tvd")
_REFERENCES: Final = {
    "tvd": ("noise_floor_tvd", "unpatched_tvd"),
    "logit_linf": ("noise_floor_linf", "unpatched_linf"),
    "replay_tvd": ("noise_floor_tvd", "unpatched_tvd"),
    "held_tvd": ("unpatched_tvd",),
}
_REPLAYED: Final = ("replay_tvd", "held_tvd")
"""Charts of weights that were run again: what is never written into weights is not in them."""


def tokens_csv(run: Run) -> str:
    """One row per step and variant: what the model with its context and the patched model said."""
    n, variants = len(run), range(len(run.variants))
    said = new_texts(run, n)
    table: Table = {
        "step": [step for step in range(n) for _ in variants],
        "with context": [said[step] for step in range(n) for _ in variants],
        "variant": [run.variants[k].label for _ in range(n) for k in variants],
        "patched": [delta.said(run, step, k) for step in range(n) for k in variants],
    }
    for name, kind in (("match", bool), ("tie", bool), ("tvd", float)):
        table[name] = [kind(run.series(name, k)[step]) for step in range(n) for k in variants]
    return to_csv(table)


def chart_csv(run: Run, chart: str) -> str:
    """One row per step: the token, a column per variant, and the chart's references per dtype."""
    n = len(run)
    table: Table = {"step": list(range(n)), "token": new_texts(run, n)}
    for k, variant in enumerate(run.variants):
        if variant.arithmetic == "written" or chart not in _REPLAYED:
            table[variant.label] = column(_numbers(run, chart, k, n))
    for name in _REFERENCES.get(chart, ()):
        table |= {f"{name} {dtype}": column(run.reference(name, dtype)[:n]) for dtype in run.dtypes}
    return to_csv(table)


def _numbers(run: Run, chart: str, variant: int, n: int) -> NDArray[np.float64]:
    if chart == "patch_ratio":
        return delta.patch_ratio(run, variant, 0, n)
    if chart == "replay_tvd":
        return delta.worst_replay(run, variant, 0, n)
    if chart == "held_tvd":
        return delta.worst_replay(run, variant, 0, n, (HELD,))
    return run.series(chart, variant)[:n]
