"""Reading our CSV files as any program would that knows RFC 4180 and byte-order marks."""

from __future__ import annotations

import csv
import io


def read_csv(text: str | bytes) -> list[list[str]]:
    """The rows of a file: it begins with one byte-order mark, and its lines end in CRLF."""
    raw = text if isinstance(text, bytes) else text.encode()
    assert raw.startswith(b"\xef\xbb\xbf")
    assert raw.endswith(b"\r\n")
    assert raw.count(b"\xef\xbb\xbf") == 1
    return list(csv.reader(io.StringIO(raw.decode("utf-8-sig"), newline="")))


def read_records(text: str | bytes) -> list[dict[str, str]]:
    """The rows by the names of their columns."""
    head, *rows = read_csv(text)
    return [dict(zip(head, row, strict=True)) for row in rows]
