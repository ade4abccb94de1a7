"""How a sweep ended, in words for terminal and page."""

from __future__ import annotations

from ctxviz.figures.text import counted


def how_it_ended(done: int, failed: int, total: int, *, stopped: bool, again: str) -> str:
    """A sentence; ``done`` and ``failed`` count cells, ``again`` says how to go on: ``start it again``."""
    cells = counted(total, "cell")
    lost = f", {failed} failed" if failed else ""
    if stopped:
        reached = f"after {done} of {cells}{lost}" if done or failed else "before its first cell was done"
        return f"Stopped {reached}; {again} to go on."
    if failed:
        return f"{done} of {cells} done{lost}; {again} to try what failed once more."
    return "The cell is done." if total == 1 else f"All {cells} are done."
