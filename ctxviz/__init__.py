"""ctxviz: what a context does to a transformer, shown as weight patches.

The public names are loaded on first use, so that reading records or a bundle needs no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ctxviz.engine import stream as stream
    from ctxviz.models import load_model as load_model
    from ctxviz.records import RunSettings as RunSettings
    from ctxviz.run import Run as Run

__version__ = "0.1.0"
__all__ = ["Run", "RunSettings", "load_model", "stream"]

_HOMES = {
    "Run": "ctxviz.run",
    "RunSettings": "ctxviz.records",
    "load_model": "ctxviz.models",
    "stream": "ctxviz.engine",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'ctxviz' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
