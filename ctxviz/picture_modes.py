"""Pillow's many pixel modes brought to RGB on white, where ``convert`` alone would clip, invert or forget.

Colour profiles are not applied.
"""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageOps

from ctxviz.errors import PictureError


def scale_transparent_colour(image: Image.Image, bits: int) -> None:
    """A PNG states it in the file's bits; Pillow compares it with values already brought to 8."""
    colour = image.info.get("transparency")
    if image.mode == "L" and bits < 8 and isinstance(colour, int):
        image.info["transparency"] = colour * 255 // (2**bits - 1)
    elif image.mode == "RGB" and bits == 16 and isinstance(colour, tuple):
        image.info["transparency"] = tuple(value >> 8 for value in colour)


def as_rgb(image: Image.Image, bits: int, white_is_zero: bool = False) -> tuple[Image.Image, tuple[str, ...]]:
    """A new RGB image without metadata, transparency on white, and notes of what was lost.

    Args:
        image: of any mode that PNG, JPEG, GIF, WebP, BMP and TIFF files have, loaded.
        bits: per sample in the file.
        white_is_zero: whether 0 means white, which Pillow heeds only up to 8 bits.

    Raises:
        PictureError: grey values are not finite.
    """
    alpha, notes = None, []
    if image.mode in ("I", "F"):
        grey, note = _stretched(image)
        notes.append(note)
        colours = (ImageOps.invert(grey) if white_is_zero else grey).convert("RGB")
    elif image.mode.startswith("I;16"):
        grey, alpha = _from_16_bit(image, 2**bits - 1)
        colours = (ImageOps.invert(grey) if white_is_zero else grey).convert("RGB")
    elif image.has_transparency_data:
        rgba = (image.convert("LA") if image.mode == "La" else image).convert("RGBA")
        colours, alpha = rgba.convert("RGB"), rgba.getchannel("A")
    else:
        colours = image.convert("RGB")
    if image.mode in ("CMYK", "LAB"):
        notes.append(f"converted from {image.mode}")
    if 8 < bits <= 16 and image.mode not in ("I", "F"):
        notes.append(f"reduced from {bits} to 8 bits")
    plain = Image.new("RGB", image.size, "white")
    plain.paste(colours, (0, 0), alpha)
    if alpha is not None and alpha.histogram()[255] < image.width * image.height:
        notes.append("its transparent parts were put on white")
    return plain, tuple(notes)


def _from_16_bit(image: Image.Image, top: int) -> tuple[Image.Image, Image.Image | None]:
    """Grey values 0 to ``top`` as mode L; what is not the transparent value, where there is one."""
    values = image.convert("I")
    grey = values.point([min(255, (255 * v + top // 2) // top) for v in range(65536)], "L")
    transparent = image.info.get("transparency")
    if transparent is None:
        return grey, None
    return grey, values.point([0 if v == transparent else 255 for v in range(65536)], "L")


def _stretched(image: Image.Image) -> tuple[Image.Image, str]:
    """Mode L of grey values that have no agreed range, and what was done."""
    if image.mode == "F" and not np.isfinite(np.asarray(image)).all():
        raise PictureError(
            "The picture holds grey values that are not finite numbers; save it again, as PNG or JPEG."
        )
    low, high = (float(value) for value in image.getextrema())  # type: ignore[arg-type]
    if low == high:
        return Image.new("L", image.size, 0), f"all its grey values are {low:.6g}, drawn as black"
    scale = 255 / (high - low)
    grey = image.point(lambda value: value * scale + (0.5 - low * scale)).convert("L")
    return grey, f"its grey values, {low:.6g} to {high:.6g}, were stretched from black to white"
