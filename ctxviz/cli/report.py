"""A run for people: the text as it grows, then what was measured, variant by variant."""

from __future__ import annotations

import numpy as np
from rich import box
from rich.table import Table

from ctxviz.alarms import REPLAY_WORDS
from ctxviz.cli.terminal import cell, figure, show, visible, write
from ctxviz.figures.statistics import quantile
from ctxviz.no_number import is_lost, is_measured, numbers
from ctxviz.records import Reference, Step
from ctxviz.run import Run

COLUMNS = 3
"""Variants side by side in one table, so that it fits 80 columns."""


class Report:
    """Prints the text token by token and ends with tables."""

    def step(self, run: Run, step: Step) -> None:
        if step.index == 0:
            write(f"{visible(run.context.prompt)}|")
        write(visible(step.next_text))

    def reference(self, run: Run, reference: Reference) -> None:
        """Nothing yet: references appear in the tables."""

    def finish(self, run: Run) -> None:
        if not len(run):
            return
        noun = "token" if len(run) == 1 else "tokens"
        write(f"\n\n{len(run)} {noun}, {visible(run.outcome or 'not finished', keep='')}\n")
        for first in range(0, len(run.variants), COLUMNS):
            chosen = range(first, min(first + COLUMNS, len(run.variants)))
            columns = [_summary(run, k) for k in chosen]
            table = Table("", box=box.SIMPLE_HEAD)
            for k in chosen:
                table.add_column(cell(run.variants[k].label))
            for row, label in enumerate(columns[0]):
                table.add_row(label, *(list(column.values())[row] for column in columns))
            show(table)


def _summary(run: Run, variant: int) -> dict[str, str]:
    """Rows of the table: what each figure is, and its value over all steps."""
    chosen = run.variants[variant]
    tvd, gap = run.series("tvd", variant), run.series("logit_linf", variant)
    match, tie = run.series("match", variant), run.series("tie", variant)
    ties = f" ({int(tie.sum())} tied)" if tie.any() else ""
    return {
        "same token": f"{int(match.sum())} of {len(run)}{ties}",
        "TVD, median": figure(_median(tvd)),
        "TVD, largest": figure(_largest(tvd)),
        "unpatched TVD, median": figure(_median(run.reference("unpatched_tvd", chosen.dtype))),
        "noise floor TVD, largest": figure(_largest(run.reference("noise_floor_tvd", chosen.dtype))),
        **{
            f"replayed, {REPLAY_WORDS[kind]}: TVD worst": _worst_replay(run, kind, variant)
            for kind in run.replayed
        },
        "largest logit gap": figure(_largest(gap)),
        "largest ‖Δm‖/‖m‖": figure(_largest(run.field("scale_ratio", variant))),
        "smallest |h|": _smallest_h(run, variant),
        "dead, at most": _count(run, "dead", variant),
        "uncontrolled, at most": _count(run, "uncontrolled", variant),
        "seconds, median": figure(_median(run.series("seconds", variant))),
    }


def _worst_replay(run: Run, kind: str, variant: int) -> str:
    """The largest TVD that is a number, and at how many tokens the logits were no numbers."""
    tvd = run.replay(kind, "tvd", variant)
    lost, known = int(is_lost(tvd).sum()), numbers(tvd)
    if not known.size:
        return figure(_largest(tvd))
    return figure(float(known.max())) + (f", {lost} without numbers" if lost else "")


def _smallest_h(run: Run, variant: int) -> str:
    """A denominator that is no number is worse than any."""
    values = run.field("h_abs_min", variant)
    if not is_measured(values).any():
        return "-"
    worst = is_lost(values).argmax() if is_lost(values).any() else np.nanargmin(values)
    layer, step = np.unravel_index(int(worst), values.shape)
    coordinate = run.field("h_argmin", variant)[layer, step]
    return f"{figure(float(values[layer, step]))} layer {layer}, j {coordinate}"


def _count(run: Run, metric: str, variant: int) -> str:
    """The largest number of such coordinates in one step, all layers together."""
    return str(int(np.maximum(run.field(metric, variant), 0).sum(axis=0).max()))


def _median(values: np.ndarray) -> float | None:
    return quantile(values, 0.5)


def _largest(values: np.ndarray) -> float | None:
    """No number as soon as one value is none."""
    return quantile(values.ravel(), 1)
