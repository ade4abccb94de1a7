"""What a model will take of the machine's memory, in words, before it is loaded."""

from __future__ import annotations

from collections.abc import Sequence

from ctxviz.errors import CtxvizError
from ctxviz.models.catalogue import CATALOGUE
from ctxviz.models.memory import gigabytes
from ctxviz.models.preparing import estimate, is_ready


def memory_line(reference: str, dtypes: Sequence[str]) -> tuple[bool, str]:
    """Whether the model can be used as far as is known, and a sentence on its need against what is free.

    Reads headers only, and asks no network.
    """
    try:
        memory = estimate(reference, dtypes or ("float32",))
    except CtxvizError as error:
        return False, str(error)
    free = gigabytes(memory.free_bytes)
    if memory.need_bytes is None:
        return True, f"{free} free; what it needs is known once it is downloaded."
    need = gigabytes(memory.need_bytes)
    if not memory.fits:
        return False, f"Needs {need}, but {free} are free; choose fewer precisions or a smaller model."
    entry = CATALOGUE.get(reference)
    first = " Unpacked once, at the first use." if entry and entry.sha256 and not is_ready(entry) else ""
    return True, f"Needs {need} of {free} free.{first}"
