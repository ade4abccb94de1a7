"""Where things stand on Layers, Replay and Compare: the figure on the first screen, nothing cut, what a click
opened in view."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import pytest

from tests.browser.conftest import READY, Tab

pytestmark = pytest.mark.browser
OpenTab = Callable[..., Tab]
PAGES = ("layers", "replay", "compare")
LAPTOP, TABLET, TELEPHONE = (1280, 720), (1024, 768), (390, 844)
SLACK = 2
"""Pixels by which a letter may reach over its box: letters are drawn beyond what they are said to take."""

BOXES = """selector => [...document.querySelectorAll(selector)].map(node => {
  const { x, y, width, height } = node.getBoundingClientRect();
  return { x, y, width, height, right: x + width, bottom: y + height };
}).filter(box => box.width && box.height)"""
TOO_WIDE = """() => {
  const hidden = node => node.closest('[data-testid=stDataFrame]') || node.closest('.spoken');
  const all = [...document.querySelectorAll('[data-testid=stMainBlockContainer] *')];
  return all.filter(node => !hidden(node) && node.getBoundingClientRect().right > innerWidth + 1)
    .map(node => `${node.tagName} ${node.textContent.slice(0, 40)}`);
}"""
CUT = """slack => [...document.querySelectorAll('.ctxviz-plot')].flatMap(plot => {
  const box = plot.getBoundingClientRect();
  const across = ({ left, right }) => left < box.left - slack || right > box.right + slack;
  const down = ({ top, bottom }) => top < box.top - slack || bottom > box.bottom + slack;
  const out = text => across(text) || down(text);
  return [...plot.querySelectorAll('text')]
    .filter(text => text.textContent.trim() && out(text.getBoundingClientRect()))
    .map(text => text.textContent);
})"""
OVERLAPPING = """() => [...document.querySelectorAll('.ctxviz-plot')].flatMap(plot => {
  // Turned names of one axis stand in each other's boxes without touching.
  const kinds = ['.xtick text', '.x2tick text', '.ytick text', '.y2tick text', '.legend text', '.cbaxis text',
                 '.xtitle', '.ytitle'];
  const placed = kinds.flatMap(kind => [...plot.querySelectorAll(kind)].map(node =>
    [kind, node.textContent, node.getBoundingClientRect()]));
  const across = (a, b) => a.left < b.right - 2 && b.left < a.right - 2;
  const down = (a, b) => a.top < b.bottom - 2 && b.top < a.bottom - 2;
  return placed.flatMap(([kind, text, a], i) => placed.slice(i + 1)
    .filter(([other, , b]) => other !== kind && across(a, b) && down(a, b))
    .map(([, words]) => `${text} / ${words}`));
})"""
OUT_OF_SIGHT = """() => {
  const main = document.querySelector('[data-testid=stMainBlockContainer]');
  // A table scrolls, and a closed list shows the begin of its choice.
  const may = node => node.closest('[data-testid=stDataFrame], [data-testid=stSelectbox], .spoken');
  const hides = node => getComputedStyle(node).overflowX !== 'visible' && node.clientWidth > 1;
  return [...main.querySelectorAll('*')].filter(node => !may(node) && hides(node)
    && node.scrollWidth > node.clientWidth + 2 && node.textContent.trim())
    .map(node => `${node.dataset.testid ?? node.tagName} ${node.textContent.slice(0, 40)}`);
}"""
ZOOMED = """async range => {
  const plot = document.querySelector('.ctxviz-plot');
  await Plotly.relayout(plot, { 'yaxis.range': range });
  const count = selector => plot.querySelectorAll(selector).length;
  return [count('.gridlayer .y > path, .gridlayer .ygrid'), count('.ytick text')];
}"""


@pytest.fixture
def open_at(new_tab: OpenTab) -> Callable[..., Tab]:
    """A page in a window of a size, all its figures drawn."""

    def open_(
        name: str, size: tuple[int, int], scheme: Literal["light", "dark"] = "light", **query: str
    ) -> Tab:
        tab = new_tab(name, **query)
        tab.page.set_viewport_size({"width": size[0], "height": size[1]})
        tab.page.emulate_media(color_scheme=scheme)
        drawn(tab)
        return tab

    return open_


def drawn(tab: Tab) -> None:
    tab.page.wait_for_selector(READY)
    tab.page.locator(".ctxviz-plot .main-svg").first.wait_for()
    tab.page.wait_for_function(
        "() => [...document.querySelectorAll('.ctxviz-plot')].every(p => p.querySelector('.main-svg'))"
    )
    # The observers of sizes answer a frame or two after the window's size was set.
    tab.page.wait_for_timeout(400)


def maps(tab: Tab) -> list[dict[str, Any]]:
    """The two maps, which are in a shadow of their own."""
    found = [tab.page.locator(".field").nth(i).bounding_box() for i in (0, 1)]
    return [
        box | {"right": box["x"] + box["width"], "bottom": box["y"] + box["height"]} for box in found if box
    ]


def boxes(tab: Tab, selector: str) -> list[dict[str, Any]]:
    return tab.page.evaluate(BOXES, selector)


def nothing_is_cut(tab: Tab) -> None:
    assert tab.page.evaluate(TOO_WIDE) == []
    assert tab.page.evaluate(OUT_OF_SIGHT) == []
    assert tab.page.evaluate(CUT, SLACK) == []
    assert tab.page.evaluate(OVERLAPPING) == []


@pytest.mark.parametrize("size", [LAPTOP, TABLET])
def test_the_maps_and_the_begin_of_their_cell_are_on_the_first_screen_of_layers(open_at, size) -> None:
    tab = open_at("layers", size)
    left, right = maps(tab)
    assert left["y"] == pytest.approx(right["y"], abs=1)
    assert left["right"] <= right["x"], "side by side"
    assert max(left["bottom"], right["bottom"]) <= size[1]
    first = boxes(tab, ".st-key-cell-figures .ctxviz-plot")[0]
    assert first["y"] <= size[1] - 20, "the coordinates of the cell begin"


@pytest.mark.parametrize("size", [LAPTOP, TABLET])
def test_the_verdict_and_the_figure_are_on_the_first_screen_of_replay(open_at, size) -> None:
    tab = open_at("replay", size)
    [verdict] = boxes(tab, ".st-key-verdict-meaning [data-testid=stText]")
    line = tab.page.locator(".st-key-verdict-meaning [data-testid=stText]").evaluate(
        "node => parseFloat(getComputedStyle(node).lineHeight)"
    )
    assert verdict["height"] < (1.5 if size == LAPTOP else 2.5) * line
    plot, caption = boxes(tab, ".ctxviz-plot")[0], boxes(tab, "figcaption")[0]
    assert verdict["bottom"] <= plot["y"] <= plot["bottom"] <= size[1]
    assert plot["bottom"] <= caption["y"], "the words stand under the figure"


@pytest.mark.parametrize("size", [LAPTOP, TABLET])
def test_the_figure_is_on_the_first_screen_of_compare(open_at, size) -> None:
    tab = open_at("compare", size)
    assert boxes(tab, ".ctxviz-plot")[0]["bottom"] <= size[1]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [(1440, 900), TABLET, TELEPHONE])
@pytest.mark.parametrize("name", PAGES)
def test_nothing_is_cut_or_wider_than_the_page(open_at, name, size, scheme) -> None:
    tab = open_at(name, size, scheme)
    assert tab.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    nothing_is_cut(tab)


@pytest.mark.parametrize("view", ["prompts", "layers", "pair"])
@pytest.mark.parametrize("size", [TABLET, TELEPHONE])
def test_no_view_of_compare_is_cut(open_at, view, size) -> None:
    tab = open_at("compare", size, view=view)
    nothing_is_cut(tab)


def test_a_telephone_has_one_column(open_at) -> None:
    tab = open_at("layers", TELEPHONE)
    left, right = maps(tab)
    assert left["x"] == pytest.approx(right["x"], abs=1)
    assert left["bottom"] <= right["y"]
    plots = boxes(tab, ".st-key-cell-figures .ctxviz-plot")
    assert len({round(plot["x"]) for plot in plots}) == 1


@pytest.mark.parametrize("size", [LAPTOP, TELEPHONE])
def test_an_alarm_brings_its_cell_into_view_and_into_focus(open_at, size) -> None:
    tab = open_at("layers", size)
    grid = tab.page.locator("[data-testid=stDataFrame]").last
    grid.scroll_into_view_if_needed()
    assert boxes(tab, ".st-key-maps")[0]["bottom"] < 0, "far above"
    box = grid.bounding_box()
    assert box is not None
    tab.page.mouse.click(box["x"] + 20, box["y"] + 90)
    tab.page.wait_for_url("**step=*")
    heading = tab.page.locator(".st-key-inspector-head h2")
    tab.page.wait_for_function("() => document.activeElement?.matches('.st-key-inspector-head h2')")
    drawn(tab)
    tab.page.wait_for_timeout(1500)
    told = heading.bounding_box()
    assert told is not None
    assert 0 <= told["y"] < size[1] - told["height"]
    assert boxes(tab, ".st-key-hint-opened")[0]["y"] < size[1]
    if size == LAPTOP:
        assert min(box["y"] for box in maps(tab)) >= 0, "the outlined cell is seen too"
    # Who goes on by themselves is left alone.
    tab.page.get_by_label("Token", exact=True).first.press("ArrowUp")
    tab.ready()
    tab.page.mouse.wheel(0, 500)
    tab.page.wait_for_timeout(1500)
    assert boxes(tab, ".st-key-maps")[0]["y"] < -100


@pytest.mark.parametrize("range_", [[-8, 0], [-7, -5.2], [-6.3, -5.1], [-6.2, -5.6], [-5.8, -5.75]])
def test_every_gridline_of_a_log_axis_has_its_number_at_every_zoom(open_at, range_) -> None:
    tab = open_at("replay", LAPTOP)
    lines, numbers = tab.page.evaluate(ZOOMED, range_)
    assert numbers >= lines
    assert numbers >= 2


def test_the_explanation_of_a_figure_opens_by_key(open_at) -> None:
    tab = open_at("layers", LAPTOP)
    figure = tab.page.locator(".ctxviz-figure", has_text="Where it blows up")
    told = figure.locator("details p")
    assert told.is_hidden()
    figure.locator("summary").press("Enter")
    told.wait_for()
    assert "slope −1" in told.inner_text()


def test_a_figure_is_laid_out_anew_for_another_width(open_at) -> None:
    tab = open_at("replay", LAPTOP)
    names = tab.page.locator(".ctxviz-figure", has_text="Error budget").locator(".xtick text")
    wide = names.count()
    tab.page.set_viewport_size({"width": TELEPHONE[0], "height": TELEPHONE[1]})
    tab.page.wait_for_timeout(1000)
    assert 1 < names.count() <= (TELEPHONE[0] - 70) / 16 < wide


def test_the_table_of_rules_shows_all_its_columns_on_a_laptop(new_tab: OpenTab) -> None:
    tab = new_tab("compare", view="rules")
    tab.page.set_viewport_size({"width": LAPTOP[0], "height": LAPTOP[1]})
    table = tab.page.locator("[data-testid=stDataFrame] .dvn-scroller")
    table.wait_for()
    tab.page.wait_for_timeout(400)
    assert table.evaluate("node => node.scrollWidth <= node.clientWidth + 1")
