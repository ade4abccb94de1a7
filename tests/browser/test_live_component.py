"""The live view in a real Chromium: a synthetic run at a steady rate, every gesture, every file."""

import csv
import io
import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

from ctxviz.alarms import find
from ctxviz.figures.heatmap import heatmap
from ctxviz.figures.metrics import METRICS
from ctxviz.figures.subject import circumstances, stem
from ctxviz.figures.text import readable, sci
from ctxviz.figures.words import alarms, verdict
from ctxviz.replaying import differs, ties
from tests.browser import harness
from tests.browser.conftest import CHROMIUM_FLAGS, chromium
from tests.browser.live_view import PATIENCE, LiveView, until
from tests.browser.reading import number_in

pytestmark = pytest.mark.browser

TOKENS_PER_SECOND = 20
WATCHED_TOKENS = 60
LEAST_UPDATES_PER_SECOND = 4
MOST_BYTES_PER_TOKEN = {18: 2048, 62: 2214}
"""By layers; see LARGEST_PER_TOKEN of tests/unit/test_delta.py."""
QUIET = "00:20"
"""Longer than any pause between two questions of a run that is not ended."""

WATCH = """
window.shown = [];
let watched = null;
setInterval(() => {
  const host = document.querySelector("[data-testid=stBidiComponentIsolated]");
  const strip = host?.shadowRoot?.querySelector(".strip");
  if (!strip || strip === watched) return;
  watched = strip;
  window.shown = [];
  const look = () => window.shown.push([Date.now(), strip.childElementCount]);
  new MutationObserver(() => requestAnimationFrame(look)).observe(strip, { childList: true });
}, 5);
"""

ROWS = "rows => rows.map((row) => [...row.cells].map((cell) => cell.textContent))"
CLIPPED = """
drawings => drawings.flatMap(drawing => {
  const outer = drawing.getBoundingClientRect();
  const cut = text => {
    const inner = text.getBoundingClientRect();
    return inner.left < outer.left - 1 || inner.right > outer.right + 1 || inner.bottom > outer.bottom + 1;
  };
  return [...drawing.querySelectorAll("text")].filter(cut).map(text => text.textContent);
})
"""


@pytest.fixture(scope="module")
def context(tmp_path_factory) -> Iterator:
    executable = chromium()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch_persistent_context(
            str(tmp_path_factory.mktemp("profile")),
            executable_path=executable,
            args=list(CHROMIUM_FLAGS),
            viewport={"width": 1440, "height": 1000},
        )
        yield opened
        opened.close()


class Watched:
    """A page, and what went wrong in it."""

    def __init__(self, page, address: str) -> None:
        self.page = page
        self.address = address
        self.problems: list[str] = []
        self.requests: list[str] = []
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("console", lambda said: said.type == "error" and self.problems.append(said.text))
        page.on("request", lambda request: self.requests.append(request.url))
        page.add_init_script(WATCH)

    def open(self, query: str) -> "Watched":
        self.page.goto(f"{self.address}/?{query}")
        self.page.locator(".chip").first.wait_for(timeout=PATIENCE)
        return self

    @property
    def live(self) -> LiveView:
        return LiveView(self.page)

    def rests(self, steps: int, layers: int) -> LiveView:
        """Until the run is at its end and all of it is drawn, the cell behind it too."""
        self.wait_until_state("done")
        self.page.locator(f".field svg[aria-label*='; {layers} layers by {steps} tokens']").wait_for(
            timeout=PATIENCE
        )
        self.page.locator(".behind h3:visible").wait_for(timeout=PATIENCE)
        return self.live.settled()

    def wait_until_state(self, state: str) -> None:
        self.page.locator(f".view[data-state={state}]").wait_for(timeout=PATIENCE)

    def asked(self, kind: str) -> list[dict[str, list[str]]]:
        """The queries of one route so far."""
        return [parse_qs(urlsplit(url).query) for url in self.requests if f"/_ctxviz/{kind}/" in url]

    def download(self, name: str) -> tuple[str, bytes]:
        with self.page.expect_download(timeout=PATIENCE) as download:
            self.page.get_by_role("button", name=name, exact=True).click()
        return download.value.suggested_filename, Path(download.value.path()).read_bytes()

    def expect_text(self, text: str) -> None:
        self.page.get_by_text(text).first.wait_for(timeout=PATIENCE)


