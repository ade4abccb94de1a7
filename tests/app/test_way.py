"""The way through the page: what the sidebar says, files, stop and continue, reloads, dead ends."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from streamlit.testing.v1 import AppTest

from ctxviz.presets import PICTURE_PRESETS
from ctxviz.run import Run
from ctxviz.shapes.gallery import GALLERY
from ctxviz.shapes.writing import write
from ctxviz.store import load_run
from ctxviz.ui import collection, open_tabs, page_title, picture_ways, tab_runs
from ctxviz.ui import recorded as recorded_module
from ctxviz.ui import tab as tab_module
from ctxviz.ui.focus import Did, Focus
from ctxviz.ui.library import bundle
from ctxviz.ui.picture_source import scenes_of
from ctxviz.ui.session import Session
from ctxviz.ui.tab import Kept
from ctxviz.ui.tab_runs import KEPT_RUNS
from ctxviz.ui.views import LIMIT, STOPPED_EARLY, views
from tests.app.conftest import MAIN, Page
from tests.synthetic import synthetic_run

HOSTILE = "<img src=x onerror=alert(1)> $x$ :smile: [y](http:__example.com).ctxviz"
TIMES = ("seconds", "step_seconds")
BATCHED = ("unpatched_tvd", "unpatched_linf")
BATCHES_APART = 0.02
"""The model without any patch is measured for up to eight tokens in one batch. A stop closes the batch, and
batches of other sizes round otherwise, in bfloat16 by some of its units in the last place."""


def turn_to(page: Page, name: str) -> Page:
    page.at.switch_page(f"../../pages/{name}.py")
    return page.run()


def on_screen(page: Page) -> str:
    """What the sidebar says of the run on screen; empty where it says nothing."""
    return next((text.value for text in page.at.text if text.value.startswith("On screen:")), "")


def run_of(page: Page) -> Run:
    run = page.session.view.run
    assert run is not None
    return run


def reloaded(page: Page) -> Page:
    """The tab as it is after the browser has loaded its address again."""
    query = {name.replace("-", "_"): value for name, value in page.at.query_params.items()}
    return Page(kept=Kept(page.session.tab, page.session.holds_own()), **query)


class _State(dict[str, Any]):
    """Session state without a running script."""

    __getattr__ = dict.__getitem__
    __setattr__ = dict.__setitem__


class TestTheSidebar:
    def test_it_says_what_the_run_on_screen_was_made_with_otherwise(self, recorded: Run) -> None:
        page = Page(prompt=recorded.context.prompt, model=recorded.model.key, tokens="8")
        assert on_screen(page) == "On screen: direct, stable; float32, bfloat16."
        page.at.button_group("updates").set_value(["stable", "direct"])
        page.run()
        assert on_screen(page) == "On screen: float32, bfloat16."
        page.at.button_group("dtypes").set_value(["float32", "bfloat16"])
        page.run()
        assert on_screen(page) == ""
        assert "use_settings" not in [button.key for button in page.at.button]

    @pytest.mark.parametrize(
        ("query", "phrase"),
        [
            ({"tokens": "9"}, "8 tokens"),
            ({"fold": "all-but-bos"}, "all folded"),
            ({"model": "gemma-3-270m"}, "model Synthetic"),
            ({"first_layer": "1"}, "from layer 0 on"),
            ({"arithmetic": "written,factored"}, "written"),
            ({"prompt": "Other words"}, "another prompt"),
            ({"replay": "same"}, "no replays"),
            ({"hold": "2"}, "no patch held"),
            ({"budget": "yes"}, "no error budget"),
        ],
    )
    def test_every_setting_that_differs_is_said_and_nothing_else(
        self, query: dict[str, str], phrase: str, recorded: Run
    ) -> None:
        same = {"prompt": recorded.context.prompt, "model": recorded.model.key, "tokens": "8"}
        same |= {"update": "direct,stable", "dtype": "float32,bfloat16"}
        assert on_screen(Page(**same)) == ""
        assert on_screen(Page(**(same | query))) == f"On screen: {phrase}."

    def test_the_floor_counts_where_a_rule_has_it(self, tiny_folder: Path) -> None:
        page = Page(model=str(tiny_folder), tokens="1", prompt="the", update="direct,floored", tau="0.3")
        page.press("generate").wait_for("done")
        assert on_screen(page) == ""
        page.at.slider("floor").set_value(0.5)
        page.run()
        assert on_screen(page) == "On screen: direct, floored 0.3."
        page.at.button_group("updates").set_value(["direct"])
        page.run()
        assert on_screen(page) == "On screen: direct, floored 0.3."

    def test_one_click_takes_its_settings(self, recorded: Run) -> None:
        page = Page()
        page.press("use_settings")
        assert on_screen(page) == ""
        assert page.at.text_area("prompt").value == recorded.context.prompt
        assert page.at.button_group("updates").value == ["direct", "stable"]
        assert page.at.button_group("dtypes").value == ["float32", "bfloat16"]
        assert page.at.number_input("tokens").value == 8
        assert page.at.text_input("other_model").value == recorded.model.key
        assert page.at.query_params["model"] == recorded.model.key

    def test_a_run_made_with_its_settings_is_described_by_them(self, tiny_folder: Path) -> None:
        asked = {"update": "stable,floored", "tau": "0.3", "dtype": "bfloat16", "fold": "all-but-bos"}
        asked |= {"first_layer": "1", "arithmetic": "factored", "tokens": "2", "prompt": "the and the"}
        page = Page(model=str(tiny_folder), **asked)
        page.press("generate").wait_for("done")
        query = dict(page.at.query_params)
        for changed in (Page(model=str(tiny_folder)), Page()):
            changed.session.open(run_of(page))
            changed.run().press("use_settings")
            kept = {name: value for name, value in changed.at.query_params.items() if name != "model"}
            assert kept == {name: value for name, value in query.items() if name != "model"}

    def test_only_what_a_class_needs_is_seen_at_first(self) -> None:
        page = Page()
        assert page.at.session_state["more"] is False
        hidden = {widget.key for widget in page.at.expander[0].children.values()}
        assert {"arithmetics", "first_layer", "replays", "holds", "budget"} <= hidden
        assert not {"model", "updates", "dtypes", "fold", "tokens", "floor"} & hidden

    @pytest.mark.parametrize(
        "query",
        [
            {"arithmetic": "factored"},
            {"first_layer": "1"},
            {"replay": "ulp"},
            {"hold": "0"},
            {"budget": "yes"},
        ],
    )
    def test_more_is_open_where_a_link_sets_something_in_it(self, query: dict[str, str]) -> None:
        assert Page(**query).at.session_state["more"] is True

    def test_a_new_page_begins_with_direct_and_the_recommended_rule(self) -> None:
        page = Page()
        assert page.at.button_group("updates").value == ["direct", "floored"]
        assert page.at.slider("floor").value == 0.6
        assert Page(update="direct,stable").at.button_group("updates").value == ["direct", "stable"]


class TestAnOpenedFile:
    @staticmethod
    def open(page: Page, key: str, name: str, run: Run) -> Page:
        page.at.file_uploader(key).set_value((name, bundle(run), "application/zip"))
        return page.run()

    def test_it_is_announced_by_its_name_and_by_what_it_is(self) -> None:
        run = synthetic_run(3, 32, 4, updates=("stable", "direct"), dtypes=("float32",))
        page = self.open(Page(), "upload", "mars.ctxviz", run)
        assert "Opened mars.ctxviz: Synthetic, 4 tokens, stable and direct in float32." in page.texts()
        page.press("back")
        assert "Opened" not in page.texts()

    def test_a_hostile_name_is_text(self) -> None:
        page = self.open(Page(), "upload", HOSTILE, synthetic_run(3, 32, 4))
        assert "Opened <img src=x onerror=alert(1)> $x$ :smile: [y](http:" in page.texts()
        for kind in ("markdown", "caption", "info", "success", "html"):
            assert not [e for e in page.at.get(kind) if "<img" in str(e.proto)]

    def test_one_opened_to_be_compared_is_announced_too(self) -> None:
        page = turn_to(Page(view="pair"), "compare")
        page = self.open(page, "compare_upload", "other.ctxviz", synthetic_run(3, 32, 4))
        said = "Opened other.ctxviz: Synthetic, 4 tokens, direct and stable in float32 and bfloat16."
        assert said in page.texts()
        assert [len(run) for run in page.session.compared] == [4]

    def test_what_a_popover_offers_closes_it(self) -> None:
        page = Page()

        def closed(key: str) -> int:
            state = page.at.session_state
            return state.get(f"closed_{key}", 0)

        self.open(page, "upload", "mars.ctxviz", synthetic_run(3, 32, 4))
        assert (closed("open-a-run"), closed("recorded-runs")) == (1, 0)
        page.press("recorded-recorded-mars")
        assert closed("recorded-runs") == 1
        turn_to(page, "compare")
        page.at.button_group("compare_view").set_value("pair")
        page.run()
        self.open(page, "compare_upload", "other.ctxviz", synthetic_run(3, 32, 4))
        assert closed("open-to-compare") == 1


def tables(run: Run) -> dict[str, pa.Table]:
    """All numbers of a run as its file holds them, but for the time that they took."""
    found = {}
    with zipfile.ZipFile(io.BytesIO(bundle(run))) as file:
        for name in file.namelist():
            if name.endswith(".parquet"):
                table = pq.read_table(io.BytesIO(file.read(name)))
                times = [column for column in table.column_names if column.endswith(TIMES)]
                found[name] = table.drop_columns(times)
    return found


class TestStopAndContinue:
    def test_a_stopped_run_can_be_made_anew_and_stays(self, tiny_folder: Path) -> None:
        page = self.stopped(tiny_folder)
        first = run_of(page)
        page.press("start_over").wait(lambda: page.session.view.run is not None)
        page.press("stop").wait_for("stopped", "done")
        assert run_of(page) is not first
        assert run_of(page).context == first.context
        assert run_of(page.press("back")) is first

    @staticmethod
    def stopped(folder: Path, tokens: int = 120, **query: str) -> Page:
        """A run of so many tokens that was stopped after its first ones."""
        page = Page(model=str(folder), tokens=str(tokens), prompt="the", **query)
        page.press("generate").wait(lambda: page.session.view.run and len(run_of(page)) > 2)
        page.press("stop").wait_for("stopped")
        assert 2 < len(run_of(page)) < tokens
        return page

    def test_continuing_gives_what_was_never_stopped_gives(self, tiny_folder: Path) -> None:
        page = self.stopped(tiny_folder, 30, dtype="float32,bfloat16", replay="ulp", hold="1")
        view, run = page.session.view, run_of(page)
        assert run.outcome == "stopped"
        assert page.at.button("generate").label == "Continue"
        page.press("generate").wait_for("done")
        assert page.session.view is view
        assert (len(run), run.outcome) == (30, "finished")
        assert page.at.button("generate").label == "Generate"
        whole = Page(**{name.replace("-", "_"): value for name, value in page.at.query_params.items()})
        whole.press("generate").wait_for("done")
        one, other = tables(run), tables(run_of(whole))
        assert set(one) == set(other)
        for name in one:
            for column in one[name].column_names:
                pair = one[name][column], other[name][column]
                if column in BATCHED:
                    there, then = (values.to_numpy(zero_copy_only=False) for values in pair)
                    assert np.allclose(there, then, rtol=0, atol=BATCHES_APART, equal_nan=True), column
                else:
                    assert pair[0].equals(pair[1]), (name, column)

    def test_a_stopped_run_can_be_stepped(self, tiny_folder: Path) -> None:
        page = self.stopped(tiny_folder)
        view, made = page.session.view, len(run_of(page))
        page.press("step").wait_for("paused")
        assert (page.session.view, len(run_of(page))) == (view, made + 1)

    def test_other_settings_begin_anew_and_end_what_rested(self, tiny_folder: Path, worker) -> None:
        page = self.stopped(tiny_folder)
        first = page.session.view
        page.at.number_input("tokens").set_value(2)
        page.run()
        assert page.at.button("generate").label == "Generate"
        page.press("generate").wait_for("done")
        assert page.session.view is not first
        page.wait(lambda: not worker.rests(first.id))
        page.press("back")
        assert page.at.button("generate").label == "Generate"

    def test_what_was_given_up_says_why_and_is_made_anew(self, tiny_folder: Path, worker) -> None:
        page = self.stopped(tiny_folder)
        view = page.session.view
        with worker._changed:
            worker._give_up(worker._jobs[view.id], "This run cannot go on: for a test.")
        # The worker says why once it has ended the job.
        page.wait(lambda: not worker.holds(view.id))
        assert page.at.button("generate").label == "Generate"
        assert page.session.view.message.endswith("cannot go on: for a test.")

    def test_continue_never_begins_anew_by_surprise(self, tiny_folder: Path, worker) -> None:
        page = self.stopped(tiny_folder)
        view = page.session.view
        worker.end(view.id)
        page.wait(lambda: not worker.rests(view.id))
        assert page.at.button("generate").label == "Generate"

    def test_a_stopped_run_can_be_replayed(self, tiny_folder: Path) -> None:
        page = turn_to(self.stopped(tiny_folder), "replay")
        assert not page.at.button("again").disabled
        made = len(run_of(page))
        page.press("again").wait_for("done")
        assert len(run_of(page)) == made


class TestAReload:
    def test_all_runs_and_their_numbers_stay(self, tiny_folder: Path) -> None:
        page = Page(model=str(tiny_folder), tokens="2")
        for prompt in ("the one", "the two", "the three"):
            page.at.text_area("prompt").set_value(prompt)
            page.run().press("generate").wait_for("done")
        page.session.compare(synthetic_run(4, 8, 2))
        page.run()
        before = collection.of_tab(page.session)
        assert list(before) == ["Run 4", "Run 3", "Run 2", "Run 1", "Recorded"]
        again = reloaded(page)
        assert again.session is not page.session
        assert collection.of_tab(again.session) == before
        assert run_of(again) is run_of(page)
        again.press("back")
        assert run_of(again) is before["Run 2"]
        again.at.text_area("prompt").set_value("the four")
        again.run().press("generate").wait_for("done")
        assert next(iter(collection.of_tab(again.session))) == "Run 5"

    def test_a_second_reload_knows_what_the_first_made(self, tiny_folder: Path) -> None:
        page = Page(model=str(tiny_folder), tokens="2", prompt="the one")
        page.press("generate").wait_for("done")
        again = reloaded(page)
        again.at.text_area("prompt").set_value("the two")
        again.run().press("generate").wait_for("done")
        last = reloaded(again)
        assert list(collection.of_tab(last.session))[:2] == ["Run 2", "Run 1"]

    def test_a_run_under_way_is_still_under_way(self, tiny_folder: Path) -> None:
        page = Page(model=str(tiny_folder), tokens="200", prompt="the")
        page.press("generate").wait(lambda: page.session.view.run is not None)
        again = reloaded(page)
        assert again.session.view is page.session.view
        again.press("stop").wait_for("stopped", "done")

    def test_runs_that_were_given_up_are_not_there(self) -> None:
        page = Page()
        page.session.open(synthetic_run(2, 16, 1))
        page.run()
        for _ in range(LIMIT):
            views().create()
        assert not Page().session.resume(page.session.tab)

    def test_a_tab_that_was_duplicated_has_views_of_its_own(self, monkeypatch: pytest.MonkeyPatch) -> None:
        one = Page()
        for steps in (2, 3):
            one.session.open(synthetic_run(2, 16, steps))
            one.run()
        at_work = views().create()
        at_work.show(synthetic_run(2, 16, 1, outcome=None), "running")
        one.session.look_at(at_work)
        one.run()
        noted = tab_runs.noted(one.session.tab)
        assert noted is not None
        monkeypatch.setattr(open_tabs, "is_open", lambda session: session == noted.session)
        two = reloaded(one)
        shown = [two.session.view, *(view for view, _ in two.session.earlier)]
        first = [one.session.view, *(view for view, _ in one.session.earlier)]
        assert len(run_of(two)) == 3, "not what the first is still making"
        assert {view.id for view in shown}.isdisjoint(view.id for view in first)
        numbers = [two.session.numbers[view.run] for view in shown if view.run in two.session.numbers]
        assert sorted(numbers) == [1, 2], "the runs keep their numbers"
        # Whatever the copy goes on to do, the first tab shows what it showed.
        for _ in range(KEPT_RUNS + 2):
            two.session.open(synthetic_run(2, 16, 1))
        two.run()
        assert all(view.run is not None for view in first)
        assert one.session.view is at_work
        assert at_work.state == "running"

    def test_runs_that_are_gone_are_told_to_a_tab_that_had_some(self) -> None:
        for kept, told in ((Kept("gone", held=True), True), (Kept("gone"), False), (Kept(), False)):
            page = Page(kept=kept)
            assert ("The runs of this tab are gone" in page.texts()) == told
        assert not page.session.holds_own()
        page.session.open(synthetic_run(2, 16, 1))
        assert page.session.holds_own()
        assert json.loads(page.run()._components("ctxviz.tab")[0].proto.json)["held"] is True

    def test_nothing_is_drawn_before_the_browser_has_said_what_it_kept(self) -> None:
        page = Page.__new__(Page)
        page.at = AppTest.from_file(str(MAIN), default_timeout=60)
        page.at.run()
        assert [e.proto.component_name for e in page.at.get("bidi_component")] == ["ctxviz.greet"]
        assert not page.at.button
        assert "session" not in page.at.session_state

    def test_a_second_answer_of_the_browser_changes_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where it is asked twice, the second answer comes when what asked is gone."""
        heard: list[Any] = []
        monkeypatch.setattr(tab_module, "_greet", lambda **about: heard.append(about["on_kept_change"]))
        state: dict[str, Any] = {}
        monkeypatch.setattr(tab_module.st, "session_state", _State(state))
        assert not tab_module.greet()
        tab_module.st.session_state[tab_module.GREETING] = {"kept": {"name": "mine", "held": True}}
        heard[0]()
        del tab_module.st.session_state[tab_module.GREETING]
        heard[0]()
        assert tab_module.kept() == Kept("mine", held=True)
        assert tab_module.greet()

    def test_a_tab_keeps_its_name_whatever_it_shows(self) -> None:
        page = Page()
        for _ in range(2):
            told = json.loads(page.run()._components("ctxviz.tab")[0].proto.json)
            assert told["tab"] == page.session.tab
            page.session.open(synthetic_run(2, 16, 1))

    def test_two_tabs_do_not_share_and_a_name_is_not_guessed(self) -> None:
        one, two = Page(), Page()
        assert one.session.tab != two.session.tab
        assert len(one.session.tab) >= 32
        one.session.open(synthetic_run(2, 16, 1))
        one.run()
        two.run()
        assert list(collection.of_tab(two.session)) == ["Recorded"]
        assert one.session.tab not in json.dumps(dict(one.at.query_params))
        assert not two.session.resume("no such tab")

    def test_only_so_many_tabs_are_noted(self) -> None:
        first = Session.begin()
        first.note(first.view, recorded=True, sweep=None)
        assert tab_runs.noted(first.tab) is not None
        for _ in range(tab_runs.NOTED):
            other = Session.begin()
            other.note(other.view, recorded=True, sweep=None)
        assert tab_runs.noted(first.tab) is None


