"""The two linked maps in a real Chromium: drawn, linked, moved over, picked, zoomed, ranged, saved."""

import csv
import io
import re
import time
import xml.etree.ElementTree as ElementTree

import pytest

from ctxviz.figures.subject import circumstances, stem
from ctxviz.ui.routes import asset_url
from tests.browser import harness
from tests.browser import test_live_component as live_component
from tests.browser.test_live_component import CLIPPED, PATIENCE, Watched

pytestmark = pytest.mark.browser

context = live_component.context
watched = live_component.watched

LEFT, TOP = 50, 14
"""Where the cells of a map begin, in px."""
ZOOM_SECONDS = 2.0
MOST_SHADE = 50
"""Of 255: the edge of a mark is smoothed a little differently where only a part of the map is painted, by 43
at most here; a mark that is missing differs by 255."""
MOST_GROWTH = 1.5
"""How many times the cells that a new token reads may be more after 511 tokens than after 63."""

PIXELS = """
canvas => {
  const { width, height } = canvas;
  const data = new Uint32Array(canvas.getContext("2d").getImageData(0, 0, width, height).data.buffer);
  let hash = 0;
  for (const pixel of data) hash = (hash * 31 + pixel) | 0;
  return [new Set(data).size, hash];
}
"""
GROW = """
async ([address, kind, layers, tokens]) => {
  const load = (name) => import(new URL(name, new URL(address, location.origin)));
  const [{ FieldMap }, { scaleFor }, { colourScale, readTheme }] = await Promise.all(
    ["fieldmap.js", "fieldscale.js", "look.js"].map(load));
  const words = ["ample", "bare", "closed"];
  const about = { kind, words, title: "", symbol: "", small_is_bad: false };
  const [colours, theme] = [colourScale(["#000000", "#ffffff"]), readTheme(document.body)];
  const noise = (i) => Math.abs(Math.sin(12.9898 * i) * 43758.5453) % 1;
  const one = { log: (i) => 0.011 + 0.08 * noise(i), count: (i) => (i ? Math.floor(90 * noise(i)) : 90),
    category: (i) => Math.floor(3 * noise(i) ** 2) }[kind];
  const rare = [NaN, 0, Infinity, -0.05];
  const value = (i) => (kind === "log" && i && i % 97 === 0 ? rare[(i / 97) % 4] : one(i));
  const values = Float32Array.from({ length: layers * (tokens + 1) }, (_, i) => value(i));
  let reads = 0;
  const table = (n) => ({
    n, layers,
    values: { subarray: (a, b) => { reads += b - a; return values.subarray(a, b); } },
    value(step, layer) { reads += 1; return step < this.n ? values[step * layers + layer] : NaN; },
  });
  const begin = (n) => {
    const map = new FieldMap();
    document.body.append(map.frame);
    const frame = { table: table(n), box: { from: 0, to: tokens, low: 0, high: layers }, whole: true };
    const scale = scaleFor(about, frame.table, colours, [null, null]);
    Object.assign(frame, { scale, texts: () => "", theme, width: 700 });
    map.draw(frame);
    return [map, frame];
  };
  const counted = (work) => { reads = 0; work(); return reads; };
  const pixels = ({ canvas: c }) => c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
  const grow = ([map, frame]) => { frame.table.n += 1; frame.scale.grow(); return map.draw(frame, true); };
  const grown = begin(tokens - 10);
  for (let k = 0; k < 9; k += 1) grow(grown);
  const added = counted(() => grow(grown));
  let full;
  const whole = counted(() => (full = begin(tokens)));
  const [map, frame] = full;
  const other = pixels(map);
  const apart = pixels(grown[0]).reduce((most, x, i) => Math.max(most, Math.abs(x - other[i])), 0);
  const told = grown[0].describe("it") === map.describe("it") && grown[0].unmarked === map.unmarked;
  const marks = map.marks.length;
  frame.scale.look = "another";
  const hurried = [map.draw(frame, true), map.late, map.draw(frame, false), map.late];
  for (const each of [grown[0], map]) each.frame.remove();
  return { added, whole, apart, told, marks, hurried };
}
"""
ZOOMED = r"tokens (\d+) to (\d+) of 512, layers (\d+) to (\d+) of 62"
INSIDE = (
    "map => { const c = map.querySelector('canvas').getBoundingClientRect(); return [c.width, c.height]; }"
)


