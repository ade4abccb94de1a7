"""The way through the page in a real Chromium: history, reloads, names, stop and continue, a quiet log."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

import pytest

from tests.browser.conftest import Server, Tab, chromium, start_server
from tests.tiny_models import save_tiny_folder, tiny_gemma3

pytestmark = pytest.mark.browser
OpenTab = Callable[..., Tab]

PAGES = ("Layers", "Replay", "Pictures", "Compare")
SLOW = {"update": "direct,stable,floored,rescaled", "dtype": "float32,bfloat16"}
"""So many variants that a token of the tiny model takes long enough to be stopped in the middle of a run."""


FAR_AWAY = """
  const listen = WebSocket.prototype.addEventListener;
  WebSocket.prototype.addEventListener = function (kind, hear, ...how) {
    const late = (event) => setTimeout(() => hear.call(this, event), 700);
    return listen.call(this, kind, kind === "message" ? late : hear, ...how);
  };
"""
"""A server whose answers take their time."""


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    model = tiny_gemma3(num_hidden_layers=6, max_position_embeddings=1024)
    return str(save_tiny_folder(tmp_path_factory.mktemp("tiny"), model))


@pytest.fixture(scope="module")
def app_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of this module's own, whose log is read at the end of a test."""
    chromium()
    server = start_server(tmp_path_factory.mktemp("server") / "log")
    yield server
    server.end()


def turn_to(tab: Tab, name: str) -> Tab:
    """Follow a link of the sidebar, until that page has been drawn."""
    tab.page.locator(".st-key-pages").get_by_role("link", name=name, exact=True).click()
    return arrived(tab, name)


def arrived(tab: Tab, name: str) -> Tab:
    path = "" if name == "Live" else name.lower()
    tab.page.wait_for_url(re.compile(rf"://[^/]+/{path}(\?.*)?$"))
    tab.page.wait_for_function("name => document.title.startsWith(name + ' · ')", arg=name)
    return tab.ready()


def back(tab: Tab, name: str) -> Tab:
    tab.page.evaluate("history.back()")
    return arrived(tab, name)


def runs_to_compare(tab: Tab) -> list[str]:
    """The names offered on the Compare page."""
    turn_to(tab, "Compare")
    tab.page.get_by_role("combobox", name="Run", exact=True).click()
    options = tab.page.get_by_role("option")
    options.first.wait_for()
    names = [text.split(" · ")[0] for text in options.all_inner_texts()]
    tab.page.keyboard.press("Escape")
    return names


def make(tab: Tab, prompt: str, tokens: int) -> Tab:
    tab.type_prompt(prompt).press("Generate").writes(tokens)
    return tab.until("done")


def test_one_press_of_back_leaves_a_page(new_tab: OpenTab) -> None:
    tab = new_tab(tokens="12")
    entries = tab.page.evaluate("history.length")
    tab.page.get_by_role("spinbutton", name="Tokens").fill("7")
    tab.page.keyboard.press("Enter")
    tab.asks(tokens="7").ready()
    assert tab.page.evaluate("history.length") == entries, "a changed setting is no place to go back to"
    for name in PAGES:
        turn_to(tab, name).asks(tokens="7")
    assert tab.page.evaluate("history.length") == entries + len(PAGES)
    for name in (*reversed(PAGES[:-1]), "Live"):
        back(tab, name).asks(tokens="7")
    tab.page.evaluate("history.forward()")
    arrived(tab, "Layers").asks(tokens="7")


def test_a_page_opened_by_its_path_finds_the_server_without_an_error(new_tab: OpenTab) -> None:
    for name in PAGES:
        tab = new_tab(name.lower(), tokens="9")
        arrived(tab, name).asks(tokens="9")
    # Whatever the console said is told when the tabs are closed.


def test_the_browsers_tab_names_page_and_run(new_tab: OpenTab, tiny: str) -> None:
    tab = new_tab(model=tiny, tokens="2", prompt="the")
    arrived(tab, "Live")
    assert tab.page.title() == "Live · A Mars forecast · ctxviz"
    hostile = "<img src=x onerror=alert(1)>"
    make(tab, hostile, 2)
    tab.page.wait_for_function("name => document.title === name", arg=f"Live · {hostile} · ctxviz")
    turn_to(tab, "Layers")
    assert tab.page.title() == f"Layers · {hostile} · ctxviz"


def test_a_reload_keeps_all_runs_and_their_numbers(new_tab: OpenTab, tiny: str) -> None:
    tab = new_tab(model=tiny, tokens="2", update="stable")
    for prompt in ("the one", "the two", "the three"):
        make(tab, prompt, 2)
    everything = ["Run 3", "Run 2", "Run 1", "Recorded"]
    assert runs_to_compare(tab) == everything
    for _ in range(2):
        tab.page.reload()
        arrived(tab, "Compare")
        tab.page.wait_for_function(
            "[...document.querySelectorAll('input')].some((e) => e.value.startsWith('Run 3 ·'))"
        )
        assert runs_to_compare(tab) == everything
    make(turn_to(tab, "Live"), "the four", 2)
    tab.page.reload()
    arrived(tab, "Live").until("done").writes(2)
    tab.press("← Previous run")
    tab.page.wait_for_function("document.title === 'Live · the three · ctxviz'")
    assert runs_to_compare(tab) == ["Run 4", *everything], "going back loses none"
    other = new_tab(**tab.query)
    assert runs_to_compare(other) == ["Recorded"], "a copied link carried what belongs to a tab"
    assert not any(len(value) > 20 and value != tiny for value in tab.query.values())


