"""What a person can read on a page, as data, and hands for it; only here and in reading.js are selectors."""

from __future__ import annotations

import io
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

if TYPE_CHECKING:
    from playwright.sync_api import FilePayload, Locator, Page

Screen = dict[str, Any]
Pixels = NDArray[np.uint8]

_READ = Path(__file__).with_name("reading.js").read_text()
_RAISED = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
QUIET_SECONDS = 0.3
"""So long nothing on the page may change before it counts as settled."""

MENU_SECONDS = 10.0

COUNT_REQUESTS = """
window.requestsOnTheWay = 0;
const plain = window.fetch;
window.fetch = (...asked) => {
  window.requestsOnTheWay += 1;
  return plain(...asked).finally(() => (window.requestsOnTheWay -= 1));
};
"""


def read(page: Page) -> Screen:
    """Everything on the page as it is now."""
    return page.evaluate(_READ)


def read_spoilt(page: Page, changes: list[str]) -> Screen:
    """The page at the very moment after changes that the program knows nothing of, ``css -> change`` each."""
    return page.evaluate(
        f"""(changes) => {{
          const roots = [document, ...[...document.querySelectorAll("*")].map((node) => node.shadowRoot)];
          for (const change of changes) {{
            const [css, act] = change.split(" -> ");
            const node = roots.flatMap((root) => [...(root?.querySelectorAll(css) ?? [])])[0];
            new Function("node", `node.${{act}}`)(node);
          }}
          return ({_READ.strip().rstrip(";")})();
        }}""",
        changes,
    )


def settled(page: Page, patience: float) -> Screen:
    """The page once nothing on it changes and nothing is on its way; as it is after ``patience`` seconds.

    The pointer is moved aside, where nothing answers it.
    """
    page.mouse.move(2, 2)
    before, since, deadline = None, time.monotonic(), time.monotonic() + patience
    while True:
        now = read(page)
        at_work = page.evaluate("window.requestsOnTheWay") or now["script"] != "notRunning"
        moment = time.monotonic()
        if at_work or now != before:
            before, since = now, moment
        elif moment - since >= QUIET_SECONDS:
            return now
        if moment > deadline:
            return now
        page.wait_for_timeout(60)


@dataclass(frozen=True)
class Axis:
    """The numbers written along an axis and where they stand, in pixels from the drawing's edge."""

    numbers: tuple[float, ...]
    places: tuple[float, ...]

    def at(self, number: float) -> float:
        """Where a number is; it is on the straight line through the outermost labels."""
        (a, b), (p, q) = (self.numbers[0], self.numbers[-1]), (self.places[0], self.places[-1])
        return p + (number - a) * (q - p) / (b - a)


def number_in(text: str) -> float | None:
    """The number a label stands for: ``10⁻³``, ``3.2·10⁻⁷``, ``0.01``, ``12``; None where it is no number."""
    factor, _, power = text.rpartition("·") if "·" in text else ("1", "", text)
    try:
        if power.startswith("10") and len(power) > 2 and power[2] in "⁻⁰¹²³⁴⁵⁶⁷⁸⁹":
            return float(factor) * 10.0 ** int(power[2:].translate(_RAISED))
        return float(text.replace("−", "-"))
    except ValueError:
        return None


def token_axis(texts: list[dict[str, Any]]) -> Axis | None:
    """The axis of tokens below a drawing; None where it has fewer than two numbers."""
    found = [(number_in(t["text"]), t["x"]) for t in texts if t["anchor"] == "middle"]
    return _axis([(n, x) for n, x in found if n is not None])


def value_axis(texts: list[dict[str, Any]], *, log: bool, anchor: str = "end") -> Axis | None:
    """The axis of values beside a drawing, of their decimal logarithms where ``log``.

    A row beside the axis, such as the one of zeros below a logarithmic one, is no part of it.
    """
    found = [
        (number_in(t["text"]), t["y"]) for t in texts if t["anchor"] == anchor and "beside" not in t["role"]
    ]
    if not log:
        return _axis([(n, y) for n, y in found if n is not None])
    return _axis([(float(np.log10(n)), y) for n, y in found if n is not None and n > 0])


def layer_axis(texts: list[dict[str, Any]]) -> Axis | None:
    """The axis of layers beside a map."""
    return value_axis(texts, log=False)


def _axis(found: list[tuple[float, float]]) -> Axis | None:
    if len(found) < 2:
        return None
    numbers, places = zip(*sorted(found), strict=True)
    return Axis(numbers, places)


def pixels(place: Locator) -> Pixels:
    """What is painted there, [height, width, 3]."""
    with Image.open(io.BytesIO(place.screenshot())) as image:
        return np.asarray(image.convert("RGB"))