@pytest.fixture
def watched(context, harness) -> Iterator[Watched]:
    page = context.new_page()
    watched = Watched(page, harness)
    yield watched
    page.close()
    assert watched.problems == []
    foreign = [url for url in watched.requests if not url.startswith((harness, "blob:", "data:"))]
    assert foreign == []


@pytest.mark.parametrize(("layers", "tokens"), [(18, 200), (62, 512)])
def test_a_run_is_shown_as_it_grows_at_a_flat_price(watched, layers, tokens):
    answers = []
    watched.page.on("response", lambda answer: "/_ctxviz/delta/" in answer.url and answers.append(answer))
    watched.open(f"layers={layers}&tokens={tokens}&rate={TOKENS_PER_SECOND}")
    grown = f"shown.length && shown.at(-1)[1] - shown[0][1] >= {WATCHED_TOKENS}"
    watched.page.wait_for_function(grown, timeout=PATIENCE)
    shown = watched.page.evaluate("window.shown")
    seconds = (shown[-1][0] - shown[0][0]) / 1000
    assert (len(shown) - 1) / seconds >= LEAST_UPDATES_PER_SECOND
    assert (shown[-1][1] - shown[0][1]) / seconds >= 0.7 * TOKENS_PER_SECOND
    bodies = [answer.body() for answer in answers]
    grown = [(len(body), len(json.loads(body).get("tokens", []))) for body in bodies[2:]]
    spent, received = (sum(column) for column in zip(*grown, strict=True))
    assert received > TOKENS_PER_SECOND
    assert spent / received <= MOST_BYTES_PER_TOKEN[layers]


def test_asking_ends_with_the_run_and_all_of_it_is_there(watched):
    watched.page.clock.install()
    watched.open("layers=6&tokens=24&rate=20")
    live = watched.rests(24, 6)
    watched.expect_text("Finished · 24 tokens")
    assert live.chips.count() == 24
    assert "over 24 tokens." in live.chart_description()
    assert {"noise floor f32", "no patch bf16"} <= set(live.legend())
    before = len(watched.asked("delta"))
    watched.page.clock.fast_forward(QUIET)
    watched.page.wait_for_timeout(300)
    assert len(watched.asked("delta")) == before


def test_text_of_a_model_stays_text(watched):
    live = watched.open("layers=4&tokens=32&note=<img src=x>").rests(32, 4)
    assert live.chips.filter(has_text="<img src=x>").count() == 1
    label = live.chips.nth(22).get_attribute("aria-label") or ""
    assert label.startswith("token 22 “<img src=x>”: ")
    assert watched.page.locator(".note").inner_text() == "<img src=x>"
    live.chips.nth(22).press("Enter")
    until(lambda: live.agrees(22), watched.page)
    live.field.focus()
    assert "token 22 “<img src=x>”" in watched.page.locator(".tip-title").inner_text()
    live.chart.focus()
    watched.page.keyboard.press("ArrowRight")
    watched.page.keyboard.press("ArrowLeft")
    assert "token 22 “<img src=x>”" in live.chart.inner_text()
    assert live.behind.inner_text().count("<img src=x>")
    assert live.view.locator("img").count() == 0


