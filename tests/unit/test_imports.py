"""What may be imported without what, seen in a fresh interpreter."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).parents[2]
HEAVY = ("torch", "transformers", "streamlit")


def heavy_after(statement: str) -> set[str]:
    """Which of HEAVY a new interpreter has loaded after ``statement``."""
    code = f"import sys\n{statement}\nprint('loaded:', *(m for m in {HEAVY!r} if m in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120, check=True
    )
    return set(done.stdout.splitlines()[-1].split()[1:])


def test_records_runs_figures_store_catalogue_and_command_line_need_nothing_heavy() -> None:
    modules = (
        "records", "run", "errors", "figures", "figures.words", "store", "models", "models.catalogue",
        "models.progress", "models.sources", "cli", "cli.commands", "cli.drive", "cli.catalogue", "bench",
    )  # fmt: skip
    assert heavy_after("import ctxviz, " + ", ".join(f"ctxviz.{m}" for m in modules)) == set()


def test_the_engine_needs_torch_but_no_streamlit() -> None:
    # That torch is seen shows that this check can fail.
    loaded = heavy_after("import ctxviz.engine, ctxviz.models.loading, ctxviz.numerics.distances")
    assert "torch" in loaded
    assert "streamlit" not in loaded


def test_the_check_sees_streamlit() -> None:
    assert "streamlit" in heavy_after("import streamlit")


def plain(name: str) -> str:
    """A distribution's name as names are compared."""
    return re.sub(r"[-_.]+", "-", name).lower()


def imported(tree: ast.AST) -> Iterator[str]:
    """Top-level names of what a module imports when it runs; what is for type checkers alone is left out."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").partition(".")[0]
        else:
            yield from imported(node)


def lacking(code: str, required: set[str]) -> set[str]:
    """What code imports that neither Python nor a required distribution brings."""
    makers = packages_distributions()
    names = set(imported(ast.parse(code))) - sys.stdlib_module_names - {"ctxviz"}
    return {name for name in names if not required & set(map(plain, makers.get(name, ())))}


def test_the_program_imports_nothing_that_requirements_do_not_name() -> None:
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    required = {plain(line.partition("==")[0]) for line in lines if "==" in line}
    files = [ROOT / "app.py", *ROOT.glob("pages/*.py"), *ROOT.glob("ctxviz/**/*.py")]
    assert len(files) > 100
    found = {file.name: missing for file in files if (missing := lacking(file.read_text(), required))}
    assert found == {}
    assert lacking("import pytest", required) == {"pytest"}
    assert lacking(
        "if TYPE_CHECKING:\n    import pytest\ndef f():\n    import hypothesis.strategies", required
    ) == {"hypothesis"}
