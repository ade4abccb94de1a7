"""Sweeps whose prompts show pictures: what a specification may say, and that a cell is its pictures' too."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import ctxviz.models.cache
from ctxviz.engine import stream
from ctxviz.models import LoadedModel, load_model
from ctxviz.models.progress import silent
from ctxviz.pictures import from_image, read_file
from ctxviz.presets import PRESETS
from ctxviz.records import Step
from ctxviz.shapes.recognition import scene_picture
from ctxviz.shapes.writing import read
from ctxviz.store import load_run
from ctxviz.sweep.cells import Cell, cells_of
from ctxviz.sweep.folder import SweepFolder
from ctxviz.sweep.prompts import Prompt
from ctxviz.sweep.runner import Runner
from ctxviz.sweep.spec import SweepSpec, read_spec
from ctxviz.sweep.weights import Weights, identify
from tests.oracle.stock_pictures import noise_image
from tests.tiny_models import save_tiny_folder, save_tiny_picture_folder
from tests.unit.test_cli import assert_refused, call, parse

ROOT = Path(__file__).parents[2]
SCENE = "red-circle-0.blue-square-4.white"
QUESTION = "what is on the hill"
ALONE = {"updates": ["direct"], "max_new_tokens": 2, "device": "cpu", "threads": 1}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctxviz.models.cache, "models_folder", lambda: tmp_path)


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def seeing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_picture_folder(tmp_path_factory.mktemp("models") / "seeing")


@pytest.fixture(scope="module")
def model(seeing: Path) -> LoadedModel:
    return load_model(str(seeing), device="cpu")


@pytest.fixture
def weights(seeing: Path) -> Weights:
    return identify(str(seeing), silent)


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """A folder for a specification, with pictures in a folder beside it."""
    (tmp_path / "shown").mkdir()
    for name, seed in (("a", 1), ("b", 2)):
        (tmp_path / "shown" / f"{name}.png").write_bytes(from_image(noise_image(seed), name).data)
    return tmp_path


def write_spec(folder: Path, model: Path | str, prompts: object, **more: Any) -> Path:
    """A specification; TOML's inline tables are written with an equals sign where JSON has a colon."""
    path = folder / "spec.toml"
    values = {"model": str(model), "prompts": prompts, **ALONE, **more}
    path.write_text("".join(f"{key} = {toml(value)}\n" for key, value in values.items()))
    return path


def toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml(item)}" for key, item in value.items()) + "}"
    return f"[{', '.join(map(toml, value))}]" if isinstance(value, list) else json.dumps(value)


def named(spec: SweepSpec) -> list[tuple[str, list[str]]]:
    return [(prompt.text, [picture.name for picture in prompt.pictures]) for prompt in spec.prompts]


def test_pictures_are_files_beside_the_specification_or_scenes(pictures: Path) -> None:
    spec = read_spec(
        write_spec(
            pictures,
            "tiny",
            ["plain", {"text": "own", "pictures": [SCENE, "shown/b.png"]}, {"text": "none", "pictures": []}],
            pictures=["shown/a.png"],
        )
    )
    assert named(spec) == [("plain", ["a.png"]), ("own", [SCENE, "b.png"]), ("none", [])]
    assert spec.prompts[0].hashes == (read_file(pictures / "shown" / "a.png").sha256,)
    assert spec.prompts[1].hashes[0] == scene_picture(read(SCENE)).sha256
    presets = read_spec(write_spec(pictures, "tiny", "presets", pictures=[SCENE]))
    assert [p.text for p in presets.prompts] == [preset.prompt for preset in PRESETS]
    assert {p.hashes for p in presets.prompts} == {spec.prompts[1].hashes[:1]}


def test_a_prompt_may_be_asked_of_several_pictures(pictures: Path) -> None:
    shown = [[SCENE], ["shown/a.png"], ["shown/b.png"], [SCENE, "shown/a.png"], ["shown/a.png", SCENE], []]
    spec = read_spec(write_spec(pictures, "tiny", [{"text": QUESTION, "pictures": one} for one in shown]))
    cells = cells_of(spec, "tiny", 4)
    assert [cell.title for cell in cells] == [str(n) for n in range(1, 7)]
    assert len({cell.digest for cell in cells}) == 6
    assert cells[5].digest == Cell(9, "x", "tiny", Prompt(QUESTION), cells[5].settings).digest


