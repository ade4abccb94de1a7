"""``run`` on the command line: a long prompt read and left off, and the text without the context in files."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from ctxviz.cli import terminal
from ctxviz.engine import context_pass, without_context
from ctxviz.errors import PrecisionError
from ctxviz.models import load_model
from ctxviz.store import load_run
from tests.tiny_models import save_tiny_folder, tiny_gemma3
from tests.unit.test_cli import call, parse

WINDOW: dict[str, Any] = {"max_position_embeddings": 8192, "num_hidden_layers": 2}
LONG = "x" * 4000


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_tiny_folder(tmp_path_factory.mktemp("models") / "tiny", tiny_gemma3(**WINDOW)))


@pytest.fixture
def stages(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, float | None]]:
    """What bars were told, in order."""
    told: list[tuple[str, float | None]] = []
    monkeypatch.setattr(terminal.Bar, "__call__", lambda _, stage, share: told.append((stage, share)))
    return told


def after(reads: int, then: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Have something happen with a part of the prompt; the numbers of tokens of the parts read."""
    read, seen = context_pass.ContextPass.read, []

    def reading(self: context_pass.ContextPass, ids: list[int]) -> None:
        read(self, ids)
        seen.append(len(ids))
        if len(seen) == reads:
            then()

    monkeypatch.setattr(context_pass.ContextPass, "read", reading)
    return seen


def test_the_bar_says_how_far_a_long_prompt_is_read(
    tiny: str, stages: list[tuple[str, float | None]]
) -> None:
    assert call("run", "--model", tiny, "--prompt", LONG, "--max-new-tokens", 2, "--json")[0] == 0
    read = [(words, share) for words, share in stages if words.startswith("reading the prompt, ")]
    assert read == [(f"reading the prompt, {k} of 4 parts", k / 4) for k in range(5)]
    assert stages[stages.index(read[-1]) + 1] == ("token 1 of 2", 0.0)


def test_a_stop_while_the_prompt_is_read_ends_it_after_that_part(
    tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = after(2, lambda: os.kill(os.getpid(), signal.SIGINT), monkeypatch)
    file = tmp_path / "a.ctxviz"
    arguments = ("run", "--model", tiny, "--prompt", LONG, "--max-new-tokens", 2, "--save", file)
    assert call(*arguments, "--json") == (130, "", "ctxviz: Interrupted.\n")
    assert seen == [1024, 1024]
    assert not file.exists()
    # Without a signal the same command reads all of it.
    monkeypatch.undo()
    assert call(*arguments, "--json")[0] == 0


def test_a_saved_run_holds_the_text_without_the_context_and_the_lines_are_as_they_were(
    tiny: str, tmp_path: Path, stages: list[tuple[str, float | None]]
) -> None:
    arguments = ("run", "--model", tiny, "--prompt", "the dust", "--max-new-tokens", 3, "--json")
    status, plain, _ = call(*arguments)
    assert status == 0
    assert not any("without" in stage for stage, _ in stages)
    status, out, err = call(*arguments, "--save", tmp_path / "a.ctxviz")
    assert (status, err) == (0, "")
    without_time = [
        [{k: v for k, v in line.items() if k != "seconds"} for line in parse(o)] for o in (plain, out)
    ]
    assert without_time[0] == without_time[1]
    run = load_run(tmp_path / "a.ctxviz")
    found, run.without_context = run.without_context, None
    *_, wanted = without_context(load_model(tiny), run)
    assert found == wanted
    assert [stage for stage in stages if stage[0].startswith("without")] == [
        (f"without the context, token {k} of 3", k / 3) for k in (1, 2, 3)
    ]


def test_where_there_can_be_no_such_text_it_is_said_and_the_run_is_saved(
    tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise PrecisionError("Without the context nothing is a number; choose float32.")

    monkeypatch.setattr("ctxviz.engine.without_context", refused)
    file = tmp_path / "a.ctxviz"
    arguments = ("run", "--model", tiny, "--prompt", "the dust", "--max-new-tokens", 3, "--json")
    status, _, err = call(*arguments, "--save", file)
    assert (status, err) == (0, "ctxviz: Without the context nothing is a number; choose float32.\n")
    run = load_run(file)
    assert (len(run), run.outcome, run.without_context) == (3, "finished", None)
