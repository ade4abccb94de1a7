"""Models: what there is, where it comes from, and loading it.

Names are loaded on first use: reading the catalogue or naming a progress type needs no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ctxviz.models.architectures import Architecture as Architecture
    from ctxviz.models.architectures import for_config as for_config
    from ctxviz.models.catalogue import CATALOGUE as CATALOGUE
    from ctxviz.models.catalogue import Entry as Entry
    from ctxviz.models.loading import LoadedModel as LoadedModel
    from ctxviz.models.loading import load_model as load_model
    from ctxviz.models.progress import Progress as Progress

__all__ = ["CATALOGUE", "Architecture", "Entry", "LoadedModel", "Progress", "for_config", "load_model"]

_HOMES = {
    "Architecture": "architectures",
    "for_config": "architectures",
    "CATALOGUE": "catalogue",
    "Entry": "catalogue",
    "LoadedModel": "loading",
    "load_model": "loading",
    "Progress": "progress",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'ctxviz.models' has no attribute {name!r}")
    return getattr(import_module(f"ctxviz.models.{_HOMES[name]}"), name)