class Maps:
    """The page of the linked maps."""

    def __init__(self, watched: Watched, query: str) -> None:
        self.watched = watched
        self.page = watched.page
        self.page.goto(f"{watched.address}/?{query}")
        self.drawn()

    def drawn(self) -> None:
        for side in ("Left", "Right"):
            self.field(side).locator("svg[aria-label^='Heat map']").wait_for(timeout=PATIENCE)
        self.page.get_by_text("Fetching the numbers").first.wait_for(state="hidden", timeout=PATIENCE)

    def field(self, side: str):
        return self.page.locator(f".field[aria-label^='{side}']")

    def pixels(self, side: str) -> tuple[int, int]:
        """How many colours the canvas holds, and a number for all its pixels."""
        colours, total = self.field(side).locator("canvas").evaluate(PIXELS)
        return colours, total

    def cell(self, side: str, step: int, layer: int, steps: int, layers: int) -> dict[str, float]:
        width, height = self.field(side).evaluate(INSIDE)
        return {"x": LEFT + (step + 0.5) * width / steps, "y": TOP + (layers - layer - 0.5) * height / layers}

    def readout(self) -> list[str]:
        return self.page.locator(".readout").inner_text().splitlines()

    def outlines(self) -> list[tuple[float, float]]:
        """Where the dashed outline is seen in each map, as shares of its cells' width and height."""
        found = []
        for side in ("Left", "Right"):
            shape = self.field(side).locator("g[visibility=visible] rect[stroke-dasharray]")
            assert shape.count() == 1
            width, height = self.field(side).evaluate(INSIDE)
            # The outline is 1.5 px outside its cell.
            x, y = (float(shape.get_attribute(name)) + 1.5 for name in ("x", "y"))
            found.append(((x - LEFT) / width, (y - TOP) / height))
        return found

    def where(self) -> str:
        return self.page.locator(".where").inner_text()


def test_both_maps_are_drawn_and_differ(watched):
    maps = Maps(watched, "layers=12&tokens=24&fields=scale_ratio,output_error")
    left, right = maps.pixels("Left"), maps.pixels("Right")
    assert min(left[0], right[0]) > 20
    assert left != right
    label = maps.field("Left").locator("svg").get_attribute("aria-label")
    assert label.startswith(
        "Heat map: Patch over scale vector, ‖Δm‖ / ‖m‖, of direct float32; 12 layers by 24"
    )
    same = Maps(watched, "layers=12&tokens=24&fields=scale_ratio,scale_ratio")
    assert same.pixels("Left") == same.pixels("Right") == left


def test_pointing_at_a_cell_outlines_it_in_both_and_names_its_values(watched):
    maps = Maps(watched, "layers=12&tokens=24&fields=multiplier,solver_case&variant=1")
    maps.field("Right").hover(position=maps.cell("Right", 20, 4, 24, 12))
    name, value, case = maps.readout()
    assert name == "layer 4, token 20 “\u2068·火星\u2069”"
    assert value.startswith("λ −")
    assert case.split(" ", 1)[1] in ("unconstrained", "regular", "hard", "infeasible", "no input")
    left, right = maps.outlines()
    assert left == pytest.approx(right, abs=1e-3)
    assert left == pytest.approx((20 / 24, 7 / 12), abs=1e-3)
    maps.field("Left").hover(position=maps.cell("Left", 20, 5, 24, 12))
    assert maps.readout()[0].startswith("layer 5, token 20 ")
    assert "−" not in maps.readout()[1]
    assert maps.outlines()[0][1] < left[1]
    assert maps.page.locator(".view img").count() == 0


def test_the_arrow_keys_move_and_enter_picks(watched):
    maps = Maps(watched, "layers=12&tokens=40&fields=scale_ratio,output_error")
    page = maps.page
    page.get_by_role("button", name="Zoom in").focus()
    maps.field("Left").focus()
    page.keyboard.press("ArrowRight")
    for key, place in (
        ("Home", "layer 0, token 0 "),
        ("ArrowRight", "layer 0, token 1 "),
        ("ArrowUp", "layer 1, token 1 "),
        ("Shift+ArrowRight", "layer 1, token 11 "),
        ("Shift+ArrowUp", "layer 11, token 11 "),
        ("ArrowDown", "layer 10, token 11 "),
        ("End", "layer 10, token 39 "),
        ("ArrowRight", "layer 10, token 39 "),
        ("Shift+ArrowLeft", "layer 10, token 29 "),
    ):
        page.keyboard.press(key)
        assert maps.readout()[0].startswith(place), key
        assert page.locator(".spoken").inner_text().startswith(place)
    page.keyboard.press("Enter")
    watched.expect_text("cell Picked(step=29, layer=10, variant=0)")
    maps.field("Right").click(position=maps.cell("Right", 3, 2, 40, 12))
    watched.expect_text("cell Picked(step=3, layer=2, variant=0)")
    for side in ("Left", "Right"):
        assert maps.field(side).locator("g[visibility=visible] rect").count() >= 2


