"""The curves, legend and map that the records of a run say should stand on the Live page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ctxviz.figures import metrics
from ctxviz.figures.palette import label, variant_style
from ctxviz.run import Run
from tests.browser.findings import Findings, exactly

SERIES: Final = {"Total-variation distance": "tvd", "Largest logit gap": "logit_linf"}
RATIO: Final = "Patch over scale vector"
AGAIN: Final = "TVD when the weights run again"
HELD: Final = "TVD, one patch held"


@dataclass(frozen=True)
class Looked:
    """What a reader looks at: a token, a layer of it, a variant, and the metric of the map."""

    step: int | None = None
    layer: int | None = None
    variant: int = 0
    metric: str = "h_abs_min"


def names(run: Run) -> list[str]:
    return [label(variant, run.variants) for variant in run.variants]


def finite(values: Iterable[float]) -> NDArray[np.float64]:
    array = np.asarray(list(values), np.float64)
    return array[np.isfinite(array)]


def inspected(run: Run, looked: Looked) -> Looked:
    """The cell that stands behind what is looked at: where none was named the first patched one whose
    denominator is no number, or else the smallest."""
    if looked.step is not None and looked.layer is not None:
        return looked
    values = run.field("h_abs_min", looked.variant).tolist()
    patched = range(run.variants[looked.variant].first_layer, run.model.n_layers)
    steps = range(len(run)) if looked.step is None else (looked.step,)
    cells = [(step, layer) for step in steps for layer in patched]
    size = {cell: values[cell[1]][cell[0]] for cell in cells}
    lost = [cell for cell in cells if size[cell] == float("inf")]
    known = [cell for cell in cells if size[cell] == size[cell]]
    step, layer = min(lost) if lost else min(known, key=lambda cell: (size[cell], cell))
    return replace(looked, step=step, layer=layer)


def opened(run: Run, looked: Looked) -> str:
    """What is said of a cell whose token nobody named."""
    if looked.step is not None:
        return ""
    cell = inspected(run, looked)
    lost = np.isinf(run.field("h_abs_min", cell.variant)[cell.layer or 0, cell.step or 0])
    return f"{'First |h| of this run that is no number' if lost else 'Smallest |h| of this run'}: "


def brief(name: str) -> str:
    """A line's name where there is little room."""
    return name.replace("bfloat16", "bf16").replace("float", "f")


def drawn_variants(run: Run, chart: str) -> list[int]:
    """The variants that a chart has: weights that are run again are written."""
    again = chart in (AGAIN, HELD)
    return [k for k, v in enumerate(run.variants) if v.arithmetic == "written" or not again]


def references(run: Run, chart: str) -> dict[str, NDArray[np.float64]]:
    """The reference lines of a chart by their names, [steps] each, NaN where not measured."""
    measured = {
        "Total-variation distance": {"noise floor": "noise_floor_tvd", "no patch": "unpatched_tvd"},
        "Largest logit gap": {"noise floor": "noise_floor_linf", "no patch": "unpatched_linf"},
        AGAIN: {"noise floor": "noise_floor_tvd", "no patch": "unpatched_tvd"},
        HELD: {"no patch": "unpatched_tvd"},
    }.get(chart, {})
    columns = {
        brief(f"{name} {dtype}"): run.reference(metric, dtype)
        for name, metric in measured.items()
        for dtype in run.dtypes
    }
    return {name: column for name, column in columns.items() if not np.isnan(column).all()}


def charts_of(run: Run) -> list[str]:
    """The titles of the charts that a run has."""
    titles = [*SERIES, RATIO]
    if "written" in run.settings.arithmetics:
        titles += [AGAIN] if run.settings.replays else []
        titles += [HELD] if run.settings.hold is not None else []
    return titles


