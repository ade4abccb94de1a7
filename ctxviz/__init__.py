"""ctxviz: what a context does to a transformer, shown as weight patches.

The public names are loaded on first use, so that reading records or a bundle needs no torch.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

# torch's OpenMP threads spin while they wait for each other. Where another program wants the same cores
# (the browser that shows the page, say) a long spin makes a token up to fifty times slower; a short one
# costs nothing measurable. Read when torch is first imported, so it stands here.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

if TYPE_CHECKING:
    from ctxviz.engine import stream as stream
    from ctxviz.models import load_model as load_model
    from ctxviz.run import Run as Run
    from ctxviz.settings import RunSettings as RunSettings

__version__ = "0.1.0"
__all__ = ["Run", "RunSettings", "load_model", "stream"]

_HOMES = {
    "Run": "ctxviz.run",
    "RunSettings": "ctxviz.settings",
    "load_model": "ctxviz.models",
    "stream": "ctxviz.engine",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'ctxviz' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
