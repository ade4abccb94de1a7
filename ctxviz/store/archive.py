"""The zip around a bundle: the same bytes for the same run when written, suspicious when read.

Nothing is ever unpacked to disk, so an entry's name is only a name; odd ones are refused all the same.
"""

from __future__ import annotations

import io
import re
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, Final

from ctxviz.errors import BundleError
from ctxviz.opening import NotRegularError, open_regular
from ctxviz.pictures import MAX_BYTES
from ctxviz.store.limits import (
    DIRECTORY_BYTES,
    ENTRIES,
    FILE_BYTES,
    JSON_BYTES,
    MIB,
    PICTURES,
    RATIO,
    TOTAL_BYTES,
    broken,
)

DESCRIPTION: Final = "run.json"
TABLES: Final = ("steps.parquet", "layers.parquet", "coordinates.parquet")
PICTURE: Final = "images/"
"""Begins the names of stored pictures; their numbers, from 0, follow."""
_PICTURE_NAME = re.compile(PICTURE + r"(0|[1-9]\d{0,5})", re.ASCII)
_EPOCH = (1980, 1, 1, 0, 0, 0)
_END = struct.Struct("<4s4H2LH")
_ZIP64_LOCATOR_BYTES = 20
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    OSError,
)


def pack(parts: Mapping[str, bytes]) -> bytes:
    """A zip of ``parts`` in their order: text deflated, tables, which are compressed inside, as they are."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in parts.items():
            info = zipfile.ZipInfo(name, _EPOCH)
            info.create_system = 3
            info.external_attr = 0o644 << 16
            info.compress_type = zipfile.ZIP_DEFLATED if name.endswith(".json") else zipfile.ZIP_STORED
            archive.writestr(info, data)
    return out.getvalue()


def unpack(source: str | Path | bytes | BinaryIO) -> dict[str, bytes]:
    """The parts of a bundle that ctxviz reads, by name: its description, tables and any pictures.

    Raises:
        BundleError: it cannot be read, is no zip, is damaged, lacks a part, or would be too large.
    """
    data = _bytes(source)
    _check_end(data)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = _checked(archive.infolist())
            pictures = [name for name in entries if _PICTURE_NAME.fullmatch(name)]
            if len(pictures) > PICTURES:
                raise broken(f"it holds more than {PICTURES} pictures")
            return {name: _read(archive, entries, name) for name in (DESCRIPTION, *TABLES, *pictures)}
    except _DAMAGE:
        raise broken("it is damaged") from None


def _bytes(source: str | Path | bytes | BinaryIO) -> bytes:
    if isinstance(source, bytes):
        data = source
    elif isinstance(source, (str, Path)):
        try:
            with open_regular(Path(source)) as file:
                data = file.read(FILE_BYTES + 1)
        except NotRegularError:
            raise BundleError(
                f"The run file {str(source)!r} is not a regular file; name a .ctxviz file."
            ) from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "not a file name"
            raise BundleError(
                f"The run file {str(source)!r} cannot be read ({reason}); check its name and permissions."
            ) from None
    else:
        if source.seekable():
            source.seek(0)
        data = source.read(FILE_BYTES + 1)
    if len(data) > FILE_BYTES:
        raise broken(f"it is larger than {FILE_BYTES // MIB} MiB")
    return data


def _check_end(data: bytes) -> None:
    """Refuse what would make the zip reader build a huge directory: its size is told at the file's end."""
    if not data:
        raise broken("it is empty")
    if not data.startswith(b"PK"):
        raise broken("it is not a ctxviz run")
    if len(data) < _END.size:
        raise broken("it is cut short")
    signature, *_, size, _offset, comment = _END.unpack(data[-_END.size :])
    if signature != b"PK\5\6" or comment:
        raise broken("it is cut short or has something added")
    before = data[: -_END.size][-_ZIP64_LOCATOR_BYTES:]
    if size > DIRECTORY_BYTES or before.startswith(b"PK\6\7"):
        raise broken("it holds too many files")


def _checked(infos: list[zipfile.ZipInfo]) -> dict[str, zipfile.ZipInfo]:
    if len(infos) > ENTRIES:
        raise broken("it holds too many files")
    entries: dict[str, zipfile.ZipInfo] = {}
    for info in infos:
        name = info.filename
        if name in entries:
            raise broken("it holds the same name twice")
        if (
            name.startswith("/")
            or "\\" in name
            or ":" in name
            or ".." in name.split("/")
            or "\0" in info.orig_filename
        ):
            raise broken("it holds a file with an unsafe name")
        if info.flag_bits & 1 or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise broken("it is encrypted or packed in an unknown way")
        if info.file_size > MIB and info.file_size > RATIO * info.compress_size:
            raise broken("it would unpack to far more than its size")
        entries[name] = info
    if sum(info.file_size for info in entries.values()) > TOTAL_BYTES:
        raise broken(f"it would unpack to more than {TOTAL_BYTES // MIB} MiB")
    return entries


def _read(archive: zipfile.ZipFile, entries: Mapping[str, zipfile.ZipInfo], name: str) -> bytes:
    if name not in entries:
        what = "it is not a ctxviz run" if name == DESCRIPTION else "it is incomplete"
        raise broken(f"{what}: {name} is missing")
    limit = _limit(name)
    with archive.open(entries[name]) as part:
        data = part.read(limit + 1)
    if len(data) > limit:
        raise broken(f"its {name} is larger than {limit // MIB} MiB")
    return data


def _limit(name: str) -> int:
    if name.startswith(PICTURE):
        return MAX_BYTES
    return JSON_BYTES if name == DESCRIPTION else TOTAL_BYTES
