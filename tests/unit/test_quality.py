"""The README and the checks say what the program does: completeness is a test."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer.main

from ctxviz.cli import app

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
NOT_IN_README = {"--help", "-h", "--version"}


def options() -> list[tuple[str, str]]:
    """(command, option) for every command and each of its options and arguments."""
    group = typer.main.get_command(app)
    pairs = []
    for name, command in group.commands.items():
        pairs.append((name, f"python -m ctxviz {name}"))
        for parameter in command.params:
            shown = parameter.opts if parameter.param_type_name == "option" else [parameter.metavar]
            pairs += [(name, option) for option in shown if option not in NOT_IN_README]
    return pairs


def missing_from(text: str) -> list[tuple[str, str]]:
    """Options and commands that a text does not mention as words of their own."""
    return [
        (name, option)
        for name, option in options()
        if not re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", text)
    ]


def test_every_command_and_option_is_in_the_readme() -> None:
    assert missing_from(README.read_text(encoding="utf-8")) == []


def test_the_check_of_the_readme_can_fail() -> None:
    text = README.read_text(encoding="utf-8").replace("--save-patches", "--save-patch")
    assert missing_from(text) == [("run", "--save-patches")]


def test_ci_runs_the_test_command_of_the_readme() -> None:
    found = re.search(
        r"pip install -r requirements-dev\.txt && (pytest.*)", README.read_text(encoding="utf-8")
    )
    assert found, "the README gives no test command"
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert script.strip().splitlines()[-1] == found[1].strip().rstrip("`")


@pytest.mark.parametrize("check", ["ruff check", "ruff format --check", "pyright", "lint-imports"])
def test_ci_checks(check: str) -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert re.search(rf"^{re.escape(check)}", script, re.MULTILINE)


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-dev.txt"])
def test_requirements_are_pinned_exactly(name: str) -> None:
    lines = [line for line in (ROOT / name).read_text(encoding="utf-8").splitlines() if line.strip()]
    loose = [line for line in lines if not re.fullmatch(r"-r requirements\.txt|[\w.\[\]-]+==[\w.]+", line)]
    assert loose == []


def test_local_links_of_the_documents_resolve() -> None:
    for name in ("README.md", "ARCHITECTURE.md", "CHANGELOG.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        targets = [t for t in re.findall(r"\]\(([^)\s#]+)", text) if "://" not in t]
        assert [t for t in targets if not (ROOT / t).exists()] == [], name
