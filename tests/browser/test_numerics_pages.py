"""The Layers, Replay and Compare pages in a real Chromium: the recorded run, and a tiny model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ctxviz.store import load_patch
from tests.browser.conftest import Tab, has_value
from tests.tiny_models import save_tiny_folder, tiny_gemma3

pytestmark = pytest.mark.browser
OpenTab = Callable[..., Tab]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    model = tiny_gemma3(num_hidden_layers=6, max_position_embeddings=1024)
    return str(save_tiny_folder(tmp_path_factory.mktemp("tiny"), model))


def go(tab: Tab, name: str) -> Tab:
    tab.page.get_by_role("link", name=name, exact=True).click()
    tab.page.wait_for_url(f"**/{name.lower()}**")
    return tab.ready()


def line_charts(tab: Tab) -> list[str]:
    """The names of the line charts of the live view, of which one is shown."""
    return tab.page.get_by_role("tablist", name="Line charts").get_by_role("tab").all_inner_texts()


def test_layers_shows_two_linked_maps_and_the_cell_behind_them(new_tab: OpenTab) -> None:
    tab = new_tab("layers", variant="1", step="6", layer="4")
    tab.says("Behind token 6")
    maps = tab.page.locator("canvas")
    assert maps.count() >= 2
    tab.says("its denominators in order").says("the scale before and after").says(
        "what rounding the scale costs"
    )
    tab.says("the change against λ / m")
    field = tab.page.get_by_role("application").first
    field.focus()
    field.press("ArrowUp")
    field.press("ArrowRight")
    field.press("Enter")
    tab.page.get_by_role("heading", name="Behind token 7,").wait_for()
    tab.asks(step="7", layer="5")


def test_layers_selectors_are_part_of_the_address(new_tab: OpenTab) -> None:
    tab = new_tab("layers")
    tab.page.get_by_label("The left map shows").first.select_option("dead")
    tab.asks(left="dead")
    again = new_tab("layers", **tab.query)
    has_value(again.page.get_by_label("The left map shows").first, "dead")


def test_an_alarm_row_leads_to_its_place(new_tab: OpenTab) -> None:
    tab = new_tab("layers")
    tab.page.get_by_role("button", name="blow-up").click()
    tab.ready().says("Fires at:")
    grid = tab.page.locator("[data-testid=stDataFrame]").last
    grid.scroll_into_view_if_needed()
    box = grid.bounding_box()
    assert box is not None
    tab.page.mouse.click(box["x"] + 20, box["y"] + 55)
    tab.page.wait_for_url("**step=*")


def test_replay_of_a_recorded_run_says_what_it_means(new_tab: OpenTab) -> None:
    tab = new_tab("replay")
    tab.says("The weights do not carry the context").says("bit for bit")
    tab.says("How a small difference grows").says("Error budget").says("One token's weights kept")
    tab.page.get_by_text("stable float32", exact=True).first.click()
    tab.says("The weights carry the context: TVD up to")
    tab.page.locator(".st-key-replay-explained summary").click()
    tab.says("The weights carry the context: even run")


def test_a_run_is_replayed_from_the_page_and_the_first_one_is_a_click_away(
    new_tab: OpenTab, tiny: str
) -> None:
    tab = new_tab(model=tiny, tokens="4", prompt="the and the", update="direct,stable")
    tab.press("Generate").writes(4).until("done")
    go(tab, "Replay").says("made without replays")
    tab.press("Replay this run")
    tab.page.get_by_text("The weights").first.wait_for()
    tab.says("bit for bit")
    tab.press("← Previous run").says("made without replays")


def test_replays_are_drawn_live(new_tab: OpenTab, tiny: str) -> None:
    tab = new_tab(
        model=tiny, tokens="5", prompt="the and the", update="direct,stable", replay="batch,ulp", hold="1"
    )
    tab.press("Generate").writes(5).until("done")
    assert line_charts(tab)[3:] == ["run again", "held"]
    assert "the finished weights of" in tab.page.locator(".detail").inner_text()


def test_a_run_without_replays_has_three_charts(new_tab: OpenTab, tiny: str) -> None:
    tab = new_tab(model=tiny, tokens="3", prompt="the and the")
    tab.press("Generate").writes(3).until("done")
    assert len(line_charts(tab)) == 3


def test_a_patch_is_taken_away(new_tab: OpenTab, tiny: str, tmp_path: Path) -> None:
    tab = new_tab(model=tiny, tokens="3", prompt="the and the", update="stable")
    tab.press("Generate").writes(3).until("done")
    tab.tokens.nth(1).click()
    tab.asks(step="1")
    go(tab, "Layers").says("Behind token 1")
    tab.press("Build the patch of token 1")
    with tab.page.expect_download() as download:
        tab.press("Patch (safetensors)")
    target = tmp_path / download.value.suggested_filename
    download.value.save_as(target)
    patches, about = load_patch(target)
    assert len(patches) == 6
    assert about["step"] == "1"
    tab.page.get_by_text("The script, to read", exact=True).click()
    tab.says("AutoModelForCausalLM")


def test_a_sweep_runs_from_the_page(new_tab: OpenTab, tiny: str) -> None:
    tab = new_tab("compare", model=tiny, tokens="2", prompt="the and the")
    tab.page.get_by_text("Make a sweep", exact=True).click()
    tab.ready()
    tab.page.get_by_role("spinbutton", name="Tokens per run").fill("2")
    tab.page.get_by_role("spinbutton", name="Tokens per run").press("Enter")
    tab.ready().press("Start the sweep")
    tab.says("The cell is done.")
    tab.page.get_by_text("Several prompts", exact=True).click()
    tab.says("Spread of the total-variation distance")


@pytest.mark.parametrize("name", ["Layers", "Replay", "Compare"])
def test_pages_follow_the_theme_and_a_narrow_window(new_tab: OpenTab, name: str) -> None:
    tab = new_tab(name.lower())
    tab.page.emulate_media(color_scheme="dark")
    app = "getComputedStyle(document.querySelector('[data-testid=stApp]'))"
    tab.page.wait_for_function(f"{app}.backgroundColor === 'rgb(20, 22, 26)'")
    tab.page.set_viewport_size({"width": 420, "height": 900})
    tab.ready()
    tab.page.wait_for_function(
        "() => { const m = document.querySelector('[data-testid=stMain]');"
        " return m.scrollWidth <= m.clientWidth + 1; }"
    )
