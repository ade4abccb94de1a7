"""The Layers, Replay and Compare pages: what they show of a run, and what their buttons do."""

from __future__ import annotations

import json
import zipfile
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

from ctxviz.run import Run
from ctxviz.store import load_patch, save_run
from ctxviz.ui import collection, sweep_form, sweeping
from ctxviz.ui.session import COMPARED
from tests.app.conftest import Page
from tests.synthetic import synthetic_run

PROMPT = synthetic_run(1, 8, 0).context.prompt
PAGES = ("layers", "replay", "compare")
HOSTILE = "<img src=x onerror=alert(1)> ![x](http://example.com/x.png) $x$ :smile:"


@pytest.fixture
def recorded() -> Run | None:
    return synthetic_run(6, 64, 8, replays=("same", "batch", "ulp"), hold=2, budget=True)


@pytest.fixture(autouse=True)
def own_sweeps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Sweeps of these tests stay out of the user's cache, and those that are shipped out of the tests."""
    monkeypatch.setattr(sweeping, "sweeps_folder", lambda: tmp_path / "sweeps")
    monkeypatch.setattr(sweeping, "ASSETS", tmp_path / "assets")
    return tmp_path / "sweeps"


def at(name: str, **query: str) -> Page:
    """A new tab on a page, with a link to the recorded run unless another prompt is given."""
    page = Page(**({"prompt": PROMPT} | query))
    return turn_to(page, name)


def turn_to(page: Page, name: str) -> Page:
    page.at.switch_page(f"../../pages/{name}.py")
    return page.run()


def cards(page: Page) -> list[dict]:
    """What the figures on the page were given."""
    return [
        json.loads(element.proto.json)
        for element in page.at.get("bidi_component")
        if element.proto.component_name == "ctxviz.figure"
    ]


def titles(page: Page) -> list[str]:
    return [card["title"] for card in cards(page)]


@pytest.mark.parametrize("name", PAGES)
def test_a_page_opens_on_its_own_in_a_new_tab(name: str) -> None:
    page = at(name)
    assert len(page.at.get("bidi_component")) > 2
    assert page.session.view.run is not None


class TestWithoutARecordedRun:
    @pytest.fixture
    def recorded(self) -> None:
        return None

    @pytest.mark.parametrize("name", PAGES)
    def test_an_empty_page_says_what_to_do(self, name: str) -> None:
        assert "Live page" in at(name).texts()


class TestLayers:
    def test_it_shows_the_worst_cell_and_all_that_is_behind_it(self, recorded: Run) -> None:
        page = at("layers")
        worst = recorded.field("h_abs_min", 0)
        layer, step = np.unravel_index(int(worst.argmin()), worst.shape)
        assert f"Behind token {step}," in page.texts()
        assert f"in layer {layer}" in page.texts()
        assert len([t for t in titles(page) if t.startswith(f"Layer {layer}, token {step}")]) == 4
        assert any(t.startswith("Coordinate ") for t in titles(page))
        assert "direct has no λ" not in str(cards(page))

    def test_another_variant_has_its_multiplier(self) -> None:
        page = at("layers", variant="1")
        assert sum("λ" in title for title in titles(page)) == 1

    def test_a_token_and_a_layer_are_chosen_by_keyboard(self) -> None:
        page = at("layers")
        page.at.number_input("inspect_step").set_value(5)
        page.run()
        page.at.number_input("inspect_layer").set_value(1)
        page.run()
        assert (page.session.focus.step, page.session.focus.layer) == (5, 1)
        assert page.at.query_params["step"] == "5"
        assert page.at.query_params["layer"] == "1"

    def test_a_link_reopens_the_same_cell_and_maps(self) -> None:
        page = at("layers", step="5", layer="2", variant="2", left="dead", right="swallowed")
        assert "Behind token 5," in page.texts()
        assert (page.at.session_state.left, page.at.session_state.right) == ("dead", "swallowed")

    def test_a_suspect_is_looked_at_with_one_click(self) -> None:
        page = at("layers")
        suspect = next(b for b in page.at.button if (b.key or "").startswith("suspect"))
        page.press(suspect.key)
        assert any(t.startswith(f"Coordinate {suspect.label} ") for t in titles(page))

    def test_alarms_are_listed_and_filtered(self) -> None:
        page = at("layers")
        kinds = page.at.get("button_group")
        assert kinds
        table = page.at.dataframe[-1].value
        assert set(table["kind"]) == {"blow-up", "mismatch", "replay-failure", "tie", "dead"}
        page.at.session_state["alarm_kinds"] = ["tie"]
        page.run()
        assert set(page.at.dataframe[-1].value["kind"]) == {"tie"}
        assert "inside the noise floor" in page.texts() or "rounding alone" in page.texts()

    def test_coordinates_that_were_not_kept_are_said_to_be_missing(self) -> None:
        page = at("layers")
        run = synthetic_run(6, 64, 4, vectors=False)
        page.session.open(run)
        page.run()
        assert "not kept or not saved" in page.texts()


