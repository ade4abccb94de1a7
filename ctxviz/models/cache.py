"""Converted models on disk: built once, checked on every use, rebuilt when anything about them is wrong.

A model is built in a temporary folder beside its place and renamed into it as the last step, so a folder
that is in its place was finished. Builders of the same model wait for each other on a file lock, which the
operating system lets go of when a process dies.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Final

import filelock
import platformdirs

from ctxviz.errors import ModelError
from ctxviz.models.folders import read_json
from ctxviz.models.hashing import HashMemo, sha256_of
from ctxviz.models.progress import Progress
from ctxviz.models.sources import reason

FORMAT: Final = 1
"""Raised whenever the conversion changes what it writes."""
MANIFEST: Final = "manifest.json"
_LIBRARIES: Final = ("gguf", "transformers", "tokenizers")
_ESSENTIAL: Final = ("config.json", "model.safetensors", "tokenizer.json")
_REMEDY: Final = "free some space, or set CTXVIZ_CACHE to a folder with more"
Build = Callable[[Path, Progress], None]


def models_folder() -> Path:
    """Where converted models live: ``models`` in ``$CTXVIZ_CACHE``, else in the user's cache folder."""
    chosen = os.environ.get("CTXVIZ_CACHE")
    base = Path(chosen).expanduser() if chosen else Path(platformdirs.user_cache_dir("ctxviz"))
    return base.absolute() / "models"


def place_of(sha256: str) -> Path:
    """The folder of the model converted from a source file with this hash."""
    return models_folder() / f"{sha256}-{FORMAT}"


def memo() -> HashMemo:
    """The hashes remembered between starts."""
    return HashMemo(models_folder() / "hashes.json")


def looks_ready(sha256: str) -> bool:
    """Whether a finished model is in its place, by names and sizes alone."""
    return _fault(place_of(sha256), sha256) is None


def ensure(sha256: str, build: Build, progress: Progress, *, bytes_needed: int = 0) -> Path:
    """The folder of a converted model, built now if it is absent or wrong.

    Args:
        sha256: of the source file; part of the folder's name and manifest.
        build: writes the model's files into an empty folder.
        progress: told of waiting, of a wrong copy that is replaced, and of the steps.
        bytes_needed: on disk, while building.

    Raises:
        ModelError: the cache folder is full or cannot be written, or the source is broken.
    """
    place = place_of(sha256)
    if _fault(place, sha256, progress) is None:
        return place
    with _explained(place.parent):
        place.parent.mkdir(parents=True, exist_ok=True)
        with _alone(place, progress):
            _sweep(place)
            fault = _fault(place, sha256, progress)
            if fault is None:
                return place
            if os.path.lexists(place):
                progress(f"the stored model is unusable ({fault}), so it is made again", None)
                _discard(place)
            _require_room(place.parent, bytes_needed)
            _build(place, sha256, build, progress)
    return place


def _build(place: Path, sha256: str, build: Build, progress: Progress) -> None:
    working = Path(mkdtemp(prefix=f"{place.name}.building-", dir=place.parent))
    try:
        build(working, progress)
        progress("storing the model", None)
        files = {
            file.name: {"size": file.stat().st_size, "sha256": sha256_of(file)}
            for file in sorted(working.iterdir())
        }
        manifest = {
            "format": FORMAT,
            "source_sha256": sha256,
            "libraries": {name: version(name) for name in _LIBRARIES},
            "files": files,
        }
        (working / MANIFEST).write_text(json.dumps(manifest, indent=1))
        for file in working.iterdir():
            _flush(file)
        _flush(working)
        os.replace(working, place)
        _flush(place.parent)
    finally:
        shutil.rmtree(working, ignore_errors=True)
    for name, facts in files.items():
        memo().remember(place / name, str(facts["sha256"]))


def _fault(place: Path, sha256: str, progress: Progress | None = None) -> str | None:
    """What is wrong with a stored model, in a few words; contents are compared if progress is given."""
    if not os.path.lexists(place):
        return "it is absent"
    if place.is_symlink() or not place.is_dir():
        return "something else is in its place"
    try:
        manifest = read_json(place / MANIFEST)
        files: dict[str, dict[str, Any]] = manifest["files"]
        if (manifest["format"], manifest["source_sha256"]) != (FORMAT, sha256) or not files.keys() >= set(
            _ESSENTIAL
        ):
            return "its manifest describes another model"
        if {entry.name for entry in place.iterdir()} != {*files, MANIFEST}:
            return "files are missing or were added"
        for name, facts in files.items():
            file = place / name
            if file.is_symlink() or not file.is_file() or file.stat().st_size != facts["size"]:
                return f"{name} has another size"
            if progress is not None and _digest(file, progress) != facts["sha256"]:
                return f"{name} has other contents"
    except (ModelError, OSError, ValueError, KeyError, TypeError, AttributeError):
        return "its manifest or a file cannot be read"
    return None


def _digest(file: Path, progress: Progress) -> str:
    return memo().sha256(file, lambda done: progress("checking the stored model", done))


@contextmanager
def _alone(place: Path, progress: Progress) -> Iterator[None]:
    lock = filelock.FileLock(place.with_name(f"{place.name}.lock"))
    patience = 0.0
    while True:
        try:
            lock.acquire(timeout=patience)
            break
        except filelock.Timeout:
            progress("waiting for another program that is preparing this model", None)
            patience = 1.0
    try:
        yield
    finally:
        lock.release()


def _sweep(place: Path) -> None:
    """Remove what killed builders of this model left; only while its lock is held."""
    for leftover in place.parent.glob(f"{place.name}.*-*"):
        _remove(leftover)


def _discard(place: Path) -> None:
    # Renamed first, so that a kill in the middle of the removal leaves nothing in the model's place.
    away = Path(mkdtemp(prefix=f"{place.name}.discarded-", dir=place.parent)) / "model"
    os.replace(place, away)
    _remove(away.parent)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def _require_room(folder: Path, bytes_needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < bytes_needed:
        raise ModelError(
            f"Preparing the model needs {bytes_needed / 1e9:.1f} GB in {folder}, "
            f"and {free / 1e9:.1f} GB are free; {_REMEDY}."
        )


def _flush(path: Path) -> None:
    if path.is_dir() and os.name != "posix":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _explained(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise ModelError(
                f"There is no space left in {folder} to prepare the model; {_REMEDY}."
            ) from error
        raise ModelError(
            f"The model cannot be prepared in {folder} ({reason(error)}); make that folder writable, "
            "or set CTXVIZ_CACHE to one that is."
        ) from error
