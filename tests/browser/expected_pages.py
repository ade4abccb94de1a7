"""What the records say should stand on Layers, Replay, Compare and Pictures, held against the pages."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from ctxviz import alarms
from ctxviz.figures import metrics
from ctxviz.figures.card import FigureCard
from ctxviz.figures.coordinates import coordinates, worst_table
from ctxviz.figures.lines import logit_gap_lines, tvd_lines
from ctxviz.figures.multiplier import multiplier
from ctxviz.figures.replays import drift_lines, held_lines, replay_lines
from ctxviz.figures.rounding import rounding
from ctxviz.figures.scales import scales
from ctxviz.figures.spectrum import spectrum
from ctxviz.figures.text import readable
from ctxviz.run import Run
from tests.browser.curves import Looked, inspected, names
from tests.browser.findings import Findings

Card = Callable[[], FigureCard]


def behind(found: Findings, screen: dict[str, Any], run: Run, cell: Looked) -> None:
    """Which cell is opened, in the heading, in the fields that choose it, and in the line of counts."""
    step, layer = cell.step or 0, cell.layer or 0
    text = readable(run.token(step)[4])
    heading = f"Behind token {step}, “{text}”, in layer {layer}"
    said = [words for words in screen["headings"] if words.startswith("Behind token")]
    found.same("inspector's heading", said, [heading])
    fields = {name: screen["numbers"].get(name) for name in ("Token", "Layer")}
    wanted = {"Token": str(step), "Layer": str(layer)}
    found.same("inspector's fields", fields, wanted)
    stats = run.layer_stats(step, cell.variant)
    dead, lost, small = int(stats.dead[layer]), int(stats.uncontrolled[layer]), int(stats.h_small[layer])
    if dead >= 0:
        found.says(
            "inspector's counts",
            screen["hints"].get("counts", ""),
            f"{dead} dead coordinate",
            f", {lost} uncontrolled",
            f"{small} with |h| below",
        )


def worst(found: Findings, screen: dict[str, Any], run: Run, cell: Looked) -> None:
    """The table of the ten largest changes."""
    vectors = run.vectors(cell.step or 0, cell.variant)
    assert vectors is not None
    rows = worst_table(vectors, cell.layer or 0)
    told = next((t for t in screen["tables"].values() if "largest change" in (t["alt"] or "")), None)
    if told is None:
        found.told.append("table of the largest changes: it is not on the page")
        return
    if rows:
        found.says("table of the largest changes", told["alt"], f"The first is {rows[0].j}: ")
    # A table out of sight has no rows to read; its text is there.
    if told["rows"]:
        shown = [(row[0], float(row[4])) for row in told["rows"]]
        found.same("rows of the largest changes", shown, [(str(r.j), float(r.delta_m)) for r in rows])


def compare_cards(found: Findings, screen: dict[str, Any], cards: dict[str, Card]) -> None:
    """Title, caption, text and drawn numbers of figures on the page against those made from the records."""
    for key, make in cards.items():
        shown = screen["cards"].get(key)
        if shown is None:
            found.told.append(f"figure {key}: it is not on the page")
            continue
        card = make()
        for part in ("title", "caption", "alt"):
            found.same(f"figure {key}'s {part}", shown[part], getattr(card, part))
        drawn = [(name, kind, *map(_near, sums)) for name, kind, *sums in shown["traces"]]
        traces: Any = card.figure.data
        wanted = [(t.name, t.type, _sum(t.x), _sum(t.y)) for t in traces]
        found.same(f"number of the lines of figure {key}", len(drawn), len(wanted))
        if len(drawn) == len(wanted):
            found.same(f"figure {key}'s lines", [d[0] for d in drawn if d[0]], [w[0] for w in wanted if w[0]])
            if True:
                for (name, _, *have), (_, _, *want) in zip(drawn, wanted, strict=True):
                    found.holds(
                        f"figure {key}'s “{name}”", _alike(have, want), f"it draws {have}, not {want}"
                    )


def _sum(values: Iterable[Any] | None) -> tuple[int, float]:
    kept = [float(v) for v in (() if values is None else values) if isinstance(v, (int, float, np.number))]
    kept = [v for v in kept if np.isfinite(v)]
    return len(kept), float(sum(kept))


def _near(pair: list[float]) -> tuple[int, float]:
    return int(pair[0]), float(pair[1])


def _alike(have: list[tuple[int, float]], want: list[tuple[int, float]]) -> bool:
    pairs = zip(have, want, strict=True)
    return all(n == m and abs(a - b) <= 1e-3 * max(abs(a), abs(b), 1e-300) for (n, a), (m, b) in pairs)


def run_card(found: Findings, screen: dict[str, Any], run: Run) -> None:
    """Which run a page says that it is about."""
    n = f"{len(run)} token" if len(run) == 1 else f"{len(run)} tokens"
    found.says(
        "run card", screen["hints"].get("run-card", ""), f"{run.model.name}, {n}, {' and '.join(run.dtypes)}"
    )
    found.says("run card's prompt", screen["hints"].get("run-prompt", ""), readable(run.context.prompt, 160))


def layers(screen: dict[str, Any], run: Run, looked: Looked, sides: tuple[str, str]) -> list[str]:
    """The Layers page."""
    found, cell = Findings(), inspected(run, looked)
    step, layer, k = cell.step or 0, cell.layer or 0, cell.variant
    run_card(found, screen, run)
    found.same("chosen variant", screen["pills"].get("Variant"), [names(run)[k]])
    behind(found, screen, run, cell)
    _maps(found, screen["fields"], run, cell, sides)
    if run.vectors(step, k) is not None:
        known = {"coordinates": coordinates, "scales": scales, "spectrum": spectrum, "rounding": rounding}
        known |= {"multiplier": multiplier} if run.variants[k].update != "direct" else {}
        compare_cards(found, screen, {key: _titled(make, run, step, layer, k) for key, make in known.items()})
        worst(found, screen, run, cell)
    _alarm_table(found, screen, run)
    return found.told


def _titled(make: Callable[[Run, int, int, int], FigureCard], *cell: Any) -> Card:
    """A figure of the cell without the cell's name in its title, which the heading above it has."""

    def card() -> FigureCard:
        made = make(*cell)
        what = made.title.rsplit(": ", 1)[-1]
        return replace(made, title=what[:1].upper() + what[1:])

    return card


