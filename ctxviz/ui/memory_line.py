"""What a model will take of the machine's memory, in words, before it is loaded."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from ctxviz.errors import CtxvizError
from ctxviz.models import memory
from ctxviz.models.catalogue import CATALOGUE
from ctxviz.models.memory import gigabytes
from ctxviz.models.preparing import estimate, is_ready


def memory_line(reference: str, dtypes: Sequence[str], loaded: Sequence[str] = ()) -> tuple[bool, str]:
    """Whether the model can be used as far as is known, and a sentence on its need against what is free.

    Reads headers only, those of a file that did not change only once, and asks no network. ``loaded`` are
    the dtypes in which the model is in memory already.
    """
    missing = tuple(d for d in dtypes or ("float32",) if d not in loaded)
    free_bytes = memory.free_bytes(_device())
    free = gigabytes(free_bytes)
    if not missing:
        return True, f"Loaded; {free} free."
    try:
        need_bytes = _need(reference, missing, _stamp(reference))
    except CtxvizError as error:
        return False, str(error)
    if need_bytes is None:
        return True, f"{free} free; what it needs is known once it is downloaded."
    need, more = gigabytes(need_bytes), " more" if loaded else ""
    if need_bytes > free_bytes:
        return False, f"Needs {need}{more}, but {free} are free; choose fewer precisions or a smaller model."
    entry = CATALOGUE.get(reference)
    first = " Unpacked once, at the first use." if entry and entry.sha256 and not is_ready(entry) else ""
    return True, f"Takes {need}{more}; {free} free.{first}"


def _device() -> str:
    """The device that a run will use; the CPU as long as torch, which knows of others, is not imported."""
    if "torch" not in sys.modules or "ctxviz.models.devices" not in sys.modules:
        return "cpu"
    from ctxviz.models import devices

    return devices.named(devices.choose("auto"))


def _stamp(reference: str) -> object:
    """Changes whenever what is at a path does."""
    path = Path(reference)
    try:
        files = [path, *path.iterdir()] if path.is_dir() else [path]
        return tuple((file.name, file.stat().st_mtime_ns, file.stat().st_size) for file in files)
    except (OSError, ValueError):
        return None


@lru_cache(maxsize=32)
def _need(reference: str, dtypes: tuple[str, ...], stamp: object) -> int | None:
    del stamp
    return estimate(reference, dtypes).need_bytes
