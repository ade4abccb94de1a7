"""Pictures that people give: read, checked, and made plain RGB that stands upright.

Formats are told by content alone and each goes to its one parser, so no other of Pillow's parsers ever runs.
Nothing global of Pillow is set, and sizes are refused from the header, before anything is decoded.
"""

from __future__ import annotations

import hashlib
import io
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from PIL import (
    BmpImagePlugin,
    ExifTags,
    GifImagePlugin,
    Image,
    ImageFile,
    JpegImagePlugin,
    PngImagePlugin,
    TiffImagePlugin,
    WebPImagePlugin,
)

from ctxviz.errors import PictureError, is_out_of_memory
from ctxviz.opening import NotRegularError, open_regular
from ctxviz.picture_modes import as_rgb, scale_transparent_colour

# Pillow warns about damaged tags on stderr; what matters of them is among a picture's notes.
warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")

MAX_BYTES: Final = 20 * 10**6
MAX_PIXELS: Final = 50 * 10**6
MIN_SIDE: Final = 2
"""Pixels in either direction below which a picture holds nothing to look at."""
MAX_ASPECT: Final = 100
"""Longer side over shorter side; beyond it nothing is left once a model has made the picture square."""
MAX_NAME: Final = 60
FORMATS: Final = ("PNG", "JPEG", "GIF", "WebP", "BMP", "TIFF")

