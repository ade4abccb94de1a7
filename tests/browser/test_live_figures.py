"""The figures of the live view zoom, turn pages and enlarge; another run shares nothing with the last."""

from __future__ import annotations

import json

import pytest

from ctxviz.figures.text import readable
from tests.browser import harness
from tests.browser import test_live_component as live_component
from tests.browser.live_view import PATIENCE, LiveView, until

pytestmark = pytest.mark.browser

context = live_component.context
watched = live_component.watched

STEPS, LAYERS = 32, 6
DIALOG = "dialog.ctxviz-large"


@pytest.fixture
def live(watched) -> LiveView:
    """A run at rest."""
    watched.open(f"layers={LAYERS}&tokens={STEPS}")
    return watched.rests(STEPS, LAYERS)


def picture(live: LiveView) -> tuple:
    """All that is drawn and said of a run in both figures."""
    return (
        live.description(),
        live.chart_description(),
        live.legend(),
        live.map.locator(".legend").inner_text(),
        live.field.locator("svg").first.locator("text").all_text_contents(),
        live.chart.locator("> svg text").all_text_contents(),
        live.painted(live.field),
        live.painted(live.chart),
    )


def same(found: object, expected: object) -> None:
    assert found == expected


def axis(live: LiveView) -> list[int]:
    """The tokens that are numbered below the chart."""
    ticks = live.chart.locator("> svg .step-tick:not(.chosen)")
    return [int(text) for text in ticks.all_text_contents()]


def test_a_drag_zooms_into_the_map_and_a_double_click_shows_all_again(live):
    page = live.page
    before = picture(live)
    whole = live.map.get_by_role("button", name="Show the whole run")
    assert whole.is_hidden()
    live.drag(live.at(8, 3, STEPS, LAYERS), live.at(15, 1, STEPS, LAYERS))
    whole.wait_for()
    assert live.selected_text() == ""
    until(lambda: same(live.looked()["chips"], []), page)
    assert live.painted(live.field) != before[6]
    page.mouse.move(*live.at(0, 0, 8, 3))
    assert page.locator(".tip-title").inner_text().startswith("layer 1, token 8 ")
    page.mouse.move(*live.at(7, 2, 8, 3))
    assert page.locator(".tip-title").inner_text().startswith("layer 3, token 15 ")
    page.mouse.dblclick(*live.at(3, 1, 8, 3))
    whole.wait_for(state="hidden")
    page.mouse.move(*live.at(31, 5, STEPS, LAYERS))
    assert page.locator(".tip-title").inner_text().startswith("layer 5, token 31 ")
    page.mouse.move(2, 2)
    until(lambda: same((live.looked()["chips"], picture(live)), ([], before)), page)


def test_the_zoom_of_the_map_is_left_by_its_button_and_by_a_key(live):
    before = live.painted(live.field)
    whole = live.map.get_by_role("button", name="Show the whole run")
    for leave in (whole.click, lambda: live.field.press("0")):
        live.drag(live.at(8, 3, STEPS, LAYERS), live.at(15, 3.2, STEPS, LAYERS))
        whole.wait_for()
        leave()
        whole.wait_for(state="hidden")
        live.page.mouse.move(2, 2)
        until(lambda: same(live.painted(live.field), before), live.page)


def test_a_drag_zooms_into_the_chart_and_a_double_click_shows_all_again(live):
    page = live.page
    before = axis(live), picture(live)
    box = live.chart.bounding_box()
    whole = live.lines.get_by_role("button", name="Show all tokens and values")
    assert whole.is_hidden()
    middle = box["y"] + 0.5 * box["height"]
    live.drag((box["x"] + 0.4 * box["width"], middle), (box["x"] + 0.7 * box["width"], middle + 2))
    whole.wait_for()
    assert live.selected_text() == ""
    assert 0 < min(axis(live)) < max(axis(live)) < STEPS - 1
    assert live.looked()["chips"] == []
    page.mouse.dblclick(box["x"] + 0.5 * box["width"], middle)
    whole.wait_for(state="hidden")
    page.mouse.move(2, 2)
    until(lambda: same((axis(live), picture(live)), before), page)