def test_a_token_is_told_in_words_as_it_is_marked(watched):
    chips = watched.open("layers=4&tokens=32").live.chips
    watched.wait_until_state("done")
    told = chips.evaluate_all(
        "chips => chips.map(c => [c.title, [...c.querySelectorAll('.others bdi')].map(b => b.textContent)])"
    )
    assert any(others for _, others in told)
    for words, others in told:
        assert set(re.findall(r"said(?: \(a tie inside the noise floor\))? “(.*?)”", words)) == set(others)
        assert ("every patched model said the same" in words) == (not others)


def test_the_words_above_are_those_of_the_records(watched):
    page = watched.open("kind=answers&layers=6&tokens=12").page
    watched.rests(12, 6)
    run = harness.answered(6, 12)
    said = verdict(run)
    assert page.locator(".headline").inner_text() == said.headline
    assert page.locator(".headline em").inner_text() == said.emphasis
    assert page.locator(".detail").inner_text().startswith(said.detail)
    found, total = alarms(run), sum(alarm.kind != "tie" for alarm in find(run))
    assert page.locator(".alarms .count").inner_text() == f"▲ {total} alarms"
    page.locator(".alarms .count").click()
    told = page.locator(".alarms li > :last-child")
    assert told.all_inner_texts() == [alarm.sentence for alarm in found]
    led = told.evaluate_all("words => words.map((node) => node.matches('button'))")
    assert led == [alarm.step is not None for alarm in found]
    rest = f"and {total - len(found)} more, all on the page Layers"
    assert page.locator(".alarms .list .caption").all_inner_texts() == [rest]
    page.keyboard.press("Escape")
    assert page.locator(".alarms .list").is_hidden()


def test_the_three_answers_are_those_of_the_records(watched):
    page = watched.open("kind=answers&layers=6&tokens=12").page
    live, run = watched.rests(12, 6), harness.answered(6, 12)
    assert live.chips.locator(".said").all_inner_texts() == [readable(run.token(k)[4]) for k in range(12)]
    for variant, name in enumerate(["direct float32", "stable float32", "direct bfloat16"]):
        live.shows(variant=variant)
        same = run.series("match", variant) == 1
        words = f"{(~same).sum()} of 12 another" if not same.all() else "the same"
        page.locator(".patched .how", has_text=f"{name}: {words}").wait_for(timeout=PATIENCE)
        said = [run.top(k, variant).texts[0] for k in range(12)]
        pieces = page.locator(".patched .said-words bdi")
        shown = pieces.evaluate_all("pieces => pieces.map((piece) => piece.lastChild.textContent)")
        assert shown == [readable(text) for text in said]
        others = pieces.evaluate_all("pieces => pieces.map((piece) => piece.matches('.other'))")
        assert others == (~same).tolist()
    assert not (run.series("match", 2) == 1).all()
    assert page.locator(".without .said-words").inner_text() == "·Dear·<b>sand⏎…"
    assert page.locator(".without b").all_inner_texts() == ["Without the context"]


def test_without_its_text_the_third_answer_says_so(watched):
    page = watched.open("layers=4&tokens=40&rate=20").page
    page.locator(".without", has_text="told when the run has ended").wait_for(timeout=PATIENCE)
    watched.wait_until_state("done")
    page.locator(".without", has_text="not made for this run").wait_for(timeout=PATIENCE)


def test_clicks_and_keys_pick_tokens_and_cells(watched):
    page = watched.open("layers=18&tokens=32").page
    live = watched.rests(32, 18)
    live.chips.nth(5).click()
    watched.expect_text("looks at step 5, layer None, variant 0")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    watched.expect_text("looks at step 6, layer None, variant 0")
    until(lambda: live.agrees(6), page)
    live.click_cell(0, 0, 32, 18)
    watched.expect_text("looks at step 0, layer 0, variant 0")
    until(lambda: live.agrees(0, 0), page)
    live.chips.nth(0).focus()
    live.field.focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowUp"):
        page.keyboard.press(key)
    assert page.locator(".tip-title").inner_text().startswith("layer 1, token 2")
    page.keyboard.press("Enter")
    watched.expect_text("looks at step 2, layer 1, variant 0")
    live.chart.focus()
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    watched.expect_text("looks at step 31, layer None, variant 0")
    until(lambda: live.agrees(31), page)
    # Many script runs later nothing was fetched twice.
    assert [query["from"] for query in watched.asked("delta")].count(["0"]) == 1