def test_quick_picks_leave_the_maps_standing(watched):
    maps = Maps(watched, "layers=12&tokens=40&fields=scale_ratio,output_error")
    page = maps.page
    page.get_by_role("button", name="Zoom in").focus()
    maps.field("Left").focus()
    for _ in range(12):
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
    watched.expect_text("cell Picked(step=12, layer=0, variant=0)")
    page.wait_for_timeout(300)
    assert page.locator(".field:focus").count() == 1


def test_choices_zoom_and_ranges_outlive_a_script_run(watched):
    maps = Maps(watched, "layers=12&tokens=40&fields=scale_ratio,output_error")
    page = maps.page
    page.get_by_label("The right map shows").select_option("dead")
    watched.expect_text("metrics ('scale_ratio', 'dead')")
    page.get_by_text("Colours", exact=True).first.click()
    page.get_by_label("Left map: upper end of the colours").fill("1e-2")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Zoom in").click()
    watched.expect_text("tokens 10 to 29 of 40, all 12 layers")
    maps.field("Left").click(position=maps.cell("Left", 4, 2, 20, 12))
    watched.expect_text("cell Picked(step=14, layer=2, variant=0)")
    page.wait_for_timeout(300)
    assert maps.where().startswith("tokens 10 to 29 of 40")
    assert page.get_by_label("The right map shows").input_value() == "dead"
    assert page.get_by_label("Left map: upper end of the colours").input_value() == "0.01"
    assert "above the range" in page.locator(".legend").first.inner_text()
    page.get_by_role("button", name="Whole run").click()
    watched.expect_text("all 40 tokens, all 12 layers")
    # Each table was fetched once.
    asked = [(query["metric"][0], query["from"][0]) for query in watched.asked("values")]
    assert sorted(asked) == [("dead", "0"), ("output_error", "0"), ("scale_ratio", "0")]


def test_a_fixed_range_marks_and_counts_what_is_out_of_it(watched):
    maps = Maps(watched, "layers=8&tokens=20&fields=scale_max_abs,h_small")
    page, legend = maps.page, maps.page.locator(".legend").first
    before = maps.pixels("Left")
    assert "range" not in legend.inner_text()
    page.get_by_text("Colours", exact=True).first.click()
    page.get_by_label("Left map: lower end of the colours").fill("1e2")
    page.get_by_label("Left map: upper end of the colours").fill("3e3")
    page.keyboard.press("Enter")
    page.wait_for_timeout(300)
    assert maps.pixels("Left") != before
    rows = list(csv.reader(io.StringIO(watched.download("Download the left map as CSV")[1].decode())))
    numbers = [float(cell) for row in rows[1:] for cell in row[2:]]
    above, below = sum(x > 3e3 for x in numbers), sum(x < 1e2 for x in numbers)
    assert above
    assert below
    words = legend.inner_text().splitlines()
    assert f"above the range: {above} of 160" in words
    assert f"below the range: {below} of 160" in words
    marks = ElementTree.fromstring(watched.download("Download the left map as SVG")[1])
    filled = [node for node in marks.iter("{http://www.w3.org/2000/svg}path") if node.get("fill") == "#fff"]
    assert len(filled) >= 2 * (above + below)
    texts = [node.text for node in marks.iter("{http://www.w3.org/2000/svg}text")]
    assert {"100", "3000", "10³"} <= set(texts)
    page.get_by_label("Left map: lower end of the colours").fill("-1")
    page.keyboard.press("Enter")
    watched.expect_text("Use numbers above 0")
    page.get_by_label("Left map: lower end of the colours").fill("")
    page.get_by_label("Left map: upper end of the colours").fill("")
    page.keyboard.press("Enter")
    page.wait_for_timeout(300)
    assert maps.pixels("Left") == before