def test_a_drag_across_the_page_selects_no_text(live):
    for figure in (live.chart, live.field):
        figure.scroll_into_view_if_needed()
        box = figure.bounding_box()
        start = (box["x"] + 0.5 * box["width"], box["y"] + 0.4 * box["height"])
        live.drag(start, (box["x"] + 0.6 * box["width"], box["y"] - 200))
        assert live.selected_text() == ""
        assert live.page.evaluate("getSelection().isCollapsed")


def test_the_tabs_are_chosen_by_click_and_by_arrow_keys(live):
    page = live.page
    names = live.lines.get_by_role("tab").all_inner_texts()
    assert names == ["TVD", "logit gap", "‖Δm‖/‖m‖"]
    titles = {
        "TVD": "Total-variation distance",
        "logit gap": "Largest logit gap",
        "‖Δm‖/‖m‖": "Patch over scale",
    }
    seen = []
    live.tab("TVD").click()
    for key in ("", "ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft", "ArrowLeft", "ArrowLeft"):
        if key:
            page.keyboard.press(key)
        seen.append(live.lines.locator("[role=tab][aria-selected=true]").inner_text())
        assert live.lines.locator("[role=tab]:focus").inner_text() == seen[-1]
        assert live.lines.locator("[role=tab][tabindex='0']").all_inner_texts() == seen[-1:]
        until(lambda: _titled(live, titles[seen[-1]]), page)
    assert seen == ["TVD", "logit gap", "‖Δm‖/‖m‖", "‖Δm‖/‖m‖", "logit gap", "TVD", "TVD"]


def _titled(live: LiveView, title: str) -> None:
    assert f": {title}" in live.chart_description()


def test_the_axis_turns_linear_and_back(live):
    page = live.page
    live.lines.get_by_role("button", name="The axis is logarithmic; make it linear").click()
    until(lambda: same(live.chart_description().startswith("Line chart, linear: "), True), page)
    live.lines.get_by_role("button", name="The axis is linear; make it logarithmic").click()
    until(lambda: same(live.chart_description().startswith("Line chart, logarithmic: "), True), page)


def test_a_line_is_hidden_by_its_name_and_shown_again(live):
    before = live.painted(live.chart)
    key = live.lines.locator(".chart-key[data-label='direct bf16']")
    key.click()
    assert key.get_attribute("aria-pressed") == "false"
    until(lambda: same("Hidden: direct bf16" in live.chart_description(), True), live.page)
    assert live.painted(live.chart) != before
    key.click()
    live.page.mouse.move(2, 2)
    until(lambda: same(live.painted(live.chart), before), live.page)


@pytest.mark.parametrize("by", ["button", "key"])
@pytest.mark.parametrize(
    ("figure", "title"), [("map", "Smallest denominator |h|"), ("lines", "Total-variation distance")]
)
def test_a_figure_of_a_run_at_rest_is_enlarged_as_a_plotly_figure(live, figure, title, by):
    page = live.page
    node = getattr(live, figure)
    if by == "button":
        node.get_by_role("button", name="Enlarge, or press f").click()
    else:
        node.hover(position={"x": 4, "y": 4})
        page.keyboard.press("f")
    dialog = page.locator(f"body > {DIALOG}")
    dialog.locator("svg.main-svg").first.wait_for(timeout=PATIENCE)
    assert title in dialog.inner_text()
    wide, tall = (dialog.bounding_box()[side] for side in ("width", "height"))
    assert wide > 0.8 * page.viewport_size["width"]
    assert tall > 0.6 * page.viewport_size["height"]
    page.keyboard.press("Escape")
    dialog.wait_for(state="detached")
    assert node.is_visible()


def test_the_coordinates_of_the_open_cell_are_enlarged(live):
    live.click_cell(7, 3, STEPS, LAYERS)
    until(lambda: live.agrees(7, 3), live.page)
    live.behind.get_by_role("button", name="Enlarge the coordinates").click()
    dialog = live.page.locator(f"body > {DIALOG}")
    dialog.get_by_text("Layer 3, token 7 ").first.wait_for(timeout=PATIENCE)
    dialog.get_by_role("button", name="Close").click()
    dialog.wait_for(state="detached")


