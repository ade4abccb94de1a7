"""What may be imported without what, seen in a fresh interpreter."""

from __future__ import annotations

import subprocess
import sys
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
