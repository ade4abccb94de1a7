"""Sweeps: what a specification may say, its cells, and that finished ones are never lost or run again."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ctxviz.engine
import ctxviz.models.cache
from ctxviz.errors import CtxvizError, SettingsError
from ctxviz.folds import Fold
from ctxviz.models import LoadedModel, load_model
from ctxviz.models.progress import silent
from ctxviz.presets import PRESETS
from ctxviz.records import Step
from ctxviz.run import Run
from ctxviz.settings import RunSettings
from ctxviz.shapes.scenes import COLOURS, SHAPES
from ctxviz.store import load_run, save_run
from ctxviz.sweep import runner as runner_module
from ctxviz.sweep import summary
from ctxviz.sweep.cells import Cell, cells_of
from ctxviz.sweep.folder import SweepFolder
from ctxviz.sweep.prompts import Prompt
from ctxviz.sweep.runner import Event, Runner
from ctxviz.sweep.spec import SweepSpec, parse_spec, read_spec, spec_of
from ctxviz.sweep.weights import Weights, identify
from tests.tiny_models import save_tiny_folder, tiny_gemma3
from tests.unit.test_imports import heavy_after

ROOT = Path(__file__).parents[2]
TABLE: dict[str, Any] = {
    "model": "tiny",
    "prompts": ["the robot and the dust", "the dust"],
    "updates": ["direct", "floored"],
    "floors": [0.3, 1],
    "dtypes": ["float32", "bfloat16"],
    "max_new_tokens": 4,
}


def spec_with(**changes: Any) -> SweepSpec:
    return spec_of({k: v for k, v in (TABLE | changes).items() if v is not None})


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hashes of the tiny models are remembered here and not in the reader's own cache."""
    monkeypatch.setattr(ctxviz.models.cache, "models_folder", lambda: tmp_path)


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_folder(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def model(tiny: Path) -> LoadedModel:
    return load_model(str(tiny), dtypes=("float32", "bfloat16"), device="cpu")


@pytest.fixture
def weights(tiny: Path) -> Weights:
    return identify(str(tiny), silent)


def test_a_specification_that_says_little_takes_the_defaults_of_a_run() -> None:
    spec = parse_spec(b'\xef\xbb\xbfmodel = "tiny"\nprompts = ["caf\xc3\xa9"]')
    assert spec == SweepSpec("tiny", (Prompt("café"),))
    assert spec.settings == dataclasses.replace(RunSettings(), vector_budget=0)
    assert (spec.floors, spec.first_layers, spec.device, spec.threads) == ((0.6,), (0,), "auto", None)


def test_a_specification_that_says_all_there_is_to_say() -> None:
    spec = spec_with(
        arithmetics=["written", "factored"], fold="1:3", replays=["ulp", "batch"], hold=3, budget=True,
        vectors=True, device="cpu", threads=2, output="a/b", first_layers=[2, 0], prompts="presets",
    )  # fmt: skip
    assert spec.prompts == tuple(Prompt(preset.prompt) for preset in PRESETS)
    assert (spec.floors, spec.first_layers) == ((0.3, 1.0), (2, 0))
    assert (spec.device, spec.threads, spec.output) == ("cpu", 2, "a/b")
    assert spec.settings == RunSettings(
        updates=("direct", "floored"), arithmetics=("written", "factored"), dtypes=("float32", "bfloat16"),
        fold=Fold("span", 1, 3), max_new_tokens=4, replays=("ulp", "batch"), hold=3, budget=True,
    )  # fmt: skip


SCENE = "red-circle-0.blue-square-4.white"


def scenes(count: int) -> list[str]:
    """Texts of so many different scenes."""
    things = [f"{colour}-{shape}-{place}" for colour in COLOURS for shape in SHAPES for place in range(9)]
    return [f"{thing}.white" for thing in things][:count]


BAD: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "unknown key": ({"promts": ["a"]}, ("promts", "prompts", "max_new_tokens")),
    "no model": ({"model": None}, ("model",)),
    "model of a wrong type": ({"model": 3}, ("model", "text")),
    "blank model": ({"model": " "}, ("model", "text")),
    "no prompts": ({"prompts": None}, ("prompts", "presets")),
    "empty prompts": ({"prompts": []}, ("prompts", "empty")),
    "one prompt": ({"prompts": "the dust"}, ("prompts", "list")),
    "a blank prompt": ({"prompts": ["a", " \n"]}, ("prompts", "number 2")),
    "a prompt with NUL": ({"prompts": ["a\0"]}, ("prompts", "NUL")),
    "a prompt that is a number": ({"prompts": ["a", 1]}, ("prompts", "1", "texts")),
    "a prompt twice": ({"prompts": ["a", "b", "a"]}, ("prompts", "'a'", "twice", "number 3")),
    "the same text and picture": (
        {"prompts": ["a", {"text": "a", "pictures": [SCENE]}], "pictures": [SCENE]},
        ("prompts", "same pictures twice", "number 2"),
    ),
    "a prompt with another key": (
        {"prompts": [{"text": "a", "picture": SCENE}]},
        ("Number 1", "'picture'", "text and pictures"),
    ),
    "a prompt without a text": ({"prompts": [{"pictures": [SCENE]}]}, ("number 1",)),
    "pictures as a text": ({"pictures": "a.png"}, ("sweep's pictures", "'a.png'", "list")),
    "a picture that is a number": (
        {"prompts": [{"text": "a", "pictures": [1]}]},
        ("number 1", "[1]", "picture files"),
    ),
    "a picture without a name": ({"pictures": [" "]}, ("pictures", "list")),
    "a picture that is not there": ({"pictures": ["none.png"]}, ("“none.png” does not exist", "pictures")),
    "a picture that is none": ({"pictures": [__file__]}, ("PNG", "pictures")),
    "too many pictures": ({"pictures": [SCENE] * 33}, ("are 33", "at most 32")),
    "too many different pictures": (
        {"prompts": [{"text": str(k), "pictures": [scene]} for k, scene in enumerate(scenes(65))]},
        ("more than 64", "two sweeps"),
    ),
    "unknown rule": ({"updates": ["magic"]}, ("updates", "magic", "rescaled")),
    "a rule twice": ({"updates": ["direct", "direct"]}, ("updates", "twice")),
    "rules as a text": ({"updates": "direct"}, ("updates", "list")),
    "empty rules": ({"updates": []}, ("updates", "empty")),
    "unknown dtype": ({"dtypes": ["int8"]}, ("dtypes", "int8", "bfloat16")),
    "unknown arithmetic": ({"arithmetics": ["mental"]}, ("arithmetics", "mental", "factored")),
    "unknown replay": ({"replays": ["held"]}, ("replays", "held", "batch")),
    "empty replays": ({"replays": []}, ("replays", "leave it out")),
    "empty floors": ({"floors": []}, ("floors", "empty")),
    "floor of zero": ({"floors": [0.5, 0.0]}, ("floors", "above 0")),
    "floor above one": ({"floors": [1.5]}, ("floors", "at most 1")),
    "floor that is no number": ({"floors": [float("nan")]}, ("floors", "above 0")),
    "floor that is true": ({"floors": [True]}, ("floors", "true", "numbers")),
    "floor beyond a float": ({"floors": [10**400]}, ("floors", "numbers")),
    "a floor twice": ({"floors": [1, 1.0]}, ("floors", "twice")),
    "floors that look the same": ({"floors": [0.3, 0.30000000000000004]}, ("floors", "look the same")),
    "floors nobody reads": ({"updates": ["direct"]}, ("floors", "floored")),
    "negative layer": ({"first_layers": [-1]}, ("first_layers", "0 or a later")),
    "layer that is no whole number": ({"first_layers": [1.0]}, ("first_layers", "1.0", "whole")),
    "a layer twice": ({"first_layers": [1, 1]}, ("first_layers", "twice")),
    "other layers": ({"first_layers": "some"}, ("first_layers", "all")),
    "fold": ({"fold": "some"}, ("fold", "START:END")),
    "fold of a wrong type": ({"fold": 3}, ("fold", "text")),
    "no tokens": ({"max_new_tokens": 0}, ("max_new_tokens", "from 1")),
    "tokens as a text": ({"max_new_tokens": "4"}, ("max_new_tokens", "whole")),
    "hold of a token never made": ({"hold": 4}, ("hold", "from 0 to 3")),
    "budget": ({"budget": 1}, ("budget", "true or false")),
    "vectors": ({"vectors": "yes"}, ("vectors", "true or false")),
    "device": ({"device": ["cpu"]}, ("device", "text")),
    "threads": ({"threads": 0}, ("threads", "from 1")),
    "threads as true": ({"threads": True}, ("threads", "whole")),
    "output elsewhere": ({"output": "/tmp/x"}, ("output", "--out")),
    "output above": ({"output": "a/../../x"}, ("output", "--out")),
    "output on a drive": ({"output": "c:\\x"}, ("output", "--out")),
    "too many cells": ({"prompts": [str(n) for n in range(5001)]}, ("10002", "10000")),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_specifications_that_make_no_sense(case: str) -> None:
    changes, fragments = BAD[case]
    with pytest.raises(SettingsError) as refused:
        spec_with(**changes)
    sentence = str(refused.value)
    assert all(fragment in sentence for fragment in fragments), sentence
    assert sentence.endswith(".")
    assert len(sentence.splitlines()) == 1
    assert len(sentence) < 400


@pytest.mark.parametrize(
    ("data", "fragment"),
    [
        (b"model = ", "not valid TOML"),
        (b"a = " + b"[" * 100_000, "not valid TOML"),
        (b"a = 1" + b"0" * 5000, "not valid TOML"),
        (b'model = "\xff"', "UTF-8"),
        (b"#" * (2**20 + 1), "larger than 1 MiB"),
        (b"model = 2020-01-01\nprompts = ['a']", "model"),
        (b"[prompts]\na = 1\n", "model"),
    ],
)
def test_files_that_are_no_specification(data: bytes, fragment: str, tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_bytes(data)
    with pytest.raises(SettingsError, match=fragment):
        read_spec(tmp_path / "bad.toml")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, fragment in (("none.toml", "no sweep file"), ("pipe", "regular"), ("", "regular")):
        with pytest.raises(SettingsError, match=fragment):
            read_spec(tmp_path / name)
    with pytest.raises(SettingsError, match="cannot be read"):
        read_spec(tmp_path / ("x" * 300))


@pytest.mark.timeout(20)
def test_a_specification_that_becomes_a_pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.toml").touch()
    status = (tmp_path / "a.toml").stat()
    (tmp_path / "a.toml").unlink()
    os.mkfifo(tmp_path / "a.toml")
    monkeypatch.setattr(Path, "stat", lambda *_, **__: status)
    with pytest.raises(SettingsError, match="regular"):
        read_spec(tmp_path / "a.toml")


def test_cells_are_prompts_by_first_layers_by_floors_and_other_rules_run_once() -> None:
    cells = cells_of(spec_with(first_layers=[0, 2]), "tiny", 4)
    assert [c.number for c in cells] == list(range(1, 9))
    found = [(c.prompt.text, c.settings.first_layer, c.settings.floor, c.settings.updates) for c in cells]
    both, one = ("direct", "floored"), ("floored",)
    assert found == [
        (prompt, layer, floor, rules)
        for prompt in TABLE["prompts"]
        for layer in (0, 2)
        for floor, rules in ((0.3, both), (1.0, one))
    ]
    assert {c.settings.dtypes for c in cells} == {("float32", "bfloat16")}
    everywhere = cells_of(spec_with(first_layers="all", floors=None), "tiny", 4)
    assert [c.settings.first_layer for c in everywhere] == [0, 1, 2, 3] * 2


def test_layers_outside_the_model_and_too_many_of_them() -> None:
    with pytest.raises(SettingsError, match=r"first_layers hold 4.*0 to 3"):
        cells_of(spec_with(first_layers=[0, 4]), "tiny", 4)
    many = spec_with(first_layers="all", prompts=[str(n) for n in range(2000)], floors=None)
    with pytest.raises(SettingsError, match="12000 cells"):
        cells_of(many, "tiny", 6)


def test_a_cells_name_depends_on_itself_and_its_place_alone() -> None:
    spec = spec_with(
        prompts=[PRESETS[0].prompt, "日本", "An Élan, of ../sorts & more of it"], first_layers=[0, 3]
    )
    names = [c.file_name for c in cells_of(spec, "tiny", 4)]
    assert names == [c.file_name for c in cells_of(spec, "tiny", 4)]
    words = [name.rsplit("-", 1)[0] for name in names]
    assert words[:5] == [
        "001-mars-forecast-floor0.3", "002-mars-forecast-floor1", "003-mars-forecast-from3-floor0.3",
        "004-mars-forecast-from3-floor1", "005-prompt-floor0.3",
    ]  # fmt: skip
    assert words[8] == "009-an-elan-of-sorts-more-of-floor0.3"
    fewer = cells_of(spec_with(prompts=["日本"], first_layers=[3, 0]), "tiny", 4)
    assert fewer[2].digest == cells_of(spec, "tiny", 4)[4].digest
    one = fewer[0]
    others = [
        dataclasses.replace(one, model="other"),
        dataclasses.replace(one, prompt=Prompt("日本 ")),
        dataclasses.replace(one, prompt=spec_with(prompts=["日本"], pictures=[SCENE]).prompts[0]),
        *(
            dataclasses.replace(one, settings=dataclasses.replace(one.settings, **change))
            for change in (
                {"floor": 0.4},
                {"budget": True},
                {"replays": ("ulp",)},
                {"fold": Fold("span", 0, 1)},
            )
        ),
    ]
    assert len({cell.digest for cell in (one, *others)}) == 8
    assert dataclasses.replace(one, number=7, title="x").digest == one.digest


def played(cells: tuple[Cell, ...], model: LoadedModel, weights: Weights, folder: SweepFolder) -> list[Event]:
    return list(Runner(cells, model, weights, folder))


def same(a: Run, b: Run) -> bool:
    """Whether two runs agree in all but time."""
    fixed = [n for n in (*a._series,) if not n.endswith("seconds")]
    series = all(
        np.array_equal(a.series(n, k), b.series(n, k), equal_nan=True)
        for n in fixed
        for k in range(len(a.variants))
    )
    fields = all(
        np.array_equal(a.field(n, k), b.field(n, k), equal_nan=True)
        for n in a._fields
        for k in range(len(a.variants))
    )
    tokens = [a.token(k)[:5] for k in range(len(a))] == [b.token(k)[:5] for k in range(len(b))]
    return series and fields and tokens and (a.settings, a.context) == (b.settings, b.context)


def test_one_turn_is_one_token_and_a_cell_is_written_when_it_is_finished(
    model: LoadedModel, weights: Weights, tmp_path: Path
) -> None:
    cells = cells_of(spec_with(), "tiny", 4)
    with SweepFolder(tmp_path / "out") as folder:
        seen: list[Event] = []
        for event in Runner(cells, model, weights, folder):
            seen.append(event)
            files = {path.name for path in folder.path.glob("*.ctxviz")}
            assert files == {e.cell.file_name for e in seen if e.kind == "saved"}
        for cell in cells:
            kinds = [e.kind for e in seen if e.cell is cell]
            assert (kinds[0], kinds[-1], kinds.count("saved")) == ("started", "saved", 1)
            assert [e.tokens for e in seen if e.cell is cell and e.kind == "token"] == [1, 2, 3, 4]
            run = load_run(folder.path / cell.file_name)
            assert (run.settings, run.context.prompt) == (cell.settings, cell.prompt.text)
            assert (len(run), run.outcome) == (4, "finished")
            assert run.model.sha256 == weights.sha256 is not None
            direct = ctxviz.engine.stream(model, cell.prompt.text, cell.settings)
            made = Run(run.model, direct.context, cell.settings)
            for item in direct:
                made.append(item) if isinstance(item, Step) else made.refer(item)
            assert same(run, made)


def test_stopping_between_tokens_leaves_no_file(model: LoadedModel, weights: Weights, tmp_path: Path) -> None:
    with SweepFolder(tmp_path / "out") as folder:
        runner = Runner(cells_of(spec_with(), "tiny", 4), model, weights, folder)
        while next(runner).tokens < 2:
            pass
        runner.close()
        assert list(folder.path.glob("*.ctxviz")) == []
        assert next(runner).kind == "started"


def test_finished_cells_are_found_again_under_any_number(
    model: LoadedModel, weights: Weights, tmp_path: Path
) -> None:
    spec = spec_with(floors=None, max_new_tokens=2)
    cells = cells_of(spec, "tiny", 4)
    with SweepFolder(tmp_path) as folder:
        played(cells, model, weights, folder)
    later = cells_of(dataclasses.replace(spec, prompts=(Prompt("new"), *spec.prompts)), "tiny", 4)
    with SweepFolder(tmp_path) as folder:
        found = [folder.find(cell, weights) for cell in later]
    assert (found[0].run, found[0].fault) == (None, "")
    assert [f.path and f.path.name for f in found[1:]] == [c.file_name for c in cells]


def spoil_torn(path: Path, run: Run) -> None:
    path.write_bytes(path.read_bytes()[:-200])


def spoil_foreign(path: Path, run: Run) -> None:
    path.write_bytes(b"my diary")


def spoil_with(**changes: Any) -> Callable[[Path, Run], None]:
    def spoil(path: Path, run: Run) -> None:
        for name, change in changes.items():
            setattr(run, name, change(getattr(run, name)))
        save_run(run, path)

    return spoil


def older(identity: Any) -> Any:
    return dataclasses.replace(identity, libraries=(("ctxviz", "0.0.1"),))


SPOILT: dict[str, tuple[Callable[[Path, Run], None], str]] = {
    "torn": (spoil_torn, "is no run"),
    "foreign": (spoil_foreign, "is no run"),
    "other weights": (spoil_with(model=lambda m: dataclasses.replace(m, sha256="0" * 64)), "other weights"),
    "other revision": (spoil_with(model=lambda m: dataclasses.replace(m, revision="a")), "other weights"),
    "other version": (spoil_with(model=older), "made by ctxviz 0.0.1"),
    "other prompt": (
        spoil_with(context=lambda c: dataclasses.replace(c, prompt="the rust")),
        "another run",
    ),
    "other settings": (spoil_with(settings=lambda s: dataclasses.replace(s, small_h=0.1)), "another run"),
    "other model": (spoil_with(model=lambda m: dataclasses.replace(m, key="other")), "another run"),
    "stopped": (spoil_with(outcome=lambda _: "stopped"), "not finished"),
    "short": (spoil_with(_length=lambda n: n - 1), "not finished"),
}


@pytest.mark.parametrize("case", SPOILT)
def test_files_that_are_not_this_cells_are_run_again_and_said_why(
    case: str, model: LoadedModel, weights: Weights, tmp_path: Path
) -> None:
    spoil, fragment = SPOILT[case]
    cell = cells_of(spec_with(prompts=["the dust"], floors=None, max_new_tokens=2), "tiny", 4)[0]
    with SweepFolder(tmp_path) as folder:
        played((cell,), model, weights, folder)
        path = tmp_path / cell.file_name
        good = folder.find(cell, weights)
        assert good.run is not None
        spoil(path, load_run(path))
        found = folder.find(cell, weights)
        assert found.run is None
        assert fragment in found.fault
        assert path.name in found.fault
        assert [e.kind for e in played((cell,), model, weights, folder)][-1] == "saved"
        again = folder.find(cell, weights).run
        assert again is not None
        assert same(again, good.run)


def test_weights_and_configuration_of_a_folder_are_told_apart(tmp_path: Path, weights: Weights) -> None:
    def told(path: Path) -> Weights:
        return identify(str(path), silent)

    twin = save_tiny_folder(tmp_path / "tiny")
    assert told(twin) == weights
    save_tiny_folder(twin, tiny_gemma3(seed=1))
    changed = told(twin)
    assert changed.sha256 != weights.sha256
    assert (changed.key, changed.n_layers) == ("tiny", 4)
    config = twin / "config.json"
    config.write_text(config.read_text().replace('"rms_norm_eps": 1e-06', '"rms_norm_eps": 1e-05'))
    assert told(twin).sha256 not in (changed.sha256, weights.sha256)


def test_a_failing_cell_is_reported_and_the_others_are_done(
    model: LoadedModel, weights: Weights, tmp_path: Path
) -> None:
    cells = cells_of(spec_with(prompts=["dust " * 300, "the dust"], floors=None), "tiny", 4)
    with SweepFolder(tmp_path) as folder:
        events = played(cells, model, weights, folder)
        assert [e.kind for e in events if e.kind in ("saved", "failed")] == ["failed", "saved"]
        assert "window is 256" in events[0].message
        note = tmp_path / f"{cells[0].stem}.failed.txt"
        assert note.read_text() == events[0].message + "\n"
        assert not (tmp_path / cells[0].file_name).exists()
        folder.save(cells[0], load_run(tmp_path / cells[1].file_name))
        assert not note.exists()


@pytest.mark.parametrize(
    ("error", "fragments"),
    [
        (MemoryError(), ("Memory ran out in this cell",)),
        (ctxviz.errors.OutOfMemoryError("x"), ("Memory ran out in this cell",)),
        (CtxvizError("It is too warm; open a window."), ("It is too warm; open a window.",)),
        (ZeroDivisionError("by zero"), ("bug of ctxviz (ZeroDivisionError)", "Traceback", "by zero")),
    ],
)
def test_whatever_stops_a_cell_in_its_middle_leaves_the_others(
    error: Exception,
    fragments: tuple[str, ...],
    model: LoadedModel,
    weights: Weights,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cells = cells_of(spec_with(floors=None), "tiny", 4)
    real = Run.append

    def append(run: Run, step: Step) -> None:
        if run.context.prompt == cells[0].prompt.text and step.index == 2:
            raise error
        real(run, step)

    monkeypatch.setattr(Run, "append", append)
    with SweepFolder(tmp_path) as folder:
        events = played(cells, model, weights, folder)
    assert [e.cell.number for e in events if e.kind == "failed"] == [1]
    assert [e.cell.number for e in events if e.kind == "saved"] == [2]
    text = (tmp_path / f"{cells[0].stem}.failed.txt").read_text()
    assert all(fragment in text for fragment in fragments)
    assert len(next(e.message for e in events if e.kind == "failed").splitlines()) == 1


def test_a_full_disk_fails_the_cell_and_a_stop_is_no_failure(
    model: LoadedModel, weights: Weights, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = cells_of(spec_with(floors=None, max_new_tokens=1), "tiny", 4)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with SweepFolder(tmp_path) as folder:
        monkeypatch.setattr("ctxviz.store.bundle.write_whole", full)
        monkeypatch.setattr("ctxviz.sweep.folder.write_whole", full)
        events = played(cells, model, weights, folder)
        assert ["No space left" in e.message for e in events if e.kind == "failed"] == [True, True]
        monkeypatch.undo()

        def stop(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(ctxviz.engine, "stream", stop)
        with pytest.raises(KeyboardInterrupt):
            next(Runner(cells, model, weights, folder))
    assert list(tmp_path.glob("*.txt")) == []
    assert runner_module.explain(OSError(28, "No space left on device"))[1] == ""


def test_a_folder_is_for_one_sweep_at_a_time(tmp_path: Path) -> None:
    with SweepFolder(tmp_path / "a" / "b"):
        with pytest.raises(SettingsError, match="Another sweep"), SweepFolder(tmp_path / "a" / "b"):
            pass
        with SweepFolder(tmp_path / "c"):
            pass
    with SweepFolder(tmp_path / "a" / "b"):
        pass
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match="cannot be used"), SweepFolder(tmp_path / "file"):
        pass
    with pytest.raises(SettingsError, match="cannot be used"), SweepFolder(tmp_path / ("x" * 300)):
        pass


def test_a_summary_says_what_the_runs_hold(model: LoadedModel, weights: Weights, tmp_path: Path) -> None:
    spec = spec_with(replays=["batch", "ulp"], max_new_tokens=5, first_layers=[1])
    cells = cells_of(spec, "tiny", 4)
    found: list[summary.Row] = []
    with SweepFolder(tmp_path) as folder:
        for event in played(cells, model, weights, folder):
            if event.kind == "saved" and event.run is not None:
                found += summary.rows(event.cell, event.run, event.cell.stem)
    assert len(found) == 2 * (4 + 2)
    for row in found:
        run = load_run(tmp_path / f"{row['cell']}.ctxviz")
        wanted = (row["rule"], row["floor"], row["dtype"], row["arithmetic"], row["first_layer"])
        k = [(v.update, v.floor, v.dtype, v.arithmetic, v.first_layer) for v in run.variants].index(wanted)
        tvd = sorted(run.series("tvd", k).tolist())
        assert (row["tokens"], row["tvd_tokens"]) == (5, 5)
        assert (row["match"], row["ties"]) == (sum(run.series("match", k)), sum(run.series("tie", k)))
        assert (row["tvd_median"], row["tvd_worst"]) == (tvd[2], tvd[4])
        # The 90 % point of five values lies six tenths of the way from the fourth to the fifth.
        assert row["tvd_p90"] == pytest.approx(tvd[3] + 0.6 * (tvd[4] - tvd[3]), rel=1e-12)
        for column, metric in (("largest_delta_m", "scale_max_abs"), ("largest_scale_ratio", "scale_ratio")):
            assert row[column] == max(float(run.field(metric, k)[layer].max()) for layer in (1, 2, 3))
        for kind in ("batch", "ulp"):
            values = sorted(run.replay(kind, "tvd", k).tolist())
            columns = [row[name] for name in summary.replay_columns(kind)]
            assert columns == [values[2], values[4], 5]
    assert [row["prompt"] for row in found] == ["1"] * 6 + ["2"] * 6
    assert len({tuple(row) for row in found}) == 1
    assert summary.table(found)["rule"] == [row["rule"] for row in found]
    assert summary.table([]) == {name: [] for name in summary.COLUMNS}
    assert set(summary.COLUMNS) < set(found[0])


def test_a_summary_counts_what_was_not_measured(model: LoadedModel, weights: Weights, tmp_path: Path) -> None:
    cell = cells_of(spec_with(prompts=["the dust"], floors=None, replays=["batch"]), "tiny", 4)[0]
    with SweepFolder(tmp_path) as folder:
        run = next(e.run for e in played((cell,), model, weights, folder) if e.kind == "saved")
    assert run is not None
    run.series("tvd", 0)[:3] = np.nan
    run.replay("batch", "tvd", 0)[:] = np.nan
    row = summary.rows(cell, run, "x")[0]
    assert (row["tokens"], row["tvd_tokens"], row["tvd_worst"]) == (4, 1, run.series("tvd", 0)[3])
    assert [row[name] for name in summary.replay_columns("batch")] == [None, None, 0]


def test_sweeps_need_neither_torch_nor_streamlit_to_be_read() -> None:
    modules = ("spec", "cells", "folder", "runner", "summary", "weights")
    imports = ", ".join(f"ctxviz.sweep.{m}" for m in modules)
    assert heavy_after(f"import ctxviz.presets, ctxviz.cli.sweeping, {imports}") == set()


SHIPPED = {"choose-tau": 5 * 5, "first-layer": 18, "five-prompts": 5}


@pytest.mark.parametrize("name", SHIPPED)
def test_the_shipped_specifications_are_good(name: str) -> None:
    spec = read_spec(ROOT / "assets" / "sweeps" / f"{name}.toml")
    cells = cells_of(spec, "gemma-3-270m", 18)
    assert (spec.model, len(cells)) == ("gemma-3-270m", SHIPPED[name])
    assert not any(cell.title.isdecimal() for cell in cells)