def test_the_name_of_the_browsers_tab_says_page_and_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, recorded: Run
) -> None:
    page = Page()
    state = {"session": page.session}
    monkeypatch.setattr(page_title.st, "session_state", state)
    monkeypatch.setattr(recorded_module, "_READ", {"recorded-mars": recorded})
    assert page_title.of("Live") == "Live · A Mars forecast · ctxviz"
    page.session.open(synthetic_run(2, 16, 1))
    assert page_title.of("Layers") == "Layers · As a slightly irritable robot on… · ctxviz"
    state.clear()
    assert page_title.of("Live") == "Live · ctxviz"


class TestThePicturesPage:
    def test_a_run_of_text_is_no_dead_end(self) -> None:
        page = turn_to(Page(), "pictures")
        assert "The run on screen has no picture." in page.texts()
        page.press("sample_run")
        assert page.at.selectbox("model").value == picture_ways.MODEL
        assert page.at.text_area("prompt").value == PICTURE_PRESETS[0].prompt
        assert page.session.pictures
        assert scenes_of(page.session.pictures) == (write(GALLERY[0].scene),)

    def test_a_recorded_run_with_a_picture_is_one_click_away(self) -> None:
        page = turn_to(Page(), "pictures")
        asked: list[str] = []
        page.session.show_recorded = asked.append  # type: ignore[method-assign]
        page.run().press("recorded_picture")
        assert asked == [picture_ways.RECORDED]


