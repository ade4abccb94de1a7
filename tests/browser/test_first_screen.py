"""What stands on the first screen of the Live page, measured as boxes: at rest, at work, wide and narrow."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import TYPE_CHECKING

import pytest

from tests.browser.conftest import Tab
from tests.browser.live_view import LiveView, until
from tests.browser.test_live_component import CLIPPED
from tests.tiny_models import save_tiny_folder, tiny_gemma3

if TYPE_CHECKING:
    from playwright.sync_api import FloatRect, Locator

pytestmark = pytest.mark.browser
OpenTab = Callable[..., Tab]

WIDE = [(1280, 720), (1024, 768)]
PHONE = (390, 844)
SCHEMES = ["light", "dark"]
LEAST_CHIPS = 2
LEAST_ROWS = 3
LEAST_FIGURE = 120
"""A map or chart lower than this, in px, shows nothing."""
SLOW = {"update": "direct,stable,floored,rescaled", "dtype": "float32,bfloat16"}
"""So many variants that a run is still at work while the page is measured."""
OUTSIDE = """
view => {
  const right = document.documentElement.clientWidth;
  const inside = (node) => {
    const box = node.getBoundingClientRect();
    return !box.width || (box.left > -1 && box.right < right + 1);
  };
  const clips = (node) => node !== view && getComputedStyle(node).overflowX !== "visible";
  const within = (node) => {
    for (let n = node.parentElement; n; n = n.parentElement) if (clips(n)) return true;
    return false;
  };
  const seen = (node) => node.checkVisibility() && !node.closest("svg, .spoken");
  const cut = (node) => seen(node) && !inside(node) && !within(node);
  return [...view.querySelectorAll("*")].filter(cut).map((node) => node.className || node.tagName);
}
"""

ONE_BELOW_THE_OTHER = """
view => {
  const names = [".headline", ".chip", "figure.map", "figure.lines", "section.behind"];
  const boxes = names.map((name) => view.querySelector(name).getBoundingClientRect());
  return [boxes.map((box) => box.top), boxes.map((box) => box.bottom)];
}
"""
"""Measured at one moment: a run at work moves what is below its text."""


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> str:
    model = tiny_gemma3(num_hidden_layers=12, max_position_embeddings=1024)
    return str(save_tiny_folder(tmp_path_factory.mktemp("slow"), model))


@pytest.fixture
def show(new_tab: OpenTab, slow: str) -> Callable[..., Tab]:
    """Opens the page at a size: the recorded run at rest, or a run at work."""

    def show(size: tuple[int, int], scheme: str, state: str = "done") -> Tab:
        query = {} if state == "done" else {"model": slow, "tokens": "500", "prompt": "the and the", **SLOW}
        tab = new_tab(**query)
        tab.page.set_viewport_size({"width": size[0], "height": size[1]})
        tab.page.emulate_media(color_scheme=scheme)  # pyright: ignore[reportArgumentType]
        tab.ready().until("done")
        if state != "done":
            tab.press("Generate").until(state).tokens.nth(LEAST_CHIPS).wait_for()
        return tab

    return show


def box(place: Locator) -> FloatRect:
    found = place.bounding_box()
    assert found is not None
    assert found["width"] > 0
    assert found["height"] > 0
    return found


def on_screen(tab: Tab, place: Locator, what: str, least: float = 0) -> None:
    """All of it is inside the window, and nothing lies over its middle."""
    size = tab.page.viewport_size
    assert size is not None
    found = box(place)
    assert found["x"] >= 0, what
    assert found["x"] + found["width"] <= size["width"] + 1, what
    assert found["y"] >= 0, what
    assert found["y"] + found["height"] <= size["height"] + 1, (what, found)
    assert found["height"] >= least, (what, found)


def apart(places: dict[str, Locator]) -> None:
    """No two of them overlap."""
    boxes = {name: box(place) for name, place in places.items()}
    for (one, a), (other, b) in combinations(boxes.items(), 2):
        beside = a["x"] + a["width"] <= b["x"] + 1 or b["x"] + b["width"] <= a["x"] + 1
        above = a["y"] + a["height"] <= b["y"] + 1 or b["y"] + b["height"] <= a["y"] + 1
        assert beside or above, f"{one} overlaps {other}"


def parts(tab: Tab) -> dict[str, Locator]:
    """What must be seen without scrolling, by name."""
    live, page = LiveView(tab.page), tab.page
    buttons = {name: page.get_by_role("button", name=name, exact=True) for name in ("Step", "Stop")}
    answer = {"first chip": live.chips.nth(0), "second chip": live.chips.nth(LEAST_CHIPS - 1)}
    if live.view.get_attribute("data-state") == "running":
        # What is written is followed: its first tokens may have been scrolled away.
        answer = {"the answer": page.locator(".strip")}
    return {
        "prompt": page.get_by_role("textbox", name="Prompt"),
        "Generate": page.locator(".st-key-generate button:visible"),
        **buttons,
        "headline": page.locator(".headline"),
        "status": page.locator(".status-words"),
        **answer,
        "map": live.map.locator("canvas"),
        "chart": live.chart,
        "tabs": live.lines.locator(".tabs"),
    }


def figures(tab: Tab) -> None:
    """The two figures are large enough to be read, side by side, and nothing written in them is cut."""
    live = LiveView(tab.page)
    for name in ("map", "chart"):
        assert box(parts(tab)[name])["height"] >= LEAST_FIGURE, name

    def beside() -> None:
        # One after the other: what stands above them may grow between.
        one, other = box(live.map), box(live.lines)
        assert one["x"] + one["width"] <= other["x"] + 1
        assert abs(one["y"] - other["y"]) < 3

    until(beside, tab.page)
    drawings = tab.page.locator(".field > svg, .linechart > svg, .scatter:visible > svg")
    assert drawings.count() >= 2
    assert drawings.evaluate_all(CLIPPED) == []


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("size", WIDE)
@pytest.mark.parametrize("state", ["done", "running"])
def test_all_of_a_run_is_on_the_first_screen(
    show: Callable[..., Tab], size: tuple[int, int], scheme: str, state: str
) -> None:
    tab = show(size, scheme, state)
    live = LiveView(tab.page)

    def seen() -> None:
        for name, place in parts(tab).items():
            on_screen(tab, place, name)
        figures(tab)

    until(seen, tab.page)
    apart({name: place for name, place in parts(tab).items() if name != "tabs"})
    live.chips.nth(1).click()

    def opened() -> None:
        seen()
        assert live.looked()["chips"] == [1]
        on_screen(tab, tab.page.locator(".behind h3"), "title of the cell")
        on_screen(tab, tab.page.locator(".scatter"), "scatter", LEAST_FIGURE / 2)
        rows = tab.page.locator("table.worst tbody tr")
        assert rows.count() >= LEAST_ROWS
        for k in range(LEAST_ROWS):
            on_screen(tab, rows.nth(k), f"row {k}")

    until(opened, tab.page)
    assert tab.page.evaluate("document.querySelector('[data-testid=stMain]').scrollTop") == 0
    assert live.view.get_attribute("data-state") == state
    assert ("dark" in (live.view.get_attribute("class") or "").split()) == (scheme == "dark")
    if state == "running":
        tab.press("Stop").until("stopped")


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("state", ["done", "running"])
def test_a_phone_shows_one_column_and_cuts_nothing(show: Callable[..., Tab], scheme: str, state: str) -> None:
    tab = show(PHONE, scheme, state)
    live, page = LiveView(tab.page), tab.page

    def fits() -> None:
        tops, bottoms = live.view.evaluate(ONE_BELOW_THE_OTHER)
        assert tops == sorted(tops)
        assert tops[-2] >= bottoms[-3] - 1
        assert tops[0] >= box(parts(tab)["prompt"])["y"]
        main = "document.querySelector('[data-testid=stMain]')"
        assert page.evaluate(f"{main}.scrollWidth - {main}.clientWidth") <= 0
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert live.view.evaluate(OUTSIDE) == []
        drawings = page.locator(".field > svg, .linechart > svg, .scatter:visible > svg")
        assert drawings.evaluate_all(CLIPPED) == []

    until(fits, page)
    live.chips.nth(1).click()
    until(lambda: same(live.looked()["chips"], [1]), page)
    page.locator(".scatter:visible").wait_for()
    until(fits, page)
    names = ("prompt", "Generate", "Step", "Stop")
    apart({name: parts(tab)[name] for name in names})
    for name in names:
        found = box(parts(tab)[name])
        assert found["x"] >= 0, name
        assert found["x"] + found["width"] <= PHONE[0], name
    if state == "running":
        tab.press("Stop").until("stopped")


def same(found: object, expected: object) -> None:
    assert found == expected


@pytest.mark.parametrize("width", [1440, 1024, 800, 600])
def test_the_tools_of_a_figure_do_not_overlap(show: Callable[..., Tab], width: int) -> None:
    tab = show((width, 800), "light")
    live = LiveView(tab.page)
    for figure in (live.map, live.lines):
        pieces = figure.locator(".head select, .tools button:visible, .tools summary, .tabs").all()
        apart({f"{k} {piece.inner_text()[:20]}": piece for k, piece in enumerate(pieces)})
        outer = box(figure)
        for piece in pieces:
            inner = box(piece)
            assert inner["x"] >= outer["x"] - 1
            assert inner["x"] + inner["width"] <= outer["x"] + outer["width"] + 1


@pytest.mark.parametrize("size", [*WIDE, PHONE])
def test_every_tab_can_be_seen(show: Callable[..., Tab], size: tuple[int, int]) -> None:
    tab = show(size, "light")
    live = LiveView(tab.page)
    row = box(live.lines.locator(".tabs"))
    tabs = live.lines.get_by_role("tab")
    assert tabs.count() == 5
    for one in tabs.all():
        inner = box(one)
        assert inner["x"] >= row["x"] - 1, one.inner_text()
        assert inner["x"] + inner["width"] <= row["x"] + row["width"] + 1, one.inner_text()