@pytest.mark.parametrize("figure", ["map", "lines"])
def test_a_figure_of_a_run_at_work_is_enlarged_alive_and_returns_to_its_place(watched, figure):
    live = watched.open("layers=6&tokens=300&rate=20").live
    page, node = live.page, getattr(live, figure)
    order = "figures => [...figures.children].map((figure) => figure.className)"
    figures = page.locator(".figures")
    node.hover(position={"x": 4, "y": 4})
    small = node.bounding_box()
    page.keyboard.press("f")
    dialog = page.locator(f".view {DIALOG}")
    dialog.locator(f"figure.{figure}").wait_for(timeout=PATIENCE)
    until(lambda: _larger(node.bounding_box(), small), page)
    shown = live.chips.count()
    live.chips.nth(shown + 3).wait_for(state="attached", timeout=PATIENCE)
    said = live.chart_description if figure == "lines" else live.description
    until(lambda: _tells_at_least(said(), shown + 3), page)
    page.keyboard.press("Escape")
    dialog.wait_for(state="detached")
    assert figures.evaluate(order) == ["map", "lines"]
    until(lambda: same(round(node.bounding_box()["width"]), round(small["width"])), page)


def _larger(now: dict, before: dict) -> None:
    assert now["width"] > 1.3 * before["width"]
    assert now["height"] > 1.3 * before["height"]


def _tells_at_least(words: str, tokens: int) -> None:
    import re

    found = re.search(r"(?:over|by) (\d+) tokens", words)
    assert found is not None
    assert int(found[1]) >= tokens


def test_f_typed_into_a_field_enlarges_nothing(live):
    live.page.get_by_label("The heat map shows").focus()
    live.page.keyboard.press("f")
    live.page.wait_for_timeout(200)
    assert live.page.locator(DIALOG).count() == 0


@pytest.mark.parametrize("button", ["Another run", "Another run in this view"])
@pytest.mark.parametrize("start", [f"layers={LAYERS}&tokens={STEPS}", "layers=5&tokens=4"])
def test_another_run_in_the_same_tab_shows_nothing_of_the_first(watched, button, start):
    page = watched.open(start).page
    live, run = watched.live, harness.whole(5, 9, ("floored",), seed=12)
    watched.wait_until_state("done")
    live.tab("logit gap").click()
    live.lines.locator(".chart-key").first.click()
    if "32" in start:
        live.drag(live.at(8, 3, STEPS, LAYERS), live.at(15, 1, STEPS, LAYERS))
        live.chips.nth(20).click()
        page.locator(".behind h3", has_text="token 20 ").wait_for(timeout=PATIENCE)
    first = live.chips.locator(".said").all_inner_texts()
    page.get_by_role("button", name=button, exact=True).click()
    # What a fresh tab shows of the second run is what this one must show.
    watched.rests(9, 5)
    page.mouse.move(2, 2)
    texts = [readable(run.token(k)[4]) for k in range(9)]
    assert texts != first[:9]
    until(lambda: live.agrees(None, variant="floored 0.6 float32"), page)
    found = everything(live)
    assert found["chips"] == texts
    assert found["legend"][:2] == ["floored 0.6 f32", "floored 0.6 bf16"]
    assert "9 tokens" in found["status"]
    other = page.context.new_page()
    try:
        other.goto(f"{watched.address}/?tokens=4&layers=5")
        fresh = LiveView(other)
        fresh.chips.first.wait_for(timeout=PATIENCE)
        other.get_by_role("button", name="Another run", exact=True).click()
        fresh.tab("logit gap").click()
        other.locator(".field svg[aria-label*='; 5 layers by 9 tokens']").wait_for(timeout=PATIENCE)
        other.mouse.move(2, 2)
        until(lambda: fresh.agrees(None, variant="floored 0.6 float32"), other)
        until(lambda: same(json.dumps(everything(fresh)), json.dumps(found)), other)
    finally:
        other.close()


def everything(live: LiveView) -> dict:
    """All that can be read in the view, and the pixels of its canvases."""
    return {
        "chips": live.chips.locator(".said").all_inner_texts(),
        "words": live.chips.evaluate_all("chips => chips.map((chip) => chip.title)"),
        "status": live.page.locator(".status-words").inner_text(),
        "spoken": live.page.locator(".view > .spoken").inner_text(),
        "text": live.view.inner_text(),
        "legend": live.legend(),
        "cell": live.looked(),
        "figures": picture(live),
        "scatter": live.painted(live.page.locator(".scatter")),
        "alarms": live.page.locator(".alarms li").all_text_contents(),
        "prompt": live.page.locator(".prompt-words").inner_text(),
    }