def test_a_stop_before_the_first_token_leaves_no_continue(tiny_folder: Path) -> None:
    page = Page(model=str(tiny_folder), tokens="50", prompt="the")
    page.press("generate")
    page.session.stop()
    page.wait(lambda: page.state in ("stopped", "done"))
    if page.session.view.run is None or not len(page.session.view.run):
        assert page.at.button("generate").label == "Generate"


def test_a_stop_before_the_first_token_is_no_error() -> None:
    page = Page()
    view = views().create()
    page.session.look_at(view)
    view.tell("stopped")
    assert f"i  {STOPPED_EARLY}" in page.run().texts()
    # The control: what failed is told as an error.
    view = views().create()
    page.session.hush()
    page.session.look_at(view)
    view.tell("failed", message="It failed.")
    assert "✕  It failed." in page.run().texts()
    assert STOPPED_EARLY not in page.texts()


def test_an_error_is_said_and_what_was_announced_is_gone() -> None:
    page = Page()
    page.session.announcement = "Opened x."
    assert "Opened x." in page.run().texts()
    page.at.text_area("prompt").set_value(" ")
    page.run().press("generate")
    assert "Opened x." not in page.texts()
    assert "The prompt is empty" in page.texts()


def test_a_file_saved_here_opens_again_with_its_outcome(tiny_folder: Path) -> None:
    page = TestStopAndContinue.stopped(tiny_folder)
    assert load_run(io.BytesIO(bundle(run_of(page)))).outcome == "stopped"


