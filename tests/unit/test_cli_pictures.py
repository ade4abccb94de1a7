"""The command line with pictures: what it takes, what it keeps, what it refuses; and the benchmark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from PIL import Image
from safetensors import safe_open

from ctxviz import bench, bench_material
from ctxviz.engine import stream
from ctxviz.models import load_model
from ctxviz.pictures import read_file
from ctxviz.records import Step
from ctxviz.store import load_run
from tests.tiny_models import IMAGE_PIECES, save_tiny_folder, save_tiny_picture_folder
from tests.unit.test_cli import BENCH_KEYS, KEYS, assert_refused, call, parse

PROMPT = "the robot and the dust"
BOI, EOI, IMAGE = IMAGE_PIECES
SIDEWAYS = 6
"""An EXIF orientation."""


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_tiny_picture_folder(tmp_path_factory.mktemp("seeing")))


@pytest.fixture(scope="module")
def blind(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_tiny_folder(tmp_path_factory.mktemp("blind")))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A red picture, and a blue one that lies on its side."""
    folder = tmp_path_factory.mktemp("pictures")
    paths = (folder / "red.png", folder / "blue.jpg")
    Image.new("RGB", (20, 20), "red").save(paths[0])
    exif = Image.Exif()
    exif[0x0112] = SIDEWAYS
    Image.new("RGB", (20, 30), "blue").save(paths[1], exif=exif)
    return paths


def arguments(model: str, *more: object, prompt: str = PROMPT) -> list[object]:
    return ["run", "--model", model, "--prompt", prompt, "--max-new-tokens", 3, "--json", *more]


def test_pictures_reach_the_model_and_are_kept_where_asked_for(
    model: str, files: tuple[Path, Path], tmp_path: Path
) -> None:
    red, blue = files
    target = tmp_path / "a.ctxviz"
    given = ["--image", red, "--image", blue, "--fold", "image:2", "--save", target]
    status, out, err = call(*arguments(model, *given, "--keep-pictures"))
    assert status == 0
    assert err == "ctxviz: The picture “blue.jpg”: turned upright.\n"
    lines, run = parse(out), load_run(target)
    assert [list(line) for line in lines] == [KEYS] * 3
    assert [picture.data for picture in run.pictures] == [red.read_bytes(), blue.read_bytes()]
    assert str(run.settings.fold) == "image:2"
    assert len(run.context.images) == 2

    loaded = load_model(model)
    pictures = [read_file(path) for path in files]
    steps = [s for s in stream(loaded, PROMPT, run.settings, pictures=pictures) if isinstance(s, Step)]
    assert [line["tvd"] for line in lines] == [step.variants[0].tvd for step in steps]
    assert [line["next_token_id"] for line in lines] == [step.next_token_id for step in steps]

    status, out, _ = call(*arguments(model, *given))
    assert (status, parse(out)[0]["next_token_id"]) == (0, lines[0]["next_token_id"])
    again = load_run(target)
    assert (again.pictures, again.context) == ((), run.context)

    _, other, _ = call(*arguments(model, "--image", blue, "--image", red, "--fold", "image:2"))
    assert [line["unpatched_tvd"] for line in parse(other)] != [line["unpatched_tvd"] for line in lines]


def test_a_picture_goes_where_the_prompt_says(model: str, files: tuple[Path, Path], tmp_path: Path) -> None:
    target, before = tmp_path / "a.ctxviz", []
    for prompt in (PROMPT, f"dust {BOI} dust"):
        options = ("--image", files[0], "--fold", "text", "--save", target)
        status, _, err = call(*arguments(model, *options, prompt=prompt))
        assert (status, err) == (0, "")
        context = load_run(target).context
        (span,) = context.images
        assert context.token_texts[span.start] == BOI
        assert set(span.tokens) <= set(context.kept(len(context.token_ids)))
        before.append("".join(context.token_texts[: span.start]))
    assert ["dust" in text for text in before] == [False, True]


def test_patches_tell_the_pictures_they_belong_to(
    model: str, files: tuple[Path, Path], tmp_path: Path
) -> None:
    for fold, kept in (("image", 0), ("text", 4)):
        folder = tmp_path / fold
        call(*arguments(model, "--image", files[0], "--fold", fold, "--save-patches", folder))
        paths = sorted(folder.iterdir())
        assert len(paths) == 3
        for path in paths:
            with safe_open(str(path), framework="numpy") as file:
                about = file.metadata()
            assert json.loads(about["image_sha256"]) == [read_file(files[0]).sha256]
            assert json.loads(about["kept_ids"]).count(383) == kept
            assert json.loads(about["context_ids"]).count(383) == 4
    call(*arguments(model, "--save-patches", tmp_path / "words"))
    with safe_open(str(next((tmp_path / "words").iterdir())), framework="numpy") as file:
        assert "image_sha256" not in file.metadata()


def refused(model: str, *options: object, words: tuple[str, ...], prompt: str = PROMPT) -> None:
    assert_refused(*call(*arguments(model, *options, prompt=prompt)), *words)


def test_pictures_that_cannot_be_read(model: str, tmp_path: Path) -> None:
    text = tmp_path / "notes.png"
    text.write_text("no picture")
    refused(model, "--image", text, words=("“notes.png”", "is not a PNG"))
    refused(model, "--image", tmp_path / "absent.png", words=("“absent.png”", "does not exist"))
    refused(model, "--image", tmp_path, words=("is a folder",))
    (tmp_path / "empty.png").touch()
    refused(model, "--image", tmp_path / "empty.png", words=("0 bytes",))