def line(run: Run, chart: str, k: int) -> NDArray[np.float64]:
    """A chart's line of one variant, [steps]; NaN where not measured, infinite where no number."""
    if chart in SERIES:
        return run.series(SERIES[chart], k)[: len(run)]
    if chart == RATIO:
        return np.fmax.reduce(run.field("scale_ratio", k)[:, : len(run)]).astype(np.float64)
    kinds = ("held",) if chart == HELD else ("same", "batch", "ulp")
    kinds = ("rounded",) if run.settings.replays == ("rounded",) and len(kinds) > 1 else kinds
    return np.fmax.reduce([run.replay(kind, "tvd", k)[: len(run)] for kind in kinds])


def lines(found: Findings, page: dict[str, Any], run: Run, looked: Looked, hidden: frozenset[str]) -> None:
    title = page["title"]
    found.same("tabs of the chart", page["tabs"], charts_of(run))
    found.same("marked token of the chart", page["chosen"], [] if looked.step is None else [str(looked.step)])
    _legend(found, page["legend"], run, title, hidden)
    parts: list[str | float] = [title, f"over {len(run)} token"]
    for k in drawn_variants(run, title):
        name = brief(names(run)[k])
        drawn = line(run, title, k)
        values, lost = finite(drawn), int(np.isinf(drawn).sum())
        if name not in hidden:
            ends = (float(values.min()), " to ", float(values.max())) if values.size else ()
            parts += [f"{name} from ", *ends] if values.size else [f"{name}: "]
            parts += [f"no number at {lost} token{'' if lost == 1 else 's'}"] if lost else []
            parts += [] if values.size or lost else ["nothing measured"]
    found.says("text of the chart", page["alt"], *parts)


def _legend(
    found: Findings, legend: list[dict[str, Any]], run: Run, title: str, hidden: frozenset[str]
) -> None:
    known = [*(brief(names(run)[k]) for k in drawn_variants(run, title)), *references(run, title)]
    found.same("legend", [entry["text"] for entry in legend], known)
    found.same("words of the legend", [entry["said"] for entry in legend], [e["text"] for e in legend])
    away = [entry["text"] for entry in legend if not entry["shown"]]
    found.same("hidden lines", away, [name for name in known if name in hidden])
    look = {entry["text"]: entry for entry in legend}
    for k in drawn_variants(run, title):
        name = brief(names(run)[k])
        if name in look:
            style = variant_style(run.variants[k], k)
            dash = "none" if style.dash == "solid" else style.dash.replace("px", "").replace(",", " ")
            found.same(f"legend's colour of {name}", look[name]["colour"].upper(), style.color.upper())
            found.same(f"legend's dash of {name}", look[name]["dash"], dash)


def table(run: Run, looked: Looked) -> NDArray[np.float64]:
    """The values of the map that is looked at, [layers, steps]."""
    return metrics.signed_table(run, looked.variant, looked.metric)[:, : len(run)]


def heat_map(found: Findings, page: dict[str, Any], run: Run, looked: Looked) -> None:
    about = metrics.METRICS[looked.metric]
    known = [metrics.METRICS[key] for key in metrics.LIVE_METRICS]
    found.same("map's metric", page["metric"], looked.metric)
    found.same("map's variant", page["variant"], looked.variant)
    found.same("map's variants", page["variants"], names(run))
    found.same("map's metrics", page["metrics"], [f"{m.title}, {m.symbol}" for m in known])
    found.same("map's caption", page["caption"], about.meaning)
    values = table(run, looked).astype(np.float32)
    size = f"{run.model.n_layers} layers by {len(run)} tokens"
    what = f"Heat map: {about.title}, {about.symbol}, of {names(run)[looked.variant]}; {size}."
    drawn = np.abs(values[np.isfinite(values) & (values != 0)])
    ends = f" From {exactly(drawn.min())} to {exactly(drawn.max())}." if drawn.size else ""
    found.says("map's text", page["alt"], what + ends)
    lost = int(np.isinf(values).sum())
    if lost:
        found.says("map's text", page["alt"], f"{lost} no number")
        found.says("map's legend", " · ".join(page["legend"]), f"no number: {lost} of {values.size}")