@pytest.mark.parametrize(
    ("outcome", "state", "message"),
    [
        ("finished", "done", ""),
        ("end of text", "done", ""),
        ("stopped", "stopped", ""),
        (None, "stopped", ""),
        ("failed: It ran out.\u202e", "failed", "It ran out.⟨U+202E⟩"),
    ],
)
def test_an_opened_run_says_how_it_ended(outcome: str | None, state: str, message: str) -> None:
    page = Page()
    run = synthetic_run(2, 16, 3)
    run.outcome = outcome
    page.session.open(run)
    page.run()
    assert (page.state, page.session.view.message) == (state, message)
    assert page.at.button("generate").label == "Generate"


class TestBackAndForth:
    @staticmethod
    def names(page: Page) -> list[str]:
        return list(collection.of_tab(page.session))

    @staticmethod
    def ways(page: Page) -> tuple[bool, bool]:
        keys = {button.key for button in page.at.button}
        return "back" in keys, "forward" in keys

    def opened(self, *steps: int) -> Page:
        page = Page()
        for n in steps:
            page.session.open(synthetic_run(2, 16, n))
        return page.run()

    def test_going_back_loses_nothing_and_there_is_a_way_on(self) -> None:
        page = self.opened(1, 2, 3)
        known = self.names(page)
        assert self.ways(page) == (True, False)
        seen = [len(run_of(page.press("back"))) for _ in range(2)]
        assert (seen, self.ways(page), self.names(page)) == ([2, 1], (True, True), known)
        seen = [len(run_of(page.press("forward"))) for _ in range(2)]
        assert (seen, self.ways(page), self.names(page)) == ([2, 3], (True, False), known)

    def test_what_was_looked_at_before_a_reload_is_nothing_to_the_next_run(self, tiny_folder: Path) -> None:
        page = Page(model=str(tiny_folder), tokens="2", prompt="the").press("generate").wait_for("done")
        page.session.pick(1, 0, 0)
        again = reloaded(page.run())
        assert (again.session.focus.step, again.at.query_params["step"]) == (1, "1")
        again.press("generate").wait_for("done")
        assert again.session.focus.step is None
        assert "step" not in again.at.query_params

    def test_a_new_run_after_going_back_leaves_the_others_to_return_to(self) -> None:
        page = self.opened(1, 2, 3)
        page.press("back").press("back")
        page.session.open(synthetic_run(2, 16, 9))
        assert self.ways(page.run()) == (True, False)
        seen = [len(run_of(page.press("back"))) for _ in range(3)]
        assert seen == [1, 2, 3], "the one that was on screen first, then those gone back from"

    def test_a_reload_keeps_the_way_on(self) -> None:
        page = self.opened(1, 2, 3)
        page.press("back")
        known = self.names(page)
        again = reloaded(page)
        assert (len(run_of(again)), self.ways(again), self.names(again)) == (2, (True, True), known)
        assert len(run_of(again.press("forward"))) == 3


def test_a_pick_and_another_metric_told_at_once_are_both_in_the_address() -> None:
    """Of two things done between two runs of the script the browser tells the last alone."""
    page = Page(step="3", layer="1")
    page.session.notice(Did(2, Focus(5, 2, 0, "scale_ratio"), picked=False, layers=False))
    page.run()
    wanted = {"step": "5", "layer": "2", "metric": "scale_ratio"}
    assert {name: page.at.query_params[name] for name in wanted} == wanted


def test_which_view_compare_shows_is_said_on_compare_alone() -> None:
    page = Page(view="pair")
    assert "view" not in page.at.query_params
    assert turn_to(page, "compare").at.query_params["view"] == "pair"
    assert "view" not in turn_to(page, "live").at.query_params
