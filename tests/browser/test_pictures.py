"""Pictures as context in a real Chromium, with the shipped model that reads drawn shapes."""

from __future__ import annotations

import io
import re
from collections.abc import Callable

import numpy as np
import pytest

from ctxviz.shapes.scenes import Scene, Thing
from ctxviz.shapes.writing import write
from tests.browser.conftest import PATIENCE, Tab
from tests.other_drawing import draw as draw_otherwise

pytestmark = pytest.mark.browser
OpenTab = Callable[..., Tab]

SCENE = Scene((Thing(0, "red", "circle"), Thing(4, "blue", "square")))
CAPTION = "a red circle at the top left and a blue square in the middle"


def written(tab: Tab) -> str:
    """The run's text, from its chips."""
    said = "".join(tab.page.locator(".written .chip").all_inner_texts())
    return said.replace("·", " ").split("<end_of_turn>")[0].strip()


def generate(tab: Tab) -> None:
    """A run of a prompt with one picture, to its end; before it the recorded run is on screen."""
    tab.ready().press("Generate").says("16 of them one picture").until("done")


def open_pictures(tab: Tab) -> None:
    """The box of the prompt's pictures."""
    tab.page.get_by_role("button", name=re.compile(r"Add a picture|Pictures · \d")).click()


def choose_file(tab: Tab, name: str, data: bytes) -> None:
    open_pictures(tab)
    tab.page.get_by_text("From files", exact=True).click()
    tab.ready()
    given = {"name": name, "mimeType": "application/octet-stream", "buffer": data}
    tab.page.get_by_test_id("stFileUploaderDropzoneInput").first.set_input_files(given)
    tab.says(name)


def png(scene: Scene) -> bytes:
    target = io.BytesIO()
    draw_otherwise(scene, np.random.default_rng(0)).save(target, "PNG")
    return target.getvalue()


def test_an_uploaded_picture_is_described_and_folded_alone(new_tab: OpenTab) -> None:
    tab = new_tab(model="tiny-shapes", prompt="Describe the picture.", update="stable")
    choose_file(tab, "scene.png", png(SCENE))
    tab.says("scene.png").says("400 × 400 px")
    generate(tab)
    assert written(tab) == CAPTION
    assert (
        tab.page.locator(".headline").inner_text().startswith("Without any context, the patched model said")
    )
    tab.page.locator(".prompt-words").click()
    tiles = tab.page.locator(".tiles .tile")
    tiles.first.wait_for()
    assert tiles.count() == 16
    tiles.nth(6).hover()
    tab.says("image token 7 of 16")
    tab.page.get_by_text("Fold only the picture", exact=True).click()
    tab.ready()
    tab.asks(fold="image").press("Generate")
    tab.says("With the picture folded into weights, the patched model said")
    tab.until("done")
    assert written(tab) == CAPTION


def test_a_bad_file_is_told_and_the_next_run_works(new_tab: OpenTab) -> None:
    tab = new_tab(
        model="tiny-shapes", prompt="How many shapes are there?", update="stable", scene=write(SCENE)
    )
    choose_file(tab, "holiday.png", b"this is no picture")
    tab.says("holiday.png")
    assert tab.page.get_by_test_id("stImage").count() >= 1, "the picture that was there went away"
    generate(tab)
    assert written(tab) == "two"


def test_a_link_reopens_a_drawn_scene_and_a_changed_thing_changes_the_answer(new_tab: OpenTab) -> None:
    tab = new_tab(
        model="tiny-shapes", prompt="What colour is the circle?", scene=write(SCENE), update="stable"
    )
    generate(tab)
    assert written(tab) == "red"
    other = Scene((Thing(0, "green", "circle"), Thing(4, "blue", "square")), "black")
    second = new_tab(
        model="tiny-shapes", prompt="What colour is the circle?", scene=write(other), update="stable"
    )
    generate(second)
    assert written(second) == "green"


def test_a_text_model_shows_the_way_to_pictures(new_tab: OpenTab) -> None:
    tab = new_tab()
    tab.press("Use a picture as context").ready()
    tab.asks(model="gemma-3-270m-pictures").ready()
    open_pictures(tab)
    tab.says("Draw a scene")


def test_the_pictures_page_asks_what_the_patches_carry(new_tab: OpenTab) -> None:
    from playwright.sync_api import expect

    tab = new_tab(
        model="tiny-shapes", prompt="Describe the picture.", scene=write(SCENE), update="stable", fold="image"
    )
    generate(tab)
    tab.page.get_by_role("link", name="Pictures").click()
    tab.ready().says("Ask without the picture")
    answer = tab.page.locator(".st-key-answer0 .ctxviz-sentence").last
    expect(answer).to_have_text(f"{CAPTION} <end_of_turn>")
    expect(answer.locator(".ctxviz-token")).to_have_text("<end_of_turn>")
    tab.press("Cover 16 squares")
    figure = tab.page.locator(".ctxviz-figure", has_text="What the patches of token")
    figure.wait_for()
    caption = figure.locator("figcaption")
    expect(caption).not_to_contain_text("not covered yet", timeout=PATIENCE)
    figure.get_by_text("What is this?").click()
    expect(caption).to_contain_text("Control: the distances of the model that has the picture")
    told = figure.locator(".ctxviz-plot").get_attribute("aria-label") or ""
    rows = re.findall(r"row [1-4]: ([^;]*?)(?:;|\.(?: |$))", told.split("TVD after covering each")[1])
    assert [len(row.split(", ")) for row in rows] == [4] * 4
    assert "none" not in " ".join(rows)
    expect(tab.page.get_by_role("button", name="Stop", exact=True)).to_have_count(0, timeout=PATIENCE)