def test_pictures_are_read_before_a_model_is_looked_for(tmp_path: Path) -> None:
    refused(str(tmp_path / "nowhere"), "--image", tmp_path / "absent.png", words=("“absent.png”",))


def test_a_model_that_reads_text_only_says_so_before_it_is_loaded(
    blind: str, files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def load(*_: object, **__: object) -> None:
        raise AssertionError("loaded")

    monkeypatch.setattr("ctxviz.models.loading.load_model", load)
    monkeypatch.setattr("ctxviz.models.load_model", load, raising=False)
    for reference in (blind, "gemma-3-270m"):
        refused(reference, "--image", files[0], words=("reads text only", "tiny-shapes"))
        assert_refused(*call("bench", "--model", reference, "--image-tokens", 16), "reads text only")
    gguf = tmp_path / "some.gguf"
    gguf.write_bytes(b"GGUF")
    refused(str(gguf), "--image", files[0], words=("reads text only",))


def test_prompts_whose_pictures_do_not_fit(model: str, files: tuple[Path, Path]) -> None:
    image = ("--image", files[0])
    refused(model, *image, prompt=f"{BOI} and {BOI} dust", words=("2 places", "1 picture is given"))
    refused(model, prompt=f"{BOI} dust", words=("1 place", "0 pictures are given"))
    for piece in (IMAGE, EOI):
        refused(model, *image, prompt=f"dust {piece}", words=(piece, "cannot be typed"))
    refused(model, *image, "--fold", "image:2", words=("picture 2", "the prompt has 1"))
    refused(model, "--fold", "image", words=("no picture",))
    refused(model, *image, "--fold", "image:0", words=("image:N",))


def test_pictures_can_only_be_kept_where_there_are_some_and_a_file(
    model: str, files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "a.ctxviz"
    refused(model, "--image", files[0], "--keep-pictures", words=("no pictures to keep", "--save RUN_FILE"))
    refused(model, "--save", target, "--keep-pictures", words=("no pictures to keep", "--image FILE"))
    monkeypatch.setattr("ctxviz.store.stored_pictures.PICTURES", 1)
    kept = ("--image", files[0], "--image", files[0], "--save", target, "--keep-pictures")
    refused(model, *kept, words=("2 pictures", "1 at most"))
    assert not target.exists()
    before = files[0].read_bytes()
    refused(model, "--image", files[0], "--save", files[0], words=("one of the pictures",))
    assert files[0].read_bytes() == before


@pytest.fixture
def short_bench(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many pictures the new process of a benchmark was given, each time."""
    given: list[int] = []

    def measured(*arguments: object) -> float:
        given.append(len(arguments[3]))  # type: ignore[arg-type]
        return 1.5

    monkeypatch.setattr(bench, "first_token_seconds", measured)
    monkeypatch.setattr(bench, "LATE", 12)
    monkeypatch.setattr(bench, "EARLY", 6)
    monkeypatch.setattr(bench, "AROUND", 1)
    return given


def test_bench_counts_the_image_tokens(model: str, short_bench: list[int]) -> None:
    options = ("bench", "--model", model, "--context", 16, "--tokens", 3, "--image-tokens", 9)
    status, out, err = call(*options, "--json")
    rows = parse(out)
    assert status == 0, err
    assert [list(row) for row in rows] == [[*BENCH_KEYS, "image_tokens"]] * 10
    # Three pictures of four tokens hold at least nine; each has a start, an end and what lies around it.
    assert [row["image_tokens"] for row in rows] == [12] * 10
    whole = rows[0]["context"]
    assert whole >= 16 + 3 * 6
    assert [row["context"] for row in rows] == [whole] * 8 + [whole + 6, whole + 12]
    assert short_bench == [1, 1]
    status, out, _ = call(*options)
    assert (status, "12 image tokens in the context" in out) == (0, True)


def test_the_stock_side_reads_the_same_pictures(model: str) -> None:
    loaded = load_model(model)
    given = bench_material.material(loaded, 16, 8)
    assert len(given.pictures) == 2
    assert given.pictures[0].sha256 != given.pictures[1].sha256
    running = bench._stream(loaded, given, bench._settings("float32", "written", "stable", 4))
    steps = [item for item in running if isinstance(item, Step)]
    assert given.follow is not None
    assert [step.next_token_id for step in steps] == list(given.follow[:4])
    for rows in (1, 2):
        stock = bench._StockDecoding(loaded, "float32", running, rows)
        for step in steps:
            logits = stock._forward([step.token_id])
            assert logits.shape[0] == rows
            p = torch.softmax(logits[:, -1].double(), -1)
            top = step.baselines[0].top
            for row in p:
                assert abs(float(row[int(top.ids[0])]) - float(top.probabilities[0])) < 1e-5
    blind = bench._StockDecoding(loaded, "float32", _Without(running.context), 1)
    p = torch.softmax(blind._forward([steps[0].token_id])[0, -1].double(), -1)
    top = steps[0].baselines[0].top
    assert abs(float(p[int(top.ids[0])]) - float(top.probabilities[0])) > 1e-3


class _Without:
    """A stream's context without its pictures."""

    def __init__(self, context: object) -> None:
        self.context = context
        self.pictures = ()


def test_drawn_pictures_differ() -> None:
    pictures = bench_material.drawn_pictures(16)
    assert len({picture.sha256 for picture in pictures}) == 16
    assert pictures[0].sha256 == bench_material.drawn_pictures(1)[0].sha256