def test_what_is_opened_is_the_record_of_the_cell(watched):
    page = watched.open("kind=answers&layers=6&tokens=12").page
    live, run = watched.rests(12, 6), harness.answered(6, 12)
    live.click_cell(7, 3, 12, 6)
    until(lambda: live.agrees(7, 3), page)
    vectors = run.vectors(7, 0)
    order = np.argsort(-np.abs(vectors.delta_scale[3]))
    rows = page.locator("table.worst tbody tr").evaluate_all(ROWS)
    assert len(rows) >= 3
    for j, row in zip(order, rows, strict=False):
        kept = (vectors.h, vectors.delta_v, vectors.scale, vectors.delta_scale)
        assert row == [str(j), *(sci(float(array[3, j])) for array in kept)]
    assert "16 coordinates" in page.locator(".scatter svg").get_attribute("aria-label")
    after = page.locator(".next").all_inner_texts()
    top = run.top(7, 0)
    assert f"patched: {readable(top.texts[0])} {sci(float(top.probabilities[0]))}" in after[1]
    page.get_by_role("button", name="All of layer 3 →").click()
    watched.expect_text("layers True")


def test_where_nobody_picked_the_smallest_denominator_is_open_and_says_so(watched):
    page = watched.open("kind=answers&layers=6&tokens=12").page
    live, run = watched.rests(12, 6), harness.answered(6, 12)
    layer, step = np.unravel_index(run.field("h_abs_min", 0).argmin(), (6, 12))
    until(lambda: live.agrees(None, int(layer)), page)
    assert live.opened() == (step, layer, "direct float32")
    assert live.looked()["cell"].startswith("Smallest |h| of this run: Layer ")
    live.chips.nth(2).click()
    until(lambda: live.agrees(2), page)
    assert "Smallest" not in live.looked()["cell"]


def test_nothing_is_opened_by_itself_while_a_run_is_at_work(watched):
    page = watched.open("layers=6&tokens=200&rate=20").page
    live = watched.live
    page.locator(".behind .hint", has_text="Click a token").wait_for(timeout=PATIENCE)
    assert live.looked()["cell"] is None
    assert live.looked()["box"] is None
    live.chips.nth(2).click()
    page.locator(".behind h3", has_text="token 2 ").wait_for(timeout=PATIENCE)
    until(lambda: _equal((live.looked()["chips"], live.looked()["box"] is None), ([2], False)), page)


def test_hovering_the_chart_and_the_map_tells_their_values(watched):
    page = watched.open("layers=6&tokens=32").page
    live, run = watched.rests(32, 6), harness.whole(6, 32)
    live.chart.hover(position={"x": 150, "y": 60})
    tip = page.locator(".chart-tip")
    step = int(re.match(r"token (\d+) ", tip.inner_text())[1])
    rows = tip.locator(".chart-tip-rows > *").all_inner_texts()
    values = dict(zip(rows[1::4], rows[2::4], strict=True))
    for k, name in enumerate(("direct f32", "stable f32", "direct bf16", "stable bf16")):
        assert values[name] == sci(float(run.series("tvd", k)[step]))
    assert values["no patch f32"] == sci(float(run.reference("unpatched_tvd", "float32")[step]))
    page.mouse.move(2, 2)
    assert tip.is_hidden()
    page.mouse.move(*live.at(9, 4, 32, 6))
    assert page.locator(".tip-title").inner_text() == f"layer 4, token 9 “{readable(run.token(9)[4])}”"
    number = number_in(page.locator(".tip-value").inner_text().removeprefix("min |h| = "))
    assert np.float32(number) == run.field("h_abs_min", 0)[4, 9]
    page.mouse.move(2, 2)
    assert page.locator(".tip:visible").count() == 0


