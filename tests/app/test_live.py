"""The Live page: what each control and button does, and what is said when it cannot be done."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ctxviz.errors import PromptError
from ctxviz.folds import Fold
from ctxviz.presets import PRESETS
from ctxviz.run import Run
from ctxviz.store import load_run, save_run
from ctxviz.ui import recorded as recorded_module
from ctxviz.ui.library import bundle, file_name
from ctxviz.ui.prompt_check import MAX_PROMPT, check_prompt
from ctxviz.ui.tab_runs import KEPT_RUNS
from ctxviz.ui.views import LIMIT, views
from tests.app.conftest import MAIN, Page
from tests.synthetic import synthetic_run

HOSTILE = "<img src=x onerror=alert(1)> ![x](http://example.com/x.png) [y](http://example.com) $x$ :smile:"


def test_the_recorded_run_is_there_at_once(recorded: Run) -> None:
    page = Page()
    assert page.session.view.run is recorded
    assert "recorded earlier with Synthetic" in page.texts()
    assert page.at.text_area("prompt").value == PRESETS[0].prompt
    assert page.at.query_params == {}


def test_the_first_page_needs_no_torch() -> None:
    code = (
        "import sys; from streamlit.testing.v1 import AppTest\n"
        "from ctxviz.ui.tab import Kept\n"
        f"at = AppTest.from_file({str(MAIN)!r}, default_timeout=60)\n"
        "at.session_state['tab_kept'] = Kept()\n"
        "at.run()\n"
        "assert not at.exception and at.button('generate').label == 'Generate'\n"
        "loaded = {'torch', 'transformers'} & set(sys.modules)\n"
        "import torch; assert 'torch' in sys.modules\n"
        "print('loaded:', *loaded); import os; sys.stdout.flush(); os._exit(0)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=MAIN.parents[2],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout.splitlines()[-1].split() == ["loaded:"]


class TestWithoutARecordedRun:
    @pytest.fixture
    def recorded(self) -> None:
        return None

    def test_the_page_says_so_and_works(self, tiny_folder: Path) -> None:
        page = Page(model=str(tiny_folder), tokens="2")
        assert "recorded run is missing" in page.texts()
        page.press("generate").wait_for("done")
        assert len(page.session.view.run or ()) == 2


def test_generate_makes_the_run_that_was_asked_for(tiny_folder: Path) -> None:
    page = Page(
        model=str(tiny_folder),
        tokens="3",
        update="stable,floored",
        tau="0.3",
        dtype="float32,bfloat16",
        fold="all-but-bos",
        first_layer="1",
        prompt="the and the",
    )
    page.press("generate")
    assert page.state in ("queued", "loading", "running", "done")
    page.wait_for("done")
    run = page.session.view.run
    assert run is not None
    assert len(run) == 3
    assert run.outcome == "finished"
    assert run.context.prompt == "the and the"
    assert [v.label for v in run.variants] == [
        "stable float32 written",
        "floored 0.3 float32 written",
        "stable bfloat16 written",
        "floored 0.3 bfloat16 written",
    ]
    assert (run.settings.fold, run.settings.first_layer) == (Fold("all-but-bos"), 1)
    assert "recorded" not in page.texts()
    assert not page.session.recorded


def test_a_link_opens_the_same_settings_and_starts_nothing(tiny_folder: Path) -> None:
    query = {
        "model": str(tiny_folder),
        "tokens": "7",
        "update": "direct",
        "tau": "0.25",
        "dtype": "bfloat16",
        "arithmetic": "factored",
        "fold": "1:3",
        "first-layer": "2",
        "prompt": "a and b",
        "metric": "output_error",
        "variant": "1",
        "step": "2",
        "layer": "2",
    }
    page = Page(**{name.replace("-", "_"): value for name, value in query.items()})
    assert page.at.query_params == query
    assert page.session.recorded
    assert page.live["focus"]["step"] is None, "the recorded run is of another prompt"
    page.press("generate").wait_for("done")
    assert page.at.query_params == query
    focus = {"step": 2, "layer": 2, "variant": 1, "metric": "output_error"}
    assert page.live["focus"] == focus
    page.session.pick(1, 2, 1)
    assert page.run().at.query_params["step"] == "1"


def test_a_link_to_the_recorded_prompt_is_followed_at_once(recorded: Run) -> None:
    page = Page(prompt=recorded.context.prompt, step="2", layer="4")
    assert (page.live["focus"]["step"], page.live["focus"]["layer"]) == (2, 4)


def test_numbers_of_a_link_that_do_not_fit_are_changed_with_a_sentence(recorded: Run) -> None:
    page = Page(model=recorded.model.key, prompt=recorded.context.prompt, fold="2:400")
    assert "The span 2 to 399 reaches past" in page.texts()
    assert "has no layer 60" in Page(first_layer="60").texts()


def test_every_change_is_in_the_address() -> None:
    page = Page()
    page.at.text_area("prompt").set_value("Once upon a time")
    page.at.number_input("tokens").set_value(12)
    page.at.button_group("updates").set_value(["stable", "floored"])
    page.at.selectbox("fold").set_value("all-but-bos")
    page.run()
    page.at.slider("floor").set_value(0.35)
    page.run()
    assert page.at.query_params == {
        "prompt": "Once upon a time",
        "tokens": "12",
        "update": "stable,floored",
        "fold": "all-but-bos",
        "tau": "0.35",
    }


def test_a_long_prompt_stays_out_of_the_address_and_this_is_said() -> None:
    page = Page()
    page.at.text_area("prompt").set_value("long " * 400)
    page.run()
    assert page.at.query_params == {}
    assert "too long for a link" in page.texts()


@pytest.mark.parametrize(
    "query",
    [{"update": "best"}, {"tokens": "0"}, {"fold": "9:1"}, {"nonsense": HOSTILE}, {"dtype": HOSTILE}],
)
def test_a_bad_link_is_ignored_with_a_sentence(query: dict[str, str]) -> None:
    page = Page(**query)
    assert "was ignored" in page.texts()
    assert page.at.query_params == {}
    page.run()
    assert "was ignored" in page.texts()
    page.at.text_area("prompt").set_value("")
    page.run().press("generate")
    assert "was ignored" not in page.texts()


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        ("", "The prompt is empty"),
        (" \n\t", "The prompt is empty"),
        ("a\0b", "NUL"),
        ("x" * (MAX_PROMPT + 1), "shorten it"),
    ],
)
def test_a_prompt_that_cannot_be_used_loses_nothing(prompt: str, words: str, recorded: Run) -> None:
    page = Page()
    page.at.session_state["prompt"] = prompt
    page.press("generate")
    assert words in page.texts()
    assert page.session.view.run is recorded
    page.press("preset3")
    assert page.at.text_area("prompt").value == PRESETS[3].prompt


def test_half_a_character_is_refused_although_no_browser_sends_one() -> None:
    with pytest.raises(PromptError, match="half of a character"):
        check_prompt("a\ud800b")


@pytest.mark.parametrize("key", ["updates", "dtypes", "arithmetics"])
def test_choosing_nothing_is_a_sentence(key: str, recorded: Run) -> None:
    page = Page()
    page.at.button_group(key).set_value([])
    page.run().press("generate")
    assert "choose at least one" in page.texts()
    assert page.session.view.run is recorded


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"model": "/no/such/folder"}, "/no/such/folder"),
        ({"model": "nobody/no-such-model"}, "nobody/no-such-model"),
        ({"prompt": "the " * 300}, "window"),
        ({"fold": "1:40", "prompt": "the"}, "fold"),
        ({"first_layer": "40"}, "layer"),
    ],
)
def test_what_only_the_model_can_tell_comes_back_as_a_sentence(
    query: dict[str, str], words: str, tiny_folder: Path, recorded: Run
) -> None:
    page = Page(**({"model": str(tiny_folder), "tokens": "2"} | query))
    page.press("generate").wait(lambda: page.state not in ("queued", "loading", "running"))
    assert words in page.texts()
    assert "bug" not in page.texts()
    assert page.session.view.run is recorded
    page.at.text_input("other_model").set_value(str(tiny_folder))
    page.at.text_area("prompt").set_value("and the")
    page.at.selectbox("fold").set_value("all")
    page.at.number_input("first_layer").set_value(0)
    page.run().press("generate").wait_for("done")
    assert len(page.session.view.run or ()) == 2


def test_step_makes_one_token_and_continue_the_rest(tiny_folder: Path) -> None:
    page = Page(model=str(tiny_folder), tokens="4")
    page.press("step").wait_for("paused")
    view = page.session.view
    assert view.run is not None
    assert len(view.run) == 1
    assert page.at.button("generate").label == "Continue"
    page.press("step").wait(lambda: len(view.run or ()) == 2 and view.state == "paused")
    assert page.session.view is view
    page.press("generate").wait_for("done")
    assert page.session.view is view
    assert len(view.run) == 4
    assert page.at.button("generate").label == "Generate"


def test_other_settings_while_paused_make_a_new_run(tiny_folder: Path) -> None:
    page = Page(model=str(tiny_folder), tokens="4")
    page.press("step").wait_for("paused")
    first = page.session.view
    page.at.button_group("updates").set_value(["stable"])
    page.run()
    assert page.at.button("generate").label == "Generate"
    page.press("step").wait_for("paused")
    assert page.session.view is not first
    page.wait(lambda: first.state == "stopped")


def test_stop_keeps_what_was_made_and_the_next_run_works(tiny_folder: Path) -> None:
    page = Page(model=str(tiny_folder), tokens="200", prompt="the")
    page.press("generate").wait(lambda: page.session.view.run is not None and len(page.session.view.run) > 1)
    assert not page.at.button("stop").disabled
    page.press("stop").wait_for("stopped")
    run = page.session.view.run
    assert run is not None
    assert 1 < len(run) < 200
    assert run.outcome == "stopped"
    page.at.number_input("tokens").set_value(1)
    page.run().press("generate").wait(lambda: page.session.view.run is not run and page.state == "done")
    page.press("back")
    assert page.session.view.run is run


def test_two_tabs_share_the_model_and_not_their_runs(tiny_folder: Path, recorded: Run) -> None:
    one, two = (Page(model=str(tiny_folder), tokens=tokens, prompt=f"the {tokens}") for tokens in ("60", "5"))
    one.press("generate").wait(lambda: one.session.view.run is not None)
    two.press("generate").wait_for("done")
    one.wait_for("done")
    assert one.session.view.run is not None
    assert two.session.view.run is not None
    assert (len(one.session.view.run), len(two.session.view.run)) == (60, 5)
    assert one.session.view.run.context.prompt == "the 60"
    assert two.session.view.run.context.prompt == "the 5"
    assert one.session.view.id != two.session.view.id


def test_a_view_given_up_for_others_is_made_again(recorded: Run) -> None:
    page = Page()
    old = page.session.view
    for _ in range(LIMIT):
        views().create()
    assert views().get(old.id) is None
    page.run()
    assert views().get(page.session.view.id) is page.session.view
    assert page.session.view.run is recorded


def test_only_so_many_earlier_runs_are_held(recorded: Run) -> None:
    page = Page()
    runs = [synthetic_run(2, 16, 1) for _ in range(KEPT_RUNS + 2)]
    opened = []
    for run in runs:
        page.session.open(run)
        opened.append(page.session.view)
    assert len(page.session.earlier) == KEPT_RUNS
    assert opened[0].run is None
    assert opened[-1].run is runs[-1]
    page.run()
    for _ in range(KEPT_RUNS):
        page.press("back")
    assert page.session.view.run is runs[1]


def test_a_run_downloads_and_opens_again(recorded: Run) -> None:
    page = Page()
    assert page.at.get("download_button")
    content = bundle(recorded)
    assert len(load_run(io.BytesIO(content))) == len(recorded)
    other = synthetic_run(3, 32, 4, updates=("stable",), dtypes=("float32",))
    page.at.file_uploader("upload").set_value(("x.ctxviz", bundle(other), "application/zip"))
    page.run()
    assert page.session.view.run is not None
    assert page.session.view.run.variants == other.variants
    assert not page.session.recorded
    page.press("back")
    assert page.session.view.run is recorded
    assert page.session.recorded


def test_a_file_that_is_no_run_is_a_sentence(recorded: Run) -> None:
    page = Page()
    name = f"{HOSTILE.replace('/', '_')}.ctxviz"
    page.at.file_uploader("upload").set_value((name, b"not a zip", "application/zip"))
    page.run()
    assert "✕" in page.texts()
    assert page.session.view.run is recorded


def test_the_name_of_a_download_is_plain() -> None:
    run = synthetic_run(2, 16, 1)
    assert file_name(run) == "synthetic-as-a-slightly-irritable.ctxviz"


def test_a_span_is_picked_in_the_prompts_own_tokens(tiny_folder: Path) -> None:
    page = Page(model=str(tiny_folder), prompt="the and <b>", fold="1:2", tokens="2")
    page.press("show_tokens").wait(lambda: page.session.request and page.session.request.context)
    start, last = page.at.selectbox("fold_start"), page.at.selectbox("fold_last")
    assert start.options[0] == "0  <bos>"
    assert start.options[1].endswith("the")
    last.set_value(2)
    page.run()
    assert page.at.query_params["fold"] == "1:3"
    page.press("generate").wait_for("done")
    assert page.session.view.run is not None
    assert page.session.view.run.settings.fold == Fold("span", 1, 3)


def test_the_tokens_of_the_run_on_screen_need_no_model(recorded: Run) -> None:
    page = Page(model=recorded.model.key, prompt=recorded.context.prompt, fold="2:4")
    assert page.at.selectbox("fold_start").options[:3] == ["0  <bos>", "1  As", "2  ·a"]


def test_hostile_text_is_only_ever_text(tiny_folder: Path) -> None:
    page = Page(model=str(tiny_folder), prompt=HOSTILE, tokens="2")
    page.press("generate").wait_for("done")
    page.at.text_input("other_model").set_value(HOSTILE)
    # The page takes the sentence over when it runs next, which it may have done already.
    page.run().press("generate").wait(lambda: page.session.notices or page.state == "failed")
    assert HOSTILE[:20] in page.texts()
    for kind in (
        "markdown",
        "caption",
        "error",
        "warning",
        "info",
        "success",
        "title",
        "header",
        "subheader",
    ):
        assert not [e for e in page.at.get(kind) if "<img" in e.value or "example.com" in e.value]
    assert not [e for e in page.at.get("html") if "<img" in e.proto.body]


def test_float16_is_offered_with_a_warning() -> None:
    page = Page(dtype="float32,float16")
    assert "overflows above 65504" in page.texts()


def test_the_models_need_and_the_free_memory_are_stated(tiny_folder: Path) -> None:
    page = Page()
    assert re.search(r"Takes \d+\.\d GB; \d+\.\d GB free", page.texts())
    page.at.button_group("dtypes").set_value(["float64", "float32", "bfloat16", "float16"])
    page.at.selectbox("model").set_value("gemma-3-27b-it")
    page.run()
    assert re.search(r"Needs \d+\.\d GB, but", page.texts())
    page.at.selectbox("model").set_value("other")
    page.run()
    page.at.text_input("other_model").set_value("/no/such")
    page.run()
    assert "no file or folder '/no/such'" in page.texts()
    page.at.text_input("other_model").set_value(str(tiny_folder))
    page.run()
    assert "Takes 0." in page.texts()


def test_a_saved_bundle_of_the_page_is_readable_from_a_file(tmp_path: Path, recorded: Run) -> None:
    save_run(recorded, tmp_path / "x.ctxviz")
    assert load_run(tmp_path / "x.ctxviz").variants == recorded.variants


def test_the_recorded_run_on_screen_is_not_put_there_again(recorded: Run) -> None:
    page = Page()
    view = page.session.view
    page.session.show_recorded()
    assert (page.session.view, page.session.earlier) == (view, [])
    page.session.open(synthetic_run(2, 16, 1))
    page.session.show_recorded()
    assert page.session.view.run is recorded


def test_recorded_runs_are_offered_where_their_files_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recorded: Run
) -> None:
    monkeypatch.setattr(recorded_module, "ASSETS", tmp_path)
    monkeypatch.setattr(recorded_module, "_READ", {})
    assert recorded_module.available() == {}
    assert recorded_module.recorded_run("recorded-mars") is None
    (tmp_path / "recorded-mars.ctxviz").write_bytes(bundle(recorded))
    assert list(recorded_module.available()) == ["recorded-mars"]
    run = recorded_module.recorded_run("recorded-mars")
    assert run is not None
    assert recorded_module.recorded_run("recorded-mars") is run
    assert recorded_module.is_recorded(run)
    assert not recorded_module.is_recorded(recorded)
