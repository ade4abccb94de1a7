"""What the page says beside a download is what was measured of it, and what fails is not handed out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from safetensors import safe_open

from ctxviz.figures.export_words import adapter_sentence, patch_sentence
from ctxviz.models.catalogue import CATALOGUE
from ctxviz.run import Run
from ctxviz.ui.jobs import PatchRequest
from ctxviz.ui.session import Session
from tests.app.conftest import Page
from tests.app.test_numerics_pages import turn_to
from tests.fragile import save_fragile_folder
from tests.synthetic import synthetic_run

PROMPT = "the robot on mars says that dust will fall from the sky"


@pytest.fixture(scope="module")
def fragile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_fragile_folder(tmp_path_factory.mktemp("fragile"), PROMPT)


@pytest.fixture
def recorded() -> Run:
    """As if the first model of the catalogue had made it."""
    run = synthetic_run(6, 64, 8)
    run.model = replace(run.model, key=next(iter(CATALOGUE)))
    return run


@pytest.mark.parametrize("name", ["layers", "replay"])
def test_the_model_that_made_the_run_is_asked_whichever_is_chosen(
    name: str, recorded: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(Session, "ask_for_patch", lambda _, reference, *__: asked.append(reference))
    monkeypatch.setattr(Session, "replay", lambda _, reference, *__: asked.append(reference))
    page = turn_to(Page(model="tiny-shapes", prompt=recorded.context.prompt), name)
    assert f"with “{recorded.model.key}”, which made it, and" in page.texts()
    page.press("build_patch" if name == "layers" else "again")
    # The control: a run by a model that the catalogue lacks is asked of the one that is chosen.
    recorded.model = replace(recorded.model, key="/somewhere/else")
    assert "with “tiny-shapes”, the model chosen on the Live page, and" in page.run().texts()
    page.press("build_patch" if name == "layers" else "again")
    assert asked == [next(iter(CATALOGUE)), "tiny-shapes"]


def built(folder: Path, rule: str) -> tuple[Page, PatchRequest]:
    """The Layers page with the files of token 0's patch."""
    page = Page(model=str(folder), tokens="1", update=rule, prompt=PROMPT)
    page.press("generate").wait_for("done")
    turn_to(page, "layers").press("build_patch")
    request = page.session.patch
    assert request is not None
    page.wait(lambda: request.view.state in ("done", "failed"))
    assert request.view.state == "done", request.view.message
    return page, request


def offered(page: Page) -> list[str]:
    return [button.proto.label for button in page.at.get("download_button")]


@pytest.mark.parametrize("rule", ["direct", "floored"])
def test_the_figures_beside_the_downloads_are_the_measured_ones(
    fragile: Path, tmp_path: Path, rule: str
) -> None:
    page, request = built(fragile, rule)
    check, files = request.check, request.files
    assert check is not None
    assert files is not None
    sound = rule == "floored"
    assert (check.patch_carries, check.patch_survives, check.adapter_carries) == (True, sound, sound)
    assert ("PEFT adapter" in offered(page)) == sound
    assert offered(page)[:2] == ["Patch (safetensors)", "Script that applies it"]
    variant = page.session.view.run.variants[0]  # type: ignore[union-attr]
    for sentence in (patch_sentence(check, variant), adapter_sentence(check, variant)):
        assert sentence in page.texts()
    path = tmp_path / "patch.safetensors"
    path.write_bytes(files.patch)
    with safe_open(str(path), framework="numpy") as file:
        told = file.metadata()
    for name, trial in (
        ("built", check.built),
        ("measured", check.written),
        ("measured_ulp", check.written_moved),
    ):
        assert float(told[f"{name}_tvd"]) == trial.tvd
        assert told[f"{name}_same_token"] == str(trial.match).lower()
