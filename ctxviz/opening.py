"""Opening a file that somebody named: never a pipe, a device or a socket, which may hang or never end."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


class NotRegularError(OSError):
    """It is a pipe, a device or a socket."""


def open_regular(path: Path) -> BinaryIO:
    """Open a file for reading, links followed, without ever waiting for what is not one.

    Raises:
        IsADirectoryError: it is a folder.
        NotRegularError: it is no regular file.
        OSError, ValueError: it cannot be opened, or no file can have this name.
    """
    _require_regular(path.stat())
    # Not to wait where it became a pipe just now.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags)
    try:
        _require_regular(os.fstat(descriptor))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def _require_regular(status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        raise NotRegularError(errno.EINVAL, "it is not a regular file")
