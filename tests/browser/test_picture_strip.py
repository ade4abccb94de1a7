"""Pictures of a prompt as tiles, in a real Chromium: where they stand, what they say, who can reach them."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.browser

ROOT = Path(__file__).parents[2]
PATIENCE = 60_000
LARGEST_TAB_STOPS = 1

SHOWN = """
image => image.complete && image.naturalWidth > 0 && image.naturalWidth === image.naturalHeight
"""
ORDER = """
chips => [...chips.children].map(node => node.matches(".picture") ? "picture" : node.textContent)
"""
CENTRES = """
grid => {
  const box = grid.querySelector("img").getBoundingClientRect();
  return [...grid.querySelectorAll(".tile")].map(tile => {
    const at = tile.getBoundingClientRect();
    return [(at.left + at.width / 2 - box.left) / box.width, (at.top + at.height / 2 - box.top) / box.height];
  });
}
"""


@pytest.fixture
def show(chrome, harness) -> Iterator:
    """Opens a page on a run with pictures; at the end nothing may have gone wrong in it."""
    page = chrome.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda said: said.type == "error" and problems.append(said.text))

    def show(query: str, width: int = 1440, scheme: str = "light"):
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        page.goto(f"{harness}/?{query}")
        page.locator(".prompt-words").click(timeout=PATIENCE)
        page.locator(".prompt-chips > *").first.wait_for(timeout=PATIENCE)
        page.problems = problems
        return page

    yield show
    page.close()
    assert problems == []


def focused(page) -> str:
    """What the focused tile says."""
    return page.locator(".tile:focus").get_attribute("aria-label")


def test_a_picture_stands_in_its_place_as_tiles(show):
    page = show("sides=4&fold=3:9&sizes=128")
    assert page.locator(".prompt-chips").evaluate(ORDER) == [
        "<bos>", "picture", "⏎⏎", "Describe", "·the", "·picture", ".", "⏎"
    ]  # fmt: skip
    summary = "Prompt: 25 tokens, 16 of them one picture, 6 folded"
    assert page.locator(".prompt-words").inner_text() == summary
    caption = page.locator(".picture figcaption").inner_text()
    assert "4 × 4 image tokens at positions 2 to 17, and the marks before and after them; " in caption
    assert "; 6 of 16 image tokens and 0 of 2 marks folded into the weights." in caption
    assert "Squeezed to a square, as the model reads it; it is 256 × 128 pixels." in caption
    assert "6 of 16 image tokens and 0 of 2 marks folded" in page.get_by_role("grid").get_attribute(
        "aria-label"
    )
    folded = page.locator(".tile").evaluate_all("tiles => tiles.map(tile => tile.matches('.folded'))")
    assert [i for i, is_folded in enumerate(folded) if is_folded] == [1, 2, 3, 4, 5, 6]
    hatches = page.locator(".tile").evaluate_all(
        "t => t.map(n => getComputedStyle(n).backgroundImage !== 'none')"
    )
    assert hatches == folded


def test_every_tile_lies_over_its_part_of_the_squeezed_picture(show):
    page = show("sides=4&fold=all&sizes=128")
    picture = page.locator(".tiles img")
    picture.evaluate("image => image.decode()")
    assert picture.evaluate("image => [image.naturalWidth, image.naturalHeight]") == [256, 128]
    box = picture.bounding_box()
    assert box["width"] == box["height"]
    assert picture.evaluate("image => getComputedStyle(image).objectFit") == "fill"
    expected = [[(column + 0.5) / 4, (row + 0.5) / 4] for row in range(4) for column in range(4)]
    for centre, ideal in zip(page.locator(".tiles").evaluate(CENTRES), expected, strict=True):
        assert centre == pytest.approx(ideal, abs=0.01)


def test_a_tile_says_its_token_when_pointed_at(show):
    page = show("sides=4&fold=3:9")
    page.locator(".tile").nth(5).hover()
    words = "image token 6 of 16 · row 2, column 2 · position 7 · folded"
    assert page.locator(".prompt-panel .tip").inner_text() == words
    page.locator(".tile").nth(0).hover()
    assert page.locator(".prompt-panel .tip").inner_text().endswith("position 2 · kept")
    page.locator(".headline").hover()
    assert page.locator(".prompt-panel .tip").is_hidden()


def test_256_tiles_are_one_tab_stop_and_the_arrows_move(show):
    page = show("sides=16&fold=image")
    assert page.locator(".tile").count() == 256
    assert page.locator(".tile[tabindex='0']").count() == LARGEST_TAB_STOPS
    page.locator(".prompt-words").focus()
    for _ in range(3):
        page.keyboard.press("Tab")
        if page.locator(".tile:focus").count():
            break
    assert focused(page).startswith("image token 1 of 256")
    for key, words in [
        ("ArrowDown", "image token 17 of 256 · row 2, column 1 · position 18"),
        ("ArrowRight", "image token 18 of 256"),
        ("ArrowUp", "image token 2 of 256"),
        ("ArrowUp", "image token 2 of 256"),
        ("ArrowLeft", "image token 1 of 256"),
        ("End", "image token 256 of 256 · row 16, column 16 · position 257"),
        ("ArrowRight", "image token 256 of 256"),
    ]:
        page.keyboard.press(key)
        assert focused(page).startswith(words), key
        assert page.locator(".prompt-panel .tip").inner_text() == focused(page)
    assert page.locator(".tile[tabindex='0']").count() == LARGEST_TAB_STOPS
    page.keyboard.press("Tab")
    assert page.locator(".tile:focus").count() == 0
    assert page.locator(".prompt-panel .tip").is_hidden()


def test_the_picture_is_fetched_once_for_all_its_tiles(show, chrome):
    asked: list[str] = []
    listen = lambda request: "/_ctxviz/picture/" in request.url and asked.append(request.url)  # noqa: E731
    chrome.on("request", listen)
    page = show("sides=16&fold=all")
    page.wait_for_function("document.readyState === 'complete'")
    page.locator(".tiles img").evaluate("image => image.decode()")
    assert page.locator(".tiles img").evaluate(SHOWN)
    chrome.remove_listener("request", listen)
    assert len(asked) == 1


def test_without_the_picture_there_are_plain_numbered_tiles_and_a_note(show):
    page = show("sides=4,16&fold=image:2&lost=1")
    assert page.locator(".picture").count() == 2
    assert page.locator(".tiles img").count() == 0
    first, second = page.locator(".tiles").all()
    assert first.locator(".tile").all_inner_texts() == [str(i + 1) for i in range(16)]
    assert set(second.locator(".tile").all_inner_texts()) == {""}
    notes = page.locator(".picture figcaption").all_inner_texts()
    pattern = (
        r"Picture 2: 16 × 16 .* all folded into the weights\.\s+The picture itself is not stored in this run"
    )
    assert re.search(pattern + r"; sha256 [0-9a-f]{12}…", notes[1])
    assert "all kept as input" in notes[0]
    assert (
        page.locator(".tile")
        .nth(20)
        .get_attribute("aria-label")
        .startswith("picture 2, image token 5 of 256")
    )
    assert "272 of them in 2 pictures, 258 folded" in page.locator(".prompt-words").inner_text()


def test_a_picture_that_does_not_come_is_said(show):
    page = show("sides=4&fold=all")
    page.route("**/_ctxviz/picture/**", lambda route: route.abort())
    page.goto(page.url)
    page.locator(".prompt-words").click(timeout=PATIENCE)
    page.get_by_text("The picture could not be fetched").wait_for(timeout=PATIENCE)
    assert page.locator(".tiles.blank .tile").count() == 16
    assert all("ERR_FAILED" in problem for problem in page.problems)
    page.problems.clear()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 500])
def test_tiles_and_their_tooltip_fit_the_page(show, width, scheme):
    page = show("sides=16,4&fold=5:100", width, scheme)
    page.locator(".tile").nth(8 * 16 + 15).hover()
    view = page.locator(".view").bounding_box()
    grid, tip = page.locator(".tiles").first.bounding_box(), page.locator(".prompt-panel .tip").bounding_box()
    for box in (grid, tip):
        assert box["x"] >= view["x"] - 1
        assert box["x"] + box["width"] <= view["x"] + view["width"] + 1
    right_of, below = tip["x"] >= grid["x"] + grid["width"], tip["y"] >= grid["y"] + grid["height"]
    assert right_of or below
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    seam = page.locator(".tiles").first.evaluate("grid => getComputedStyle(grid).borderTopColor")
    assert seam not in ("rgb(255, 255, 255)", "rgb(0, 0, 0)")
