"""Pixels of the charts and the map, held against the records by the numbers written along their axes."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ctxviz.figures.palette import CIVIDIS, variant_style
from ctxviz.run import Run
from tests.browser.curves import AGAIN, HELD, Looked, brief, inspected, line, names, references, table
from tests.browser.findings import Findings
from tests.browser.reading import Axis, Pixels, layer_axis, token_axis, value_axis

NEAR: Final = 4
"""Pixels by which a line may be away from where the labels say it is."""
ALIKE: Final = 60
"""Distance of two colours, summed over red, green and blue, below which they count as one."""


def rgb(colour: str) -> NDArray[np.int16]:
    return np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)], np.int16)


@dataclass(frozen=True)
class Spot:
    """A point of a chart: the token and variant that it is of, its number, and where it stands."""

    step: int
    variant: int
    value: float
    x: float
    y: float


def spots(chart: dict[str, Any], run: Run) -> list[Spot]:
    """Where the records say that every point of a chart stands, by the chart's own labels."""
    across, up = token_axis(chart["texts"]), value_axis(chart["texts"], log=chart["log"])
    if across is None or up is None:
        return []
    away = {entry["text"] for entry in chart["legend"] if not entry["shown"]}
    found = []
    for k, name in enumerate(map(brief, names(run))):
        for step, value in enumerate(line(run, chart["title"], k)):
            if name not in away and np.isfinite(value) and (value > 0 or not chart["log"]):
                up_there = up.at(float(np.log10(value)) if chart["log"] else float(value))
                found.append(Spot(step, k, float(value), across.at(step), up_there))
    return found