SEEN = """
(() => {
  window.seen = new Set();
  const look = () => {
    const places = "[data-testid=stMain], .st-key-run-card, .st-key-difference";
    for (const place of document.querySelectorAll(places)) window.seen.add(place.innerText);
    requestAnimationFrame(look);
  };
  look();
})();
"""
"""Notes, frame by frame, all that can be read of runs."""


@pytest.mark.parametrize("name", ["Live", "Layers", "Replay"])
def test_a_reload_never_shows_another_run(new_tab: OpenTab, tiny: str, name: str) -> None:
    tab = make(new_tab(model=tiny, tokens="2", update="stable"), "the one", 2)
    turn_to(tab, name)
    tab.page.add_init_script(SEEN)
    tab.page.reload()
    arrived(tab, name)
    tab.page.wait_for_function("document.title.includes('the one')")
    tab.ready()
    seen = "\n".join(tab.page.evaluate("[...window.seen]"))
    assert seen
    for words in ("Mars", "Gemma 3 270M", "recorded earlier", "bfloat16"):
        assert words not in seen.replace("Recorded runs", "")


def test_a_stopped_run_goes_on(new_tab: OpenTab, tiny: str) -> None:
    tab = new_tab(model=tiny, tokens="60", prompt="the", **SLOW)
    tab.press("Generate").until("running").tokens.nth(1).wait_for()
    tab.press("Stop").until("stopped")
    tab.page.get_by_role("button", name="Continue", exact=True).wait_for()
    made = tab.tokens.count()
    assert made < 60
    tab.press("Continue").writes(60).until("done")
    tab.page.get_by_role("button", name="Generate", exact=True).wait_for()


def test_a_page_is_drawn_again_when_its_run_has_ended(new_tab: OpenTab, tiny: str) -> None:
    tab = new_tab(model=tiny, tokens="40", prompt="the", **SLOW)
    tab.press("Generate").until("running").tokens.nth(1).wait_for()
    turn_to(tab, "Layers")
    bar = tab.page.locator(".ctxviz-progress progress")
    bar.wait_for()
    tab.says("of 40")
    bar.wait_for(state="detached")
    tab.says("40 tokens")


def test_a_page_that_was_asked_for_is_not_lost_to_one_that_has_changed(new_tab: OpenTab, tiny: str) -> None:
    tab = new_tab(model=tiny, tokens="9", prompt="the")
    tab.page.add_init_script(FAR_AWAY)
    tab.page.reload()
    arrived(tab, "Live").press("Step").writes(1).until("paused")
    always_new = json.dumps({"mark": "another", "share": 0, "words": ""})
    tab.page.route("**/_ctxviz/state/**", lambda route: route.fulfill(body=always_new))
    for name in (*PAGES, "Live"):
        turn_to(tab, name)
        tab.page.wait_for_timeout(300)
        assert tab.page.title().startswith(f"{name} · ")


def test_the_sidebar_needs_no_scrolling_while_more_is_closed(new_tab: OpenTab) -> None:
    tab = new_tab()
    tab.page.set_viewport_size({"width": 1280, "height": 720})
    tab.says("On screen:")
    tab.page.get_by_text("More", exact=True).wait_for()
    room = "(e => e.clientHeight - e.scrollHeight)(document.querySelector('[data-testid=stSidebarContent]'))"
    assert tab.page.evaluate(room) >= 0
    assert (
        tab.page.get_by_text("Applied as").count() == 0 or not tab.page.get_by_text("Applied as").is_visible()
    )
    opened = new_tab(first_layer="1")
    opened.page.get_by_text("Applied as").wait_for()


def test_a_choice_closes_its_popover(new_tab: OpenTab) -> None:
    tab = new_tab().until("done")
    tab.page.get_by_role("button", name="Recorded runs").click()
    choice = tab.page.get_by_role("button", name="A picture, tiny-shapes")
    choice.click()
    choice.wait_for(state="hidden")
    tab.page.wait_for_function("document.title === 'Live · A picture, tiny-shapes · ctxviz'")
    tab.page.get_by_role("button", name="Recorded runs").click()
    choice.wait_for()


def test_the_pictures_page_leads_on(new_tab: OpenTab) -> None:
    tab = turn_to(new_tab(), "Pictures")
    tab.press("Begin with a sample picture")
    arrived(tab, "Live").asks(model="tiny-shapes")
    turn_to(tab, "Pictures").press("Show a recorded run with a picture")
    tab.page.wait_for_function("document.title === 'Pictures · A picture, tiny-shapes · ctxviz'")


def test_the_log_stays_quiet_on_the_way_through_all_pages(
    new_tab: OpenTab, tiny: str, app_server: Server
) -> None:
    tab = new_tab(model=tiny, tokens="200", prompt="the", **SLOW)
    tab.page.add_init_script(FAR_AWAY)
    tab.page.reload()
    arrived(tab, "Live").press("Generate").until("running").tokens.nth(1).wait_for()
    for name in (*PAGES, "Live"):
        turn_to(tab, name)
    turn_to(tab, "Live").press("Stop").until("stopped")
    for name in (*PAGES, "Live"):
        turn_to(tab, name)
    tab.press("Continue").until("running").press("Stop").until("stopped")
    tab.page.reload()
    arrived(tab, "Live")
    log = app_server.log.read_text()
    assert "does not exist" not in log
    assert "Traceback" not in log
