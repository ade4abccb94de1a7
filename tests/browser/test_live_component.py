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

from ctxviz.replaying import differs, ties
from tests.browser import harness
from tests.browser.conftest import CHROMIUM_FLAGS, chromium

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]
TOKENS_PER_SECOND = 20
WATCHED_SECONDS = 4
LEAST_UPDATES_PER_SECOND = 4
MOST_BYTES_PER_TOKEN = 2048
PATIENCE = 60_000

WATCH = """
window.shown = [];
const timer = setInterval(() => {
  const host = document.querySelector("[data-testid=stBidiComponentIsolated]");
  const strip = host?.shadowRoot?.querySelector(".strip");
  if (!strip) return;
  clearInterval(timer);
  const look = () => window.shown.push([Date.now(), strip.childElementCount]);
  new MutationObserver(() => requestAnimationFrame(look)).observe(strip, { childList: true });
}, 5);
"""

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
    watched.page.wait_for_timeout(1000 * WATCHED_SECONDS)
    shown = watched.page.evaluate("window.shown")
    updates = (len(shown) - 1) / ((shown[-1][0] - shown[0][0]) / 1000)
    assert updates >= LEAST_UPDATES_PER_SECOND
    assert shown[-1][1] >= 0.7 * TOKENS_PER_SECOND * WATCHED_SECONDS
    bodies = [answer.body() for answer in answers]
    grown = [(len(body), len(json.loads(body).get("tokens", []))) for body in bodies[2:]]
    spent, received = (sum(column) for column in zip(*grown, strict=True))
    assert received > TOKENS_PER_SECOND
    assert spent / received <= MOST_BYTES_PER_TOKEN


def test_asking_ends_with_the_run_and_all_of_it_is_there(watched):
    watched.open("layers=6&tokens=24&rate=20")
    watched.wait_until_state("done")
    watched.page.wait_for_timeout(300)
    before = len(watched.asked("delta"))
    watched.page.wait_for_timeout(1500)
    assert len(watched.asked("delta")) == before
    assert watched.page.locator(".chip").count() == 24
    watched.expect_text("Finished · 24 tokens")
    assert "24 tokens" in (watched.page.locator(".plot svg").first.get_attribute("aria-label") or "")
    legend = watched.page.locator(".figures > .legend").inner_text()
    assert {"noise floor float32", "no patch bfloat16"} <= set(legend.splitlines())


def test_text_of_a_model_stays_text(watched):
    watched.open("layers=4&tokens=32")
    assert watched.page.locator(".chip", has_text="<img src=x>").count() == 1
    assert watched.page.locator(".view img").count() == 0
    label = watched.page.locator(".chip").nth(22).get_attribute("aria-label") or ""
    assert label.startswith("token 22 “·<img src=x>”: ") or "token 22 “<img src=x>”: " in label


def test_a_token_is_told_in_words_as_it_is_marked(watched):
    chips = watched.open("layers=4&tokens=32").page.locator(".written .chip")
    watched.wait_until_state("done")
    told = chips.evaluate_all(
        "chips => chips.map(c => [c.title, [...c.querySelectorAll('.others bdi')].map(b => b.textContent)])"
    )
    assert any(others for _, others in told)
    for words, others in told:
        assert set(re.findall(r"said(?: \(a tie inside the noise floor\))? “(.*?)”", words)) == set(others)
        assert ("every patched model said the same" in words) == (not others)


def test_clicks_and_keys_pick_tokens_and_cells(watched):
    page = watched.open("layers=18&tokens=32").page
    page.locator(".chip").nth(5).click()
    watched.expect_text("Picked(step=5, layer=None, variant=0)")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    watched.expect_text("Picked(step=6, layer=None, variant=0)")
    assert page.locator(".chip[aria-pressed=true]").count() == 1
    field = page.locator(".field")
    field.scroll_into_view_if_needed()
    box = field.bounding_box()
    page.mouse.click(box["x"] + 52 + 1, box["y"] + box["height"] - 46 - 2)
    watched.expect_text("Picked(step=0, layer=0, variant=0)")
    field.focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowUp"):
        page.keyboard.press(key)
    assert page.locator(".tip-title").inner_text().startswith("layer 1, token 2")
    page.keyboard.press("Enter")
    watched.expect_text("Picked(step=2, layer=1, variant=0)")
    page.locator(".plot").nth(2).focus()
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    watched.expect_text("Picked(step=31, layer=None, variant=0)")
    # Five script runs later nothing was fetched twice.
    assert [query["from"] for query in watched.asked("delta")].count(["0"]) == 1


def test_hovering_a_chart_lists_its_values(watched):
    page = watched.open("layers=6&tokens=32").page
    plot = page.locator(".plot").first
    plot.scroll_into_view_if_needed()
    plot.hover(position={"x": 150, "y": 100})
    rows = page.locator(".tip").inner_text().splitlines()
    assert rows[0].startswith("token ")
    assert {"direct float32", "stable bfloat16", "no patch float32"} <= set(rows)
    page.mouse.move(2, 2)
    assert page.locator(".tip").is_hidden()


