"""What a person does to look at a run: tokens, cells, alarms, lines, metrics, variants, the other pages."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any, Final

from ctxviz.figures import metrics
from ctxviz.figures.text import readable
from ctxviz.figures.words import alarms
from tests.browser import curves, painted
from tests.browser.findings import Findings, exactly
from tests.browser.making import Maker
from tests.browser.reading import read

PAGES: Final = ("Live", "Layers", "Replay", "Compare", "Pictures")


ALARM_METRICS: Final = {"blow-up": "scale_ratio", "near-overflow": "scale_max_abs"}
"""What the map shows after a click on an alarm that is seen in it."""


class Reader(Maker):
    """Everything that a person can do; see :func:`possible`."""

    def chip(self, chance: random.Random, step: int | None = None) -> list[str]:
        step = chance.randrange(len(self.run)) if step is None else step
        self.done.append(f"click chip {step}")
        self.looked = replace(self.looked, step=step, layer=None)
        self.hands.click_chip(step)
        return self.check(chance)

    def cell(self, chance: random.Random) -> list[str]:
        run, page = self.run, read(self.page)["live"]["map"]
        step, layer = chance.randrange(len(run)), chance.randrange(run.model.n_layers)
        self.done.append(f"click the map at token {step}, layer {layer}")
        self.looked = replace(self.looked, step=step, layer=layer)
        self.hands.click(self.hands.map, *painted.grid(page, run).middle(step, layer))
        return self.check(chance)

    def alarm(self, chance: random.Random) -> list[str]:
        found = [a for a in alarms(self.run)[:12] if a.step is not None]
        if not found:
            return []
        index = chance.randrange(len(found))
        alarm = found[index]
        self.done.append(f"click the alarm “{alarm.sentence[:60]} …”")
        self.looked = replace(
            self.looked, step=alarm.step, layer=alarm.layer,
            variant=self.looked.variant if alarm.variant is None else alarm.variant,
            metric=ALARM_METRICS.get(alarm.kind, self.looked.metric),
        )  # fmt: skip
        self.hands.click_alarm(index)
        return self.check(chance)

    def metric(self, chance: random.Random, key: str | None = None) -> list[str]:
        key = key or chance.choice([key for key in metrics.LIVE_METRICS if key != self.looked.metric])
        self.done.append(f"the map shows {key}")
        self.looked = replace(self.looked, metric=key)
        self.hands.show(metric=metrics.LIVE_METRICS.index(key))
        return self.check(chance)

    def variant(self, chance: random.Random, k: int | None = None) -> list[str]:
        k = chance.randrange(len(self.run.variants)) if k is None else k
        self.done.append(f"the map is of {curves.names(self.run)[k]}")
        self.looked = replace(self.looked, variant=k)
        self.hands.show(variant=k)
        return self.check(chance)

    def key(self, chance: random.Random) -> list[str]:
        """Hide or show a line of the chart."""
        legend = read(self.page)["live"]["lines"]["legend"]
        index = chance.randrange(len(legend))
        name = legend[index]["text"]
        self.done.append(f"click {name} in the legend")
        self.shown.hidden = self.shown.hidden ^ {name}
        self.hands.click_key(index)
        return self.check(chance)

    def tab(self, chance: random.Random) -> list[str]:
        titles = curves.charts_of(self.run)
        index = chance.randrange(len(titles))
        self.done.append(f"the chart shows “{titles[index]}”")
        self.hands.click_tab(index)
        found = Findings()
        found.same("chart", read(self.page)["live"]["lines"]["title"], titles[index])
        return found.told + self.check(chance)

    def axis(self, chance: random.Random) -> list[str]:
        """From logarithmic to linear or back."""
        self.done.append("the axis turned from logarithmic to linear, or back")
        before = read(self.page)["live"]["lines"]["log"]
        self.hands.turn_axis()
        found = Findings()
        found.same("logarithmic axis", read(self.page)["live"]["lines"]["log"], not before)
        return found.told + self.check(chance)

    def tokens(self, chance: random.Random) -> list[str]:
        """Open the prompt's tokens, or close them."""
        self.done.append("open or close the prompt's tokens")
        self.hands.open_prompt()
        return self.check(chance)

    def zoom(self, chance: random.Random) -> list[str]:
        """Drag over a part of the chart or of the map, and see all again by a double click."""
        what = chance.choice(("chart", "map"))
        place = self.hands.chart if what == "chart" else self.hands.map
        self.done.append(f"zoom in the {what} and back")
        box = place.bounding_box()
        assert box is not None
        start, end = (0.25 * box["width"], 0.3 * box["height"]), (0.6 * box["width"], 0.6 * box["height"])
        self.hands.drag(place, start, end)
        wrong = []
        if len(self.run) > 6 and not self.hands.zoomed(what):
            wrong = [f"zoom in the {what}: no way to see all again is offered"]
        place.dblclick(position={"x": start[0], "y": start[1]})
        return wrong + self.check(chance)

    def point(self, chance: random.Random) -> list[str]:
        """Point at a token of the chart and at a cell of the map, and read what is told there."""
        found, run, page = Findings(), self.run, read(self.page)["live"]
        self.done.append("point at the chart and at the map")
        places = painted.spots(page["lines"], run)
        if places:
            self._point_at_chart(found, page["lines"], chance.choice(places))
        step, layer = chance.randrange(len(run)), chance.randrange(run.model.n_layers)
        rows = self.hands.point(self.hands.map, *painted.grid(page["map"], run).middle(step, layer))
        value = float(curves.table(run, self.looked)[layer, step])
        text = readable(run.token(step)[4])
        found.same("map's tooltip", rows[0] if rows else "", f"layer {layer}, token {step} “{text}”")
        told = rows[1].split(" = ")[-1] if len(rows) > 1 else ""
        found.same("map's tooltip", told, exactly(value))
        return found.told + self.check(chance)

    def _point_at_chart(self, found: Findings, page: dict[str, Any], spot: painted.Spot) -> None:
        run, title = self.run, page["title"]
        rows = self.hands.point(self.hands.chart, spot.x, spot.y)
        text = readable(run.token(spot.step)[4])
        found.same("tooltip's token", rows[0] if rows else "", f"token {spot.step} “{text}”")
        told = {row[0]: row[1] for row in rows if isinstance(row, list)}
        names = [curves.brief(name) for name in curves.names(run)]
        drawn = {names[k]: curves.line(run, title, k) for k in curves.drawn_variants(run, title)}
        for name, values in (drawn | curves.references(run, title)).items():
            if name not in self.shown.hidden:
                value = float(values[spot.step])
                found.says(f"tooltip's {name}", f"|{told.get(name, '')}|", "|", value, "|")

    def to_layer(self, chance: random.Random) -> list[str]:
        """From the cell to all of its layer."""
        self.done.append("all of the layer")
        self.looked = curves.inspected(self.run, self.looked)
        self.place = "Layers"
        self.hands.all_of_layer()
        return self.check(chance, 10)

    def side(self, chance: random.Random) -> list[str]:
        """Another metric in one of the two maps of Layers."""
        index, key = chance.randrange(2), chance.choice(list(metrics.METRICS))
        self.done.append(f"map {index} shows {key}")
        self.sides[index] = key
        self.hands.show_side(index, key)
        return self.check(chance)

    def side_cell(self, chance: random.Random) -> list[str]:
        """A cell of one of the two maps of Layers."""
        run, index = self.run, chance.randrange(2)
        page = read(self.page)["fields"]["maps"][index]
        step, layer = chance.randrange(len(run)), chance.randrange(run.model.n_layers)
        self.done.append(f"click map {index} at token {step}, layer {layer}")
        places = painted.Grid(*page["cells"], steps=len(run), layers=run.model.n_layers)
        self.looked = replace(self.looked, step=step, layer=layer)
        self.hands.click(self.hands.side(index).locator(".field"), *places.middle(step, layer))
        return self.check(chance)

    def go(self, chance: random.Random) -> list[str]:
        """To another page; from there sooner or later back."""
        pages = [page for page in PAGES if page != self.place]
        self.place = "Live" if self.place != "Live" and chance.random() < 0.5 else chance.choice(pages)
        self.done.append(f"go to {self.place}")
        self.hands.go(self.place)
        return self.check(chance, 10)

    def page_variant(self, chance: random.Random) -> list[str]:
        """Another variant on Layers or Replay."""
        k = chance.randrange(len(self.run.variants))
        if k == self.looked.variant:
            return []
        name = curves.names(self.run)[k]
        self.done.append(f"variant {name}")
        self.looked = replace(self.looked, variant=k)
        self.hands.toggle("Variant", name)
        return self.check(chance)


EVERYWHERE: Final[tuple[str, ...]] = ("reload", "go")
ON_LIVE: Final = (
    "generate", "step", "stop", "ask", "hurry", "take_settings", "change", "recorded", "open_file",
    "open_other", "chip", "cell", "alarm", "metric", "variant", "point", "key",
    "tab", "axis", "tokens", "zoom", "to_layer",
)  # fmt: skip


def possible(tab: Reader) -> list[str]:
    """The names of the actions that can be done now."""
    names: list[str] = list(EVERYWHERE)
    if tab.place == "Live":
        names += [*ON_LIVE, *(["back"] if tab.earlier else []), *(["forward"] if tab.later else [])]
        names += ["start_over"] if tab.goes_on else []
    if tab.place in ("Layers", "Replay") and len(tab.run.variants) > 1:
        names.append("page_variant")
    if tab.place == "Layers":
        names += ["side", "side_cell"]
    return names
