"""The live line chart alone in a real Chromium: what it paints and says after every gesture."""

import functools
import io
import itertools
import re
import threading
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from PIL import Image

from tests.browser.conftest import ROOT

pytestmark = pytest.mark.browser

MOST_MS = 8.0
"""Milliseconds of a draw of 6 lines of 512 tokens, painted: twice the aim, as machines differ."""
BLUE, GREEN = "#0072B2", "#009E73"


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    server = ThreadingHTTPServer(("localhost", 0), functools.partial(Quiet, directory=str(ROOT)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://localhost:{server.server_port}/tests/browser/line_chart.html"
    server.shutdown()
    server.server_close()


class Chart:
    """A page with nothing but one chart."""

    session: Any
    """To the browser's own protocol, for a test that touches."""

    def __init__(self, page: Any, address: str) -> None:
        self.page = page
        self.problems: list[str] = []
        page.on("pageerror", lambda error: self.problems.append(error.stack))
        page.on("console", lambda said: said.type == "error" and self.problems.append(said.text))
        page.goto(address)
        page.wait_for_function("window.ready")
        self.node = page.locator(".linechart")

    def do(self, script: str, given: Any = None) -> Any:
        return self.page.evaluate(script, given)

    def draw(self, given: dict[str, Any], **frame: Any) -> "Chart":
        self.do("([given, frame]) => harness.draw(given, frame)", [given, frame])
        return self

    def texts(self, role: str) -> list[str]:
        return self.page.locator(f".linechart > svg .{role}").all_text_contents()

    @property
    def picked(self) -> list[int]:
        return self.do("harness.picked")

    def zoom(self) -> Any:
        return self.do("harness.chart.state.zoom")

    def x(self, step: float) -> float:
        """Where a token is on the page, from the numbers under the axis."""
        ticks = self.page.locator(".linechart > svg .step-tick").all()[:2]
        (first, a), (second, b) = [(int(tick.text_content()), middle(tick)[0]) for tick in ticks]
        return a + (step - first) * (b - a) / (second - first)

    def y(self, label: str) -> float:
        return middle(self.page.locator(".linechart > svg .value-tick").get_by_text(label, exact=True))[1]

    def top(self) -> float:
        return self.node.bounding_box()["y"]

    def left(self) -> float:
        return self.node.bounding_box()["x"]

    def over(self, step: float, y: float = 120) -> "Chart":
        self.page.mouse.move(self.x(step), self.top() + y)
        return self

    def drag(self, one: tuple[float, float], other: tuple[float, float], drop: bool = True) -> "Chart":
        mouse = self.page.mouse
        mouse.move(*one)
        mouse.down()
        mouse.move((one[0] + other[0]) / 2, (one[1] + other[1]) / 2)
        mouse.move(*other)
        if drop:
            mouse.up()
        return self

    def span(self, first: float, last: float, drop: bool = True) -> "Chart":
        y = self.top() + 120
        return self.drag((self.x(first), y), (self.x(last), y + 3), drop)

    def tip(self) -> Any:
        """The title, and what each row says."""
        return self.do(
            """() => {
              const tip = document.querySelector(".chart-tip");
              if (tip.hidden) return null;
              const table = tip.querySelector(".chart-tip-rows");
              const cells = [...table.children].map((cell) => cell.textContent);
              const rows = {};
              for (let i = 0; i < cells.length; i += 4) rows[cells[i + 1]] = cells.slice(i + 2, i + 4);
              return { title: [tip.querySelector(".chart-tip-title").textContent], ...rows };
            }"""
        )

    def key(self, label: str) -> Any:
        return self.page.locator(".chart-legend").get_by_role("button", name=label, exact=True)

    def shown(self) -> list[str]:
        return self.page.locator(".chart-key[aria-pressed=true]").all_text_contents()

    def tool(self, name: str | re.Pattern[str]) -> Any:
        return self.page.locator(".chart-tools").get_by_role("button", name=name)


def middle(place: Any) -> tuple[float, float]:
    box = place.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


@pytest.fixture
def chart(chrome, address) -> Iterator[Chart]:
    page = chrome.new_page()
    page.set_default_timeout(10_000)
    opened = Chart(page, address)
    yield opened
    page.close()
    assert opened.problems == []


def two(n: int = 20, **more: Any) -> Any:
    """A line at 1e-3 and one that climbs from 1e-6 to 1e-2, over 32 tokens."""
    climbing = [10 ** (-6 + 4 * step / (n - 1)) for step in range(n)]
    lines = [{"label": "level", "values": [1e-3] * n}, {"label": "climbing", "values": climbing}]
    return {"lines": lines, "domain": 32} | more


def six(n: int) -> Any:
    lines = [
        {"label": f"rule {k}", "values": [10 ** (-k - ((7 * step + k) % 11) / 11) for step in range(n)]}
        for k in range(6)
    ]
    return {"lines": lines, "domain": n}


def test_a_line_stands_where_the_axis_says(chart):
    chart.draw(two())
    top, left = chart.top(), chart.left()
    at = (chart.y("10⁻²") + chart.y("10⁻⁴")) / 2 - top
    for step in (2.5, 7.5, 18.5):
        rows = chart.do("([c, x]) => harness.rows(c, x)", [BLUE, chart.x(step) - left])
        assert rows, step
        assert abs(sum(rows) / len(rows) - at) < 2
    assert chart.do("([c, x]) => harness.rows(c, x)", [BLUE, chart.x(21) - left]) == []


def test_nothing_of_an_earlier_run_stays(chart, chrome, address):
    first = two(20, texts=["one"] * 20, references=[{"label": "floor", "values": [0, 1e-9], "dash": "1 3"}])
    first["lines"][1]["values"][4] = "lost"
    second = {"lines": [{"label": "other", "values": [0.5, 0.02, 0.3], "color": GREEN}], "domain": 16}
    chart.draw(first)
    before = chart.do("harness.print()")
    chart.span(3, 12)
    chart.key("level").click()
    chart.over(6)
    assert chart.zoom()
    chart.do("harness.chart.reset()")
    assert chart.node.inner_text() == chart.page.locator(".chart-legend").inner_text() == ""
    assert chart.do("harness.chart.canvas.width") == 0
    chart.draw(second)
    drawn = chart.do(SEEN)
    page = chrome.new_page()
    fresh = Chart(page, address).draw(second)
    assert drawn == fresh.do(SEEN)
    page.close()
    assert before != drawn[0]
    assert "level" not in str(drawn)


SEEN = """() => [
  harness.print(),
  ...[".linechart > svg", ".chart-legend", ".chart-tools", ".chart-spoken"].map(
    (name) => document.querySelector(name).outerHTML),
  document.querySelector(".chart-tip").hidden,
  harness.chart.describe(harness.data),
  harness.chart.toSvg("a run"),
]"""


def test_a_redraw_of_other_data_under_the_pointer_says_the_new_values(chart):
    chart.draw(two()).over(4)
    assert chart.tip()["level"][0] == "0.001"
    chart.draw({"lines": [{"label": "other", "values": [0.25] * 9}], "domain": 32})
    assert chart.tip() == {"title": ["token 4 “word4”"], "other": ["0.25", ""]}
    chart.draw({"lines": [{"label": "other", "values": [0.25] * 3}], "domain": 32})
    assert chart.tip() is None


def test_values_under_the_pointer(chart):
    given = two(texts=["<img src=x onerror=alert(1)>"] * 20)
    given["lines"][0]["values"][3] = None
    given["lines"][1]["values"][3] = "lost"
    given["lines"][1]["said"] = ["", "", "", "✗ “dusk”"]
    given["references"] = [{"label": "noise floor", "values": [1e-7, 1e-7, 1e-7, 3.2e-7], "dash": "1 3"}]
    chart.draw(given).over(3)
    assert chart.tip() == {
        "title": ["token 3 “<img src=x onerror=alert(1)>”"],
        "level": ["not measured", ""],
        "climbing": ["no number", "✗ “dusk”"],
        "noise floor": ["3.2·10⁻⁷", ""],
    }
    assert chart.page.locator(".chart-tip img").count() == 0
    chart.page.mouse.move(5, 5)
    assert chart.tip() is None


def test_a_tooltip_that_holds_too_many_lines_says_how_many_it_leaves_out(chart):
    given = {"lines": [{"label": f"line {k}", "values": [0.1, None if k < 3 else 0.2]} for k in range(20)]}
    chart.draw(given, height=200).over(1)
    kept = [label for label in chart.tip() if label != "title"]
    assert 3 < len(kept) < 17
    assert not {"line 0", "line 1", "line 2"} & set(kept)
    left_out = chart.page.locator(".chart-tip > span").text_content()
    assert left_out == f"and {20 - len(kept)} lines for which there is no room"
    nothing_cut(chart)


def test_what_is_no_number_has_a_row_of_its_own_and_what_was_not_measured_is_a_gap(chart):
    given = two()
    given["lines"][0]["values"][5] = None
    given["lines"][0]["values"][9] = "lost"
    chart.draw(given)
    assert "no number" in chart.texts("value-tick")
    top, left = chart.top(), chart.left()
    band, level = chart.y("no number") - top, (chart.y("10⁻²") + chart.y("10⁻⁴")) / 2 - top
    rows = {step: chart.do(f"harness.rows('{BLUE}', {chart.x(step) - left})") for step in (4, 5, 9, 12)}
    assert rows[5] == []
    assert max(abs(y - band) for y in rows[9]) < 6
    assert all(abs(y - level) < 6 for y in rows[4] + rows[12])
    assert "no number at 1 token" in chart.do("harness.chart.describe(harness.data)")
    given["lines"][0]["values"][9] = 1e-3
    assert "no number" not in chart.draw(given).texts("value-tick")


def test_zeros_stand_below_a_logarithmic_axis_and_on_a_linear_one(chart):
    given = two()
    given["lines"][0]["values"][5] = 0
    chart.draw(given)
    assert chart.texts("value-tick")[-1] == "0"
    assert chart.y("0") > chart.y("10⁻⁶") + 12
    chart.tool(re.compile("logarithmic")).click()
    assert chart.do("harness.chart.state.log") is False
    ticks = chart.texts("value-tick")
    assert ticks[0] == "0"
    assert len(set(ticks)) == len(ticks) > 3
    assert "Line chart, linear" in chart.do("harness.chart.describe(harness.data)")
    rows = chart.do(f"harness.rows('{BLUE}', {chart.x(9.5) - chart.left()})")
    high = max(float(tick) for tick in ticks)
    bottom, top = chart.y("0") - chart.top(), chart.y(ticks[-1]) - chart.top()
    assert abs(sum(rows) / len(rows) - (bottom + (top - bottom) * 1e-3 / high)) < 2
    chart.tool(re.compile("linear")).click()
    assert "10⁻⁶" in chart.texts("value-tick")


def test_the_legend_hides_shows_and_singles_out(chart):
    references = [{"label": "noise floor", "values": [1e-12] * 20, "dash": "1 3"}]
    chart.draw(two(references=references))
    assert "10⁻¹²" in chart.texts("value-tick")
    chart.key("noise floor").click()
    assert chart.key("noise floor").get_attribute("aria-pressed") == "false"
    assert chart.shown() == ["level", "climbing"]
    assert "10⁻¹²" not in chart.texts("value-tick")
    chart.over(4)
    assert list(chart.tip()) == ["title", "level", "climbing"]
    assert chart.do("harness.changes()") == 1
    chart.key("noise floor").click()
    chart.page.wait_for_timeout(600)
    for single_out in (
        lambda: chart.key("climbing").dblclick(),
        lambda: chart.key("climbing").click(modifiers=["Alt"]),
        lambda: chart.key("climbing").press("o"),
    ):
        single_out()
        assert chart.shown() == ["climbing"]
        assert chart.do(f"harness.rows('{BLUE}', {chart.x(9.5) - chart.left()})") == []
        chart.key("climbing").press("o")
        assert chart.shown() == ["level", "climbing", "noise floor"]
    chart.key("climbing").press("o")
    chart.page.wait_for_timeout(600)
    chart.key("climbing").dblclick()
    assert chart.shown() == ["level", "climbing", "noise floor"]
    for label in ("level", "climbing", "noise floor"):
        chart.key(label).press("Enter")
    assert " ".join(chart.texts("notice")) == "Every line is hidden; press a name to show it."
    assert "Every line is hidden." in chart.do("harness.chart.describe(harness.data)")


def test_a_legend_button_outlives_a_redraw(chart):
    chart.draw(two())
    chart.key("level").focus()
    chart.do("window.kept = document.activeElement")
    chart.draw(two(19))
    assert chart.do("window.kept === document.activeElement && window.kept.isConnected")


def test_a_flat_drag_zooms_tokens_and_a_double_click_shows_the_whole(chart):
    chart.draw(two())
    whole = chart.texts("value-tick")
    assert chart.texts("step-title") == ["token"]
    chart.span(3, 12)
    assert (chart.zoom()["from"], chart.zoom()["to"], chart.zoom()["low"]) == (3, 13, None)
    assert chart.texts("step-title") == ["token 3 to 12"]
    assert chart.texts("value-tick") == whole
    ticks = [int(tick) for tick in chart.texts("step-tick")]
    assert min(ticks) >= 3
    assert max(ticks) <= 12
    assert chart.picked == []
    chart.page.mouse.dblclick(chart.x(6), chart.top() + 100)
    assert chart.zoom() is None
    chart.page.wait_for_timeout(400)
    assert chart.picked == []


def test_a_rectangle_zooms_both_axes_counts_what_is_outside_and_the_button_ends_it(chart):
    chart.draw(two())
    chart.drag((chart.x(4), chart.y("10⁻⁴") + 1), (chart.x(15), chart.y("10⁻²") - 1))
    zoom = chart.zoom()
    assert (zoom["from"], zoom["to"]) == (4, 16)
    assert zoom["low"] == pytest.approx(1e-4, rel=0.2)
    assert zoom["high"] == pytest.approx(1e-2, rel=0.2)
    climbing = two()["lines"][1]["values"][4:16]
    outside = sum(not zoom["low"] <= value <= zoom["high"] for value in climbing)
    assert outside > 2
    assert chart.texts("step-title") == [f"token 4 to 15, {outside} values outside"]
    chart.span(6, 9)
    assert chart.zoom() == zoom | {"from": 6, "to": 10}
    chart.tool("Show all tokens and values").click()
    assert chart.zoom() is None
    assert not chart.tool("Show all tokens and values").is_visible()


def test_a_zoomed_chart_stays_where_it_is_while_tokens_come(chart):
    chart.draw(two(20))
    chart.drag((chart.x(4), chart.y("10⁻⁴") + 1), (chart.x(15), chart.y("10⁻²") - 1))
    before = [chart.texts(role) for role in ("value-tick", "step-tick", "step-title")]
    given = two(20)
    for line in given["lines"]:
        line["values"] += [0.7, 1e-9, "lost"]
    chart.draw(given)
    assert [chart.texts(role) for role in ("value-tick", "step-tick", "step-title")] == before
    chart.do("harness.chart.reset()")
    assert chart.draw(given).texts("step-title") == ["token"]


def test_every_gridline_has_its_own_words_however_near(chart):
    chart.draw(two())
    for low, high in ((1e-4, 1e-3), (2.1e-4, 4.4e-4), (3e-4, 3.01e-4), (1e-5, 1.5e-5), (1e-6, 1)):
        for log in (True, False):
            zoom = {"from": 0, "to": 32, "low": low, "high": high, "of": "tvd", "log": log}
            chart.do("(state) => (harness.chart.state = state)", {"zoom": zoom, "log": log})
            ticks = chart.draw(two()).texts("value-tick")
            assert len(ticks) >= 2, (low, high, log)
            assert len(set(ticks)) == len(ticks)
            boxes = [tick.bounding_box() for tick in chart.page.locator(".linechart > svg .value-tick").all()]
            assert all(a["y"] > b["y"] + 12 for a, b in itertools.pairwise(boxes)), ticks


@pytest.mark.parametrize("height", [120, 147, 260])
def test_a_low_chart_of_many_decades_has_powers_of_ten(chart, height):
    for lowest in range(-1, -17, -1):
        lines = [{"label": "level", "values": [10.0**lowest, 0.9]}]
        ticks = chart.draw({"lines": lines}, height=height, compact=True).texts("value-tick")
        assert len(ticks) >= 2, lowest
        assert lowest > -3 or all(tick.startswith("1") for tick in ticks), ticks
        nothing_cut(chart)


def test_a_drag_selects_no_text_and_escape_ends_it_without_zoom(chart):
    chart.draw(two())
    box = chart.page.locator("#after").bounding_box()
    chart.drag((chart.x(4), chart.top() + 60), (box["x"] + 150, box["y"] + 10), drop=False)
    assert chart.do("getSelection().toString()") == ""
    assert chart.node.evaluate("node => node === document.activeElement && !node.matches(':focus-visible')")
    assert chart.do("harness.chart.at.drag") is not None
    chart.page.keyboard.press("Escape")
    chart.page.mouse.up()
    assert chart.zoom() is None
    assert chart.picked == []
    assert chart.do("harness.chart.at.drag") is None


def test_a_drag_that_ends_outside_the_chart_zooms_to_its_edge(chart):
    chart.draw(two())
    chart.drag((chart.x(12), chart.top() + 60), (chart.left() + 700, chart.top() + 66))
    assert (chart.zoom()["from"], chart.zoom()["to"]) == (12, 32)


def test_the_wheel_scrolls_the_page(chart):
    chart.draw(two()).over(5)
    chart.page.mouse.wheel(0, 120)
    chart.page.wait_for_function("scrollY > 50")
    assert chart.zoom() is None


def test_a_click_picks_the_token_under_it_and_the_picked_one_is_marked(chart):
    chart.draw(two())
    chart.page.mouse.click(chart.x(7), chart.top() + 90)
    assert chart.picked == [7]
    chart.draw(two(), selected=7)
    chart.page.mouse.move(5, 5)
    assert chart.texts("chosen") == ["7"]
    marked = chart.do(f"harness.rows('#1b1e23', {chart.x(10) - chart.left()})")
    line = chart.do(
        f"harness.rows('#1b1e23', {middle(chart.page.locator('.linechart > svg .chosen'))[0] - chart.left()})"
    )
    assert len(line) > 100 > len(marked)
    chart.span(12, 18)
    assert chart.texts("chosen") == []
    chart.page.mouse.click(chart.x(14), chart.top() + 90)
    chart.page.wait_for_timeout(400)
    assert chart.picked == [7, 14]


def test_crosses_and_ties_stand_at_their_tokens(chart):
    plain, marked = two(), two()
    marked["lines"][1]["marks"] = [""] * 8 + ["differs"] + [""] * 5 + ["tie"]
    chart.draw(plain)
    chart.do("window.one = harness.image()")
    chart.draw(marked)
    columns = chart.do("harness.columns(window.one, harness.image())")
    left = chart.left()
    places = [chart.x(step) - left for step in (8, 14)]
    assert all(min(abs(x - place) for place in places) < 10 for x in columns)
    assert all(any(abs(x - place) < 3 for x in columns) for place in places)
    assert chart.page.locator(".chart-sign").all_text_contents() == ["✗another token", "≈a tie"]
    chart.span(0, 4)
    assert chart.page.locator(".chart-sign").all_text_contents() == ["✗another token", "≈a tie"]


def test_the_keys_move_pick_and_zoom_and_their_values_are_said(chart):
    chart.draw(two())
    chart.page.keyboard.press("Tab")
    while not chart.node.evaluate("node => node === document.activeElement"):
        chart.page.keyboard.press("Tab")
    said = chart.page.locator(".chart-spoken")
    assert said.get_attribute("aria-live") == "polite"
    press = chart.page.keyboard.press
    assert said.text_content().startswith("token 19 “word19”; level 0.001; climbing 0.01")
    press("Home")
    assert said.text_content() == "token 0 “word0”; level 0.001; climbing 10⁻⁶".replace("10⁻⁶", "1·10⁻⁶")
    press("ArrowRight")
    press("ArrowRight")
    press("ArrowLeft")
    assert chart.tip()["title"] == ["token 1 “word1”"]
    press("Enter")
    assert chart.picked == [1]
    press("+")
    assert chart.zoom()["to"] - chart.zoom()["from"] == 16
    press("End")
    assert chart.zoom()["to"] == 20
    assert chart.tip()["title"] == ["token 19 “word19”"]
    press("-")
    assert chart.zoom() is None
    press("+")
    press("0")
    assert chart.zoom() is None
    press("Escape")
    assert chart.tip() is None


def touch(chart: Chart, kind: str, *points: tuple[float, float]) -> None:
    chart.session.send(
        "Input.dispatchTouchEvent",
        {"type": kind, "touchPoints": [{"x": x, "y": y, "id": i} for i, (x, y) in enumerate(points)]},
    )


def test_a_tap_shows_a_second_picks_a_stroke_runs_over_the_values_and_two_fingers_zoom(chart, chrome):
    chart.draw(two())
    chart.session = chrome.new_cdp_session(chart.page)
    y = chart.top() + 90
    tap = [(chart.x(6), y)]
    touch(chart, "touchStart", *tap)
    touch(chart, "touchEnd")
    assert chart.tip()["title"] == ["token 6 “word6”"]
    assert chart.picked == []
    touch(chart, "touchStart", (tap[0][0] + 9, y))
    touch(chart, "touchEnd")
    assert chart.picked == [6]
    touch(chart, "touchStart", *tap)
    for step in (8, 10, 12, 14):
        touch(chart, "touchMove", (chart.x(step), y + 2))
    touch(chart, "touchEnd")
    assert chart.tip()["title"] == ["token 14 “word14”"]
    assert chart.picked == [6]
    assert chart.do("harness.chart.state.zoom") is None
    one, other = chart.x(8), chart.x(12)
    touch(chart, "touchStart", (one, y), (other, y))
    for wider in (20, 40, 60):
        touch(chart, "touchMove", (one - wider, y), (other + wider, y))
    touch(chart, "touchEnd")
    assert 0 < chart.zoom()["from"] < 8
    assert 12 < chart.zoom()["to"] < 20
    assert chart.node.evaluate("node => getComputedStyle(node).touchAction") == "pan-y"


def test_copying_puts_an_image_on_the_clipboard_or_downloads_it_and_says_so(chart, chrome, address):
    chart.draw(two())
    chrome.grant_permissions(["clipboard-read", "clipboard-write"])
    copy = chart.tool("Copy this chart as an image")
    copy.click()
    said = chart.page.locator(".chart-said")
    said.get_by_text("Copied.").wait_for()
    held = chart.do(
        """async () => {
          const [item] = await navigator.clipboard.read();
          return [...new Uint8Array(await (await item.getType("image/png")).arrayBuffer())];
        }"""
    )
    image = Image.open(io.BytesIO(bytes(held)))
    assert image.size[0] == 2 * 640
    assert (0, 114, 178) in {color for _, color in image.convert("RGB").getcolors(1 << 20) or []}
    chart.do("() => (navigator.clipboard.write = () => Promise.reject(new Error('no')))")
    with chart.page.expect_download() as download:
        copy.click()
    assert download.value.suggested_filename == "tvd.png"
    said.get_by_text("The browser does not allow copying here; the image was downloaded.").wait_for()
    with Image.open(download.value.path()) as kept:
        assert kept.size == image.size


def test_the_svg_stands_alone_and_shows_what_is_shown(chart):
    references = [{"label": "noise floor", "values": [1e-7] * 20, "dash": "1 3"}]
    given = two(references=references)
    given["lines"][0]["marks"] = ["differs"]
    chart.draw(given, width=330)
    title = "Total-variation distance · a model with a long name · “" + "many words " * 12 + "<b>&”"
    chart.key("climbing").click()
    chart.span(0, 9)
    root = ElementTree.fromstring(chart.do("(title) => harness.chart.toSvg(title)", title))
    texts = [text.text or "" for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert title.replace(" ", "") in "".join(texts).replace(" ", "")
    for words in ("TVD (0 to 1)", "token 0 to 9", "level", "noise floor", "10⁻³", "✗ another token"):
        assert words in texts
    assert "climbing" not in texts
    assert "DejaVu Sans" in root.get("font-family", "")
    width = float(root.get("width", 0))
    chart.do(
        "(text) => (document.querySelector('#here').innerHTML = text)", ElementTree.tostring(root, "unicode")
    )
    for box in [text.bounding_box() for text in chart.page.locator("#here text").all()]:
        assert box["x"] >= 19
        assert box["x"] + box["width"] <= 21 + width


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize(("width", "compact"), [(330, True), (480, True), (900, False)])
def test_nothing_is_cut_at_any_width(chart, width, compact, dark):
    given = six(500) | {"about": {"axis": "‖Δm‖ / ‖m‖, the largest over all layers of the model"}}
    given["lines"][0]["values"][5] = 0
    given["lines"][1]["values"][5] = "lost"
    given["texts"] = ["a-very-long-token-" * 12] * 500
    chart.do("(dark) => document.body.classList.toggle('dark', dark)", dark)
    chart.draw(given, width=width, height=230, compact=compact, selected=401)
    for tick in (0, 20, 480):
        chart.over(tick)
        nothing_cut(chart)
    near = {"from": 0, "to": 500, "low": 3.15e-3, "high": 3.25e-3, "of": "tvd", "log": True}
    chart.do("(zoom) => (harness.chart.state = { zoom })", near)
    chart.draw(given, width=width, height=230, compact=compact, selected=401)
    nothing_cut(chart)


def nothing_cut(chart: Chart) -> None:
    frame, tip, words = chart.do(BOXES)
    for name, *box in [*words, *([["tip", *tip]] if tip else [])]:
        assert box[0] >= frame[0] - 0.5, name
        assert box[1] >= frame[1] - 0.5, name
        assert box[2] <= frame[2] + 0.5, name
        assert box[3] <= frame[3] + 0.5, name
    for (one, *a), (other, *b) in itertools.combinations(words, 2):
        beside = a[2] <= b[0] + 0.5 or b[2] <= a[0] + 0.5
        # The boxes of text are a little higher than its letters.
        above = a[3] <= b[1] + 4 or b[3] <= a[1] + 4
        assert beside or above, (one, other)


BOXES = """() => {
  const box = (node) => {
    const { left, top, right, bottom } = node.getBoundingClientRect();
    return [left, top, right, bottom];
  };
  const words = [...document.querySelectorAll(".linechart > svg text")];
  const small = words.filter((word) => parseFloat(getComputedStyle(word).fontSize) < 12.5);
  if (small.length) throw new Error(`small: ${small[0].textContent}`);
  const tip = document.querySelector(".chart-tip");
  if (tip.scrollWidth > tip.clientWidth) throw new Error("the tooltip is cut");
  return [
    box(document.querySelector(".linechart")),
    tip.hidden ? null : box(tip),
    words.map((word) => [word.textContent, ...box(word)]),
  ];
}"""


def test_references_that_share_a_dash_are_told_apart(chart):
    references = [
        {"label": f"{kind} {dtype}", "values": [1e-7] * 20, "dash": dash}
        for kind, dash in (("noise floor", "1 3"), ("no patch", "2 6"))
        for dtype in ("float64", "float32", "bfloat16")
    ]
    chart.draw(two(references=references))
    swatches = [key.locator("svg").inner_html() for key in chart.page.locator(".chart-key").all()]
    assert len(set(swatches)) == len(swatches) == 8


def test_the_text_alternative_tells_each_shown_line(chart):
    chart.draw(two())
    told = "Line chart, logarithmic: Total-variation distance over 20 tokens. "
    both = "level from 0.001 to 0.001; climbing from 1·10⁻⁶ to 0.01."
    assert chart.page.locator(".linechart canvas").get_attribute("aria-label") == told + both
    chart.key("level").click()
    only = "climbing from 1·10⁻⁶ to 0.01. Hidden: level."
    assert chart.page.locator(".linechart canvas").get_attribute("aria-label") == told + only


def test_no_token_yet(chart):
    chart.draw(two() | {"lines": [{"label": "level", "values": []}]})
    chart.page.mouse.click(chart.left() + 200, chart.top() + 90)
    assert chart.tip() is None
    assert chart.picked == []


def test_a_redraw_is_fast(chart):
    chart.draw(six(512), width=620)
    least, _ = chart.do("harness.time(60)")
    assert least < MOST_MS