class TestTakeAway:
    def test_a_patch_is_built_again_and_handed_over(self, tiny_folder: Path) -> None:
        page = Page(model=str(tiny_folder), tokens="3", update="stable", prompt="the and the and")
        page.press("generate").wait_for("done")
        turn_to(page, "layers")
        page.at.number_input("inspect_step").set_value(2)
        page.run().press("build_patch")
        request = page.session.patch
        assert request is not None
        page.wait(lambda: request.view.state in ("done", "failed"))
        assert request.view.state == "done", request.view.message
        names = [b.proto.label for b in page.at.get("download_button")]
        assert names == ["Patch (safetensors)", "Script that applies it", "PEFT adapter"]
        assert request.patch is not None
        assert request.patch.step == 2
        assert "AutoModelForCausalLM" in page.at.code[0].value

    def test_a_model_that_did_not_make_the_run_is_refused(self, tiny_folder: Path) -> None:
        page = at("layers", model=str(tiny_folder))
        page.press("build_patch")
        request = page.session.patch
        assert request is not None
        page.wait(lambda: request.view.state == "failed")
        assert "choose the model that made it" in page.texts()


class TestReplay:
    def test_it_says_what_the_replays_mean(self) -> None:
        page = at("replay")
        assert "The weights do not carry the context: run" in page.texts()
        assert "bit for bit" in page.texts()
        assert len(cards(page)) == 4
        page = at("replay", variant="1")
        assert "The weights carry the context: even run" in page.texts()

    def test_a_run_without_replays_can_be_replayed(self, tiny_folder: Path) -> None:
        page = Page(model=str(tiny_folder), tokens="3", update="direct,stable", prompt="the and the and")
        page.press("generate").wait_for("done")
        before = page.session.view.run
        assert before is not None
        turn_to(page, "replay")
        assert "made without replays" in page.texts()
        page.press("again").wait_for("done", "failed")
        again = page.session.view.run
        assert again is not None
        assert again is not before
        assert again.replayed == ("same", "batch", "ulp")
        assert [again.token(k)[:5] for k in range(3)] == [before.token(k)[:5] for k in range(3)]
        for variant in range(2):
            assert np.array_equal(again.series("tvd", variant), before.series("tvd", variant))
            assert (again.replay("same", "shift", variant) == 0).all()
        page.press("back")
        assert page.session.view.run is before

    def test_another_model_is_refused_in_one_sentence(self, tiny_folder: Path) -> None:
        page = at("replay", model=str(tiny_folder))
        page.press("again").wait(lambda: page.state not in ("queued", "loading", "running"))
        assert "choose the model that made it" in page.texts()
        assert page.session.view.run is not None

    def test_a_factored_variant_has_nothing_to_replay(self) -> None:
        page = at("replay")
        page.session.open(synthetic_run(4, 16, 3, updates=("stable",), arithmetics=("factored",)))
        page.run()
        assert "nothing can be replayed" in page.texts()

    def test_the_live_settings_ask_for_replays(self, tiny_folder: Path) -> None:
        page = Page(
            model=str(tiny_folder), tokens="3", update="stable", replay="batch,ulp", hold="1", budget="yes"
        )
        page.at.text_area("prompt").set_value("the and the and")
        page.run().press("generate").wait_for("done", "failed")
        run = page.session.view.run
        assert run is not None
        assert run.replayed == ("batch", "ulp", "held")
        assert np.isfinite(run.reference("eager_tvd", "float32")).any()


