"""What a person does to have runs on screen: settings, buttons, files, the way back, a reload.

Every action says in ``done`` what it did, and returns what is wrong on the page after it.
"""

from __future__ import annotations

import random
import time
from typing import Any, Final

from ctxviz.figures.text import readable
from ctxviz.ui.recorded import RECORDED
from tests.browser.curves import Looked
from tests.browser.others import OTHERS
from tests.browser.reading import read
from tests.browser.records import ACTIVE, LONGEST
from tests.browser.walk import (
    BACK,
    DTYPES,
    FORWARD,
    PROMPTS,
    RULES,
    Shown,
    Walk,
    key_of,
    made_with,
    recorded_key,
)

FOLDS: Final = {"all": "whole context", "all-but-bos": "all but the start"}


class Maker(Walk):
    """The actions that make or bring back runs."""

    def generate(self, chance: random.Random) -> list[str]:
        if self.goes_on:
            self.done.append("continue")
            self.hands.press("Continue")
            return self._finish(chance, [])
        self.done.append(f"generate {self.widgets.wish}")
        return self._start("Generate", chance)

    def start_over(self, chance: random.Random) -> list[str]:
        self.done.append("start over")
        return self._start("Start over", chance)

    def step(self, chance: random.Random) -> list[str]:
        if self.goes_on:
            self.done.append("step")
            before = len(self.run)
            self.hands.press("Step")
            self._until_longer(before)
            return self._finish(chance, [])
        self.done.append(f"step of a new run {self.widgets.wish}")
        return self._start("Step", chance)

    def _until_longer(self, before: int) -> None:
        deadline = time.monotonic() + LONGEST
        while self.door.views()[self.shown.view]["n"] == before and time.monotonic() < deadline:
            if self.state not in ("paused", *ACTIVE):
                return
            time.sleep(0.05)

    def stop(self, chance: random.Random) -> list[str]:
        """Begin a run and stop it a moment later."""
        if self.goes_on:
            return self.generate(chance)
        self.done.append(f"generate {self.widgets.wish} and stop")
        return self._start("Generate", chance, stop=chance.random())

    def _start(self, button: str, chance: random.Random, stop: float | None = None) -> list[str]:
        known, before = set(self.door.views()), [chip["text"] for chip in self._chips()]
        self.hands.press(button)
        self.look_at(Shown(self._new_view(known, made=True), self.widgets.wish))
        seen = []
        deadline = time.monotonic() + (1.5 if stop is None else stop)
        while self.state in ACTIVE and time.monotonic() < deadline:
            seen.append([chip["text"] for chip in self._chips()])
        if stop is not None:
            # It may have ended by itself.
            stops = self.page.get_by_role("button", name="Stop", exact=True)
            if stops.is_enabled():
                stops.click(timeout=5000, no_wait_after=True)
        return self._finish(chance, seen, before)

    def _chips(self) -> list[dict[str, Any]]:
        live = read(self.page)["live"]
        return live["chips"] if live else []

    def _finish(
        self, chance: random.Random, seen: list[list[str]], before: list[str] | None = None
    ) -> list[str]:
        """Wait until the run stands still; nothing shown meanwhile may be of neither run."""
        self.door.wait(self.shown.view)
        if self.door.views()[self.shown.view]["n"] in (None, 0):
            # Nothing was written: the page goes back to what was there.
            self.shown = self.earlier.pop()
            return self.check(chance)
        texts = [readable(self.run.token(step)[4]) for step in range(len(self.run))]
        odd = [chips for chips in seen if chips not in (texts[: len(chips)], before)]
        wrong = [
            f"chips while it was written: the page says {chips}; the records say {texts}" for chips in odd[:1]
        ]
        return wrong + self.check(chance)

    def ask(self, chance: random.Random, prompt: str | None = None) -> list[str]:
        self.widgets.prompt = prompt or chance.choice([p for p in PROMPTS if p != self.widgets.prompt])
        self.done.append(f"type {self.widgets.prompt!r}")
        self.hands.type_prompt(self.widgets.prompt)
        return self.check(chance)

    def hurry(self, chance: random.Random) -> list[str]:
        """Type another prompt and generate by Ctrl+Enter, without leaving the field."""
        self.widgets.prompt = chance.choice([p for p in PROMPTS if p != self.widgets.prompt])
        self.done.append(f"Ctrl+Enter in {self.widgets.prompt!r}")
        known, before = set(self.door.views()), [chip["text"] for chip in self._chips()]
        self.hands.generate_by_keys(self.widgets.prompt)
        self.look_at(Shown(self._new_view(known, made=True), self.widgets.wish))
        return self._finish(chance, [], before)

    def take_settings(self, chance: random.Random) -> list[str]:
        """Have the settings of the run on screen; only where nothing else than the widgets would differ."""
        run = self.run
        if (
            run.model.key != self.model
            or run.context.images
            or run.settings.replays
            or not self._differs(run)
        ):
            return []
        self.done.append("use this run's settings")
        self.widgets = made_with(run)
        self.hands.press("Use this run's settings")
        return self.check(chance)

    def change(self, chance: random.Random) -> list[str]:
        """Another rule, another precision, another number of tokens, or another fold."""
        widgets, what = self.widgets, chance.choice(("updates", "dtypes", "tokens", "fold"))
        if what == "fold":
            widgets.fold = "all" if widgets.fold != "all" else "all-but-bos"
            self.done.append(f"fold {widgets.fold}")
            self.hands.select("Fold into weights", FOLDS[widgets.fold])
            return self.check(chance)
        if what == "tokens":
            widgets.tokens = chance.choice([n for n in (2, 4, 6, 12) if n != widgets.tokens])
            self.done.append(f"tokens {widgets.tokens}")
            self.hands.fill("Tokens", widgets.tokens)
            return self.check(chance)
        known, group = (RULES, "Update rule") if what == "updates" else (DTYPES, "Precision")
        chosen = getattr(widgets, what)
        one = chance.choice([name for name in known if chosen != (name,)])
        after = tuple(name for name in known if (name in chosen) != (name == one))
        setattr(widgets, what, after)
        self.done.append(f"{group}: {', '.join(after)}")
        self.hands.toggle(group, one)
        return self.check(chance)

    def back(self, chance: random.Random) -> list[str]:
        self.done.append("back to the previous run")
        self.later.append(self.shown)
        self.shown = self.earlier.pop()
        return self._return(BACK, chance)

    def forward(self, chance: random.Random) -> list[str]:
        self.done.append("on to the next run")
        self.earlier.append(self.shown)
        self.shown = self.later.pop()
        return self._return(FORWARD, chance)

    def _return(self, button: str, chance: random.Random) -> list[str]:
        self.looked = Looked(metric=self.looked.metric)
        self.hands.press(button)
        self.door.wait(self.shown.view)
        return self.check(chance)

    def recorded(self, chance: random.Random) -> list[str]:
        name, title = chance.choice(list(RECORDED.items()))
        self.done.append(f"recorded run: {title}")
        known, run = self.door.views(), self.run
        self.hands.recorded(title)
        if not (self._recorded(run) and key_of(run) == recorded_key(name)):
            self.look_at(Shown(self._new_view(set(known))))
        return self.check(chance)

    def open_file(self, chance: random.Random) -> list[str]:
        """The file of a run that was on screen."""
        source = chance.choice([self.shown, *self.earlier, *self.later])
        self.done.append(f"open the file of {self.door.run(source.view).context.prompt!r}")
        known = set(self.door.views())
        self.hands.open_file("run.ctxviz", self.door.content(source.view))
        self.look_at(Shown(self._new_view(known, made=True), file=True))
        return self.check(chance)

    def open_other(self, chance: random.Random, odd: str | None = None) -> list[str]:
        """A file of a run that was made elsewhere."""
        odd = odd or chance.choice(list(OTHERS))
        self.done.append(f"open a file with {odd}")
        known = set(self.door.views())
        self.hands.open_file("other.ctxviz", OTHERS[odd]())
        self.look_at(Shown(self._new_view(known, made=True), file=True))
        return self.check(chance)

    def reload(self, chance: random.Random) -> list[str]:
        self.done.append("reload")
        self.page.reload()
        self.page.wait_for_selector("[data-testid=stApp]")
        for shown in (self.shown, *self.earlier, *self.later):
            # What a reader chose in a chart is kept while the page is open.
            shown.hidden = frozenset()
        return self.check(chance, 15)
