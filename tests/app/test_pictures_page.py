"""The Pictures page: what it says where nothing can be asked, and its three questions with a tiny model."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ctxviz.engine import stream
from ctxviz.figures.text import readable
from ctxviz.folds import Fold
from ctxviz.models import LoadedModel, load_model
from ctxviz.picture_findings import GREY, grids
from ctxviz.pictures import Picture
from ctxviz.records import Step
from ctxviz.run import Run
from ctxviz.settings import RunSettings
from ctxviz.shapes.gallery import GALLERY
from ctxviz.ui import picture_jobs
from ctxviz.ui.picture_cover import GROUND, finenesses
from ctxviz.ui.picture_jobs import PictureRequest, Question
from ctxviz.ui.picture_source import scene_picture
from tests.app.conftest import Page
from tests.app.test_numerics_pages import cards, titles, turn_to
from tests.synthetic import synthetic_run
from tests.tiny_models import save_tiny_picture_folder
from tests.unit.test_occlusion import run_with

SCENE: Picture = scene_picture(GALLERY[0].scene)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_picture_folder(tmp_path_factory.mktemp("pictures"))


def run_of(folder: Path, fold: str = "all") -> Run:
    model = load_model(str(folder))
    settings = RunSettings(updates=("floored",), fold=Fold.parse(fold), max_new_tokens=3)
    source = stream(model, "the thing", settings, pictures=[SCENE])
    run = Run(model.identity, source.context, settings, source.pictures)
    for record in source:
        run.append(record) if isinstance(record, Step) else run.refer(record)
    run.outcome = "finished"
    model.close()
    return run


def boxed(page: Page) -> list[list[tuple[str, str]]]:
    """The tokens in boxes of each answer, with what they are about."""
    shown = [
        json.loads(element.proto.json)
        for element in page.at.get("bidi_component")
        if element.proto.component_name == "ctxviz.sentence"
    ]
    return [[(text, about) for text, about in s["parts"] if about] for s in shown if s["kind"] == "parts"]


def at(folder: Path) -> Page:
    return turn_to(Page(model=str(folder), prompt="the thing"), "pictures")


class TestWithoutAPicture:
    def test_a_run_of_text_is_told_what_to_do(self, folder: Path) -> None:
        page = at(folder)
        assert "The run on screen has no picture." in page.texts()
        assert cards(page) == []

    @pytest.mark.parametrize("fold", ["all", "text"])
    def test_pictures_that_are_kept_or_not_stored_are_told_of(self, folder: Path, fold: str) -> None:
        page, run = at(folder), run_of(folder, fold)
        run.pictures = run.pictures if fold == "text" else ()
        page.session.open(run)
        words = {"all": "The pictures are not in the file", "text": "keeps the picture in the input"}
        assert words[fold] in page.run().texts()
        # What was answered is recorded, and says something where the picture is folded.
        assert titles(page) == (["The answers, token by token"] if fold == "all" else [])
        assert ("With the picture" in page.texts().splitlines()) == (fold == "all")
        assert "ask-without" not in [button.key for button in page.at.button]
        assert not page.at.get("imgs")

    def test_a_file_without_its_pictures_that_keeps_them_in_the_input_shows_no_answers(
        self, folder: Path
    ) -> None:
        page, run = at(folder), run_of(folder, "text")
        run.pictures = ()
        page.session.open(run)
        assert "The pictures are not in the file" in page.run().texts()
        assert cards(page) == []


class TestWithAPicture:
    @pytest.fixture
    def recorded(self, folder: Path) -> Run:
        return run_of(folder)

    def finished(self, page: Page, kind: str, state: str = "done") -> Page:
        def ended() -> bool:
            asked = [r for q, r in page.session.looks.items() if q.kind == kind]
            return bool(asked) and asked[-1].view.state == state

        return page.wait(ended)

    def test_the_answers_are_there_before_anything_is_asked(self, folder: Path, recorded: Run) -> None:
        page = at(folder)
        texts = page.texts()
        assert "With the picture" in texts
        assert "3 of 3 tokens as with the picture." in texts
        assert "Without the picture\n" not in texts
        assert page.at.button("ask-without").label == "Ask without the picture"
        assert recorded.token(0)[4] in texts

    def test_the_picture_is_taken_away(self, folder: Path) -> None:
        page = self.finished(at(folder).press("ask-without"), "without")
        assert titles(page) == ["The answers, token by token"]
        assert "Without the picture" in page.texts().splitlines()
        assert "ask-without" not in [button.key for button in page.at.button]

    def test_squares_are_covered_and_remembered_while_the_run_is_on_screen(
        self, folder: Path, recorded: Run
    ) -> None:
        page = at(folder)
        assert "5 passes" in page.texts()
        assert list(page.at.button_group("grid-0").options) == ["2 × 2, tile by tile"]
        page = self.finished(page.press("ask-occlusion"), "occlusion")
        (card,) = cards(page)
        assert card["title"].startswith("What the patches of token")
        assert card["csv"].count("\n") == 5
        (question,) = page.session.looks
        assert (question.kind, question.grid) == ("occlusion", 2)
        # Plain red: its ground is what it is covered with, until grey is asked for.
        assert question.colour == recorded.pictures[0].image.getpixel((0, 0)) != GREY
        page.at.button_group("cover-0").set_value("mid grey")
        assert cards(page.run()) == []
        page.at.button_group("cover-0").set_value(GROUND)
        assert len(cards(page.run())) == 1
        # Another token has not been asked about; this one's answer is still there.
        others = [k for k in range(len(recorded)) if k != question.step]
        page.at.number_input("picture_step").set_value(others[0])
        assert cards(page.run()) == []
        page.at.number_input("picture_step").set_value(question.step)
        assert len(cards(page.run())) == 1
        page.session.open(run_of(folder, "image"))
        assert cards(page.run()) == []
        assert page.session.looks == {}

    def test_the_end_and_other_special_tokens_are_set_off(self, folder: Path, recorded: Run) -> None:
        assert boxed(at(folder)) == [[], []]
        recorded.outcome = "end of text"
        last = readable(recorded.token(2)[4])
        written, said = boxed(at(folder))
        assert written[-1] == (last, "the end of the text")
        assert said == written

    def test_the_model_that_is_asked_tells_its_special_tokens(
        self, folder: Path, recorded: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first = recorded.token(0)
        begin = PictureRequest.begin

        def with_a_special(self: PictureRequest, model: LoadedModel):
            model.special_ids = frozenset({first[3]})
            return begin(self, model)

        monkeypatch.setattr(PictureRequest, "begin", with_a_special)
        page = at(folder)
        assert boxed(page)[0] == []
        page = self.finished(page.press("ask-without"), "without")
        assert (readable(first[4]), "a special token") in boxed(page)[0]

    def test_another_picture_is_put_in_its_place(self, folder: Path) -> None:
        page = self.finished(at(folder).press("ask-swap"), "swap")
        assert [title.split(",")[0] for title in titles(page)] == [
            "Whose answer the patches give",
            "How far the patches of B are from those of A",
        ]
        (question,) = page.session.looks
        assert question.other == scene_picture(GALLERY[1].scene).sha256

    def test_it_stops_between_squares_and_keeps_what_it_has(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        take = picture_jobs._Working.__next__
        monkeypatch.setattr(picture_jobs._Working, "__next__", lambda self: (time.sleep(0.3), take(self))[1])
        page = at(folder).press("ask-occlusion")
        (request,) = page.session.looks.values()
        page.wait(lambda: request.found is not None and request.found.squares)  # type: ignore[union-attr]
        page.press("stop-occlusion")
        page = self.finished(page, "occlusion", "stopped")
        assert "Stopped before it was finished" in page.texts()
        assert "not covered yet" in cards(page)[0]["caption"]
        assert "ask-occlusion" in [button.key for button in page.at.button]

    def test_another_model_is_refused_with_a_sentence(self, tiny_folder: Path) -> None:
        page = self.finished(at(tiny_folder).press("ask-occlusion"), "occlusion", "failed")
        assert "choose the model that made it" in page.texts()
        assert Question("without") not in page.session.looks

    def test_the_model_that_made_the_run_is_asked_whichever_is_chosen(
        self, folder: Path, recorded: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[str] = []
        monkeypatch.setattr(picture_jobs, "ask", lambda _, reference, *__: asked.append(reference))
        page = at(folder).press("ask-without")
        recorded.model = replace(recorded.model, key="tiny-shapes")
        page.run().press("ask-without")
        assert asked == [str(folder), "tiny-shapes"]
        assert "go to “tiny-shapes”, which made it. A model" in page.texts()

    def test_another_square_count_takes_the_place_of_a_question_under_way(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        take = picture_jobs._Working.__next__
        monkeypatch.setattr(picture_jobs._Working, "__next__", lambda self: (time.sleep(0.3), take(self))[1])
        page = at(folder).press("ask-occlusion")
        (first,) = page.session.looks.values()
        page.at.number_input("picture_step").set_value((first.question.step + 1) % 3)
        page.run().press("ask-occlusion")
        page.wait(lambda: first.view.state == "stopped")
        page = self.finished(page, "occlusion")
        assert len(page.session.looks) == 2

    def test_a_question_ends_with_its_run_on_any_page(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        take = picture_jobs._Working.__next__
        monkeypatch.setattr(picture_jobs._Working, "__next__", lambda self: (time.sleep(0.3), take(self))[1])
        page = turn_to(at(folder).press("ask-occlusion"), "live")
        (request,) = page.session.looks.values()
        assert request.view.state != "stopped"
        page.session.open(run_of(folder, "image"))
        page.run()
        assert page.session.looks == {}
        page.wait(lambda: request.view.state == "stopped")


@pytest.mark.parametrize(
    ("side", "size", "wanted", "first"),
    [
        (16, 896, (2, 4, 8, 16), 8),
        (4, 256, (2, 4), 4),
        (16, 12, (2, 4, 8), 8),
        (12, 256, (2, 3, 4, 6, 12), 6),
        (32, 896, (2, 4, 8), 8),
        (1, 64, (1,), 1),
    ],
)
def test_the_squares_go_down_to_a_tile_and_begin_as_they_did(
    side: int, size: int, wanted: tuple[int, ...], first: int
) -> None:
    run = run_with(side, (size, size))
    assert finenesses(run, 0) == wanted
    assert max(set(wanted) & set(grids(run))) == first


class TestOfMoreTiles:
    """Tile by tile: sixteen times sixteen squares, of a run whose model is not asked."""

    @pytest.fixture
    def recorded(self) -> Run:
        run, spoken = run_with(16, (64, 64)), synthetic_run(2, 8, 2)
        spoken.context = replace(run.context, image_sha256=(run.pictures[0].sha256,))
        spoken.pictures = run.pictures
        return spoken

    def test_the_fineness_is_chosen_with_its_passes_beside_it(
        self, folder: Path, recorded: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[Question] = []
        monkeypatch.setattr(picture_jobs, "ask", lambda _, __, question, *___: asked.append(question))
        page = at(folder)
        assert page.at.button_group("grid-0").value == 8
        assert "65 passes" in page.texts()
        page.at.button_group("grid-0").set_value(16)
        assert "257 passes" in page.run().texts()
        assert page.at.button("ask-occlusion").label == "Cover 256 squares"
        page.press("ask-occlusion")
        assert [(q.grid, q.units(recorded)) for q in asked] == [(16, 256)]