def test_a_replay_marks_ties_and_tokens_without_a_number(watched):
    page = watched.open("layers=6&tokens=12&replays=1").page
    plot = page.locator(".plot[aria-label^='TVD when replayed']")
    drawing = plot.locator("svg")
    label = drawing.get_attribute("aria-label") or ""
    assert "no number at 1 token" in next(part for part in label.split("; ") if "stable float32" in part)
    assert label.count("no number") == 1
    run = harness.replayed(6, 12)
    variants = range(len(run.variants))
    other, tie = (
        np.stack(found)
        for found in zip(*((differs(run, k, "batch"), ties(run, k)) for k in variants), strict=True)
    )
    assert (other & tie)[1].tolist() == [step == 6 for step in range(12)]
    assert drawing.locator("text", has_text="≈").count() == (other & tie).sum()
    crosses = drawing.locator("path[stroke-width='2.4']").get_attribute("d") or ""
    # One more above the top edge, where there is no number.
    assert crosses.count("M") == (other & ~tie).sum() + 1
    assert crosses.count(",17.0l10,10") == 1
    line = drawing.locator("path[stroke-linejoin=round]").nth(1).get_attribute("d") or ""
    assert line.count("M") == 2, "the line breaks where there is no number"
    plot.focus()
    page.keyboard.press("Home")
    for _ in range(9):
        page.keyboard.press("ArrowRight")
    assert "stable float32" in page.locator(".tip").inner_text()
    assert "no number" in page.locator(".tip").inner_text()
    page.keyboard.press("ArrowLeft")
    assert "no number" not in page.locator(".tip").inner_text()
    held = page.locator(".plot[aria-label^='TVD, one patch held'] svg").get_attribute("aria-label") or ""
    assert "no number" not in held


def test_the_heat_map_shows_what_is_chosen(watched):
    page = watched.open("layers=6&tokens=32").page
    page.get_by_label("The heat map shows").select_option("scale_ratio")
    watched.expect_text("field scale_ratio 0")
    page.get_by_label("The heat map is of").select_option("1")
    watched.expect_text("field scale_ratio 1")
    page.locator(".field svg[aria-label*='of stable float32; 6 layers by 32 tokens']").wait_for(
        timeout=PATIENCE
    )
    name, table = watched.download("Download the heat map as CSV")
    assert name == "ctxviz-scale-ratio-a-synthetic-model.csv"
    rows = list(csv.reader(io.StringIO(table.decode())))
    assert (len(rows), len(rows[0])) == (33, 8)
    assert rows[25][1] == "' =2+2"


def test_figures_are_saved_as_pictures(watched):
    watched.open("layers=6&tokens=32")
    for what in ("“Total-variation distance”", "the heat map"):
        name, drawing = watched.download(f"Download {what} as SVG")
        assert name.endswith(".svg")
        root = ElementTree.fromstring(drawing)
        texts = "".join(root.itertext())
        assert "token" in texts
        assert "10⁻" in texts
        assert len(root.findall(".//{http://www.w3.org/2000/svg}path")) > 5
        name, picture = watched.download(f"Download {what} as PNG")
        assert name.endswith(".png")
        assert picture.startswith(b"\x89PNG")
        assert len(picture) > 5000


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


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("width", "columns"), [(1440, 3), (800, 1)])
def test_nothing_is_cut_off(watched, scheme, width, columns):
    page = watched.page
    page.set_viewport_size({"width": width, "height": 1000})
    page.emulate_media(color_scheme=scheme)
    watched.open("layers=62&tokens=100")
    page.wait_for_timeout(300)
    lefts = {round(page.locator(".plot").nth(i).bounding_box()["x"]) for i in range(3)}
    assert len(lefts) == columns
    view = page.locator(".view")
    assert view.evaluate("node => node.scrollWidth <= node.clientWidth + 6")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert ("dark" in view.get_attribute("class").split()) == (scheme == "dark")
    assert page.locator(".plot svg").evaluate_all(CLIPPED) == []


def test_a_figure_is_drawn_described_saved_and_clicked(watched):
    page = watched.open("layers=6&tokens=12&figure=heatmap").page
    plot = page.locator(".ctxviz-plot")
    plot.locator(".main-svg").first.wait_for(timeout=PATIENCE)
    assert "6 layers" in (plot.get_attribute("aria-label") or "")
    assert page.locator(".ctxviz-figure figcaption").inner_text()
    name, drawing = watched.download("Download this figure as SVG")
    assert name == "ctxviz-synthetic.svg"
    assert "Smallest denominator |h|" in "".join(ElementTree.fromstring(drawing).itertext())
    _, picture = watched.download("Download this figure as PNG")
    assert picture.startswith(b"\x89PNG")
    _, table = watched.download("Download this figure as CSV")
    assert table.decode().splitlines()[0].startswith("step,token,layer,")
    plot.scroll_into_view_if_needed()
    surface = page.locator(".ctxviz-plot .nsewdrag").first
    box = surface.bounding_box()
    centre = {"x": box["width"] * 3.5 / 12, "y": box["height"] * 2.5 / 6}
    surface.hover(position=centre)
    page.wait_for_timeout(300)
    surface.click(position=centre)
    watched.expect_text("data=[3, 3, ")