_READERS: Final[dict[str, type[ImageFile.ImageFile]]] = {
    "PNG": PngImagePlugin.PngImageFile,
    "JPEG": JpegImagePlugin.JpegImageFile,
    "GIF": GifImagePlugin.GifImageFile,
    "WebP": WebPImagePlugin.WebPImageFile,
    "BMP": BmpImagePlugin.BmpImageFile,
    "TIFF": TiffImagePlugin.TiffImageFile,
}
_PREFIXES: Final = {
    "PNG": (b"\x89PNG\r\n\x1a\n",),
    "JPEG": (b"\xff\xd8\xff",),
    "GIF": (b"GIF87a", b"GIF89a"),
    "TIFF": (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"),
}
_BMP_HEADERS: Final = (12, 40, 52, 56, 64, 108, 124)
_TURNS: Final = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""What undoes each EXIF orientation other than 1."""
_BITS_PER_SAMPLE, _PHOTOMETRIC = 258, 262


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """A picture that was read in full; two are the same picture where their ``sha256`` is the same."""

    image: Image.Image
    """RGB, upright, without metadata or an open file."""
    sha256: str
    """Of ``data``."""
    name: str
    """Last part of the file's name, printable and short, for messages only; may be empty."""
    notes: tuple[str, ...]
    """What was done to it, for people: ``turned upright``, ``first of 12 frames``."""
    data: bytes
    """The file's bytes as given."""


def read_file(path: Path) -> Picture:
    """Read a picture from disk; links are followed, pipes and devices refused without waiting for them.

    Raises:
        PictureError: there is no such regular file, it cannot be read, or :func:`read_bytes` refuses it.
    """
    about = _about(_printable(path.name))
    try:
        with open_regular(path) as file:
            _check_length(os.fstat(file.fileno()).st_size, about)
            data = file.read(MAX_BYTES + 1) or b""
    except IsADirectoryError:
        raise PictureError(f"{about} is a folder; name a picture file in it.") from None
    except NotRegularError:
        raise PictureError(f"{about} is not a regular file; name a picture file.") from None
    except FileNotFoundError:
        raise PictureError(f"{about} does not exist; check the path.") from None
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise PictureError(
            f"{about} cannot be read ({why}); check its permissions or name another file."
        ) from None
    except ValueError:
        raise PictureError(f"{about} has a name that no file can have; check the path.") from None
    return read_bytes(data, path.name)


def read_bytes(data: bytes, name: str = "") -> Picture:
    """Read a picture from its file's bytes, whatever its name ends in.

    Of an animation the first frame is taken, transparent parts are put on white, grey values of more than
    8 bits are scaled, and an EXIF orientation is obeyed; each is told in the notes.

    Raises:
        PictureError: it is empty, over :data:`MAX_BYTES` or :data:`MAX_PIXELS`, too small or too narrow, of
            another format, or cannot be decoded to its end.
    """
    data = bytes(data)
    name = _printable(name)
    about = _about(name)
    if not data:
        raise PictureError(f"{about} is empty (0 bytes); choose another file.")
    _check_length(len(data), about)
    kind = _kind(data)
    if kind is None:
        raise PictureError(
            f"{about} is not a {', '.join(FORMATS[:-1])} or {FORMATS[-1]} file; "
            "save it as one of these, the formats that are read."
        )
    with _told(about, kind):
        image, notes = _decode(data, kind, about)
    return Picture(image, hashlib.sha256(data).hexdigest(), name, notes, data)


def from_image(image: Image.Image, name: str) -> Picture:
    """A drawn scene as a picture; its bytes are a PNG file of it.

    Raises:
        PictureError: its size is out of bounds or its mode has no RGB equivalent.
    """
    name = _printable(name)
    about = _about(name)
    _check_size(image.size, about)
    file = io.BytesIO()
    with _told(about, "drawn"):
        rgb, notes = as_rgb(image, bits=16 if image.mode.startswith("I;16") else 8)
        rgb.save(file, "PNG")
    data = file.getvalue()
    return Picture(rgb, hashlib.sha256(data).hexdigest(), name, notes, data)


def _printable(name: str) -> str:
    """The last part of a path of any system, without characters that control or reorder a message."""
    last = name.replace("\\", "/").rstrip("/").rpartition("/")[2]
    short = last if len(last) <= MAX_NAME else last[: MAX_NAME - 1] + "…"
    return "".join(" " if c.isspace() else c if c.isprintable() else "\ufffd" for c in short).strip()


def _about(name: str) -> str:
    return f"The picture “{name}”" if name else "The picture"


def _check_length(length: int, about: str) -> None:
    if length > MAX_BYTES:
        raise PictureError(
            f"{about} is {length:,} bytes large, and at most {MAX_BYTES:,} are read; make it smaller."
        )


def _check_size(size: tuple[int, int], about: str) -> None:
    short, long = sorted(size)
    shown = f"{size[0]:,} × {size[1]:,} pixels"
    if short < MIN_SIDE:
        raise PictureError(f"{about} has {shown}; use one of at least {MIN_SIDE} × {MIN_SIDE}.")
    if short * long > MAX_PIXELS:
        raise PictureError(
            f"{about} has {shown}, more than the {MAX_PIXELS:,} that are read; make it smaller."
        )
    if long > MAX_ASPECT * short:
        raise PictureError(
            f"{about} has {shown}, a strip over {MAX_ASPECT} times as long as wide; cut a part out of it."
        )


def _kind(data: bytes) -> str | None:
    """Which of :data:`FORMATS` the bytes begin as."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "WebP"
    # Two letters alone are also how many texts begin.
    if data[:2] == b"BM" and int.from_bytes(data[14:18], "little") in _BMP_HEADERS:
        return "BMP"
    return next((kind for kind, prefixes in _PREFIXES.items() if data.startswith(prefixes)), None)


@contextmanager
def _told(about: str, kind: str) -> Iterator[None]:
    """Turn whatever Pillow raises (also a warning, where those are errors) into a sentence."""
    try:
        yield
    except PictureError:
        raise
    # Of a damaged file its parsers raise nearly every kind there is.
    except Exception as error:
        if is_out_of_memory(error):
            raise PictureError(f"{about} does not fit into memory; make it smaller.") from None
        raise PictureError(
            f"{about} cannot be decoded: it is damaged, cut short, or an unusual kind of {kind} file; "
            "save it again, as PNG or JPEG."
        ) from None


def _decode(data: bytes, kind: str, about: str) -> tuple[Image.Image, tuple[str, ...]]:
    size = _declared_size(data, kind)
    if size is not None:
        _check_size(size, about)
    # The classes themselves: Image.open would warn of large sizes before they can be looked at.
    image = _READERS[kind](io.BytesIO(data))
    _check_size(image.size, about)
    notes = _frames(image)
    # Pillow turns TIFF files while it loads them, and forgets their orientation.
    turned = _orientation(image) if kind == "TIFF" else 1
    image.load()
    orientation = _orientation(image)
    bits = _bits(image, data)
    if isinstance(image, PngImagePlugin.PngImageFile):
        scale_transparent_colour(image, bits)
    tags = image.tag_v2 if isinstance(image, TiffImagePlugin.TiffImageFile) else {}
    rgb, more = as_rgb(image, bits, white_is_zero=tags.get(_PHOTOMETRIC) == 0)
    if orientation in _TURNS:
        rgb = rgb.transpose(_TURNS[orientation])
    if orientation in _TURNS or turned in _TURNS:
        notes.append("turned upright")
    if orientation is None:
        notes.append("its EXIF data cannot be read, so it may lie on its side")
    return rgb, (*notes, *more)


def _declared_size(data: bytes, kind: str) -> tuple[int, int] | None:
    """Width and height, where Pillow would allocate the picture or call it broken before telling them."""
    if kind == "PNG" and data[12:16] == b"IHDR" and len(data) >= 24:
        return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
    if kind == "WebP" and len(data) >= 30:
        if data[12:16] == b"VP8X":
            return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
        if data[12:16] == b"VP8L":
            packed = int.from_bytes(data[21:25], "little")
            return (packed & 0x3FFF) + 1, (packed >> 14 & 0x3FFF) + 1
        if data[12:16] == b"VP8 ":
            width, height = (int.from_bytes(data[i : i + 2], "little") & 0x3FFF for i in (26, 28))
            return width, height
    return None


def _frames(image: ImageFile.ImageFile) -> list[str]:
    if isinstance(image, TiffImagePlugin.TiffImageFile):
        # Counting them takes the square of their number.
        return ["first of its pages"] if image.is_animated else []
    frames = getattr(image, "n_frames", 1)
    return [f"first of {frames:,} frames"] if frames > 1 else []


def _orientation(image: Image.Image) -> int | None:
    """The EXIF orientation, 1 where there is none or no valid one; None where EXIF data is unreadable."""
    try:
        value = image.getexif().get(ExifTags.Base.Orientation, 1)
    except Exception:
        return None
    return value if isinstance(value, int) and value in _TURNS else 1


def _bits(image: ImageFile.ImageFile, data: bytes) -> int:
    """Bits per sample in the file, for the formats that may have more than 8."""
    if isinstance(image, PngImagePlugin.PngImageFile):
        return data[24]
    if isinstance(image, TiffImagePlugin.TiffImageFile):
        return max(image.tag_v2.get(_BITS_PER_SAMPLE, (1,)))
    return 8