def axis_range(found: Findings, chart: dict[str, Any], run: Run) -> None:
    """The numbers along a chart's axes are those of this run and of what is shown of it."""
    title, shown = chart["title"], {entry["text"] for entry in chart["legend"] if entry["shown"]}
    curves = {brief(name): line(run, title, k) for k, name in enumerate(names(run))} | references(run, title)
    drawn = np.concatenate([np.zeros(0), *(values for name, values in curves.items() if name in shown)])
    drawn = drawn[np.isfinite(drawn) & (drawn > 0 if chart["log"] else True)]
    up, across = value_axis(chart["texts"], log=chart["log"]), token_axis(chart["texts"])
    for axis in (up, across):
        _straight(found, f"axis of “{title}”", axis)
    if across is not None:
        last = across.numbers[-1]
        found.holds(
            "tokens of the chart",
            last < max(2, run.settings.max_new_tokens, len(run)),
            f"its axis has a token {last:g}",
        )
    if up is None or not drawn.size:
        return
    step = sorted(b - a for a, b in itertools.pairwise(up.numbers))[len(up.numbers) // 2 - 1]
    least, most = (np.log10(drawn.min()), np.log10(drawn.max())) if chart["log"] else (0.0, drawn.max())
    room = max(step, 1.0 if chart["log"] else most)
    fits = (
        least - room <= up.numbers[0] <= least + step and most - step <= up.numbers[-1] <= most + room + 1e-9
    )
    kind = "decimal logarithms" if chart["log"] else "numbers"
    words = f"its {kind} run from {up.numbers[0]:.3g} to {up.numbers[-1]:.3g}"
    found.holds(
        f"axis of “{title}”", bool(fits), f"{words}, those of its values from {least:.3g} to {most:.3g}"
    )


def _straight(found: Findings, what: str, axis: Axis | None) -> None:
    """Every number along an axis stands where the straight line through the outermost has it."""
    if axis is not None:
        off = max(abs(axis.at(n) - place) for n, place in zip(axis.numbers, axis.places, strict=True))
        found.holds(what, off < NEAR, f"a number stands {off:.0f} pixels from its place among the others")


def lines(found: Findings, chart: dict[str, Any], pixels: Pixels, run: Run, chance: random.Random) -> None:
    """At a few points the colour is that of the variant, and where the records have no line there is none."""
    points = spots(chart, run)
    where = {(spot.step, spot.variant): spot for spot in points}
    for spot in chance.sample(points, min(3, len(points))):
        # Another line that passes there, or a cross, may lie on top.
        near = [other for other in points if other.step == spot.step and abs(other.y - spot.y) <= NEAR + 2]
        colours = [rgb(variant_style(run.variants[s.variant], s.variant).color) for s in near]
        crossed = any(run.series("match", s.variant)[s.step] != 1 for s in near) or chart["title"] in (
            AGAIN,
            HELD,
        )
        seen = any(_has(pixels, spot.x, spot.y, colour) for colour in colours)
        found.holds(
            f"line of {names(run)[spot.variant]} in “{chart['title']}”",
            seen or crossed,
            f"at token {spot.step} its colour is not where {spot.value:.3g} stands",
        )
    for _ in range(6):
        _nothing_elsewhere(found, chart, pixels, run, where, chance)


def _nothing_elsewhere(
    found: Findings,
    chart: dict[str, Any],
    pixels: Pixels,
    run: Run,
    where: dict[tuple[int, int], Spot],
    chance: random.Random,
) -> None:
    """At a token chosen by chance the column holds a variant's colour only near that variant's points."""
    if not where:
        return
    step = chance.choice(sorted({step for step, _ in where}))
    k = chance.randrange(len(run.variants))
    mine = where.get((step, k))
    alike = [s for s in where.values() if s.step == step and _same_colour(run, s.variant, k)]
    x = round(next(s.x for s in where.values() if s.step == step))
    column = pixels[:, max(0, x - 1) : x + 2].astype(np.int16)
    colour = rgb(variant_style(run.variants[k], k).color)
    rows = np.flatnonzero((np.abs(column - colour).sum(axis=2) < ALIKE / 2).any(axis=1))
    stray = [int(y) for y in rows if all(abs(y - s.y) > 3 * NEAR for s in alike)]
    stray = [y for y in stray if not _zero(chart, y)]
    what = "" if mine is None else f", though its value there is {mine.value:.3g}"
    found.holds(
        f"line of {names(run)[k]} in “{chart['title']}”",
        not stray,
        f"at token {step} its colour is at pixel rows {stray[:4]}{what}",
    )


def _zero(chart: dict[str, Any], y: int) -> bool:
    """Whether a height is in a row beside the axis: of zeros, or of what is no number."""
    return any("beside" in text["role"] and abs(text["y"] - y) < 5 * NEAR for text in chart["texts"])


def _same_colour(run: Run, a: int, b: int) -> bool:
    one, other = (rgb(variant_style(run.variants[k], k).color) for k in (a, b))
    return int(np.abs(one - other).sum()) < ALIKE


def _has(pixels: Pixels, x: float, y: float, colour: NDArray[np.int16]) -> bool:
    rows = slice(max(0, round(y) - NEAR), round(y) + NEAR + 1)
    around = pixels[rows, max(0, round(x) - NEAR) : round(x) + NEAR + 1].astype(np.int16)
    return bool((np.abs(around - colour).sum(axis=2) < ALIKE).any())


@dataclass(frozen=True)
class Grid:
    """The cells of a map on screen."""

    left: float
    top: float
    width: float
    height: float
    steps: float
    layers: int

    def middle(self, step: int, layer: int) -> tuple[float, float]:
        x = self.left + (step + 0.5) * self.width / self.steps
        return x, self.top + self.height - (layer + 0.5) * self.height / self.layers

    def cell(self, box: list[float]) -> tuple[int, int]:
        """The cell that an outline stands around."""
        x, y, w, h = box
        step = int((x + w / 2 - self.left) / self.width * self.steps)
        return step, int((self.top + self.height - y - h / 2) / self.height * self.layers)


def grid(page: dict[str, Any], run: Run) -> Grid:
    """While a run may go on there is room for tokens to come, which the numbers below the map tell."""
    left, top, width, height = page["cells"]
    across = token_axis(page["texts"])
    steps = float(len(run)) if across is None else width / (across.at(1) - across.at(0))
    return Grid(left, top, width, height, steps, run.model.n_layers)


def outlined(found: Findings, page: dict[str, Any], run: Run, looked: Looked) -> None:
    """What is outlined in the map is what is looked at, and the axes are those of the run."""
    cells = grid(page, run)
    boxes = [cells.cell(box) for box in page["outlined"]]
    opened = inspected(run, looked)
    found.same("outline in the map", boxes, [(opened.step, opened.layer)])
    across, up = token_axis(page["texts"]), layer_axis(page["texts"])
    for axis, place, what in ((across, 0, "token"), (up, 1, "layer")):
        if axis is not None:
            where = [
                cells.middle(int(n), 0)[0] if place == 0 else cells.middle(0, int(n))[1] for n in axis.numbers
            ]
            off = max(abs(a - b) for a, b in zip(where, axis.places, strict=True))
            found.holds(f"map's {what}s", off < NEAR, f"a label is {off:.0f} pixels from its cells")


def cells(
    found: Findings, page: dict[str, Any], pixels: Pixels, run: Run, looked: Looked, chance: random.Random
) -> None:
    """At a few cells the pixel has the colour that the colour bar gives the value."""
    bar = value_axis(page["texts"], log=True, anchor="start")
    values, places = table(run, looked), grid(page, run)
    if bar is None:
        return
    outlined_cells = [places.cell(box) for box in page["outlined"]]
    low, high = _ends(bar, places)
    drawn = values[np.isfinite(values) & (values > 0)]
    _straight(found, "colour bar", bar)
    least, most = np.log10(drawn.min()), np.log10(drawn.max())
    inside = low - 0.02 <= least <= low + 0.52 and high - 1.02 <= most <= high + 0.02
    found.holds(
        "colour bar",
        bool(inside),
        f"it runs from 10^{low:.2f} to 10^{high:.2f} for {drawn.min():.3g} to {drawn.max():.3g}",
    )
    for _ in range(4):
        step, layer = chance.randrange(len(run)), chance.randrange(run.model.n_layers)
        value = values[layer, step]
        if not (np.isfinite(value) and value > 0):
            continue
        x, y = places.middle(step, layer)
        if (step, layer) in outlined_cells:
            continue
        share = float(np.clip((np.log10(value) - low) / (high - low), 0, 1))
        painted = pixels[round(y), round(x)].astype(np.int16)
        off = min(int(np.abs(painted - _cividis(share + d)).sum()) for d in (-0.02, 0, 0.02))
        found.holds(
            f"map's cell at token {step}, layer {layer}",
            off < ALIKE,
            f"its colour {tuple(painted)} is not that of {value:.3g}",
        )


def _ends(bar: Axis, places: Grid) -> tuple[float, float]:
    """The logarithms at the ends of a colour bar as high as the map."""
    a, b = bar.numbers[0], bar.numbers[-1]
    p, q = bar.places[0], bar.places[-1]
    slope = (b - a) / (q - p)
    return a + (places.top + places.height - p) * slope, a + (places.top - p) * slope


def _cividis(share: float) -> NDArray[np.int16]:
    at = float(np.clip(share, 0, 1)) * (len(CIVIDIS) - 1)
    k = min(int(at), len(CIVIDIS) - 2)
    a, b = rgb(CIVIDIS[k]), rgb(CIVIDIS[k + 1])
    return (a + (b - a) * (at - k)).astype(np.int16)
