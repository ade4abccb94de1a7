"""One tab of the program, and what it should be showing after everything done in it.

Which run, how it ended and what is looked at is kept here and by nobody else; the records come through the
side door.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from ctxviz.run import Run
from ctxviz.ui.recorded import RECORDED, recorded_run
from ctxviz.ui.url_state import Link
from tests.browser import expected, expected_pages, painted
from tests.browser.curves import Looked
from tests.browser.findings import Findings
from tests.browser.reading import Hands, Screen, pixels, read, settled
from tests.browser.records import ACTIVE, Door

if TYPE_CHECKING:
    from playwright.sync_api import Page

PATIENCE: Final = 6.0
"""Seconds after which what the page says counts."""
FIRST_PATIENCE: Final = 30.0
PROMPTS: Final = ("What colour is the circle?", "How many shapes are there?", "Describe the picture.")
RULES: Final = ("direct", "stable", "floored")
DTYPES: Final = ("float32", "bfloat16", "float16")
BACK, FORWARD = "← Previous run", "Next run →"
PLAIN: Final = Link()
ASKED: Final = (
    "prompt", "model", "tokens", "update", "dtype", "fold", "step", "layer", "variant", "metric",
)  # fmt: skip
"""What of the address is compared."""


@dataclass
class Shown:
    """A run that the tab has had on screen."""

    view: str
    wish: tuple[Any, ...] | None = None
    """What was asked for; None for a run of a file or one that is recorded."""
    file: bool = False
    """Whether it was opened from a file."""
    hidden: frozenset[str] = frozenset()
    """Lines of its chart that the reader took away."""


@dataclass
class Widgets:
    """What the controls say."""

    prompt: str = PROMPTS[0]
    updates: tuple[str, ...] = ("direct", "floored")
    dtypes: tuple[str, ...] = ("float32", "bfloat16")
    tokens: int = 6
    fold: str = "all"

    @property
    def wish(self) -> tuple[Any, ...]:
        return (self.prompt, self.updates, self.dtypes, self.tokens, self.fold)


@dataclass
class Walk:
    """A tab, what was done in it, and what it should show."""

    page: Page
    door: Door
    model: str = "tiny-shapes"
    widgets: Widgets = field(default_factory=Widgets)
    shown: Shown = field(default_factory=lambda: Shown(""))
    earlier: list[Shown] = field(default_factory=list)
    later: list[Shown] = field(default_factory=list)
    looked: Looked = field(default_factory=Looked)
    sides: list[str] = field(default_factory=lambda: ["scale_ratio", "output_error"])
    place: str = "Live"
    done: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @cached_property
    def hands(self) -> Hands:
        return Hands(self.page)

    @property
    def run(self) -> Run:
        return self.door.run(self.shown.view)

    @property
    def state(self) -> str:
        return self.door.views()[self.shown.view]["state"]

    # What the page should say.

    def check(self, chance: random.Random, patience: float = PATIENCE) -> list[str]:
        """What the page says otherwise than the records, once it has had its time."""
        deadline = time.monotonic() + patience
        screen = settled(self.page, patience)
        while True:
            wrong = self.differences(screen)
            wrong = wrong or self.paint(screen, chance)
            if not wrong or time.monotonic() > deadline:
                return [*wrong, *self._heard()]
            self.page.wait_for_timeout(250)
            screen = read(self.page)

    def _heard(self) -> list[str]:
        heard, self.problems[:] = list(self.problems), []
        return heard

    def differences(self, screen: Screen) -> list[str]:
        if screen["trouble"]:
            return [f"an exception is on the page: {screen['trouble'][0][:300]}"]
        run, found = self.run, Findings()
        found.same("page", screen["page"], self.place.lower())
        found.holds(
            "title", screen["title"].startswith(self.place), f"it is “{screen['title']}” on {self.place}"
        )
        found.same("address", {k: v for k, v in screen["query"].items() if k in ASKED}, self._query())
        sides = (self.sides[0], self.sides[1])
        rest = {
            "Live": lambda: self._live(screen, run),
            "Layers": lambda: expected_pages.layers(screen, run, self.looked, sides),
            "Replay": lambda: expected_pages.replay(screen, run, self.looked),
            "Compare": lambda: expected_pages.compare(screen, run),
            "Pictures": lambda: expected_pages.pictures(screen, run),
        }[self.place]()
        return found.told + rest

    def _live(self, screen: Screen, run: Run) -> list[str]:
        found, page = Findings(), screen["live"]
        found.same("prompt", screen["prompt"], self.widgets.prompt)
        for button in ("Continue", "Start over"):
            found.same(f"button {button}", button in screen["buttons"], self.goes_on)
        for way, runs in ((BACK, self.earlier), (FORWARD, self.later)):
            found.same(f"the way “{way}”", way in screen["buttons"], bool(runs))
        found.same("told that settings differ", "difference" in screen["hints"], self._differs(run))
        if page and page["map"]:
            painted.outlined(found, page["map"], run, self.looked)
            note = f"A run recorded earlier with {run.model.name}" if self._recorded(run) else ""
            found.holds("note", page["note"].startswith(note), f"it is “{page['note']}”, not “{note} …”")
        return found.told + expected.live(screen, run, self.looked, self.state, self.shown.hidden)

    def _recorded(self, run: Run) -> bool:
        keys = [recorded_key(name) for name in RECORDED]
        return self.shown.wish is None and not self.shown.file and key_of(run) in keys

    def _differs(self, run: Run) -> bool:
        """Whether the run was made with anything else than what the widgets ask for."""
        settings = run.settings
        more = bool(settings.replays or run.context.images) or settings.hold is not None
        return more or run.model.key != self.model or made_with(run) != self.widgets

    @property
    def goes_on(self) -> bool:
        """Whether the run on screen can be continued as things are chosen."""
        about = self.door.views()[self.shown.view]
        rests = about["state"] in ("paused", "stopped") and about["goes_on"]
        return rests and self.shown.wish == self.widgets.wish

    def _query(self) -> dict[str, str]:
        looked = self.looked
        wanted = {
            "prompt": self.widgets.prompt,
            "model": self.model,
            "tokens": str(self.widgets.tokens),
            "update": ",".join(self.widgets.updates),
            "dtype": ",".join(self.widgets.dtypes),
            "fold": self.widgets.fold,
            "step": None if looked.step is None else str(looked.step),
            "layer": None if looked.layer is None else str(looked.layer),
            "variant": str(looked.variant) if looked.variant else None,
            "metric": looked.metric if looked.metric != "h_abs_min" else None,
        }
        return {k: value for k, value in wanted.items() if value is not None and value != _DEFAULTS.get(k)}

    def paint(self, screen: Screen, chance: random.Random) -> list[str]:
        """The pixels of the chart and of the map on the Live page."""
        if self.place != "Live" or not screen["live"]:
            return []
        found, run, page = Findings(), self.run, screen["live"]
        painted.axis_range(found, page["lines"], run)
        painted.lines(found, page["lines"], pixels(self.hands.chart), run, chance)
        painted.cells(found, page["map"], pixels(self.hands.map), run, self.looked, chance)
        return found.told

    def open(self, chance: random.Random) -> list[str]:
        """A new tab with a link's settings."""
        from urllib.parse import urlencode

        self.done.append(f"open a tab: {self.model}, {self.widgets.prompt!r}")
        known = set(self.door.views())
        query = urlencode(self._query())
        self.page.goto(f"{self.door.address}/?{query}")
        self.page.wait_for_selector("[data-testid=stApp]")
        self.shown = Shown(self._new_view(known))
        return self.check(chance, FIRST_PATIENCE)

    def _new_view(self, known: set[str], *, made: bool = False) -> str:
        """The view that came since; with ``made`` not one of a run known before."""
        deadline = time.monotonic() + 30
        runs = {view["run"] for name, view in self.door.views().items() if name in known}
        while time.monotonic() < deadline:
            for name, view in self.door.views().items():
                fresh = name not in known and (view["run"] is not None or view["state"] in ACTIVE)
                if fresh and not (made and view["run"] in runs and view["run"] is not None):
                    return name
            self.page.wait_for_timeout(50)
        raise TimeoutError("no new run appeared")

    def look_at(self, shown: Shown) -> None:
        self.earlier = [*self.earlier, *self.later, self.shown][-8:]
        self.later = []
        self.shown = shown
        self.looked = Looked(metric=self.looked.metric)


def recorded_key(name: str) -> tuple[Any, ...]:
    """By what a recorded run is known: prompt, length, model."""
    run = recorded_run(name)
    assert run is not None
    return key_of(run)


def key_of(run: Run) -> tuple[Any, ...]:
    return run.context.prompt, len(run), run.model.key


def made_with(run: Run) -> Widgets:
    """What the controls said, or would have to say, for a run."""
    settings, context = run.settings, run.context
    updates = tuple(rule for rule in RULES if rule in settings.updates)
    dtypes = tuple(dtype for dtype in DTYPES if dtype in settings.dtypes)
    return Widgets(context.prompt, updates, dtypes, settings.max_new_tokens, str(context.fold))


_DEFAULTS: Final = {
    "fold": "all",
    "tokens": str(PLAIN.tokens),
    "update": ",".join(PLAIN.updates),
    "dtype": ",".join(PLAIN.dtypes),
    "model": PLAIN.model,
}
