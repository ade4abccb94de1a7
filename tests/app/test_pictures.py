"""Pictures on the Live page: ways in, the panel, what a run gets of them, links and folds."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from ctxviz.errors import PictureError
from ctxviz.folds import Fold
from ctxviz.pictures import Picture, read_bytes
from ctxviz.presets import CAPTION_PRESETS, PICTURE_PRESETS, PRESETS
from ctxviz.run import Run
from ctxviz.shapes.gallery import GALLERY
from ctxviz.shapes.scenes import Scene, Thing
from ctxviz.shapes.writing import write
from ctxviz.store import load_run
from ctxviz.ui import picture_panel, picture_source
from ctxviz.ui.library import bundle
from ctxviz.ui.picture_source import (
    MOST_PICTURES,
    UNDONE,
    choose,
    pasted_files,
    reads_pictures,
    scene_of,
    scene_picture,
    scenes_of,
    take_files,
)
from ctxviz.ui.tab import Kept
from tests.app.conftest import Page
from tests.synthetic import synthetic_run
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


def switch(page: Page, toggle: str, *, on: bool) -> Page:
    page.at.toggle(toggle).set_value(on)
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
    assert page.texts().count("“d.png” cannot be decoded") == 2, (
        "on the page, and in the box that lies over it"
    )
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
    assert pasted_files([{"name": "x", "data": "é"}])[1] == [
        "The pasted picture did not arrive whole; paste it again."
    ]
    many = [{"name": "x.png", "data": data}] * MOST_PICTURES
    files, problems = pasted_files([*many, {"left_out": 3}])
    assert len(files) == MOST_PICTURES
    assert problems[0].startswith("3 pasted files were left out")
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


def test_several_changes_of_one_scene_are_undone_together(seeing_folder: Path) -> None:
    page = Page(model=str(seeing_folder), scene=write(GALLERY[0].scene))
    page.at.button_group("picture_way").set_value("scene")
    page.run()
    for colour in ("green", "yellow"):
        page.at.selectbox("scene_colour1").set_value(colour)
        page.run()
    assert names(page) == ["red-circle-0.yellow-square-4.white"]
    page.press("undo_pictures")
    assert names(page) == [write(GALLERY[0].scene)]
    assert page.session.former == []


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
    assert [fold for fold in folds(page) if "picture" in fold] == ["only the picture"]
    switch(page, "fold_pictures", on=True)
    assert page.at.query_params["fold"] == "image"
    page.press("generate").wait_for("done")
    run = page.session.view.run
    assert run is not None
    span = run.context.images[0]
    assert run.context.folded(len(run.context.token_ids)) == tuple(range(span.start, span.end))
    page.at.toggle("beside").set_value(True)
    page.run().press("sample1")
    assert folds(page)[2:6] == ["only the pictures", "only the text", "picture 1", "picture 2"]
    page.at.selectbox("fold").set_value("image:2")
    page.run().press("generate").wait(lambda: page.session.view.run is not run and page.state == "done")
    assert page.session.view.run is not None
    assert page.session.view.run.settings.fold == Fold("image", number=2)
    page.press("remove1")
    assert "The fold was about picture 2, which is gone; now all but the current" in page.texts()
    assert page.at.selectbox("fold").value == "all"


def test_the_toggle_shows_whether_only_the_pictures_are_folded(seeing_folder: Path) -> None:
    page = Page(model=str(seeing_folder), scene=TWO)
    toggle = page.at.toggle("fold_pictures")
    assert (toggle.label, toggle.value) == ("Fold only the pictures", False)
    switch(page, "fold_pictures", on=True)
    assert page.at.toggle("fold_pictures").value
    assert page.at.selectbox("fold").value == "image"
    switch(page, "fold_pictures", on=False)
    assert page.at.selectbox("fold").value == "all"
    assert "fold" not in page.at.query_params
    for fold, on in (("image:1", False), ("text", False), ("image", True)):
        page.at.selectbox("fold").set_value(fold)
        assert page.run().at.toggle("fold_pictures").value == on
    page.at.selectbox("fold").set_value("image:1")
    page.run().press("remove1")
    assert page.at.query_params["fold"] == "image:1"
    assert page.at.toggle("fold_pictures").value, "it is the only picture now"


def test_a_fold_stays_with_its_picture(seeing_folder: Path) -> None:
    three = ",".join(write(sample.scene) for sample in GALLERY[:3])
    page = Page(model=str(seeing_folder), scene=three, fold="image:2", prompt="the", tokens="2")
    page.press("remove2")
    assert page.at.query_params["fold"] == "image:2"
    page.press("remove0")
    assert folds(page)[2] == "only the picture"
    assert page.at.query_params["fold"] == "image:1"
    assert "The fold was about" not in page.texts()
    page.press("generate").wait_for("done")
    run = page.session.view.run
    assert run is not None
    span = run.context.images[0]
    assert run.context.folded(len(run.context.token_ids)) == tuple(range(span.start, span.end))
    for left in (2, 3):
        page.press("undo_pictures")
        assert page.at.query_params["fold"] == "image:2"
        assert len(page.session.pictures) == left


def test_a_sample_in_the_place_of_the_folded_picture_is_folded(seeing_folder: Path) -> None:
    page = show_samples(Page(model=str(seeing_folder), scene=TWO, fold="image:2"))
    page.press("remove0").press("sample3")
    assert page.at.query_params["fold"] == "image:1"
    page = show_samples(Page(model=str(seeing_folder), scene=TWO, fold="image:2"))
    page.press("sample3")
    assert "The fold was about picture 2, which is gone" in page.texts()
    assert "fold" not in page.at.query_params


def test_an_address_names_no_picture_among_pictures_it_lacks(seeing_folder: Path) -> None:
    page = Page(model=str(seeing_folder), scene=TWO, fold="image:2")
    assert page.at.query_params["fold"] == "image:2"
    page.at.toggle("beside").set_value(True)
    choose_files(page.run(), ("a.png", png()))
    assert page.session.pictures[2].name == "a.png"
    assert "fold" not in page.at.query_params
    assert page.at.selectbox("fold").value == "image:2"
    assert page.press("remove2").at.query_params["fold"] == "image:2"


@pytest.mark.parametrize("fold", ["image", "image:1", "text"])
def test_a_link_that_folds_a_picture_it_lacks_is_a_sentence(fold: str, tiny_folder: Path) -> None:
    for model in ("gemma-3-270m", str(tiny_folder)):
        page = Page(model=model, fold=fold, tokens="2")
        assert "the prompt has no picture; now all but the current token is folded" in page.texts()
        assert "fold" not in page.at.query_params
    page.press("generate").wait_for("done")


def test_scenes_of_a_link_to_a_model_of_text_are_told_of_and_kept() -> None:
    page = Page(model="gemma-3-1b-it", scene=TWO)
    assert "The link's 2 scenes are not used, since its model reads text only" in page.texts()
    assert "scene" not in page.at.query_params
    page.press("use_picture")
    assert names(page) == TWO.split(",")
    assert "not used" not in page.texts()
    assert "not used" not in Page(model="tiny-shapes", scene=TWO).texts()


def test_a_run_of_other_inputs_says_what_it_was_made_from(seeing_folder: Path) -> None:
    page = show_samples(Page(model=str(seeing_folder), tokens="2", prompt="the", scene=TWO))
    page.press("generate").wait_for("done")
    assert "Made " not in page.texts()
    page.press("remove1")
    assert "Made from other pictures; Generate makes a new one." in page.texts()
    page.at.text_area("prompt").set_value("the and")
    assert "Made from another prompt and other pictures; Generate" in page.run().texts()
    page.press("undo_pictures")
    assert "Made from another prompt; Generate" in page.texts()
    page.at.text_area("prompt").set_value("the")
    assert "Made " not in page.run().texts()
    page.press("preset0")
    assert "Made from another prompt; Generate" in page.texts()
    page.press("remove1").press("generate").wait_for("done")
    page.press("remove0")
    assert "Made with a picture; Generate makes" in page.texts()
    page.at.text_area("prompt").set_value("the and")
    assert "Made from another prompt and with a picture; Generate makes" in page.run().texts()
    page.at.text_area("prompt").set_value("the")
    page.run().press("generate").wait_for("done")
    assert "Made " not in page.texts()
    page.press("sample0")
    assert "Made without a picture; Generate makes" in page.texts()
    page.press("generate").wait_for("done")
    page.press("sample1")
    assert "Made from another picture; Generate makes" in page.texts()


def test_a_run_of_another_model_says_so(seeing_folder: Path, tiny_folder: Path) -> None:
    page = Page(model=str(seeing_folder), tokens="2", prompt="the")
    page.press("generate").wait_for("done")
    page.at.text_input("other_model").set_value(str(tiny_folder))
    said = page.run().texts()
    assert f"Made with another model ({seeing_folder.name}); Generate makes a new" in said
    page.at.text_area("prompt").set_value("the and")
    assert f"with another model ({seeing_folder.name}) from another prompt; Gen" in page.run().texts()
    page.at.text_area("prompt").set_value("the")
    for same_or_none in (
        f"{seeing_folder.parent}/../{seeing_folder.parent.name}/{seeing_folder.name}",
        "",
        "no model",
    ):
        page.at.text_input("other_model").set_value(same_or_none)
        assert "Made " not in page.run().texts()


def test_other_settings_and_pictures_of_no_use_do_not_make_other_inputs(seeing_folder: Path) -> None:
    page = Page(model=str(seeing_folder), tokens="2", prompt="the", scene=TWO)
    page.press("generate").wait_for("done")
    page.at.number_input("tokens").set_value(3)
    assert "Made " not in page.run().texts()
    run = replace(synthetic_run(2, 8, 2).context, prompt="the")
    page.session.open(opened := synthetic_run(2, 8, 2))
    opened.context = run
    opened.model = replace(opened.model, key="gemma-3-1b-it")
    page.at.selectbox("model").set_value("gemma-3-1b-it")
    assert "Made " not in page.run().texts()


def test_a_recorded_run_says_so_in_its_own_line(recorded: Run) -> None:
    page = Page(prompt=recorded.context.prompt)
    assert "Synthetic; Generate makes a new one" in page.texts()
    page.at.text_area("prompt").set_value("Other words")
    said = page.run().texts()
    assert "Synthetic, from another prompt; Generate makes a new one" in said
    assert "Made " not in said


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
    (box,) = page.at.checkbox
    assert (box.label, box.value, box.disabled) == ("with its pictures", False, False)
    page.press("remove_all")
    page.session.open(opened)
    page.run().press("run_pictures")
    assert page.session.shows(run.pictures)


def test_a_run_without_pictures_is_offered_without_them() -> None:
    assert not Page().at.checkbox


def pictured(*pictures: Picture) -> Run:
    """An invented run that holds these pictures."""
    run = synthetic_run(2, 16, 2)
    run.pictures = pictures
    return run


def test_pictures_are_put_into_the_file_of_the_very_run_that_they_were_allowed_for() -> None:
    page, runs = Page(), [pictured(scene_picture(GALLERY[k].scene)) for k in (0, 1)]
    page.session.open(runs[0])
    page.run().at.checkbox[0].set_value(True)
    assert page.run().at.checkbox[0].value
    page.session.open(runs[1])
    assert not page.run().at.checkbox[0].value


def test_pictures_that_no_file_can_hold_are_not_offered() -> None:
    small = read_bytes(png())
    half = replace(small, image=Image.new("RGB", (10_000, 4_000)))
    page = Page()
    page.session.open(pictured(half, half))
    assert not page.run().at.checkbox[0].disabled
    page.session.open(pictured(half, half, half))
    assert page.run().at.checkbox[0].disabled
    assert "120,000,000 pixels together" in page.texts()
    page.session.open(pictured(*[replace(small, data=bytes(18 * 10**6))] * 4))
    assert page.run().at.checkbox[0].disabled
    assert "larger than the 64 MiB that can be opened here" in page.texts()


def test_a_reload_finds_the_pictures_of_its_run_and_their_fold(seeing_folder: Path) -> None:
    page = Page(model=str(seeing_folder), tokens="2", prompt="the")
    switch(choose_files(page, ("a.png", png())), "fold_pictures", on=True)
    page.press("generate").wait_for("done")
    assert Page(**_query(page)).at.selectbox("fold").value == "all"
    again = Page(kept=Kept(page.session.tab, held=True), **_query(page))
    assert again.at.selectbox("fold").value == "image"
    assert again.session.shows(page.session.pictures)


def test_a_reload_leaves_drawn_scenes_as_the_address_has_them(seeing_folder: Path) -> None:
    page = Page(model=str(seeing_folder), tokens="2", prompt="the", scene=write(GALLERY[0].scene))
    page.press("generate").wait_for("done")
    again = Page(model=str(seeing_folder), tokens="2", prompt="the", scene=TWO)
    assert again.session.resume(page.session.tab)
    assert len(again.session.pictures) == 2


def test_a_reload_takes_no_pictures_of_a_run_that_was_only_opened(seeing_folder: Path) -> None:
    page = Page(model=str(seeing_folder), scene=TWO)
    page.session.open(pictured(read_bytes(png(), "a.png")))
    again = Page(**_query(page.run()))
    assert again.session.resume(page.session.tab)
    assert names(again) == [write(sample.scene) for sample in GALLERY[:2]]


def test_a_reload_keeps_a_scene_chosen_after_the_run_of_a_photograph(seeing_folder: Path) -> None:
    page = Page(model=str(seeing_folder), tokens="2", prompt="the")
    choose_files(page, ("a.png", png())).press("generate").wait_for("done")
    show_samples(page).press("sample1")
    again = Page(**_query(page))
    assert again.session.resume(page.session.tab)
    assert names(again) == [write(GALLERY[1].scene)]


def test_a_reload_brings_back_the_fold_of_one_of_several_pictures(seeing_folder: Path) -> None:
    page = Page(model=str(seeing_folder), tokens="2", prompt="the", scene=TWO, fold="image:2")
    page.at.toggle("beside").set_value(True)
    choose_files(page.run(), ("a.png", png())).press("generate").wait_for("done")
    assert Page(**_query(page)).at.selectbox("fold").value == "all"
    again = Page(kept=Kept(page.session.tab, held=True), **_query(page))
    assert len(again.session.pictures) == 3
    assert again.at.session_state["fold"] == "image:2"


class _State(dict):
    """Session state without a running script."""

    __getattr__ = dict.__getitem__
    __setattr__ = dict.__setitem__


class TestAPictureOnAModelOfText:
    def paste(self, page: Page, monkeypatch: pytest.MonkeyPatch, pasted: object) -> None:
        """What the browser's message makes the page do."""
        calls: list[Callable[[], None]] = []
        with monkeypatch.context() as patch:
            patch.setattr(picture_panel, "_paste", lambda **given: calls.append(given["on_pasted_change"]))
            page.run()
            state = _State(session=page.session, fold="all", paste={"pasted": pasted})
            patch.setattr(picture_panel.st, "session_state", state)
            calls[-1]()
        page.run()

    def test_it_is_kept_and_told_of(self, monkeypatch: pytest.MonkeyPatch) -> None:
        page = Page(model="gemma-3-1b-it")
        data = base64.b64encode(png()).decode()
        self.paste(page, monkeypatch, [{"name": "a.png", "data": data}])
        assert names(page) == ["a.png"]
        assert "reads text only; what was pasted is kept. Press “Use a picture as context”" in page.texts()
        page.press("use_picture")
        assert has_panel(page)
        assert names(page) == ["a.png"]

    def test_what_is_no_picture_is_told_of_without_a_promise(self, monkeypatch: pytest.MonkeyPatch) -> None:
        page = Page(model="gemma-3-1b-it")
        self.paste(page, monkeypatch, [{"left_out": 1}])
        assert "One pasted file was left out" in page.texts()
        assert "is kept" not in page.texts()


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


