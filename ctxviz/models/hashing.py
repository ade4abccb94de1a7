"""SHA-256 of large files, remembered for as long as a file's time, size and inode stay the same."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Final

BLOCK: Final = 4 << 20


class HashMemo:
    """Hashes of files by path, in one JSON file; losing it costs only time.

    Several processes may write it at once: it is replaced whole, and the last one wins.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def sha256(self, file: Path, progress: Callable[[float], None] | None = None) -> str:
        """Hex digest of a file; ``progress`` is called with the fraction read.

        Raises:
            OSError: the file cannot be read.
        """
        known = self._read().get(str(file))
        mark = _mark(file)
        if isinstance(known, list) and known[:-1] == mark and isinstance(known[-1], str):
            return known[-1]
        digest = sha256_of(file, progress)
        if _mark(file) == mark:
            self.remember(file, digest)
        return digest

    def remember(self, file: Path, digest: str) -> None:
        """Keep a digest that was worked out elsewhere."""
        entries = {path: entry for path, entry in self._read().items() if os.path.exists(path)}
        entries[str(file)] = [*_mark(file), digest]
        try:
            with NamedTemporaryFile("w", dir=self._path.parent, prefix=self._path.name, delete=False) as out:
                json.dump(entries, out)
            os.replace(out.name, self._path)
        except OSError:
            return

    def _read(self) -> dict[str, Any]:
        if not self._path.is_file():
            return {}
        try:
            entries = json.loads(self._path.read_text())
        except (OSError, ValueError):
            return {}
        return entries if isinstance(entries, dict) else {}


def _mark(file: Path) -> list[int]:
    status = file.stat()
    return [status.st_mtime_ns, status.st_size, status.st_ino]


def sha256_of(file: Path, progress: Callable[[float], None] | None = None) -> str:
    """Hex digest of a file, read now."""
    digest, size, done = hashlib.sha256(), max(1, file.stat().st_size), 0
    with file.open("rb") as source:
        while block := source.read(BLOCK):
            digest.update(block)
            done += len(block)
            if progress is not None:
                progress(min(1.0, done / size))
    return digest.hexdigest()
