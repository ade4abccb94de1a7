"""A figure saved as SVG or PNG by a real Chromium says what it is of, uncut."""

from __future__ import annotations

import functools
import http.server
import re
import threading
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ctxviz.figures.card import FigureCard, to_csv
from ctxviz.figures.coordinates import coordinates
from ctxviz.figures.everywhere import everywhere
from ctxviz.figures.multiplier import multiplier
from ctxviz.figures.palette import THEMES
from ctxviz.figures.rounding import rounding
from ctxviz.figures.scales import scales
from ctxviz.figures.spectrum import spectrum
from ctxviz.figures.subject import stem
from ctxviz.run import Run
from tests.synthetic import synthetic_run

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Page

pytestmark = pytest.mark.browser

FRONTEND = Path(__file__).parents[2] / "ctxviz" / "ui" / "frontend"
PAGE = """<!doctype html><meta charset="utf-8"><title>figure</title><div id="here"></div>
<script type="module">
  import { Figure } from "./figure.js";
  window.show = (data, width) => {
    const root = document.getElementById("here");
    root.replaceChildren();
    root.style.width = `${width}px`;
    window.figure = new Figure(root);
    window.figure.update({ data, setTriggerValue: () => {} });
  };
</script>"""
STEP, LAYER, VARIANT = 3, 1, 1
CELL = {make.__name__: make for make in (coordinates, scales, spectrum, rounding, multiplier)}
_PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The page's own modules and plotly.js, and nothing of Streamlit."""
    import plotly

    folder = tmp_path_factory.mktemp("served")
    for path in FRONTEND.iterdir():
        (folder / path.name).symlink_to(path)
    library = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
    (folder / "plotly.min.js").symlink_to(library)
    (folder / "page.html").write_text(PAGE, encoding="utf-8")
    (folder / "favicon.ico").write_bytes(b"")
    handler = functools.partial(_Quiet, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/page.html"
    server.shutdown()
    server.server_close()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture
def page(chrome: BrowserContext, address: str) -> Iterator[Page]:
    opened = chrome.new_page()
    problems: list[str] = []
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.goto(address)
    opened.wait_for_function("() => Boolean(window.show)")
    yield opened
    opened.close()
    assert problems == []


@pytest.fixture(scope="module")
def run() -> Run:
    return synthetic_run(4, 16, 6, updates=["direct", "floored"])


def show(page: Page, card: FigureCard, width: int = 560) -> None:
    data = {
        "figure": card.figure.to_json(),
        "title": card.title,
        "caption": card.caption,
        "more": card.more,
        "alt": card.alt,
        "csv": to_csv(card.table),
        "subject": card.subject,
        "file_name": card.file_name,
        "themes": {theme: asdict(colours) for theme, colours in THEMES.items()},
    }
    page.evaluate("([data, width]) => window.show(data, width)", [data, width])
    page.locator(".ctxviz-plot .main-svg").first.wait_for()


def saved(page: Page, kind: str) -> tuple[bytes, str]:
    """The bytes of a download and its file's name."""
    with page.expect_download() as download:
        page.get_by_role("button", name=f"Download this figure as {kind}").click()
    return download.value.path().read_bytes(), download.value.suggested_filename


def lines_of(svg: bytes) -> list[str]:
    """The lines above the figure, as the file has them."""
    root = ElementTree.fromstring(svg)
    (title,) = [node for node in root.iter() if "gtitle" in node.get("class", "").split()]
    rows = [node for node in title if node.tag.endswith("tspan") and "line" in node.get("class", "")]
    return ["".join(row.itertext()) for row in rows] or ["".join(title.itertext())]


def joined(lines: list[str]) -> str:
    return re.sub(r"\s+", " ", " ".join(lines))


@pytest.mark.parametrize("width", [330, 560])
@pytest.mark.parametrize("name", CELL)
def test_a_saved_cell_names_model_layer_token_and_variant(
    page: Page, run: Run, name: str, width: int
) -> None:
    card = CELL[name](run, STEP, LAYER, VARIANT)
    show(page, card, width)
    svg, file = saved(page, "SVG")
    words = joined(lines_of(svg))
    assert words == joined([card.title, card.subject])
    for part in (run.model.name, f"layer {LAYER}", f"token {STEP}", run.variants[VARIANT].update):
        assert part in words
    slug = run.variants[VARIANT].slug
    assert file == f"{stem(run)}-token{STEP}-layer{LAYER}-{slug}-{name}.svg"


def test_one_coordinate_everywhere_names_itself(page: Page, run: Run) -> None:
    show(page, everywhere(run, 7, VARIANT), 900)
    svg, file = saved(page, "SVG")
    assert "coordinate 7" in joined(lines_of(svg))
    assert file == f"{stem(run)}-coordinate7-{run.variants[VARIANT].slug}-everywhere.svg"


@pytest.mark.parametrize("width", [330, 560, 1100])
def test_nothing_of_the_heading_is_cut_or_covers_the_figure(page: Page, run: Run, width: int) -> None:
    """The saved SVG, drawn again: every line of the heading lies on the paper and above the plot."""
    card = replace(coordinates(run, STEP, LAYER, VARIANT), subject="a long model's name, " * 8 + "x" * 200)
    show(page, card, width)
    svg, _ = saved(page, "SVG")
    boxes = page.evaluate(
        """(text) => {
          const root = document.getElementById("here");
          root.innerHTML = "";
          root.append(new DOMParser().parseFromString(text, "image/svg+xml").documentElement);
          const box = (node) => {
            const { left, top, right, bottom } = node.getBoundingClientRect();
            return [left, top, right, bottom];
          };
          const svg = root.querySelector("svg");
          const marks = [...svg.querySelectorAll(".cartesianlayer .plot, .infolayer .annotation")];
          return {
            paper: box(svg), title: box(svg.querySelector(".gtitle")),
            top: Math.min(...marks.map((node) => node.getBoundingClientRect().top)),
          };
        }""",
        svg.decode(),
    )
    (left, top, right, _), title = boxes["paper"], boxes["title"]
    assert left <= title[0]
    assert title[2] <= right
    assert top <= title[1]
    assert title[3] <= boxes["top"] + 1


def test_a_hostile_subject_is_text_in_the_file(page: Page, run: Run) -> None:
    hostile = "<b>x</b> &amp; $y^2$ <a href='http://example.com'>a</a>"
    show(page, replace(coordinates(run, STEP, LAYER, VARIANT), subject=hostile), 900)
    svg, _ = saved(page, "SVG")
    assert lines_of(svg)[-1] == hostile


def test_the_png_has_the_same_heading_and_name(page: Page, run: Run) -> None:
    card = coordinates(run, STEP, LAYER, VARIANT)
    sizes = {}
    for subject in ("", card.subject):
        show(page, replace(card, subject=subject))
        png, file = saved(page, "PNG")
        assert png.startswith(_PNG)
        sizes[bool(subject)] = [int.from_bytes(png[k : k + 4], "big") for k in (16, 20)]
        assert file == f"{card.file_name}.png"
    assert sizes[True][0] == sizes[False][0]
    assert sizes[True][1] > sizes[False][1], "room for the line on what it is of"