def test_choosing_a_picture_model_leaves_what_was_typed() -> None:
    page = Page(prompt="My own words")
    page.at.selectbox("model").set_value("tiny-shapes")
    page.run()
    assert page.at.text_area("prompt").value == "My own words"
    assert page.session.pictures == []


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


def test_no_file_is_decoded_for_which_there_is_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    tab, read = _Tab(), []
    monkeypatch.setattr(picture_source, "read_bytes", lambda *a: read.append(a[1]) or read_bytes(*a))
    take_files(tab, [(png(), "a")] * 3, beside=False)
    take_files(tab, [(png(), str(k)) for k in range(9)], beside=True)
    assert read == ["a"] * 3 + ["0", "1", "2", "3", "4"]
    assert tab.notices == [
        "A prompt takes at most 8 pictures here; the last 4 were left out. Remove one to make room."
    ]


def test_pictures_of_too_many_pixels_together_are_left_out() -> None:
    tab = _Tab()
    large = replace(read_bytes(png()), image=Image.new("RGB", (10_000, 4_000)))
    small = read_bytes(png("red"), "small")
    choose(tab, [large, large, large, small], beside=False)
    assert [p.name for p in tab.pictures] == ["", "", "small"]
    assert "100,000,000 pixels together; one was left out" in tab.notices[0]


def test_a_choice_that_changes_nothing_cannot_be_undone() -> None:
    tab, full = _Tab(), [scene_picture(GALLERY[k % 2].scene) for k in range(MOST_PICTURES)]
    choose(tab, full, beside=False)
    choose(tab, full[:1], beside=True)
    choose(tab, full, beside=False)
    assert tab.former == [[]]


def test_a_run_says_what_its_pictures_take() -> None:
    assert pictured(read_bytes(png())).nbytes - pictured().nbytes == 3 * 40 * 30 + len(png())