def test_what_has_no_colour_is_counted_and_named(watched):
    maps = Maps(watched, "layers=6&tokens=20&fields=drift_batch,drift_rounded")
    left, right = (maps.page.locator(".legend").nth(i).inner_text() for i in (0, 1))
    assert "no number: 20 of 120" in left
    assert "not measured: 20 of 120" in right
    maps.field("Left").hover(position=maps.cell("Left", 5, 3, 20, 6))
    assert maps.readout()[1] == "‖Δx‖ / ‖x‖, batch no number"
    maps.field("Left").hover(position=maps.cell("Left", 5, 1, 20, 6))
    assert maps.readout()[2] == "‖Δx‖ / ‖x‖, rounded not measured"


def test_a_large_run_zooms_quickly_by_wheel_key_button_and_drag(watched):
    maps = Maps(watched, "layers=62&tokens=512&fields=scale_ratio,solver_case")
    page = maps.page
    assert maps.where() == "all 512 tokens, all 62 layers, direct float32"
    field = maps.field("Right")
    field.hover(position=maps.cell("Right", 256, 31, 512, 62))
    page.keyboard.down("Control")
    started, before = time.monotonic(), maps.pixels("Left")
    page.mouse.wheel(0, -100)
    page.get_by_text("tokens 128 to 383 of 512, layers 16 to 46 of 62").wait_for(timeout=PATIENCE)
    assert time.monotonic() - started < ZOOM_SECONDS
    page.keyboard.up("Control")
    zoomed = maps.pixels("Left")
    assert zoomed != before
    box = field.bounding_box()
    page.keyboard.down("Shift")
    page.mouse.move(box["x"] + 300, box["y"] + 200)
    page.mouse.down()
    page.mouse.move(box["x"] + 250, box["y"] + 200, steps=5)
    page.mouse.up()
    page.keyboard.up("Shift")
    page.wait_for_timeout(200)
    moved = round(50 / (field.evaluate(INSIDE)[0] / 256))
    assert maps.where().startswith(f"tokens {128 + moved} to {383 + moved} of 512, layers 16 to 46 of 62")
    assert maps.pixels("Left") != zoomed
    page.mouse.move(box["x"] + 200, box["y"] + 200)
    page.mouse.down()
    page.mouse.move(box["x"] + 300, box["y"] + 100, steps=5)
    page.mouse.up()
    page.wait_for_timeout(200)
    first, last, low, high = map(int, re.match(ZOOMED, maps.where()).groups())
    assert 140 < first < last < 390
    assert 16 <= low < high < 46
    assert page.get_by_text("cell None").count() == 1
    page.mouse.move(2, 2)
    page.keyboard.press("0")
    field.focus()
    started = time.monotonic()
    for key in ("0", "End", "+", "+", "+", "+", "-"):
        page.keyboard.press(key)
    page.get_by_text("tokens 448 to 511 of 512").wait_for(timeout=PATIENCE)
    assert time.monotonic() - started < ZOOM_SECONDS
    page.keyboard.press("Home")
    assert maps.readout()[0].startswith("layer 0, token 0 ")
    page.get_by_text("tokens 0 to 63 of 512").wait_for(timeout=PATIENCE)
    page.keyboard.press("0")
    page.get_by_text("all 512 tokens, all 62 layers").wait_for(timeout=PATIENCE)


def test_a_run_that_grows_is_fetched_piece_by_piece(watched):
    maps = Maps(watched, "layers=6&tokens=30&rate=10&fields=scale_ratio,dead")
    maps.page.get_by_text("all 30 tokens").wait_for(timeout=PATIENCE)
    maps.drawn()
    starts = [int(query["from"][0]) for query in watched.asked("values") if query["metric"] == ["dead"]]
    assert len(starts) > 3
    assert starts == sorted(set(starts))
    maps.field("Right").hover(position=maps.cell("Right", 29, 5, 30, 6))
    assert maps.readout()[0].startswith("layer 5, token 29 ")
    assert "not measured" not in maps.readout()[2]