def test_a_replay_marks_ties_and_tokens_without_a_number(watched):
    page = watched.open("layers=6&tokens=12&kind=replays").page
    live, run = watched.rests(12, 6), harness.replayed(6, 12)
    live.tab("run again").click()
    until(lambda: _starts(live.chart_description(), "TVD when the weights run again"), page)
    label = live.chart_description()
    assert "no number at 1 token" in next(part for part in label.split("; ") if "stable f32" in part)
    assert label.count("no number") == 1
    variants = range(len(run.variants))
    other, tie = (
        np.stack(found)
        for found in zip(*((differs(run, k, "batch"), ties(run, k)) for k in variants), strict=True)
    )
    assert (other & tie)[1].tolist() == [step == 6 for step in range(12)]
    signs = live.lines.locator(".chart-sign").all_inner_texts()
    assert [sign[0] for sign in signs] == ["✗", "≈", "✗"]
    assert signs[2].endswith("at the top: no number")
    live.chart.focus()
    page.keyboard.press("Home")
    for _ in range(9):
        page.keyboard.press("ArrowRight")
    assert "no number" in page.locator(".chart-tip").inner_text()
    page.keyboard.press("ArrowLeft")
    assert "no number" not in page.locator(".chart-tip").inner_text()
    live.tab("held").click()
    until(lambda: _starts(live.chart_description(), "TVD, one patch held"), page)
    assert "no number" not in live.chart_description()


def _starts(text: str, title: str) -> None:
    assert text.startswith(f"Line chart, logarithmic: {title} over ")


def test_what_is_no_number_reads_so_everywhere(watched):
    page = watched.open("layers=6&tokens=10&kind=lost").page
    live = watched.rests(10, 6)
    assert "no number at 2 tokens" in live.chart_description()
    legend = live.map.locator(".legend").inner_text()
    assert "no number: 1 of 60" in legend
    assert "not measured: 1 of 60" in legend
    for step, layer, words in ((3, 2, "no number"), (4, 1, "not measured")):
        page.mouse.move(*live.at(step, layer, 10, 6))
        assert page.locator(".tip-value").inner_text() == f"min |h| = {words}"
    assert "TVD no number" in (live.chips.nth(5).get_attribute("aria-label") or "")
    live.tab("logit gap").click()
    live.chart.focus()
    page.keyboard.press("Home")
    for step, words in enumerate(["", "", "not measured", "", "", "no number", "no number", ""]):
        rows = page.locator(".chart-tip-rows > *").all_inner_texts()
        value = rows[rows.index("direct f32") + 1]
        assert (value if words else value[0].isdigit()) == (words or True), step
        page.keyboard.press("ArrowRight")
    live.click_cell(3, 2, 10, 6)
    until(lambda: live.agrees(3, 2), page)
    assert "Layer 2 was computed, and h is no number" in live.behind.inner_text()
    live.click_cell(3, 1, 10, 6)
    until(lambda: live.agrees(3, 1), page)
    first = page.locator("table.worst tbody tr").first.locator("td").all_inner_texts()
    assert (first[0].split()[0], first[4]) == ("5", "no number")
    assert "not drawn: 1 with no number" in (page.locator(".scatter svg").get_attribute("aria-label") or "")
    for sign in ("∞", "Infinity", "NaN"):
        assert sign not in live.view.inner_text()


