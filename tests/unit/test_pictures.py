"""Pictures that people give: what is accepted, what is done to them, and how the rest is refused."""

import hashlib
import io
import os
import struct
import subprocess
import sys
import threading
import tracemalloc
import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageFile

from ctxviz import pictures
from ctxviz.errors import PictureError
from ctxviz.pictures import MAX_BYTES, MAX_NAME, MAX_PIXELS, Picture, from_image, read_bytes, read_file

ROOT = Path(__file__).parents[2]
RED, GREEN, BLUE, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)
LOSSY = 12
"""Largest distance of a channel from a plain colour that JPEG and lossy WebP were seen to make, doubled."""


def refusal(given: bytes | Path, name: str = "") -> str:
    """What reading says; one short line of text with something to do."""
    with pytest.raises(PictureError) as caught:
        read_file(given) if isinstance(given, Path) else read_bytes(given, name)
    text = str(caught.value)
    assert len(text) < 300
    assert text.isprintable()
    assert text.endswith(".")
    assert ";" in text
    text.encode("utf-8")
    return text


def encoded(image: Image.Image, format: str, **options) -> bytes:
    file = io.BytesIO()
    image.save(file, format, **options)
    return file.getvalue()


def halves(left=RED, right=BLUE, size=(40, 20)) -> Image.Image:
    image = Image.new("RGB", size, right)
    image.paste(left, (0, 0, size[0] // 2, size[1]))
    return image


def noise(size=(64, 48)) -> Image.Image:
    values = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    return Image.fromarray(values)


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(width, height, bits, colour, rows=b"", extra=b"") -> bytes:
    """A PNG file by hand; every row begins with its filter byte."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 0))
    body = chunk(b"IDAT", zlib.compress(rows, 9))
    return b"\x89PNG\r\n\x1a\n" + header + extra + body + chunk(b"IEND", b"")


def grey_tiff(bits: int, row: bytes, photometric: int = 1) -> bytes:
    """A grey TIFF of 2 x 2 pixels by hand, for what Pillow does not write."""
    tags = [(256, 2), (257, 2), (258, bits), (259, 1), (262, photometric), (273, 8), (277, 1), (278, 2)]
    tags.append((279, 2 * len(row)))
    pixels = row * 2
    directory = struct.pack("<H", len(tags)) + b"".join(struct.pack("<HHII", t, 3, 1, v) for t, v in tags)
    return b"II*\0" + struct.pack("<I", 8 + len(pixels)) + pixels + directory + bytes(4)


def pixel(picture: Picture, x=0, y=0) -> tuple[int, ...]:
    assert picture.image.mode == "RGB"
    return picture.image.getpixel((x, y))  # type: ignore[return-value]


def oriented(orientation: int) -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif


@pytest.fixture
def no_decoding(monkeypatch):
    """Loading the pixels of any file fails."""

    def load(self):
        raise AssertionError("decoded")

    for kind in pictures._READERS.values():
        monkeypatch.setattr(kind, "load", load)


FORMATS = ["PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF"]


class TestPlainPictures:
    @pytest.mark.parametrize("format", FORMATS)
    def test_every_format_keeps_its_pixels_and_needs_no_note(self, format):
        picture = read_bytes(encoded(halves(), format), "x")
        assert picture.image.size == (40, 20)
        assert np.abs(np.subtract(pixel(picture, 2, 2), RED)).max() <= LOSSY
        assert np.abs(np.subtract(pixel(picture, 37, 17), BLUE)).max() <= LOSSY
        assert picture.notes == ()

    def test_what_is_remembered(self, tmp_path):
        data = encoded(halves(), "PNG")
        (tmp_path / "a b.png").write_bytes(data)
        picture = read_file(tmp_path / "a b.png")
        assert (picture.data, picture.name) == (data, "a b.png")
        assert picture.sha256 == hashlib.sha256(data).hexdigest()
        assert picture != read_bytes(data, "a b.png")

    @pytest.mark.parametrize("format", FORMATS)
    def test_it_holds_no_file_and_no_metadata(self, format):
        picture = read_bytes(
            encoded(halves(), format, exif=oriented(6)) if format != "BMP" else encoded(halves(), format)
        )
        assert type(picture.image) is Image.Image
        assert picture.image.info == {}
        assert not picture.image.getexif()

    def test_no_file_stays_open(self, tmp_path):
        (tmp_path / "x.gif").write_bytes(encoded(halves(), "GIF"))
        before = os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else []
        kept = [read_file(tmp_path / "x.gif") for _ in range(5)]
        assert len(os.listdir("/proc/self/fd") if before else []) == len(before)
        assert len(kept) == 5

    @pytest.mark.parametrize("name", ["x.txt", "x.png", "x.exe", "x"])
    def test_content_decides_and_not_the_name(self, tmp_path, name):
        (tmp_path / name).write_bytes(encoded(halves(), "JPEG"))
        assert read_file(tmp_path / name).notes == ()

    def test_links_are_followed(self, tmp_path):
        (tmp_path / "real").write_bytes(encoded(halves(), "PNG"))
        (tmp_path / "link.png").symlink_to(tmp_path / "real")
        assert pixel(read_file(tmp_path / "link.png")) == RED

    def test_many_threads_at_once(self):
        files = [encoded(halves(left=(i, 0, 0)), "PNG") for i in range(16)]
        found: dict[int, tuple[int, ...]] = {}

        def read(i: int) -> None:
            for _ in range(10):
                found[i] = pixel(read_bytes(files[i]))

        threads = [threading.Thread(target=read, args=(i,)) for i in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == {i: (i, 0, 0) for i in range(16)}

    def test_nothing_of_pillow_is_set(self):
        assert ImageFile.LOAD_TRUNCATED_IMAGES is False
        before = Image.MAX_IMAGE_PIXELS, list(warnings.filters)
        read_bytes(encoded(halves(), "TIFF"))
        assert before == (Image.MAX_IMAGE_PIXELS, list(warnings.filters))


class TestNotPictures:
    def test_empty(self, tmp_path):
        (tmp_path / "x.png").touch()
        assert "0 bytes" in refusal(tmp_path / "x.png")
        assert "0 bytes" in refusal(b"")

    @pytest.mark.parametrize(
        "data",
        [
            b"hello",
            b"BM, said the text, is how I begin",
            b"\x89PNG",
            b"RIFF\x10\0\0\0WAVEfmt ",
            b'<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"/>',
            b"\0\0\0\x18ftypheic\0\0\0\0",
            b"%PDF-1.7\n",
            b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n",
            b"8BPS\0\x01" + bytes(100),
            encoded(halves(), "PPM"),
            encoded(halves(), "ICO"),
        ],
    )
    def test_other_content_is_told_which_formats_are_read(self, data):
        text = refusal(data, "x.png")
        assert "PNG, JPEG, GIF, WebP, BMP or TIFF" in text
        assert "“x.png”" in text

    # Of BMP and lossy WebP any bytes are some pixels.
    @pytest.mark.parametrize("format", ["PNG", "JPEG", "GIF", "TIFF"])
    def test_a_beginning_followed_by_nonsense(self, format):
        data = encoded(noise(), format)
        assert "cannot be decoded" in refusal(data[:40] + b"\xaa" * len(data))

    @pytest.mark.parametrize(
        "options", [{}, {"progressive": True}, {"compression": "tiff_lzw"}, {"lossless": True}]
    )
    @pytest.mark.parametrize("format", FORMATS)
    @pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
    def test_truncated(self, format, options, share):
        data = encoded(noise(), format, **options)
        read_bytes(data)
        assert "cut short" in refusal(data[: int(share * len(data))])

    @pytest.mark.parametrize("count", range(8, 60, 3))
    def test_only_a_header(self, count):
        for format in FORMATS:
            refusal(encoded(noise(), format)[:count])

    def test_a_broken_checksum(self):
        data = bytearray(encoded(halves(), "PNG"))
        data[29] ^= 1
        assert "damaged" in refusal(bytes(data))

    @pytest.mark.parametrize(
        "error",
        [
            SyntaxError,
            struct.error,
            OSError,
            ValueError,
            KeyError,
            AssertionError,
            Image.DecompressionBombError,
            Image.DecompressionBombWarning,
        ],
    )
    def test_whatever_pillow_raises(self, monkeypatch, error):
        def load(self):
            raise error("deep inside")

        monkeypatch.setattr(pictures._READERS["PNG"], "load", load)
        text = refusal(encoded(halves(), "PNG"))
        assert "cannot be decoded" in text
        assert "deep" not in text

    def test_memory_that_runs_out(self, monkeypatch):
        def load(self):
            raise MemoryError

        monkeypatch.setattr(pictures._READERS["PNG"], "load", load)
        assert "memory" in refusal(encoded(halves(), "PNG"))

    def test_an_interruption_is_not_a_bad_picture(self, monkeypatch):
        def load(self):
            raise KeyboardInterrupt

        monkeypatch.setattr(pictures._READERS["PNG"], "load", load)
        with pytest.raises(KeyboardInterrupt):
            read_bytes(encoded(halves(), "PNG"))

    def test_text_that_unpacks_to_far_more(self):
        bomb = chunk(b"zTXt", b"k\0\0" + zlib.compress(bytes(50 * 10**6), 9))
        data = png(4, 4, 8, 0, b"\0\7\7\7\7" * 4, bomb)
        assert len(data) < 10**5
        tracemalloc.start()
        refusal(data)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 10 * 10**6

    def test_pixels_that_unpack_to_far_more_are_never_unpacked(self):
        rows = zlib.compress(b"\0" + bytes(10**7), 9)
        data = png(4, 4, 8, 0)
        data = data[:33] + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
        assert pixel(read_bytes(data)) == (0, 0, 0)


class TestSizes:
    def test_twenty_megabytes_are_read_and_a_byte_more_is_not(self, tmp_path):
        data = encoded(halves(), "PNG")
        full = data + bytes(MAX_BYTES - len(data))
        assert len(full) == 20_000_000
        assert pixel(read_bytes(full)) == RED
        assert "20,000,001 bytes" in refusal(full + b"\0")
        (tmp_path / "x.png").write_bytes(full)
        assert read_file(tmp_path / "x.png").data == full
        with open(tmp_path / "x.png", "ab") as file:
            file.write(b"\0")
        assert "20,000,001 bytes" in refusal(tmp_path / "x.png")

    def test_a_huge_file_is_not_read_at_all(self, tmp_path):
        with open(tmp_path / "x.png", "wb") as file:
            file.truncate(10**12)
        assert "1,000,000,000,000 bytes" in refusal(tmp_path / "x.png")

    @pytest.mark.usefixtures("no_decoding")
    def test_thirty_thousand_squared_is_refused_before_decoding(self):
        data = png(30_000, 30_000, 1, 0, bytes(3751) * 30_000)
        assert len(data) < 200_000
        tracemalloc.start()
        text = refusal(data, "big.png")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert "30,000 × 30,000" in text
        assert peak < 2 * len(data)

    @pytest.mark.usefixtures("no_decoding")
    @pytest.mark.parametrize("side", [7072, 9500, 13_000, 60_000])
    def test_too_many_pixels_in_every_format(self, side):
        """Below, between and above the sizes at which Pillow itself warns and refuses."""
        shown = f"{side:,} × {side:,}"
        assert shown in refusal(png(side, side, 8, 2, b"\0"))
        frame = b"," + struct.pack("<HHHHB", 0, 0, 2, 2, 0) + b"\x02\x02\x4c\x01\x00;"
        assert shown in refusal(b"GIF89a" + struct.pack("<HHBBB", side, side, 0x80, 0, 0) + bytes(6) + frame)
        bmp = bytearray(encoded(halves(), "BMP"))
        bmp[18:26] = struct.pack("<II", side, side)
        assert shown in refusal(bytes(bmp))
        jpeg = bytearray(encoded(halves(), "JPEG"))
        at = jpeg.index(b"\xff\xc0") + 5
        jpeg[at : at + 4] = struct.pack(">HH", side, side)
        assert shown in refusal(bytes(jpeg))
        tiff = bytearray(encoded(halves(), "TIFF"))
        for tag in (256, 257):
            at = tiff.index(struct.pack("<HHI", tag, 4, 1)) + 8
            tiff[at : at + 4] = struct.pack("<I", side)
        assert shown in refusal(bytes(tiff))

    @pytest.mark.parametrize(
        ("shape", "body"),
        [
            (b"VP8X", bytes(4) + (29_999).to_bytes(3, "little") * 2),
            (b"VP8L", b"\x2f" + (16_382 | 16_382 << 14).to_bytes(4, "little")),
            (b"VP8 ", bytes(3) + b"\x9d\x01\x2a" + struct.pack("<HH", 16_383, 16_383)),
        ],
    )
    def test_too_many_pixels_in_each_kind_of_webp(self, monkeypatch, shape, body):
        monkeypatch.setitem(pictures._READERS, "WebP", None)
        data = b"RIFF" + struct.pack("<I", 100) + b"WEBP" + shape + struct.pack("<I", 80) + body
        text = refusal(data + bytes(80))
        assert "30,000 × 30,000" in text or "16,383 × 16,383" in text

    def test_sizes_of_real_webp_files_are_seen(self):
        kinds = {"VP8 ": {}, "VP8L": {"lossless": True}, "VP8X": {"exif": oriented(6)}}
        for kind, options in kinds.items():
            data = encoded(noise((50, 30)), "WEBP", **options)
            assert data[12:16] == kind.encode()
            assert pictures._declared_size(data, "WebP") == (50, 30)

    def test_the_most_pixels_allowed(self):
        assert 7071**2 <= MAX_PIXELS < 7072**2
        picture = read_bytes(png(7071, 7071, 1, 0, b"\0" * (885 * 7071)))
        assert picture.image.size == (7071, 7071)

    @pytest.mark.parametrize("size", [(1, 1), (1, 50), (50, 1)])
    def test_less_than_two_pixels(self, size):
        for format in FORMATS:
            text = refusal(encoded(Image.new("RGB", size), format))
            assert f"{size[0]} × {size[1]} pixels" in text

    def test_two_by_two(self):
        assert read_bytes(encoded(Image.new("RGB", (2, 2), RED), "PNG")).image.size == (2, 2)

    @pytest.mark.parametrize("size", [(0, 10), (10, 0), (0, 0)])
    def test_no_pixels(self, size):
        assert f"{size[0]} × {size[1]} pixels" in refusal(png(*size, 8, 2, b""))

    def test_a_strip(self):
        assert read_bytes(encoded(Image.new("RGB", (200, 2)), "PNG")).image.size == (200, 2)
        assert "strip" in refusal(encoded(Image.new("RGB", (201, 2)), "PNG"))
        assert "strip" in refusal(encoded(Image.new("RGB", (2, 201)), "PNG"))


class TestFrames:
    @pytest.mark.parametrize("format", ["GIF", "PNG", "WEBP"])
    def test_an_animation_gives_its_first_frame(self, format):
        frames = [Image.new("RGB", (16, 16), (20 * i, 255 - 20 * i, 0)) for i in range(12)]
        data = encoded(frames[0], format, save_all=True, append_images=frames[1:], lossless=True)
        picture = read_bytes(data)
        assert picture.notes == ("first of 12 frames",)
        assert pixel(picture, 5, 5) == (0, 255, 0)

    def test_pages_of_a_tiff(self):
        data = encoded(halves(), "TIFF", save_all=True, append_images=[Image.new("RGB", (9, 9))] * 3)
        picture = read_bytes(data)
        assert picture.notes == ("first of its pages",)
        assert picture.image.tobytes() == halves().tobytes()

    def test_a_still_gif_has_no_note(self):
        assert read_bytes(encoded(halves(), "GIF")).notes == ()


class TestColours:
    def test_cmyk(self):
        for format in ("JPEG", "TIFF"):
            picture = read_bytes(encoded(halves().convert("CMYK"), format))
            assert picture.notes == ("converted from CMYK",)
            red, green, blue = pixel(picture, 3, 3)
            assert red > 230 > 40 > max(green, blue)

    def test_lab(self):
        lab = Image.new("LAB", (4, 4), (255, 128, 128))
        picture = read_bytes(encoded(lab, "TIFF"))
        assert picture.notes == ("converted from LAB",)
        assert min(pixel(picture)) > 240

    @pytest.mark.parametrize("mode", ["1", "L", "P"])
    def test_modes_that_lose_nothing_have_no_note(self, mode):
        picture = read_bytes(encoded(halves((255,) * 3, (0,) * 3).convert(mode), "PNG"))
        assert (pixel(picture), pixel(picture, 39, 0), picture.notes) == (WHITE, (0, 0, 0), ())

    @pytest.mark.parametrize("format", ["PNG", "TIFF"])
    def test_16_bit_grey_is_scaled_and_not_clipped(self, format):
        values = np.array([[0, 255, 256, 32768, 65535]] * 2, dtype=np.uint16)
        picture = read_bytes(encoded(Image.fromarray(values), format))
        assert [pixel(picture, x)[0] for x in range(5)] == [0, 1, 1, 128, 255]
        assert picture.notes == ("reduced from 16 to 8 bits",)

    def test_big_endian_16_bit_grey(self):
        image = Image.new("I;16B", (2, 2), 0)
        image.putpixel((1, 0), 32768)
        picture = read_bytes(encoded(image, "TIFF"))
        assert picture.data.startswith(b"MM")
        assert pixel(picture, 1) == (128, 128, 128)

    @pytest.mark.parametrize(("colour", "row"), [(2, (65535, 32768, 0)), (6, (65535, 32768, 0, 65535))])
    def test_16_bit_colours(self, colour, row):
        rows = (b"\0" + struct.pack(f">{len(row)}H", *row) * 2) * 2
        picture = read_bytes(png(2, 2, 16, colour, rows))
        assert pixel(picture) == (255, 128, 0)
        assert picture.notes == ("reduced from 16 to 8 bits",)

    def test_12_bit_grey(self):
        data = grey_tiff(bits=12, row=b"\xff\xf8\x00")
        picture = read_bytes(data)
        assert [pixel(picture, x)[0] for x in (0, 1)] == [255, 128]
        assert picture.notes == ("reduced from 12 to 8 bits",)

    def test_16_bit_grey_whose_zero_is_white(self):
        picture = read_bytes(grey_tiff(bits=16, row=struct.pack("<HH", 0, 65535), photometric=0))
        assert [pixel(picture, x)[0] for x in (0, 1)] == [255, 0]

    @pytest.mark.parametrize(("dtype", "mode"), [(np.int32, "I"), (np.float32, "F")])
    def test_grey_without_a_range_is_stretched(self, dtype, mode):
        image = Image.fromarray(np.array([[-1000, 0, 1000]] * 2, dtype=dtype))
        assert image.mode == mode
        picture = read_bytes(encoded(image, "TIFF"))
        assert [pixel(picture, x)[0] for x in range(3)] == [0, 128, 255]
        assert picture.notes == ("its grey values, -1000 to 1000, were stretched from black to white",)

    def test_extreme_ranges(self):
        for values in ([-(2**31), 0, 2**31 - 1], [-3e38, 0, 3e38]):
            kind = np.int32 if isinstance(values[0], int) else np.float32
            picture = read_bytes(encoded(Image.fromarray(np.array([values] * 2, dtype=kind)), "TIFF"))
            assert [pixel(picture, x)[0] for x in range(3)] == [0, 128, 255]

    def test_one_value_everywhere(self):
        picture = read_bytes(encoded(Image.new("F", (3, 3), 7.5), "TIFF"))
        assert pixel(picture) == (0, 0, 0)
        assert picture.notes == ("all its grey values are 7.5, drawn as black",)

    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    def test_values_that_are_not_finite(self, bad):
        values = np.ones((3, 3), dtype=np.float32)
        values[1, 1] = bad
        assert "not finite" in refusal(encoded(Image.fromarray(values), "TIFF"))


ON_WHITE = "its transparent parts were put on white"


class TestTransparency:
    @pytest.mark.parametrize("format", ["PNG", "WEBP", "TIFF"])
    def test_rgba(self, format):
        image = halves().convert("RGBA")
        image.paste((10, 20, 30, 0), (0, 0, 10, 20))
        image.putpixel((30, 5), (0, 0, 255, 128))
        picture = read_bytes(encoded(image, format, lossless=True))
        assert pixel(picture, 2, 2) == WHITE
        assert pixel(picture, 15, 2) == RED
        assert pixel(picture, 30, 5) == (127, 127, 255)
        assert picture.notes == (ON_WHITE,)

    def test_an_opaque_alpha_channel_has_no_note(self):
        picture = read_bytes(encoded(halves().convert("RGBA"), "PNG"))
        assert (pixel(picture), picture.notes) == (RED, ())

    @pytest.mark.parametrize("format", ["PNG", "TIFF"])
    def test_grey_with_alpha(self, format):
        image = Image.new("LA", (4, 4), (100, 255))
        image.putpixel((0, 0), (100, 0))
        picture = read_bytes(encoded(image, format))
        assert (pixel(picture), pixel(picture, 1)) == (WHITE, (100, 100, 100))
        assert picture.notes == (ON_WHITE,)

    @pytest.mark.parametrize("mode", ["PA", "La", "RGBa"])
    def test_modes_of_rarer_files(self, mode):
        image = Image.new("RGBA", (4, 4), RED)
        image.putpixel((0, 0), (0, 0, 0, 0))
        image = image.convert("LA") if mode == "La" else image
        if mode == "PA":
            image = Image.new("PA", (4, 4), (1, 255))
            image.putpalette([0, 0, 0, *RED])
            image.putpixel((0, 0), (0, 0))
        else:
            image = image.convert(mode)
        picture = from_image(image, "")
        assert pixel(picture) == WHITE
        assert pixel(picture, 1) == (RED if mode != "La" else (76, 76, 76))
        assert picture.notes == (ON_WHITE,)

    @pytest.mark.parametrize("transparency", [1, b"\xff\x00\xff", b"\xff\x80\xff"])
    def test_a_palette_with_transparency(self, transparency):
        image = Image.new("P", (4, 4), 0)
        image.putpalette([*RED, *BLUE, *GREEN])
        image.putpixel((1, 1), 1)
        picture = read_bytes(encoded(image, "PNG", transparency=transparency))
        half = (127, 127, 255) if transparency == b"\xff\x80\xff" else WHITE
        assert (pixel(picture), pixel(picture, 1, 1)) == (RED, half)
        assert picture.notes == (ON_WHITE,)

    def test_a_gif_with_transparency(self):
        image = Image.new("P", (4, 4), 0)
        image.putpalette([*RED, *BLUE])
        image.putpixel((1, 1), 1)
        picture = read_bytes(encoded(image, "GIF", transparency=1))
        assert (pixel(picture), pixel(picture, 1, 1)) == (RED, WHITE)
        assert picture.notes == (ON_WHITE,)

    def test_one_colour_made_transparent(self):
        picture = read_bytes(encoded(halves(), "PNG", transparency=BLUE))
        assert (pixel(picture), pixel(picture, 39)) == (RED, WHITE)
        assert picture.notes == (ON_WHITE,)

    def test_one_grey_made_transparent(self):
        image = Image.new("L", (4, 4), 9)
        image.putpixel((0, 0), 8)
        picture = read_bytes(encoded(image, "PNG", transparency=8))
        assert (pixel(picture), pixel(picture, 1)) == (WHITE, (9, 9, 9))

    def test_one_16_bit_grey_made_transparent_and_not_its_neighbours(self):
        image = Image.fromarray(np.array([[40000, 40001]] * 2, dtype=np.uint16))
        picture = read_bytes(encoded(image, "PNG", transparency=40001))
        assert (pixel(picture), pixel(picture, 1)) == ((156, 156, 156), WHITE)
        assert picture.notes == ("reduced from 16 to 8 bits", ON_WHITE)

    def test_a_transparent_colour_is_stated_in_the_files_bits(self):
        key = chunk(b"tRNS", struct.pack(">H", 2))
        picture = read_bytes(png(4, 2, 2, 0, b"\0\x1b" * 2, key))
        assert [pixel(picture, x)[0] for x in range(4)] == [0, 85, 255, 255]
        assert picture.notes == (ON_WHITE,)
        key = chunk(b"tRNS", struct.pack(">HHH", 0x8000, 0, 0))
        rows = (b"\0" + struct.pack(">6H", 0x8000, 0, 0, 0, 0, 0)) * 2
        picture = read_bytes(png(2, 2, 16, 2, rows, key))
        assert (pixel(picture), pixel(picture, 1)) == (WHITE, (0, 0, 0))


CORNERS = {1: (0, 0), 2: (1, 0), 3: (1, 1), 4: (0, 1), 5: (0, 0), 6: (1, 0), 7: (1, 1), 8: (0, 1)}
"""Where the stored picture's upper left corner is to be seen, by EXIF orientation."""


class TestOrientation:
    @pytest.mark.parametrize("orientation", range(1, 9))
    @pytest.mark.parametrize(
        ("format", "options"),
        [
            ("PNG", {}),
            ("JPEG", {}),
            ("WEBP", {"lossless": True}),
            ("TIFF", {}),
            ("TIFF", {"compression": "tiff_lzw"}),
        ],
    )
    def test_turned_upright(self, format, options, orientation):
        image = Image.new("RGB", (32, 16), BLUE)
        image.paste(RED, (0, 0, 8, 8))
        picture = read_bytes(encoded(image, format, exif=oriented(orientation), **options))
        width, height = picture.image.size
        assert (width, height) == ((32, 16) if orientation < 5 else (16, 32))
        x, y = CORNERS[orientation]
        assert np.abs(np.subtract(pixel(picture, x * (width - 1), y * (height - 1)), RED)).max() <= LOSSY
        assert np.abs(np.subtract(pixel(picture, width // 2, height // 2), BLUE)).max() <= 60
        assert picture.notes == (("turned upright",) if orientation > 1 else ())

    def test_six_puts_the_left_half_on_top(self):
        picture = read_bytes(encoded(halves(), "PNG", exif=oriented(6)))
        assert picture.image.size == (20, 40)
        assert (pixel(picture, 10, 2), pixel(picture, 10, 37)) == (RED, BLUE)

    @pytest.mark.parametrize("orientation", [0, 9, 65535])
    def test_orientations_that_mean_nothing(self, orientation):
        picture = read_bytes(encoded(halves(), "JPEG", exif=oriented(orientation)))
        assert (picture.image.size, picture.notes) == ((40, 20), ())

    def test_exif_that_cannot_be_read(self):
        picture = read_bytes(encoded(halves(), "PNG", exif=b"Exif\0\0nonsense"))
        assert picture.image.size == (40, 20)
        assert picture.notes == ("its EXIF data cannot be read, so it may lie on its side",)

    def test_of_damaged_exif_nothing_reaches_stderr(self, tmp_path):
        """In a process of its own: here warnings are errors, and whoever uses ctxviz has his own filters."""
        entry = struct.pack("<HHLL", 0x010E, 2, 100, 5000)
        exif = b"Exif\0\0II*\0" + struct.pack("<LH", 8, 1) + entry + bytes(4)
        (tmp_path / "x.jpg").write_bytes(encoded(halves(), "JPEG", exif=exif))
        reading = "from pathlib import Path; from ctxviz.pictures import read_file; read_file(Path('x.jpg'))"
        alone = "from PIL import Image; Image.open('x.jpg').getexif()"
        said = [
            subprocess.run(
                [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); {code}"],
                cwd=tmp_path,
                check=True,
                capture_output=True,
                text=True,
                timeout=60,
            ).stderr
            for code in (reading, alone)
        ]
        assert said[0] == ""
        assert "UserWarning" in said[1]

    def test_notes_add_up(self):
        image = halves().convert("RGBA")
        image.putpixel((0, 0), (0, 0, 0, 0))
        picture = read_bytes(encoded(image, "PNG", exif=oriented(3)))
        assert picture.notes == ("turned upright", ON_WHITE)
        assert pixel(picture, 39, 19) == WHITE


class TestFiles:
    def test_a_missing_file(self, tmp_path):
        assert refusal(tmp_path / "x.png") == "The picture “x.png” does not exist; check the path."

    def test_a_broken_link(self, tmp_path):
        (tmp_path / "x.png").symlink_to(tmp_path / "nowhere")
        assert "does not exist" in refusal(tmp_path / "x.png")

    def test_a_link_to_itself(self, tmp_path):
        (tmp_path / "x.png").symlink_to(tmp_path / "x.png")
        assert "cannot be read" in refusal(tmp_path / "x.png")

    def test_a_folder(self, tmp_path):
        assert "is a folder" in refusal(tmp_path)
        assert "is a folder" in refusal(Path("/"))

    @pytest.mark.timeout(20)
    def test_a_pipe_is_not_waited_for(self, tmp_path):
        os.mkfifo(tmp_path / "x.png")
        assert "not a regular file" in refusal(tmp_path / "x.png")

    @pytest.mark.timeout(20)
    def test_a_file_that_becomes_a_pipe(self, tmp_path, monkeypatch):
        (tmp_path / "x.png").touch()
        status = (tmp_path / "x.png").stat()
        (tmp_path / "x.png").unlink()
        os.mkfifo(tmp_path / "x.png")
        monkeypatch.setattr(Path, "stat", lambda *_, **__: status)
        assert "not a regular file" in refusal(tmp_path / "x.png")

    @pytest.mark.timeout(20)
    def test_a_device(self):
        assert "not a regular file" in refusal(Path("/dev/zero"))

    def test_no_permission(self, tmp_path, monkeypatch):
        (tmp_path / "x.png").write_bytes(encoded(halves(), "PNG"))
        (tmp_path / "x.png").chmod(0)

        def denied(*_):
            raise PermissionError(13, "Permission denied", str(tmp_path))

        # Root may read everything, so it is refused here.
        monkeypatch.setattr(os, "open", denied)
        text = refusal(tmp_path / "x.png")
        assert "Permission denied" in text
        assert str(tmp_path) not in text

    @pytest.mark.parametrize("name", ["a\0b.png", "\ud800.png", "y" * 5000, "\udcff\x1b[31m.png"])
    def test_names_that_no_file_has(self, tmp_path, name):
        refusal(tmp_path / name)


class TestNames:
    @pytest.mark.parametrize(
        ("given", "shown"),
        [
            ("x.png", "x.png"),
            ("/a/b/x.png", "x.png"),
            ("C:\\fakepath\\x.png", "x.png"),
            ("", ""),
            ("  ", ""),
            ("a\nb\tc.png", "a b c.png"),
            ("a\u202fb.png", "a b.png"),
            ("\x1b[31mred.png", "\ufffd[31mred.png"),
            ("\u202egnp.exe", "\ufffdgnp.exe"),
            ("\udcff.png", "\ufffd.png"),
            ("\u05e9\u05dc\u05d5\u05dd.png", "\u05e9\u05dc\u05d5\u05dd.png"),
        ],
    )
    def test_shown_safely(self, given, shown):
        assert read_bytes(encoded(halves(), "PNG"), given).name == shown
        text = refusal(b"nonsense", given)
        assert text.startswith(f"The picture “{shown}” is" if shown else "The picture is")

    def test_a_long_name_is_cut(self):
        name = read_bytes(encoded(halves(), "PNG"), "x" * 500).name
        assert len(name) == MAX_NAME
        assert name.endswith("…")


class TestDrawnScenes:
    def test_its_bytes_are_a_file_of_it(self):
        picture = from_image(halves(), "scene")
        assert picture.sha256 == hashlib.sha256(picture.data).hexdigest()
        again = read_bytes(picture.data, picture.name)
        assert again.image.tobytes() == picture.image.tobytes() == halves().tobytes()
        assert (again.sha256, picture.name, picture.notes) == (picture.sha256, "scene", ())

    def test_the_same_drawing_is_the_same_picture(self):
        with_metadata = halves()
        with_metadata.info["comment"] = "drawn today"
        with_metadata.info["icc_profile"] = b"some profile"
        assert from_image(halves(), "a").sha256 == from_image(with_metadata, "b").sha256
        assert from_image(halves(), "a").sha256 != from_image(halves(RED, GREEN), "a").sha256

    def test_later_drawing_does_not_reach_it(self):
        canvas = halves()
        picture = from_image(canvas, "scene")
        canvas.paste(WHITE, (0, 0, 40, 20))
        assert pixel(picture) == RED

    def test_other_modes(self):
        picture = from_image(Image.new("I;16", (4, 4), 32768), "x")
        assert (pixel(picture), picture.notes) == ((128, 128, 128), ("reduced from 16 to 8 bits",))
        assert pixel(read_bytes(picture.data)) == (128, 128, 128)

    @pytest.mark.parametrize("size", [(1, 1), (0, 5), (1000, 2)])
    def test_sizes_are_checked(self, size):
        with pytest.raises(PictureError, match="pixels"):
            from_image(Image.new("RGB", size), "x")