class TestCompare:
    def test_the_first_view_has_the_lines_of_the_run_on_screen(self) -> None:
        assert titles(at("compare")) == ["Largest logit gap", "Total-variation distance"]

    def test_two_runs_side_by_side(self) -> None:
        page = at("compare")
        page.session.open(synthetic_run(6, 64, 6, seed=3))
        page.at.session_state["compare_view"] = "pair"
        page.run()
        assert len(cards(page)) == 1
        assert page.at.selectbox("pair_A").value.startswith("On screen")
        assert page.at.selectbox("pair_B").value.startswith(("Recorded", "Earlier"))

    def test_uploaded_runs_are_few_and_named(self) -> None:
        page = at("compare")
        page.session.compared.extend(synthetic_run(4, 8, 2, seed=k) for k in range(COMPARED + 2))
        names = list(collection.of_tab(page.session))
        assert sum(name.startswith("Uploaded") for name in names) == COMPARED + 2

    @pytest.mark.parametrize("view", ["prompts", "layers", "rules"])
    def test_without_a_sweep_it_says_so(self, view: str) -> None:
        page = at("compare")
        page.at.session_state["compare_view"] = view
        assert "There is no sweep yet" in page.run().texts()

    def test_a_sweep_is_made_stopped_continued_and_shown(self, tiny_folder: Path) -> None:
        page = at("compare", model=str(tiny_folder), prompt="the and the and")
        page.at.session_state["compare_view"] = "sweep"
        page.run()
        page.at.session_state["sweep_prompts"] = [sweep_form._MINE]
        page.at.session_state["sweep_updates"] = ["direct", "stable"]
        page.at.session_state["sweep_layers"] = "all"
        page.at.session_state["sweep_tokens"] = 2
        page.run().press("start_sweep")
        request = page.session.sweep
        assert request is not None
        page.wait(lambda: request.done >= 1).press("stop_sweep")
        page.wait(lambda: request.view.state in ("stopped", "done", "failed"))
        assert request.view.state in ("stopped", "done")
        files = {path.name: path.stat().st_mtime_ns for path in request.folder.glob("*.ctxviz")}
        assert files
        page.press("start_sweep")
        again = page.session.sweep
        assert again is not None
        page.wait(lambda: again.view.state in ("done", "failed"))
        assert (again.view.state, again.done, again.total) == ("done", 4, 4)
        assert again.faults == []
        kept = {path.name: path.stat().st_mtime_ns for path in request.folder.glob("*.ctxviz")}
        assert len(kept) == 4
        assert all(kept[name] == when for name, when in files.items())
        page.at.session_state["compare_view"] = "layers"
        page.run()
        assert len(cards(page)) == 4
        page.at.session_state["compare_view"] = "rules"
        page.run()
        assert len(page.at.dataframe[-1].value) == 8
        page.at.session_state["compare_view"] = "prompts"
        page.run()
        assert len(cards(page)) == 2

    def test_a_sweep_of_nothing_is_refused_before_it_starts(self) -> None:
        page = at("compare")
        page.at.session_state["compare_view"] = "sweep"
        page.run()
        page.at.session_state["sweep_updates"] = []
        assert "choose at least one" in page.run().texts()
        assert page.at.button("start_sweep").disabled

    def test_a_broken_cell_is_told_and_the_others_are_shown(self, own_sweeps: Path) -> None:
        folder = own_sweeps / "one"
        folder.mkdir(parents=True)
        save_run(synthetic_run(4, 8, 3), folder / "001-a.ctxviz", vectors=False)
        (folder / "002-b.ctxviz").write_bytes(b"PK nonsense")
        page = at("compare")
        page.at.session_state["compare_view"] = "prompts"
        page.run()
        assert "002-b.ctxviz" in page.texts()
        assert len(cards(page)) == 2

    def test_hostile_prompts_stay_text(self) -> None:
        page = at("compare")
        run = synthetic_run(4, 8, 2, texts=(HOSTILE,))
        page.session.open(run)
        page.at.session_state["compare_view"] = "pair"
        page.run()
        assert "<img" not in json.dumps([card["figure"] for card in cards(page)]).replace("&lt;img", "")


def test_what_is_looked_at_is_kept_from_page_to_page() -> None:
    page = at("layers", step="3", layer="2", variant="1")
    turn_to(page, "replay")
    assert page.session.focus.variant == 1
    turn_to(page, "live")
    assert "Behind token 3," in page.texts()


def test_the_files_of_a_patch_are_what_they_say(tiny_folder: Path, tmp_path: Path) -> None:
    """The patch that the page hands over is the one a run with kept patches has."""
    from ctxviz.engine import rebuild, stream
    from ctxviz.engine.rebuild import Rebuilt
    from ctxviz.models import load_model
    from ctxviz.records import RunSettings, Step
    from ctxviz.store import adapter_zip, write_patch
    from tests.bundles import same

    model = load_model(str(tiny_folder))
    settings = RunSettings(("stable",), max_new_tokens=4)
    engine = stream(model, "the and the and", settings, keep_patches=True)
    run = Run(model.identity, engine.context, settings)
    kept = {}
    for item in engine:
        if isinstance(item, Step):
            run.append(item)
            kept[item.index] = item
    *shares, built = rebuild(model, run, 3, run.variants[0])
    assert isinstance(built, Rebuilt)
    assert shares == sorted(shares)
    assert same(built.patches, kept[3].variants[0].patches)
    assert (built.kept_ids, built.kept_positions) == (kept[3].kept_ids, kept[3].kept_positions)
    path = tmp_path / "p.safetensors"
    write_patch(
        path,
        built.patches,
        model="m",
        dtype="float32",
        step=3,
        position=built.position,
        context_ids=built.context_ids,
        kept_ids=built.kept_ids,
        kept_positions=built.kept_positions,
        update="stable",
        first_layer=0,
    )
    assert len(load_patch(path)[0]) == model.n_layers
    data = adapter_zip(built.patches, base_model="m", dtype="float32", stored_scales=built.stored_scales)
    assert "adapter_config.json" in zipfile.ZipFile(BytesIO(data)).namelist()
