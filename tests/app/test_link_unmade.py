"""A link whose run nobody made here: the pages say so, and make it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctxviz.run import Run
from ctxviz.shapes.gallery import GALLERY
from ctxviz.shapes.writing import write
from tests.app.conftest import Page
from tests.app.test_numerics_pages import turn_to
from tests.synthetic import synthetic_run

PAGES = ("layers", "replay", "pictures", "compare")
PROMPT = "the robot on mars"
WORDS = "which has not been run here yet"


@pytest.fixture
def recorded() -> Run:
    return synthetic_run(6, 64, 8)


@pytest.mark.parametrize("name", PAGES)
def test_every_page_says_so_and_makes_the_run(name: str, tiny_folder: Path, recorded: Run) -> None:
    page = turn_to(Page(model=str(tiny_folder), prompt=PROMPT, tokens="2", step="1", layer="0"), name)
    assert f"“{PROMPT}”, {WORDS}; shown is {recorded.model.name}, " in page.texts()
    assert f"“{recorded.context.prompt}”, recorded earlier." in page.texts()
    page.press("generate_link")
    assert WORDS not in page.texts()
    page.wait_for("done")
    assert WORDS not in page.texts()
    assert page.session.view.run is not None
    assert page.session.view.run.context.prompt == PROMPT
    assert (page.session.focus.step, page.session.focus.layer) == (1, 0)


@pytest.mark.parametrize("name", PAGES)
def test_an_address_that_names_no_run_is_about_what_is_shown(name: str) -> None:
    assert WORDS not in turn_to(Page(step="1"), name).texts()


def test_another_model_is_another_run(tiny_folder: Path, recorded: Run) -> None:
    page = turn_to(Page(model=str(tiny_folder), prompt=recorded.context.prompt), "layers")
    assert WORDS in page.texts()


def test_a_drawn_scene_is_told_and_makes_another_run(recorded: Run) -> None:
    scene = write(GALLERY[0].scene)
    page = turn_to(Page(model="tiny-shapes", prompt=recorded.context.prompt, scene=scene), "pictures")
    assert f"tiny-shapes, “{recorded.context.prompt}” with 1 picture, {WORDS}" in page.texts()


def test_it_is_gone_once_the_reader_looks_at_something(tiny_folder: Path) -> None:
    page = turn_to(Page(model=str(tiny_folder), prompt=PROMPT), "layers")
    page.at.number_input("inspect_step").set_value(2)
    page.run()
    assert WORDS not in page.texts()


def test_it_is_gone_where_the_settings_ask_for_another_run(tiny_folder: Path) -> None:
    page = Page(model=str(tiny_folder), prompt=PROMPT)
    page.at.text_area("prompt").set_value("dust will fall")
    assert WORDS not in turn_to(page.run(), "layers").texts()


def test_a_run_of_the_tab_that_is_not_on_screen_was_made(tiny_folder: Path) -> None:
    page = Page(model=str(tiny_folder), prompt=PROMPT, tokens="1").press("generate").wait_for("done")
    link = page.session.link
    page.session.show_recorded()
    page.session.link = link
    assert WORDS not in turn_to(page.run(), "layers").texts()


def test_what_it_quotes_is_cut_and_stays_text(tiny_folder: Path) -> None:
    page = turn_to(Page(model=str(tiny_folder), prompt="<b>x</b> " + "dust " * 60), "layers")
    (line,) = [words for words in page.texts().splitlines() if WORDS in words]
    assert "“<b>x</b> dust" in line
    assert len(line) < 400
