"""From what a person typed to a place where weights are: package, Hub, folder or GGUF file.

No torch here: a wrong reference is told in a moment.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, Literal

from ctxviz import opening
from ctxviz.errors import ModelError, reason
from ctxviz.models.catalogue import CATALOGUE, Entry

MAX_REFERENCE: Final = 4096
PICKLE_SUFFIXES: Final = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Source:
    """Where a model is to be had.

    ``key`` is what names it in records and links: never a path of this machine, only its last part.
    """

    kind: Literal["package", "asset", "eyes", "hub", "folder", "gguf"]
    key: str
    title: str
    entry: Entry | None = None
    path: Path | None = None
    """Of a folder or GGUF file."""
    hub_id: str | None = None


def resolve(reference: str) -> Source:
    """Tell a catalogue key, a Hub id ``org/name``, a folder and a GGUF file apart; touches no network.

    A catalogue key wins over a folder of the same name, a folder over a Hub id.

    Raises:
        ModelError: it is none of these, or a file of a kind that is not loaded.
    """
    _check_text(reference)
    entry = CATALOGUE.get(reference)
    if entry is not None:
        return _from_entry(entry)
    path = Path(reference)
    try:
        path = path.expanduser()
        exists = path.exists()
    except (OSError, RuntimeError) as error:
        raise ModelError(
            f"The path {show(reference)} cannot be read ({reason(error)}); name another folder or file."
        ) from None
    if exists:
        return _from_path(path)
    if _HUB_ID.fullmatch(reference) and not reference.lower().endswith(".gguf"):
        known = next((e for e in CATALOGUE.values() if e.hub_id == reference), None)
        return _from_entry(known) if known else Source("hub", reference, reference, hub_id=reference)
    if "/" in reference or "\\" in reference or reference.startswith("~") or path.suffix.lower() == ".gguf":
        raise ModelError(f"There is no file or folder {show(reference)}; check the path.")
    raise ModelError(
        f"Unknown model {show(reference)}; choose one of {', '.join(CATALOGUE)}, "
        "or give a Hub id (org/name), a folder, or a .gguf file."
    )


def _check_text(reference: object) -> None:
    if not isinstance(reference, str) or not reference.strip():
        raise ModelError(
            f"No model is named; choose one of {', '.join(CATALOGUE)}, a folder, or a .gguf file."
        )
    if len(reference) > MAX_REFERENCE:
        raise ModelError(
            f"The model's name is {len(reference)} characters long; use one of at most {MAX_REFERENCE}."
        )
    if any(ord(c) < 32 or 0xD800 <= ord(c) <= 0xDFFF or ord(c) == 127 for c in reference):
        raise ModelError(
            f"The model's name {show(reference)} holds characters that no name can have; type it again."
        )


def _from_entry(entry: Entry) -> Source:
    return Source(entry.source, entry.key, entry.title, entry=entry, hub_id=entry.hub_id)


def _from_path(path: Path) -> Source:
    name = path.resolve().name or "model"
    if path.is_dir():
        return Source("folder", name, name, path=path.resolve())
    if not path.is_file():
        raise ModelError(
            f"{show(str(path))} is neither a folder nor a regular file; name a model's folder or .gguf file."
        )
    if path.suffix.lower() in PICKLE_SUFFIXES:
        raise ModelError(pickle_refusal(path.name))
    if path.suffix.lower() == ".safetensors":
        raise ModelError(
            f"{show(path.name)} is weights only; name the folder with it, config.json and tokenizer.json."
        )
    # Told by content too: files fetched by hash have no suffix.
    if path.suffix.lower() == ".gguf" or _starts_like_gguf(path):
        return Source("gguf", path.name, path.stem or path.name, path=path.resolve())
    raise ModelError(
        f"{show(path.name)} is not a model; name a folder with safetensors weights, or a .gguf file."
    )


def _starts_like_gguf(path: Path) -> bool:
    try:
        with open_regular(path) as file:
            return file.read(4) == b"GGUF"
    except OSError as error:
        raise ModelError(
            f"{show(path.name)} cannot be read ({reason(error)}); check its permissions."
        ) from None


def open_regular(path: Path) -> BinaryIO:
    """Open a file for reading, unless it is a pipe, a device or the like, which may hang or never end.

    Raises:
        ModelError: it is not a regular file, links followed.
        OSError: it cannot be opened.
    """
    try:
        return opening.open_regular(path)
    except (IsADirectoryError, opening.NotRegularError):
        raise _not_regular(path) from None


def require_regular(path: Path, status: os.stat_result) -> None:
    """Check what :func:`os.stat` said of a file.

    Raises:
        ModelError: it is not a regular file.
    """
    if not stat.S_ISREG(status.st_mode):
        raise _not_regular(path)


def _not_regular(path: Path) -> ModelError:
    return ModelError(f"{show(path.name)} is not a regular file; replace it by the model's own file.")


def pickle_refusal(name: str) -> str:
    """Why a checkpoint that could run code is not opened."""
    return (
        f"{show(name)} is a pickle checkpoint, which can run code when opened, so it is not loaded; "
        "convert it to safetensors first."
    )


def show(text: str, limit: int = 80) -> str:
    """Text of unknown origin, short and printable, in quotes."""
    short = text if len(text) <= limit else text[: limit - 1] + "…"
    return ascii(short) if any(0xD800 <= ord(c) <= 0xDFFF for c in short) else repr(short)
