"""How large a bundle may be, for writing and for reading; and the one way of refusing one.

A bundle comes from anywhere. These limits keep a small file from asking for a large amount of memory. What
is inside a Parquet page is only known once it is unpacked, so a forged page can still cost a transient buffer
of up to 2 GiB; nothing larger, and nothing that stays.
"""

from __future__ import annotations

from typing import Final

from ctxviz.errors import BundleError

MIB: Final = 2**20
FILE_BYTES: Final = 512 * MIB
TOTAL_BYTES: Final = 512 * MIB
JSON_BYTES: Final = 32 * MIB
ENTRIES: Final = 64
DIRECTORY_BYTES: Final = 64 * 2**10
RATIO: Final = 200
"""Largest unpacked / packed size of an entry over 1 MiB; a run's JSON packs about tenfold."""
LAYERS: Final = 1024
WIDTH: Final = 65536
STEPS: Final = 100_000
TABLE_ROWS: Final = 4_000_000
"""Rows of the steps or the layers table, and of one row group of the coordinates."""
ROW_GROUPS: Final = 1024
COORDINATE_ROWS: Final = 32_000_000
TEXT: Final = 4 * MIB
PICTURES: Final = 32
PICTURE_BYTES: Final = 128 * MIB
"""Of the files of all pictures together."""
PICTURE_PIXELS: Final = 100 * 10**6
"""Of all pictures together; three bytes each once they are read."""
PIECE: Final = 65536
"""Characters of a prompt, and of a token or name."""


def broken(reason: str) -> BundleError:
    """The error for a file that cannot be used, as a sentence with its remedy."""
    return BundleError(f"The run file cannot be opened because {reason}; use an intact .ctxviz file.")