@pytest.mark.parametrize("kind", ["log", "count", "category"])
@pytest.mark.parametrize("layers", [10, 62])
def test_a_new_token_costs_the_same_however_many_came_before(watched, kind, layers):
    maps = Maps(watched, "layers=6&tokens=4&fields=scale_ratio,dead")
    short, long = (maps.page.evaluate(GROW, [asset_url(""), kind, layers, n]) for n in (64, 512))
    assert long["added"] <= MOST_GROWTH * short["added"]
    assert long["added"] < long["whole"] / 10
    for found in (short, long):
        assert found["told"]
        assert found["hurried"] == [False, True, True, False]
    lettered = maps.page.evaluate(GROW, [asset_url(""), kind, layers, 40])
    for found in (short, long, lettered):
        assert found["apart"] <= (MOST_SHADE if found["marks"] else 0), "as a map painted whole"
    assert bool(lettered["marks"]) == (kind == "log" or (kind, layers) == ("category", 10))


def test_a_run_that_grew_is_drawn_and_told_as_one_that_came_whole(watched):
    query = "layers=6&tokens=30&fields=scale_ratio,solver_case"
    grown = Maps(watched, f"{query}&rate=20")
    grown.page.get_by_text("all 30 tokens").wait_for(timeout=PATIENCE)
    grown.drawn()
    grown.page.locator("svg[aria-label*='6 layers by 30 tokens']").nth(1).wait_for(timeout=PATIENCE)
    found = seen(grown)
    assert found == seen(Maps(watched, query))


def seen(maps: Maps) -> list:
    labels = [maps.field(side).locator("svg").get_attribute("aria-label") for side in ("Left", "Right")]
    legends = [maps.page.locator(".legend").nth(i).inner_text() for i in (0, 1)]
    return [labels, legends, maps.pixels("Left"), maps.pixels("Right")]


def test_maps_are_saved_as_pictures_and_numbers(watched):
    maps = Maps(watched, "layers=6&tokens=20&fields=multiplier,solver_case&variant=1")
    name, drawing = watched.download("Download the left map as SVG")
    run = harness.whole(6, 20)
    assert name == f"{stem(run)}-multiplier-{run.variants[1].slug}.svg"
    texts = "".join(ElementTree.fromstring(drawing).itertext())
    words = ("Multiplier of the least squares", "stable float32", run.model.name, *circumstances(run))
    # Long lines are broken where they have spaces.
    whole = "".join(texts.split())
    assert all("".join(word.split()) in whole for word in words)
    assert "negative, coloured by size: 60 of 120" in texts
    name, picture = watched.download("Download the right map as PNG")
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 5000
    _, table = watched.download("Download the right map as CSV")
    rows = list(csv.reader(io.StringIO(table.decode())))
    assert (len(rows), len(rows[0])) == (21, 8)
    assert set(rows[1][2:]) <= {"unconstrained", "regular", "hard", "infeasible", "no input"}
    assert maps.page.get_by_label("Right map: lower end of the colours").is_hidden()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("width", "columns"), [(1400, 2), (640, 2), (420, 1)])
def test_nothing_is_cut_off(watched, scheme, width, columns):
    page = watched.page
    page.set_viewport_size({"width": width, "height": 1000})
    page.emulate_media(color_scheme=scheme)
    maps = Maps(watched, "layers=62&tokens=100&fields=scale_max_abs,h_small")
    page.wait_for_timeout(300)
    lefts = {round(maps.field(side).bounding_box()["x"]) for side in ("Left", "Right")}
    assert len(lefts) == columns
    view = page.locator(".view")
    assert view.evaluate("node => node.scrollWidth <= node.clientWidth + 6")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert ("dark" in view.get_attribute("class").split()) == (scheme == "dark")
    assert page.locator(".field svg").evaluate_all(CLIPPED) == []
    ink = page.locator(".field svg text").first.get_attribute("fill")
    channels = [int(c) for c in ink.removeprefix("rgb(").removesuffix(")").split(",")]
    assert (sum(channels) > 384) == (scheme == "dark")


def test_numbers_that_do_not_come_are_told_and_asked_for_again(watched):
    page = watched.page
    page.route("**/_ctxviz/values/**", lambda route: route.abort())
    page.goto(f"{watched.address}/?layers=6&tokens=20&fields=scale_ratio,dead")
    watched.expect_text("The numbers of a map could not be fetched; retrying")
    page.unroute("**/_ctxviz/values/**")
    page.locator(".message", has_text="could not be fetched").wait_for(state="hidden", timeout=PATIENCE)
    page.locator(".field svg[aria-label*='‖Δm‖ / ‖m‖, of direct float32; 6 layers by 20']").wait_for()
    assert all("ERR_FAILED" in problem for problem in watched.problems)
    watched.problems.clear()
