"""What is looked at has one owner: chips, outline, chart, cell, lists and address agree after every click."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ctxviz.figures.words import alarms
from ctxviz.run import Run
from ctxviz.ui.recorded import recorded_run
from tests.browser.conftest import Tab
from tests.browser.live_view import LiveView, until

pytestmark = pytest.mark.browser
OpenTab = Callable[..., Tab]

NAMES = ("direct float32", "stable float32", "direct bfloat16", "stable bfloat16")
"""The variants of the recorded run."""
PLACE = ("step", "layer", "variant", "metric")
CLICKS = """
async (view, [steps, gap]) => {
  for (const step of steps) {
    view.querySelectorAll(".written .chip")[step].click();
    await new Promise((done) => setTimeout(done, gap));
  }
}
"""
RECORD = """
view => {
  [window.pressed, window.metrics] = [[], []];
  const note = (list, value) => value !== undefined && list.at(-1) !== value && list.push(value);
  const look = () => {
    const step = view.querySelector(".written .chip[aria-pressed=true]")?.dataset.step;
    note(window.pressed, step === undefined ? undefined : Number(step));
    note(window.metrics, view.querySelector("[aria-label='The heat map shows']").value);
    requestAnimationFrame(look);
  };
  look();
}
"""
"""Notes every token and metric that is shown to be chosen, frame by frame, each time it becomes another."""


@pytest.fixture(scope="module")
def run() -> Run:
    found = recorded_run()
    assert found is not None
    assert [f"{v.update} {v.dtype}" for v in found.variants] == list(NAMES)
    return found


@pytest.fixture
def tab(new_tab: OpenTab) -> Tab:
    """The recorded run, as it is at first."""
    tab = new_tab().until("done")
    tab.page.locator(".behind h3:visible").wait_for()
    return tab


def check(tab: Tab, step: int | None, layer: int | None = None, variant: int = 0, **query: str) -> None:
    """Until all of the page looks at this, its address too, and for a moment more."""
    live = LiveView(tab.page)
    wanted = {"step": step, "layer": None if step is None else layer, "variant": variant or None}
    address = {name: str(value) for name, value in wanted.items() if value is not None} | query

    def agree() -> None:
        live.agrees(step, layer, NAMES[variant])
        found = live.looked()
        assert (found["variant"], found["metric"]) == (variant, query.get("metric", "h_abs_min"))
        assert {name: tab.query[name] for name in PLACE if name in tab.query} == address

    until(agree, tab.page)
    tab.ready()
    agree()


def test_one_chip_after_another(tab: Tab) -> None:
    for step in (5, 9, 5, 9, 0):
        tab.tokens.nth(step).click()
        check(tab, step)


def test_an_answer_older_than_the_last_click_is_not_obeyed(tab: Tab) -> None:
    view = tab.page.locator(".view")
    view.evaluate(RECORD)
    for step in (3, 12, 7):
        tab.tokens.nth(step).click()
    check(tab, 7)
    for metric in ("scale_ratio", "output_error"):
        LiveView(tab.page).shows(metric=metric)
    check(tab, 7, metric="output_error")
    pressed, metrics = view.evaluate("() => [window.pressed, window.metrics]")
    # A frame may be passed over, but nothing comes back.
    assert pressed == [step for step in (3, 12, 7) if step in pressed]
    assert metrics == [name for name in ("h_abs_min", "scale_ratio", "output_error") if name in metrics]


@pytest.mark.parametrize("gap", [5, 20])
def test_quick_clicks_leave_the_view_standing(tab: Tab, gap: int) -> None:
    live = LiveView(tab.page)
    tab.page.locator(".prompt-words").click()
    live.view.evaluate("view => (window.firstView = view)")
    for pair in ((3, 12), (5, 9), (2, 7), (14, 1), (8, 16), (4, 10)):
        live.view.evaluate(CLICKS, [pair, gap])
        check(tab, pair[-1])
        assert live.view.evaluate("view => view === window.firstView"), "nothing was built anew"
    assert tab.page.locator(".prompt-panel").is_visible()


def test_a_token_opens_its_smallest_denominator(tab: Tab, run: Run) -> None:
    tab.tokens.nth(6).click()
    check(tab, 6)
    opened = LiveView(tab.page).opened()
    assert opened is not None
    assert opened[1] == int(np.argmin(run.field("h_abs_min", 0)[:, 6]))


def test_one_metric_after_another_stays(tab: Tab) -> None:
    live = LiveView(tab.page)
    tab.tokens.nth(4).click()
    check(tab, 4)
    for metric in ("scale_ratio", "scale_max_abs", "h_abs_min", "output_error"):
        live.shows(metric=metric)
        check(tab, 4, **({} if metric == "h_abs_min" else {"metric": metric}))


def test_a_chip_keeps_the_variant_that_is_shown(tab: Tab) -> None:
    live = LiveView(tab.page)
    live.shows(variant=2)
    until(lambda: live.agrees(None, variant=NAMES[2]), tab.page)
    tab.tokens.nth(7).click()
    check(tab, 7, variant=2)
    tab.tokens.nth(11).click()
    check(tab, 11, variant=2)
    live.shows(variant=0)
    check(tab, 11)


def test_a_cell_and_then_the_chart(tab: Tab, run: Run) -> None:
    live = LiveView(tab.page)
    steps, layers = len(run), run.model.n_layers
    live.click_cell(10, 3, steps, layers)
    check(tab, 10, 3)
    live.click_cell(2, 17, steps, layers)
    check(tab, 2, 17)
    live.chart.focus()
    tab.page.keyboard.press("End")
    tab.page.keyboard.press("Enter")
    check(tab, steps - 1)


def test_where_nobody_picked_the_smallest_denominator_is_open_and_says_so(tab: Tab, run: Run) -> None:
    live = LiveView(tab.page)
    shape = run.model.n_layers, len(run)
    for variant in (0, 1, 3):
        live.shows(variant=variant)
        layer, step = np.unravel_index(run.field("h_abs_min", variant).argmin(), shape)
        check(tab, None, int(layer), variant)
        assert live.opened() == (step, layer, NAMES[variant])
        assert live.looked()["cell"].startswith("Smallest |h| of this run: Layer ")


@pytest.mark.parametrize("size", [(1280, 720), (1024, 500), (390, 844)])
def test_an_alarm_opens_its_cell_and_brings_it_into_view(tab: Tab, run: Run, size: tuple[int, int]) -> None:
    tab.page.set_viewport_size({"width": size[0], "height": size[1]})
    found = [alarm for alarm in alarms(run) if alarm.step is not None]
    assert len(found) >= 2
    for k in (0, len(found) - 1):
        tab.page.locator(".alarms .count").click()
        words = tab.page.locator(".alarms .alarm-words").nth(k)
        assert words.inner_text() == found[k].sentence
        words.click()
        alarm = found[k]
        assert alarm.layer is not None
        seen_in = {"blow-up": {"metric": "scale_ratio"}}.get(alarm.kind, {})
        check(tab, alarm.step, alarm.layer, alarm.variant or 0, **seen_in)
        assert tab.page.locator(".alarms .list").is_hidden()
        if alarm.kind == "replay-failure":
            chosen = tab.page.locator(".lines [role=tab][aria-selected=true]")
            assert chosen.get_attribute("title") == "TVD when the weights run again"
        for place in (".behind h3", ".behind .scatter"):
            until(lambda place=place: in_view(tab, place), tab.page)


def in_view(tab: Tab, place: str) -> None:
    """A part of the page is on screen, not only on the page."""
    box = tab.page.locator(place).bounding_box()
    size = tab.page.viewport_size
    assert box is not None
    assert size is not None
    assert box["y"] >= 0
    assert box["y"] + box["height"] <= size["height"] + 1
    assert box["x"] >= 0


def test_a_link_opens_what_was_looked_at(new_tab: OpenTab, tab: Tab) -> None:
    live = LiveView(tab.page)
    live.shows(variant=3, metric="scale_ratio")
    live.click_cell(8, 5, 24, 18)
    check(tab, 8, 5, 3, metric="scale_ratio")
    other = new_tab(**tab.query).until("done")
    check(other, 8, 5, 3, metric="scale_ratio")
    other.page.reload()
    other.ready().until("done")
    check(other, 8, 5, 3, metric="scale_ratio")