def _maps(
    found: Findings, page: dict[str, Any] | None, run: Run, cell: Looked, sides: tuple[str, str]
) -> None:
    if page is None:
        found.told.append("the two maps are not on the page")
        return
    name = names(run)[cell.variant]
    found.says("the maps' extent", page["where"], name)
    found.says(
        "the maps' readout",
        page["readout"],
        f"layer {cell.layer}, token {cell.step} ",
        f"“{readable(run.token(cell.step or 0)[4])}”",
    )
    for shown, key in zip(page["maps"], sides, strict=True):
        about = metrics.METRICS[key]
        found.same("a map's metric", shown["metric"], key)
        found.same("a map's caption", shown["caption"], about.meaning)
        if about.kind == "log":
            size = f"{run.model.n_layers} layers by {len(run)} tokens"
            found.says("a map's text", shown["alt"], f"{about.title}", f"of {name}; {size}")


def _alarm_table(found: Findings, screen: dict[str, Any], run: Run) -> None:
    counts = {kind: n for kind, n in alarms.count(run).items() if n}
    if not counts:
        found.says("alarms", screen["hints"].get("alarms", ""), "No alarm fires")
        return
    shown = alarms.find(run, None, limit=500)
    told = [t["alt"] or "" for t in screen["tables"].values() if "the first:" in (t["alt"] or "")]
    found.says("table of alarms", "".join(told), f"{len(shown)} alarm", f"; the first: {shown[0].sentence}")


def replay(screen: dict[str, Any], run: Run, looked: Looked) -> list[str]:
    """The Replay page."""
    found, k = Findings(), looked.variant
    run_card(found, screen, run)
    found.same("chosen variant", screen["pills"].get("Variant"), [names(run)[k]])
    if run.variants[k].arithmetic == "written":
        kinds = [kind for kind in run.replayed if kind != "held"]
        step = inspected(run, looked).step or 0
        cards: dict[str, Card] = {}
        if kinds:
            cards["replay-lines"] = lambda: replay_lines(run, k)
            cards["drift-lines"] = lambda: drift_lines(run, step, k)
        if "held" in run.replayed:
            cards["held-lines"] = lambda: held_lines(run, k)
        compare_cards(found, screen, cards)
    return found.told


def compare(screen: dict[str, Any], run: Run) -> list[str]:
    """The Compare page's first view, of the run on screen."""
    found = Findings()
    found.says(
        "compared prompt", screen["hints"].get("compare-prompt", ""), readable(run.context.prompt, 160)
    )
    compare_cards(
        found, screen, {"compare-gap": lambda: logit_gap_lines(run), "compare-tvd": lambda: tvd_lines(run)}
    )
    return found.told


def pictures(screen: dict[str, Any], run: Run) -> list[str]:
    """The Pictures page says which run it is about, and what to do where that has no picture."""
    found = Findings()
    run_card(found, screen, run)
    if not run.context.images:
        found.says("pictures", " ".join(screen["messages"].values()), "has no picture")
    return found.told
