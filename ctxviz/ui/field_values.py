"""One whole layers x tokens table for a browser: exact float32 numbers rather than quantised colours."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from ctxviz.figures.card import Table, column, new_texts, to_csv
from ctxviz.figures.metrics import METRICS, Metric, Values, signed_table
from ctxviz.run import Run
from ctxviz.ui.views import View


def answer(view: View, metric: str, variant: int, start: int, epoch: int) -> dict[str, Any]:
    """The columns of a METRICS quantity from step ``start`` on.

    ``values`` is what :func:`encoded` makes of them. A browser that holds another run (``epoch``), or more
    than there is, is sent all of it: ``from`` is then 0. A ``variant`` that the run lacks becomes 0.
    """
    now = view.snapshot()
    run = now.run
    n, layers = (0, 0) if run is None else (len(run), run.model.n_layers)
    start = start if epoch == now.epoch and start <= n else 0
    variant = variant if run is not None and variant < len(run.variants) else 0
    return {
        "epoch": now.epoch,
        "from": start,
        "n": n,
        "layers": layers,
        "metric": metric,
        "variant": variant,
        "values": "" if run is None else encoded(run, metric, variant, start, n),
    }


def encoded(run: Run, metric: str, variant: int, start: int, end: int) -> str:
    """A METRICS quantity from step ``start`` to ``end``: float32 [steps][layers], little-endian, in base64.

    NaN where nothing was measured, infinite where what was computed is no number, the sign kept.
    """
    table = signed_table(run, variant, metric, start, end).T
    with np.errstate(over="ignore"):
        return base64.b64encode(np.ascontiguousarray(table, "<f4").tobytes()).decode()


def csv(run: Run, metric: str, variant: int) -> str:
    """One row per step, one column per layer; counts as whole numbers, a category as its word."""
    n = len(run)
    numbers = signed_table(run, variant, metric, 0, n)
    table: Table = {"step": list(range(n)), "token": new_texts(run, n)}
    cells = {"log": _numbers, "count": _counts, "category": _words}[METRICS[metric].kind]
    return to_csv(table | {f"layer {k}": cells(row, METRICS[metric]) for k, row in enumerate(numbers)})


def _numbers(row: Values, _: Metric) -> list[Any]:
    return column(row.astype(np.float32))


def _counts(row: Values, _: Metric) -> list[Any]:
    return [None if np.isnan(value) else int(value) for value in row]


def _words(row: Values, about: Metric) -> list[Any]:
    known = range(len(about.words))
    return [about.words[int(value)] if value in known else None for value in row]
