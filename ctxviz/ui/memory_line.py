"""What a model will take of the machine's memory, in words, before it is loaded."""

from __future__ import annotations

from ctxviz.models.catalogue import CATALOGUE
from ctxviz.models.memory import free_bytes, gigabytes


def memory_line(reference: str, dtypes: tuple[str, ...]) -> str:
    """Need against what is free; how much a model outside the catalogue takes is told when it is loaded."""
    free = f"{gigabytes(free_bytes('cpu'))} free"
    entry = CATALOGUE.get(reference)
    if entry is None or not dtypes:
        return f"{free}; need is checked before loading."
    need = sum(entry.weight_bytes(dtype) for dtype in dtypes)
    return f"Weights take {gigabytes(need)}; {free}."
