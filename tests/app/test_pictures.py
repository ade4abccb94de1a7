"""Pictures on the Live page: ways in, the panel, what a run gets of them, links and folds."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from types import SimpleNamespace

import pytest
from PIL import Image

from ctxviz.errors import PictureError
from ctxviz.models import catalogue
from ctxviz.pictures import read_bytes
from ctxviz.presets import CAPTION_PRESETS, PICTURE_PRESETS, PRESETS
from ctxviz.records import Fold
from ctxviz.run import Run
from ctxviz.shapes.gallery import GALLERY
from ctxviz.shapes.scenes import Scene, Thing
from ctxviz.shapes.writing import write
from ctxviz.store import load_run
from ctxviz.ui import page as page_module
from ctxviz.ui import picture_source
from ctxviz.ui.library import bundle
from ctxviz.ui.picture_source import (
    MOST_PICTURES,
    UNDONE,
    pasted_files,
    reads_pictures,
    scene_of,
    scene_picture,
    scenes_of,
    take_files,
)
from tests.app.conftest import Page
from tests.tiny_models import save_tiny_picture_folder

HOSTILE = "<img src=x onerror=alert(1)> $x$.png"
TWO = ",".join(write(sample.scene) for sample in GALLERY[:2])


@pytest.fixture(scope="session")
def seeing_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_picture_folder(tmp_path_factory.mktemp("seeing"))


def png(colour: str = "teal", size: tuple[int, int] = (40, 30)) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", size, colour).save(file, "PNG")
    return file.getvalue()


def photo() -> bytes:
    """A JPEG file that lies on its side and says so."""
    exif, file = Image.Exif(), io.BytesIO()
    exif[0x0112] = 6
    Image.new("RGB", (40, 30), "teal").save(file, "JPEG", exif=exif)
    return file.getvalue()


def names(page: Page) -> list[str]:
    return [picture.name for picture in page.session.pictures]


def choose_files(page: Page, *files: tuple[str, bytes]) -> Page:
    page.at.button_group("picture_way").set_value("file")
    page.run()
    uploads = [(name, data, "application/octet-stream") for name, data in files]
    page.at.file_uploader(f"picture_files{page.session.taken}").set_value(uploads)
    return page.run()


def show_samples(page: Page) -> Page:
    page.at.button_group("picture_way").set_value("samples")
    return page.run()


def has_panel(page: Page) -> bool:
    return any(group.key == "picture_way" for group in page.at.button_group)


def folds(page: Page) -> list[str]:
    return list(page.at.selectbox("fold").options)


def test_the_panel_is_there_for_models_that_may_read_pictures(seeing_folder: Path) -> None:
    assert not has_panel(Page())
    assert not has_panel(Page(model="gemma-3-1b-it"))
    assert has_panel(Page(model=str(seeing_folder)))
    assert has_panel(Page(model="somebody/some-model"))
    assert reads_pictures("google/gemma-3-1b-it") == reads_pictures("gemma-3-1b-it")
    assert not reads_pictures("")
    assert not reads_pictures("/models/a.GGUF")


def test_a_sample_is_read_by_the_run_and_is_in_the_address(seeing_folder: Path) -> None:
    page = show_samples(Page(model=str(seeing_folder), tokens="2", prompt="the and"))
    page.press("sample3").press("generate").wait_for("done")
    run = page.session.view.run
    assert run is not None
    assert run.context.image_sha256 == (scene_picture(GALLERY[3].scene).sha256,)
    assert len(run.context.images) == 1
    assert page.session.shows(run.pictures)
    assert page.at.query_params["scene"] == write(GALLERY[3].scene)


def test_a_link_brings_its_scenes_and_other_scenes_make_another_run(seeing_folder: Path) -> None:
    page = Page(model=str(seeing_folder), tokens="4", prompt="the and", scene=TWO)
    assert page.session.shows([scene_picture(sample.scene) for sample in GALLERY[:2]])
    assert page.at.query_params["scene"] == TWO
    page.press("step").wait_for("paused")
    assert page.at.button("generate").label == "Continue"
    first = page.session.view.run
    assert first is not None
    assert len(first.context.images) == 2
    page.press("remove0")
    assert page.at.button("generate").label == "Generate"
    page.press("generate").wait(lambda: page.session.view.run is not first and page.state == "done")
    run = page.session.view.run
    assert run is not None
    assert run.context.image_sha256 == (scene_picture(GALLERY[1].scene).sha256,)


def test_a_chosen_sample_replaces_unless_the_others_are_kept(seeing_folder: Path) -> None:
    page = show_samples(Page(model=str(seeing_folder)))
    page.press("sample0").press("sample1")
    assert names(page) == [write(GALLERY[1].scene)]
    page.at.toggle("beside").set_value(True)
    page.run().press("sample2")
    assert names(page) == [write(GALLERY[1].scene), write(GALLERY[2].scene)]
    page.press("remove0")
    assert names(page) == [write(GALLERY[2].scene)]
    page.press("undo_pictures").press("undo_pictures")
    assert names(page) == [write(GALLERY[1].scene)]
    page.press("sample2").press("remove_all")
    assert page.session.pictures == []
    assert "scene" not in page.at.query_params
    for _ in range(UNDONE):
        page.press("undo_pictures")
    assert not [button for button in page.at.button if button.key == "undo_pictures"]


def test_files_are_told_by_content_and_bad_ones_cost_nothing(seeing_folder: Path, recorded: Run) -> None:
    page = Page(model=str(seeing_folder), tokens="2", prompt="the")
    choose_files(page, ("a.png", photo()), ("b.png", b"not a picture"), (HOSTILE, png()), ("c.png", b""))
    assert [picture.name for picture in page.session.pictures] == ["a.png", HOSTILE]
    said = page.texts()
    assert "“b.png” is not a PNG" in said
    assert "“c.png” is empty" in said
    assert "30 × 40 px · turned upright" in said
    assert "stays in this tab" in said
    assert f"2  {HOSTILE}" in said
    assert page.session.view.run is recorded
    assert "scene" not in page.at.query_params
    choose_files(page, ("d.png", b"GIF89a broken"))
    assert len(page.session.pictures) == 2
    assert "“d.png” cannot be decoded" in page.texts()
    page.press("generate").wait_for("done")
    assert page.session.view.run is not None
    assert len(page.session.view.run.context.images) == 2
    assert "d.png" not in page.texts()


def test_too_many_pictures_are_left_out_with_a_sentence(seeing_folder: Path) -> None:
    page = Page(model=str(seeing_folder))
    choose_files(page, *((f"{k}.png", png()) for k in range(MOST_PICTURES + 2)))
    assert names(page) == [f"{k}.png" for k in range(MOST_PICTURES)]
    assert "the last 2 were left out" in page.texts()


def test_what_a_browser_says_was_pasted_is_checked() -> None:
    data = base64.b64encode(png()).decode()
    files, problems = pasted_files([{"name": "x.png", "data": data}, {"name": 7, "data": data}, 3])
    assert (files, problems) == ([(png(), "x.png"), (png(), "")], [])
    assert pasted_files([{"name": "x", "data": "%%%"}])[1] == [
        "The pasted picture did not arrive whole; paste it again."
    ]
    assert "25,000,000 bytes" in pasted_files([{"name": "x", "size": 25_000_000}])[1][0]
    for nonsense in (None, {}, "x", [None, [], {"data": 5, "size": "5"}]):
        assert pasted_files(nonsense) == ([], [])


def test_the_camera_is_asked_for_only_where_it_is_turned_on(seeing_folder: Path) -> None:
    page = Page(model=str(seeing_folder))
    page.at.button_group("picture_way").set_value("camera")
    page.run()
    assert not page.at.get("camera_input")
    page.at.toggle("camera_on").set_value(True)
    page.run()
    assert len(page.at.get("camera_input")) == 1


def test_a_drawn_scene_changes_with_its_fields(seeing_folder: Path) -> None:
    page = Page(model=str(seeing_folder), tokens="2", prompt="the", scene=write(GALLERY[0].scene))
    page.at.button_group("picture_way").set_value("scene")
    page.run()
    page.press("generate").wait_for("done")
    page.at.selectbox("scene_colour1").set_value("green")
    page.run()
    changed = Scene((Thing(0, "red", "circle"), Thing(4, "green", "square")))
    assert page.at.query_params["scene"] == write(changed)
    first = page.session.view.run
    page.press("generate").wait(lambda: page.session.view.run is not first and page.state == "done")
    assert page.session.view.run is not None
    assert page.session.view.run.context.image_sha256 == (scene_picture(changed).sha256,)
    page.at.selectbox("scene_shape2").set_value("star")
    page.run()
    assert len(Page(**_query(page)).session.pictures) == 1
    scene = scene_of(page.session.pictures[0])
    assert scene is not None
    assert [thing.shape for thing in scene.things] == ["circle", "square", "star"]
    page.press("undo_pictures")
    assert page.at.selectbox("scene_shape2").value == "nothing"


def _query(page: Page) -> dict[str, str]:
    return {k: v[0] if isinstance(v, list) else v for k, v in page.at.query_params.items()}


def test_two_shapes_in_one_place_are_a_sentence(seeing_folder: Path) -> None:
    page = Page(model=str(seeing_folder), scene=write(GALLERY[0].scene))
    page.at.button_group("picture_way").set_value("scene")
    page.run()
    page.at.selectbox("scene_place1").set_value(0)
    page.run()
    assert "Two shapes stand at the top left, where only one has room" in page.texts()
    assert names(page) == [write(GALLERY[0].scene)]
    page.at.selectbox("scene_place1").set_value(8)
    page.run()
    assert "Two shapes" not in page.texts()
    assert names(page) == ["red-circle-0.blue-square-8.white"]


def test_a_new_scene_is_shown_when_asked_for(seeing_folder: Path) -> None:
    page = Page(model=str(seeing_folder))
    page.at.button_group("picture_way").set_value("scene")
    page.run()
    page.at.selectbox("scene_ground").set_value("black")
    page.run()
    assert page.session.pictures == []
    page.press("scene_add")
    assert names(page) == ["red-circle-0.blue-square-4.black"]
    page.at.toggle("beside").set_value(True)
    page.run()
    page.at.button_group("scene_target").set_value(-1)
    page.run()
    page.at.selectbox("scene_ground").set_value("grey")
    page.run().press("scene_add")
    assert names(page) == ["red-circle-0.blue-square-4.black", "red-circle-0.blue-square-4.grey"]
    page.at.selectbox("scene_ground").set_value("white")
    page.run()
    assert names(page) == ["red-circle-0.blue-square-4.black", "red-circle-0.blue-square-4.white"]


def test_the_pictures_can_be_folded(seeing_folder: Path) -> None:
    page = show_samples(Page(model=str(seeing_folder), tokens="2", prompt="the and"))
    assert not [fold for fold in folds(page) if "picture" in fold]
    page.press("sample0")
    assert [fold for fold in folds(page) if "picture" in fold] == ["only the picture", "all but the picture"]
    page.press("fold_pictures")
    assert page.at.query_params["fold"] == "image"
    page.press("generate").wait_for("done")
    run = page.session.view.run
    assert run is not None
    span = run.context.images[0]
    assert run.context.folded(len(run.context.token_ids)) == tuple(range(span.start, span.end))
    page.at.toggle("beside").set_value(True)
    page.run().press("sample1")
    assert folds(page)[2:6] == ["only the pictures", "all but the pictures", "picture 1", "picture 2"]
    page.at.selectbox("fold").set_value("image:2")
    page.run().press("generate").wait(lambda: page.session.view.run is not run and page.state == "done")
    assert page.session.view.run is not None
    assert page.session.view.run.settings.fold == Fold("image", number=2)
    page.press("remove0")
    assert "The fold was about picture 2, and the prompt has 1 picture" in page.texts()
    assert page.at.selectbox("fold").value == "all"


@pytest.mark.parametrize("fold", ["image", "image:1", "text"])
def test_a_link_that_folds_a_picture_it_lacks_is_a_sentence(fold: str, tiny_folder: Path) -> None:
    for model in ("gemma-3-270m", str(tiny_folder)):
        page = Page(model=model, fold=fold, tokens="2")
        assert "the prompt has no picture; now all but the current token is folded" in page.texts()
        assert "fold" not in page.at.query_params
    page.press("generate").wait_for("done")


def test_a_model_without_eyes_refuses_with_a_sentence(tiny_folder: Path, recorded: Run) -> None:
    page = Page(model=str(tiny_folder), scene=TWO, tokens="2")
    page.press("generate").wait(lambda: page.state not in ("queued", "loading", "running"))
    assert "reads text only and cannot see a picture" in page.texts()
    assert page.session.view.run is recorded
    assert len(page.session.pictures) == 2
    page.press("remove_all").press("generate").wait_for("done")
    assert len(page.session.view.run or ()) == 2


def test_a_text_model_of_the_catalogue_ignores_the_pictures_and_keeps_them(seeing_folder: Path) -> None:
    page = Page(model=str(seeing_folder), scene=TWO, fold="image")
    page.at.selectbox("model").set_value("gemma-3-1b-it")
    page.run()
    assert not has_panel(page)
    assert "scene" not in page.at.query_params
    assert "the prompt has no picture" in page.texts()
    assert page.session.used("gemma-3-1b-it") == ()
    page.at.selectbox("model").set_value("other")
    page.run()
    page.at.text_input("other_model").set_value(str(seeing_folder))
    page.run()
    assert page.at.query_params["scene"] == TWO


def test_the_tokens_of_a_prompt_with_pictures_are_listed(seeing_folder: Path) -> None:
    page = Page(model=str(seeing_folder), prompt="the and", fold="1:2", scene=write(GALLERY[0].scene))
    page.press("show_tokens").wait(lambda: page.session.request and page.session.request.context)
    options = page.at.selectbox("fold_start").options
    assert sum("start_of_image" in option for option in options) == 1
    assert sum("image_soft_token" in option for option in options) == 4
    page.press("remove0")
    assert page.at.button("show_tokens"), "the tokens were those of a prompt with a picture"


def test_a_run_is_replayed_and_saved_with_its_pictures(seeing_folder: Path) -> None:
    page = Page(model=str(seeing_folder), tokens="2", prompt="the and", scene=TWO)
    page.press("generate").wait_for("done")
    run = page.session.view.run
    assert run is not None
    page.session.replay(str(seeing_folder), run.settings)
    page.wait(lambda: page.session.view.run is not run and page.state == "done")
    again = page.session.view.run
    assert again is not None
    assert again.pictures == run.pictures
    assert load_run(io.BytesIO(bundle(run))).pictures == ()
    opened = load_run(io.BytesIO(bundle(run, pictures=True)))
    assert [p.sha256 for p in opened.pictures] == [p.sha256 for p in run.pictures]
    assert [box.key for box in page.at.checkbox] == ["with_pictures"]
    assert not page.at.checkbox("with_pictures").value
    page.press("remove_all")
    page.session.open(opened)
    page.run().press("run_pictures")
    assert page.session.shows(run.pictures)


def test_a_run_without_pictures_is_offered_without_them() -> None:
    assert not Page().at.checkbox


def test_a_reload_finds_the_pictures_of_its_run_and_their_fold(
    seeing_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = Page(model=str(seeing_folder), tokens="2", prompt="the")
    choose_files(page, ("a.png", png())).press("fold_pictures")
    page.press("generate").wait_for("done")
    again = Page(**_query(page))
    assert again.at.selectbox("fold").value == "all"
    monkeypatch.setattr(page_module.st, "session_state", SimpleNamespace(session=again.session))
    page_module._resume(page.session.view.id)
    assert page_module.st.session_state.fold == "image"
    assert again.session.shows(page.session.pictures)


def test_a_reload_leaves_drawn_scenes_as_the_address_has_them(seeing_folder: Path) -> None:
    page = Page(model=str(seeing_folder), tokens="2", prompt="the", scene=write(GALLERY[0].scene))
    page.press("generate").wait_for("done")
    again = Page(model=str(seeing_folder), tokens="2", prompt="the", scene=TWO)
    assert again.session.resume(page.session.view.id)
    assert len(again.session.pictures) == 2


@pytest.fixture
def picture_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """The catalogue with its two models of drawn shapes, whether or not it has them."""
    entry = catalogue.CATALOGUE["gemma-3-270m"]
    known = picture_source.reads_pictures
    for key in ("tiny-shapes", "gemma-3-270m-pictures"):
        if key not in catalogue.CATALOGUE:
            monkeypatch.setitem(catalogue.CATALOGUE, key, entry)
    both = {"tiny-shapes", "gemma-3-270m-pictures"}
    for module in ("session", "picture_source"):
        monkeypatch.setattr(f"ctxviz.ui.{module}.reads_pictures", lambda r: r in both or known(r))


@pytest.mark.usefixtures("picture_models")
def test_choosing_a_picture_model_puts_a_prompt_and_a_picture_in_place() -> None:
    page = Page()
    page.at.selectbox("model").set_value("tiny-shapes")
    page.run()
    assert page.at.text_area("prompt").value == PICTURE_PRESETS[0].prompt
    assert names(page) == [write(GALLERY[0].scene)]
    chips = [button.label for button in page.at.button if (button.key or "").startswith("preset")]
    assert chips == ["Describe the picture.", "What colour is the circle?", "How many shapes are there?"]
    show_samples(page).press("sample1")
    page.at.selectbox("model").set_value("gemma-3-270m-pictures")
    page.run()
    assert page.at.text_area("prompt").value == CAPTION_PRESETS[0].prompt
    assert names(page) == [write(GALLERY[1].scene)]
    page.at.selectbox("model").set_value("gemma-3-1b-it")
    page.run()
    assert page.at.text_area("prompt").value == PRESETS[0].prompt


@pytest.mark.usefixtures("picture_models")
def test_choosing_a_picture_model_leaves_what_was_typed() -> None:
    page = Page(prompt="My own words")
    page.at.selectbox("model").set_value("tiny-shapes")
    page.run()
    assert page.at.text_area("prompt").value == "My own words"
    assert page.session.pictures == []


@pytest.mark.usefixtures("picture_models")
def test_a_photograph_on_a_model_of_drawn_shapes_gets_a_word() -> None:
    page = Page(model="tiny-shapes", scene=TWO)
    assert "drawn shapes only" not in page.texts()
    choose_files(page, ("a.png", png()))
    assert "drawn shapes only" in page.texts()


def test_a_picture_with_a_scenes_name_is_no_scene() -> None:
    name = write(GALLERY[0].scene)
    assert scene_of(read_bytes(png(), name)) is None
    assert scene_of(scene_picture(GALLERY[0].scene)) == GALLERY[0].scene
    assert scenes_of([read_bytes(png(), name), scene_picture(GALLERY[1].scene)]) == (write(GALLERY[1].scene),)


class _Tab:
    def __init__(self) -> None:
        self.pictures, self.former, self.notices = [], [], []


def test_a_choice_of_bad_files_alone_cannot_be_undone_since_nothing_changed() -> None:
    tab = _Tab()
    take_files(tab, [(b"x", "a")], beside=False)
    assert (tab.pictures, tab.former, len(tab.notices)) == ([], [], 1)
    with pytest.raises(PictureError):
        read_bytes(b"x", "a")