class Hands:
    """What a person does on the Live page and its neighbours; each waits only for what it touches."""

    def __init__(self, page: Page) -> None:
        self.page = page

    @property
    def chart(self) -> Locator:
        return self.page.locator("figure.lines .linechart")

    @property
    def map(self) -> Locator:
        return self.page.locator("figure.map .field")

    def side(self, index: int) -> Locator:
        """One of the two maps of the Layers page."""
        return self.page.locator(".st-key-fields section.map").nth(index)

    def press(self, name: str) -> None:
        self.page.get_by_role("button", name=name, exact=True).click()

    def type_prompt(self, text: str) -> None:
        field = self.page.get_by_role("textbox", name="Prompt")
        field.fill(text)
        field.press("Tab")

    def generate_by_keys(self, text: str) -> None:
        field = self.page.get_by_role("textbox", name="Prompt")
        field.fill(text)
        field.press("Control+Enter")

    def fill(self, name: str, value: int) -> None:
        field = self.page.get_by_role("spinbutton", name=name, exact=True)
        field.fill(str(value))
        field.press("Enter")

    def toggle(self, group: str, name: str) -> None:
        pills = self.page.locator(f"[data-testid=stButtonGroup] [aria-label='{group}'] button")
        pills.filter(has_text=re.compile(rf"^{re.escape(name)}( ·.*)?$")).click()

    def select(self, name: str, option: str) -> None:
        """Choose in a select box of the sidebar or of a page."""
        self.page.get_by_role("combobox", name=name, exact=True).click()
        self.page.get_by_role("option", name=option, exact=True).click()

    def show(self, metric: int | None = None, variant: int | None = None) -> None:
        for name, index in (("The heat map shows", metric), ("The heat map is of", variant)):
            if index is not None:
                self.page.get_by_label(name).select_option(index=index)

    def click_chip(self, step: int) -> None:
        self.page.locator(".written .chip").nth(step).click()

    def click_alarm(self, index: int) -> None:
        self.page.locator(".alarms .count").click()
        self.page.locator(".alarms .alarm-words").nth(index).click()

    def click_key(self, index: int) -> None:
        self.page.locator(".chart-key").nth(index).click()

    def click_tab(self, index: int) -> None:
        self.page.locator("figure.lines [role=tab]").nth(index).click()

    def turn_axis(self) -> None:
        self.page.locator(".chart-tools button", has_text=re.compile("^(log|linear)$")).click()

    def open_prompt(self) -> None:
        self.page.locator(".prompt-words").click()

    def all_of_layer(self) -> None:
        self.page.locator(".behind .foot .link").click()

    def show_side(self, index: int, metric: str) -> None:
        self.side(index).locator("select").select_option(value=metric)

    def drag(self, place: Locator, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Draw a rectangle with the pointer held down."""
        place.hover(position={"x": start[0], "y": start[1]})
        self.page.mouse.down()
        place.hover(position={"x": end[0], "y": end[1]})
        self.page.mouse.up()

    def zoomed(self, what: str) -> bool:
        """Whether soon a way is offered to see all of the chart or the map again."""
        from playwright.sync_api import TimeoutError as TooLateError

        name = {"chart": "Show all tokens and values", "map": "Show the whole run"}[what]
        try:
            self.page.get_by_role("button", name=name).wait_for(timeout=5000)
        except TooLateError:
            return False
        return True

    def click(self, place: Locator, x: float, y: float) -> None:
        place.click(position={"x": x, "y": y})

    def point(self, place: Locator, x: float, y: float) -> list[Any]:
        """Point there and read what is told beside the pointer: a title, then rows of words."""
        place.hover(position={"x": x, "y": y})
        self.page.wait_for_timeout(50)
        live = read(self.page)["live"]
        return live["tip"] if live else []

    def recorded(self, title: str) -> None:
        self._from_menu("Recorded runs")
        self.press(title)

    def open_file(self, name: str, content: bytes) -> None:
        """Give a file to the menu that opens runs, and leave the menu open."""
        self._from_menu("Open a run")
        file: FilePayload = {"name": name, "mimeType": "application/zip", "buffer": content}
        self.page.locator("[data-testid=stPopoverBody] input[type=file]").set_input_files(files=file)

    def close_menu(self) -> None:
        self.page.keyboard.press("Escape")

    def _from_menu(self, name: str) -> None:
        """Open a menu, and wait as a person does until it is there."""
        self.page.get_by_role("button", name=name).first.click()
        settled(self.page, MENU_SECONDS)

    def go(self, page: str) -> None:
        link = self.page.locator("[data-testid=stPageLink-NavLink]").filter(has_text=page)
        link.click()
        self.page.wait_for_url(
            lambda url: url.split("?")[0].endswith("/" if page == "Live" else page.lower())
        )
