"""Writing a file so that it is either the old one or the whole new one."""

from __future__ import annotations

import errno
import os
import secrets
from pathlib import Path


def write_whole(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path`` by way of a file beside it; missing folders are made.

    Raises:
        OSError: the place cannot be written to, is full, or holds a device, pipe, socket or folder, which
            is never replaced; ``path`` is then what it was.
    """
    if path.exists() and not path.is_file():
        raise OSError(errno.EEXIST, "it is not a regular file", str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".ctxviz.{secrets.token_hex(8)}.part")
    try:
        with part.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
