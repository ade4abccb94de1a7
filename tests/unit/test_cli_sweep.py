"""``sweep`` on the command line: what it leaves behind, what it prints, and how it ends."""

from __future__ import annotations

import csv
import json
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ctxviz.models
from ctxviz.cli import commands
from ctxviz.cli.terminal import Bar
from ctxviz.errors import SettingsError
from ctxviz.store import load_run, save_run
from ctxviz.sweep import summary
from ctxviz.sweep.folder import SweepFolder
from tests.tiny_models import save_tiny_folder, tiny_gemma3
from tests.unit.test_cli import assert_refused, call, parse, process

ROOT = Path(__file__).parents[2]
PROMPTS = ["the robot and the dust", "the dust", "a thin wind"]


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_tiny_folder(tmp_path_factory.mktemp("tiny")))


def write_spec(path: Path, tiny: str, **changes: Any) -> Path:
    """A small specification: two prompts by two floors, three tokens each."""
    values = {
        "model": tiny, "prompts": PROMPTS[:2], "updates": ["stable", "floored"], "floors": [0.3, 0.6],
        "dtypes": ["float32", "bfloat16"], "max_new_tokens": 3, "replays": ["batch"], "device": "cpu",
        "threads": 1,
    } | changes  # fmt: skip
    # What JSON writes of texts, numbers and lists is TOML too.
    lines = (f"{key} = {json.dumps(value)}\n" for key, value in values.items() if value is not None)
    path.write_text("".join(lines))
    return path