@pytest.mark.parametrize("metric", ["scale_max_abs", "scale_ratio", "weight_ratio", "output_error"])
def test_the_heat_map_shows_what_is_chosen(watched, metric):
    page = watched.open("layers=6&tokens=32").page
    live = watched.rests(32, 6)
    before = live.painted(live.field)
    live.shows(metric=metric)
    watched.expect_text(f"variant 0, {metric}")
    live.shows(variant=1)
    watched.expect_text(f"variant 1, {metric}")
    about = METRICS[metric]
    described = f"Heat map: {about.title}, {about.symbol}, of stable float32; 6 layers by 32 tokens."
    until(lambda: _equal(live.description()[: len(described)], described), page)
    assert live.map.locator("figcaption").inner_text() == about.meaning
    assert live.painted(live.field) != before
    name, table = live.save("the heat map", "CSV")
    run = harness.whole(6, 32)
    assert name == f"{stem(run)}-{metric.replace('_', '-')}-{run.variants[1].slug}.csv"
    rows = list(csv.reader(io.StringIO(table.decode("utf-8-sig"))))
    assert (len(rows), len(rows[0])) == (33, 8)
    assert rows[25][1] == "' =2+2"
    if metric != "weight_ratio":
        found = np.array([row[2:] for row in rows[1:]], np.float32)
        assert np.array_equal(found, run.field(metric, 1).T)


def _equal(found: object, expected: object) -> None:
    assert found == expected


def test_figures_are_saved_as_pictures_and_numbers(watched):
    watched.open("layers=6&tokens=32")
    live, run = watched.rests(32, 6), harness.whole(6, 32)
    for what in ("the line chart", "the heat map"):
        name, drawing = live.save(what, "SVG")
        assert re.fullmatch(rf"{re.escape(stem(run))}-[a-z0-9-]+\.svg", name)
        root = ElementTree.fromstring(drawing)
        texts = "".join(root.itertext())
        assert "token" in texts
        # Long lines are broken where they have spaces.
        whole = "".join(texts.split())
        assert all("".join(words.split()) in whole for words in (run.model.name, *circumstances(run)))
        assert "10⁻" in texts
        assert len(root.findall(".//{http://www.w3.org/2000/svg}path")) > 5
        name, picture = live.save(what, "PNG")
        assert name.endswith(".png")
        assert picture.startswith(b"\x89PNG")
        assert len(picture) > 5000
    live.tab("logit gap").click()
    name, table = live.save("the line chart", "CSV")
    assert name == f"{stem(run)}-logit-linf.csv"
    rows = list(csv.DictReader(io.StringIO(table.decode("utf-8-sig"))))
    found = [float(row["direct bfloat16 written"]) for row in rows]
    assert found == run.series("logit_linf", 2).tolist()
    watched.page.get_by_text("What the marks mean").click()
    name, table = live.save("the tokens", "CSV")
    assert name == f"{stem(run)}-tokens.csv"
    rows = list(csv.DictReader(io.StringIO(table.decode("utf-8-sig"))))
    assert len(rows) == 32 * 4
    assert [row["patched"].lstrip("'") for row in rows[2::4]] == [run.top(k, 2).texts[0] for k in range(32)]


def test_a_lost_connection_is_told_and_found_again(watched):
    page = watched.open("layers=4&tokens=200&rate=10").page
    page.route("**/_ctxviz/delta/**", lambda route: route.abort())
    watched.expect_text("Connection lost, retrying")
    page.unroute("**/_ctxviz/delta/**")
    held = page.locator(".chip").count()
    page.locator(".message", has_text="Connection lost").wait_for(state="hidden", timeout=PATIENCE)
    page.locator(".chip").nth(held + 3).wait_for(timeout=PATIENCE)
    assert [query["from"] for query in watched.asked("delta")].count(["0"]) <= 2
    assert all("ERR_FAILED" in problem for problem in watched.problems)
    watched.problems.clear()