def test_cells_without_pictures_have_the_names_they_always_had() -> None:
    """Those of the shipped sweep were written before a sweep could carry pictures."""
    folder = ROOT / "assets" / "sweeps" / "five-prompts"
    cells = cells_of(read_spec(folder.with_suffix(".toml")), "gemma-3-270m", 18)
    assert {cell.file_name for cell in cells} == {path.name for path in folder.glob("*.ctxviz")}


def test_a_cell_is_the_run_of_its_picture_and_is_found_again_by_it(
    pictures: Path, seeing: Path, model: LoadedModel, weights: Weights
) -> None:
    spec = read_spec(
        write_spec(
            pictures, seeing, [{"text": QUESTION, "pictures": [f"shown/{name}.png"]} for name in ("a", "b")]
        )
    )
    cells = cells_of(spec, weights.key, weights.n_layers)
    with SweepFolder(pictures / "out") as folder:
        assert [e.kind for e in Runner(cells, model, weights, folder)].count("saved") == 2
        for cell in cells:
            found = folder.find(cell, weights)
            assert found.run is not None
            assert found.run.context.image_sha256 == cell.prompt.hashes
            direct = stream(model, QUESTION, cell.settings, pictures=cell.prompt.pictures)
            steps = [item for item in direct if isinstance(item, Step)]
            assert [found.run.series("tvd", 0)[k] for k in range(2)] == [s.variants[0].tvd for s in steps]
        a, b = (folder.find(cell, weights).run for cell in cells)
        assert a is not None
        assert b is not None
        assert a.series("tvd", 0)[0] != b.series("tvd", 0)[0], "the picture makes no difference"
        # The same cell's file with the other picture's run in it is not taken for it.
        (folder.path / cells[0].file_name).write_bytes((folder.path / cells[1].file_name).read_bytes())
        assert "another run" in folder.find(cells[0], weights).fault


def test_another_picture_under_the_same_name_is_another_cell(pictures: Path, seeing: Path) -> None:
    spec = write_spec(pictures, seeing, [QUESTION], pictures=["shown/a.png"])
    assert call("sweep", spec)[0] == 0
    (first,) = (pictures / "spec").glob("*.ctxviz")
    before = first.stat().st_mtime_ns
    assert call("sweep", spec)[0] == 0
    assert first.stat().st_mtime_ns == before
    (pictures / "shown" / "a.png").write_bytes((pictures / "shown" / "b.png").read_bytes())
    assert call("sweep", spec)[0] == 0
    assert first.stat().st_mtime_ns == before
    (second,) = set((pictures / "spec").glob("*.ctxviz")) - {first}
    shown = read_file(pictures / "shown" / "b.png").sha256
    assert load_run(second).context.image_sha256 == (shown,)


def test_what_the_command_line_says_of_pictures(pictures: Path, seeing: Path, tmp_path: Path) -> None:
    upside_down = noise_image(3)
    exif = upside_down.getexif()
    exif[274] = 3
    upside_down.save(pictures / "shown" / "turned.jpg", exif=exif)
    spec = write_spec(pictures, seeing, [QUESTION, "and"], pictures=[SCENE, "shown/turned.jpg"])
    status, out, err = call("sweep", spec, "--dry-run")
    assert (status, err.count("turned upright"), len(err.splitlines())) == (0, 1, 1)
    assert "pictures" in out
    assert "turned.jpg" in "".join(line.split("│")[-1].replace(" ", "") for line in out.splitlines())
    status, out, _ = call("sweep", spec, "--dry-run", "--json")
    hashes = [scene_picture(read(SCENE)).sha256, read_file(pictures / "shown" / "turned.jpg").sha256]
    assert [line["pictures"] for line in parse(out)] == [hashes, hashes]
    status, out, _ = call("sweep", write_spec(pictures, seeing, [QUESTION]), "--dry-run")
    assert "pictures" not in out
    blind = save_tiny_folder(tmp_path / "blind")
    refused = call("sweep", write_spec(pictures, blind, [QUESTION], pictures=[SCENE]))
    assert_refused(*refused, "reads text only")
    gone = call("sweep", write_spec(pictures, seeing, [QUESTION], pictures=["shown/c.png"]))
    assert_refused(*gone, "“c.png” does not exist", "The sweep's pictures cannot all be read")