def cells_in(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.ctxviz"))


def marks(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Inode, time of the last change and contents of every cell."""
    stats = ((path, path.stat()) for path in cells_in(folder))
    return {path.name: (s.st_ino, s.st_mtime_ns, path.read_bytes()) for path, s in stats}


def rows_of(folder: Path) -> list[dict[str, str]]:
    with (folder / "summary.csv").open(newline="", encoding="utf-8-sig") as file:
        return list(csv.DictReader(file))


def assert_same_results(a: Path, b: Path) -> None:
    """Two folders hold the same cells, which differ in nothing but time, and the same summary."""
    assert [path.name for path in cells_in(a)] == [path.name for path in cells_in(b)]
    for path in cells_in(a):
        first, second = load_run(path), load_run(b / path.name)
        assert (first.model, first.settings, first.context, first.outcome) == (
            second.model, second.settings, second.context, second.outcome,
        )  # fmt: skip
        assert len(first) == len(second) > 0
        assert [first.token(k)[:5] for k in range(len(first))] == [
            second.token(k)[:5] for k in range(len(first))
        ]
        for k in range(len(first.variants)):
            for name in set(first._series) - {n for n in first._series if n.endswith("seconds")}:
                np.testing.assert_array_equal(first.series(name, k), second.series(name, k))
            for name in first._fields:
                np.testing.assert_array_equal(first.field(name, k), second.field(name, k))
        for dtype in first.dtypes:
            for name in first._references:
                np.testing.assert_array_equal(first.reference(name, dtype), second.reference(name, dtype))
    assert (a / "summary.csv").read_bytes() == (b / "summary.csv").read_bytes()


def test_a_sweep_leaves_cells_and_a_summary_and_prints_the_same(tiny: str, tmp_path: Path) -> None:
    spec = write_spec(tmp_path / "small.toml", tiny)
    status, out, err = call("sweep", spec)
    assert (status, err) == (0, "")
    folder = tmp_path / "small"
    assert [path.name[:3] for path in cells_in(folder)] == ["001", "002", "003", "004"]
    rows = rows_of(folder)
    # The first floor runs both rules, the second the floored one alone, each in two dtypes.
    assert [row["rule"] for row in rows] == (["stable", "floored"] * 2 + ["floored"] * 2) * 2
    assert [row["floor"] for row in rows[:6]] == ["", "0.3", "", "0.3", "0.6", "0.6"]
    for row in rows:
        assert (row["tokens"], row["tvd_tokens"], row["replay_batch_tokens"]) == ("3", "3", "3")
    for words in ("While building", "floored 0.6", "bfloat16", "Replayed", f"{rows[0]['match']}/3"):
        assert words in out
    assert max(map(len, out.splitlines())) <= 80
    for row in (rows[0], rows[-1]):
        assert f"{float(row['tvd_worst']):.2g}" in out
        assert f"{float(row['replay_batch_tvd_worst']):.2g}" in out
    status, out, err = call("sweep", spec, "--json")
    assert (status, err) == (0, "")
    lines = parse(out)
    assert all(line.pop("no_number") == [] for line in lines)
    assert [{k: "" if v is None else str(v) for k, v in line.items()} for line in lines] == rows


def test_what_is_no_number_is_told_from_what_nobody_measured(tmp_path: Path) -> None:
    model = tiny_gemma3()
    with torch.no_grad():
        model.get_submodule("model.layers.2.mlp.down_proj").weight[5] = 6e4
    folder = str(save_tiny_folder(tmp_path / "overflows", model))
    spec = write_spec(tmp_path / "s.toml", folder, floors=[0.6], dtypes=["float32", "float16"])
    status, out, err = call("sweep", spec)
    assert status == 0
    assert err.startswith("ctxviz: float16 holds numbers up to 65504 only")
    assert "no number" in out
    assert "inf" not in out
    status, out, err = call("sweep", spec, "--json")
    assert (status, err) == (0, "")
    names = {"tvd_median", "tvd_p90", "tvd_worst"}
    for line in parse(out):
        lost = line["dtype"] == "float16"
        assert names <= set(line["no_number"]) if lost else line["no_number"] == []
        assert all((line[name] is None) == (name in line["no_number"]) for name in names)


def test_finished_cells_are_left_as_they_are_and_no_model_is_loaded(
    tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = write_spec(tmp_path / "small.toml", tiny)
    assert call("sweep", spec)[0] == 0
    before, rows = marks(tmp_path / "small"), rows_of(tmp_path / "small")
    (tmp_path / "small" / "notes.txt").write_text("mine")
    monkeypatch.setattr(ctxviz.models, "load_model", None, raising=False)
    status, _, err = call("sweep", spec)
    assert (status, err) == (0, "")
    assert (marks(tmp_path / "small"), rows_of(tmp_path / "small")) == (before, rows)
    assert (tmp_path / "small" / "notes.txt").read_text() == "mine"
    monkeypatch.undo()
    # A longer sweep adds its cells and leaves the others alone.
    write_spec(spec, tiny, prompts=PROMPTS)
    assert call("sweep", spec)[0] == 0
    after = marks(tmp_path / "small")
    assert len(after) == 6
    assert {name: after[name] for name in before} == before


def test_spoilt_cells_are_run_again_and_said(tiny: str, tmp_path: Path) -> None:
    spec = write_spec(tmp_path / "small.toml", tiny)
    assert call("sweep", spec)[0] == 0
    assert call("sweep", spec, "--out", tmp_path / "good")[0] == 0
    torn, foreign, kept, other = cells_in(tmp_path / "small")
    torn.write_bytes(torn.read_bytes()[:-100])
    foreign.write_bytes(kept.read_bytes())
    run = load_run(other)
    run.outcome = "stopped"
    save_run(run, other)
    before = marks(tmp_path / "small")
    status, _, err = call("sweep", spec)
    assert status == 0
    assert [line.split()[1] for line in err.splitlines()] == [torn.name, foreign.name, other.name]
    assert all(
        line.startswith("ctxviz: ") and line.endswith("so the cell is run again.")
        for line in err.splitlines()
    )
    assert marks(tmp_path / "small")[kept.name] == before[kept.name]
    assert_same_results(tmp_path / "small", tmp_path / "good")


def test_a_failing_cell_is_told_and_the_others_are_there(tiny: str, tmp_path: Path) -> None:
    spec = write_spec(tmp_path / "s.toml", tiny, prompts=["dust " * 300, "the dust"], floors=[0.6])
    status, out, err = call("sweep", spec, "--json")
    assert status == 1
    first, last = err.splitlines()
    assert "001-" in first
    assert "window is 256" in first
    assert "1 of 2 cells failed" in last
    assert [path.name[:3] for path in cells_in(tmp_path / "s")] == ["002"]
    (note,) = (tmp_path / "s").glob("*.failed.txt")
    assert note.name.startswith("001-")
    assert note.read_text().strip() in first
    assert (
        {line["cell"][:3] for line in parse(out)}
        == {"002"}
        == {row["cell"][:3] for row in rows_of(tmp_path / "s")}
    )


def test_nothing_but_failures_is_a_summary_without_rows(tiny: str, tmp_path: Path) -> None:
    spec = write_spec(tmp_path / "s.toml", tiny, prompts=["dust " * 300], floors=[0.6])
    status, out, err = call("sweep", spec)
    assert (status, out, len(err.splitlines())) == (1, "", 2)
    assert (tmp_path / "s" / "summary.csv").read_text("utf-8-sig").split() == [",".join(summary.COLUMNS)]


def test_a_dry_run_lists_the_cells_and_makes_nothing(
    tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = write_spec(tmp_path / "small.toml", tiny, first_layers="all", floors=None, updates=["direct"])
    monkeypatch.setattr(ctxviz.models, "load_model", None, raising=False)
    status, out, err = call("sweep", spec, "--dry-run")
    assert (status, err) == (0, "")
    assert f"8 cells of at most 3 tokens, into '{tmp_path / 'small'}'; nothing was run." in out
    status, out, _ = call("sweep", spec, "--dry-run", "--json")
    lines = parse(out)
    assert [line["first_layer"] for line in lines] == [0, 1, 2, 3] * 2
    assert list(tmp_path.iterdir()) == [spec]
    monkeypatch.undo()
    assert call("sweep", spec)[0] == 0
    assert [path.stem for path in cells_in(tmp_path / "small")] == [line["cell"] for line in lines]


def test_where_the_cells_go(tiny: str, tmp_path: Path) -> None:
    few = {"prompts": PROMPTS[:1], "floors": [0.6], "max_new_tokens": 1}
    assert call("sweep", write_spec(tmp_path / "a.toml", tiny, output="deep/er", **few))[0] == 0
    assert len(cells_in(tmp_path / "deep" / "er")) == 1
    plain = write_spec(tmp_path / "plain", tiny, **few)
    assert_refused(*call("sweep", plain), "--out")
    assert call("sweep", plain, "--out", tmp_path / "out")[0] == 0
    assert len(cells_in(tmp_path / "out")) == 1
    (tmp_path / "b").write_text("mine")
    assert_refused(*call("sweep", write_spec(tmp_path / "b.toml", tiny, **few)), "cannot be used")


BAD: dict[str, tuple[dict[str, Any], list[str], str]] = {
    "unknown key": ({"colour": "red"}, [], "colour"),
    "unknown rule": ({"updates": ["magic"]}, [], "updates"),
    "a layer outside the model": ({"first_layers": [0, 9]}, [], "0 to 3"),
    "unknown model": ({"model": "gpt-9"}, [], "Unknown model"),
    "device": ({"device": "abacus"}, [], "abacus"),
    "another device": ({}, ["--device", "abacus"], "abacus"),
    "no threads": ({}, ["--threads", "0"], "threads"),
}


@pytest.mark.parametrize("case", BAD)
def test_sweeps_that_make_no_sense(case: str, tiny: str, tmp_path: Path) -> None:
    changes, options, fragment = BAD[case]
    spec = write_spec(tmp_path / "bad.toml", tiny, **changes)
    assert_refused(*call("sweep", spec, *options), fragment)
    assert cells_in(tmp_path / "bad") == []


def test_a_file_that_is_not_there() -> None:
    assert_refused(*call("sweep", "/nonexistent/s.toml"), "no sweep file")


def test_a_second_sweep_in_the_same_folder_is_refused(tiny: str, tmp_path: Path) -> None:
    spec = write_spec(tmp_path / "s.toml", tiny, prompts=PROMPTS[:1], floors=[0.6], max_new_tokens=1)
    with SweepFolder(tmp_path / "s"):
        assert_refused(*call("sweep", spec), "Another sweep")
    assert call("sweep", spec)[0] == 0


def wait_for_cell(folder: Path) -> None:
    """Until the first cell is there, whole."""
    end = time.monotonic() + 120
    while not cells_in(folder):
        assert time.monotonic() < end
        time.sleep(0.002)


SLOW: dict[str, Any] = {"prompts": PROMPTS, "max_new_tokens": 12}


def test_a_sweep_that_was_killed_goes_on_where_it_was(tiny: str, tmp_path: Path) -> None:
    spec = write_spec(tmp_path / "slow.toml", tiny, **SLOW)
    folder = tmp_path / "slow"
    with process("sweep", str(spec)) as running:
        wait_for_cell(folder)
        running.kill()
        running.communicate(timeout=60)
    assert running.returncode == -signal.SIGKILL
    before = marks(folder)
    assert 1 <= len(before) < 6
    assert not (folder / "summary.csv").exists()
    status, _, err = call("sweep", spec)
    assert (status, err) == (0, "")
    after = marks(folder)
    assert len(after) == 6
    assert {name: after[name] for name in before} == before
    assert call("sweep", spec, "--out", tmp_path / "whole")[0] == 0
    assert_same_results(folder, tmp_path / "whole")


def test_ctrl_c_ends_with_130_and_keeps_finished_cells(tiny: str, tmp_path: Path) -> None:
    spec = write_spec(tmp_path / "slow.toml", tiny, **SLOW)
    with process("sweep", str(spec)) as running:
        wait_for_cell(tmp_path / "slow")
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=60)
    assert (running.returncode, out) == (130, b"")
    found = cells_in(tmp_path / "slow")
    told = f"ctxviz: Stopped after {len(found)} of 6 cells; run the sweep again to go on."
    assert err.decode().splitlines() == [told, "ctxviz: Interrupted."]
    assert 1 <= len(found) < 6
    assert all(load_run(path).outcome == "finished" for path in found)
    with SweepFolder(tmp_path / "slow"):
        pass


def test_the_device_and_threads_of_the_command_come_first(
    tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []
    real = ctxviz.models.load_model

    def load(reference: str, **options: Any) -> Any:
        asked.append(options)
        return real(reference, **(options | {"device": "cpu", "threads": 1}))

    monkeypatch.setattr(ctxviz.models, "load_model", load, raising=False)
    few = {"prompts": PROMPTS[:1], "floors": [0.6], "max_new_tokens": 1, "device": "auto", "threads": 3}
    spec = write_spec(tmp_path / "s.toml", tiny, budget=True, dtypes=["bfloat16"], **few)
    assert call("sweep", spec)[0] == 0
    assert call("sweep", spec, "--out", tmp_path / "o", "--device", "cpu", "--threads", 1)[0] == 0
    assert [(o["device"], o["threads"]) for o in asked] == [("auto", 3), ("cpu", 1)]
    assert {o["dtypes"] for o in asked} == {("float64", "float32", "bfloat16")}


def test_a_line_is_said_above_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(StringIO):
        def isatty(self) -> bool:
            return True

    for wanted in (True, False):
        terminal = Terminal()
        monkeypatch.setattr(sys, "stderr", terminal)
        shown = Bar(wanted)
        shown("cell 1 of 2", 0.5)
        shown.say("a [bold]cell[/] \x1b[31m failed")
        shown.close()
        assert "ctxviz: a [bold]cell[/] \\x1b[31m failed" in terminal.getvalue()
        assert ("cell 1 of 2" in terminal.getvalue()) == wanted


def test_output_that_cannot_be_written_costs_no_cell(tiny: str, tmp_path: Path) -> None:
    spec = write_spec(tmp_path / "s.toml", tiny, prompts=PROMPTS[:1], floors=[0.6], max_new_tokens=1)
    line = shlex.join([sys.executable, "-m", "ctxviz", "sweep", str(spec), "--json"])
    done = subprocess.run(["sh", "-c", f"{line} > /dev/full"], cwd=ROOT, capture_output=True, timeout=120)
    assert_refused(done.returncode, done.stdout.decode(), done.stderr.decode(), "output cannot be written")
    assert len(cells_in(tmp_path / "s")) == len({row["cell"] for row in rows_of(tmp_path / "s")}) == 1


def test_an_output_folder_without_a_name_is_refused(tmp_path: Path) -> None:
    spec = tmp_path / "s.toml"
    spec.write_text('model = "x"\nprompts = ["a b"]\n')
    with pytest.raises(SettingsError, match="folder is empty"):
        commands.sweep(spec, out=" ")