def test_a_cell_that_does_not_come_is_told_and_asked_for_again(watched):
    page = watched.open("layers=4&tokens=12").page
    live = watched.rests(12, 4)
    page.route("**/_ctxviz/cell/**", lambda route: route.abort())
    asked = len(watched.asked("cell"))
    live.chips.nth(3).click()
    page.locator(".behind .hint", has_text="could not be fetched; retrying").wait_for(timeout=PATIENCE)
    page.wait_for_timeout(3000)
    assert 2 <= len(watched.asked("cell")) - asked <= 5, "each pause is longer than the one before"
    page.unroute("**/_ctxviz/cell/**")
    until(lambda: live.agrees(3), page)
    # Nobody has to wait for the pause to end.
    page.route("**/_ctxviz/cell/**", lambda route: route.abort())
    live.chips.nth(4).click()
    page.locator(".behind .hint", has_text="could not be fetched; retrying").wait_for(timeout=PATIENCE)
    page.unroute("**/_ctxviz/cell/**")
    live.chips.nth(4).click()
    until(lambda: live.agrees(4), page)
    assert all("ERR_FAILED" in problem for problem in watched.problems)
    watched.problems.clear()


def test_the_prompt_opens_with_its_folded_tokens_hatched(watched):
    page = watched.open("layers=4&tokens=8").page
    button = page.locator(".prompt-words")
    assert button.inner_text() == "Prompt: 14 tokens, 13 folded"
    assert button.get_attribute("aria-expanded") == "false"
    button.click()
    pieces = page.locator(".prompt-chips .piece")
    assert pieces.all_inner_texts() == [readable(text) for text in harness.PROMPT]
    folded = pieces.evaluate_all("pieces => pieces.map((piece) => piece.matches('.folded'))")
    assert folded == [True] * 13 + [False]
    hatched = pieces.evaluate_all(
        "p => p.map((n) => getComputedStyle(n).backgroundImage.includes('gradient'))"
    )
    assert hatched == folded
    button.click()
    assert pieces.first.is_hidden()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("width", "columns"), [(1440, 2), (800, 2), (420, 1)])
def test_nothing_is_cut_off(watched, scheme, width, columns):
    page = watched.page
    page.set_viewport_size({"width": width, "height": 1000})
    page.emulate_media(color_scheme=scheme)
    watched.open("layers=62&tokens=100")
    live = watched.rests(100, 62)
    lefts = {round(place.bounding_box()["x"]) for place in (live.map, live.lines)}
    assert len(lefts) == columns
    assert live.view.evaluate("node => node.scrollWidth <= node.clientWidth + 6")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert ("dark" in live.view.get_attribute("class").split()) == (scheme == "dark")
    drawings = page.locator(".field > svg, .linechart > svg, .scatter > svg")
    assert drawings.count() == 3
    assert drawings.evaluate_all(CLIPPED) == []


def test_a_figure_is_drawn_described_saved_and_clicked(watched):
    page = watched.open("layers=6&tokens=12&figure=heatmap").page
    plot = page.locator(".ctxviz-plot")
    plot.locator(".main-svg").first.wait_for(timeout=PATIENCE)
    assert "6 layers" in (plot.get_attribute("aria-label") or "")
    assert page.locator(".ctxviz-figure figcaption").inner_text()
    name, drawing = watched.download("Download this figure as SVG")
    assert name == f"{heatmap(harness.whole(6, 12), 0).file_name}.svg"
    assert "Smallest denominator |h|" in "".join(ElementTree.fromstring(drawing).itertext())
    _, picture = watched.download("Download this figure as PNG")
    assert picture.startswith(b"\x89PNG")
    _, table = watched.download("Download this figure as CSV")
    assert table.decode("utf-8-sig").startswith("step,token,layer,")
    plot.scroll_into_view_if_needed()
    surface = page.locator(".ctxviz-plot .nsewdrag").first
    box = surface.bounding_box()
    centre = {"x": box["width"] * 3.5 / 12, "y": box["height"] * 2.5 / 6}
    surface.hover(position=centre)
    page.wait_for_timeout(300)
    surface.click(position=centre)
    watched.expect_text("data=[3, 3, ")
