"""What a logo may be."""

import struct
import zlib
from io import BytesIO

import pytest
from PIL import Image
from tests.invoicing.documents import png

from ledger.invoicing.logos import FILE_MAX, SIDE_MAX, SIDE_MIN, LogoWrong, open_logo


def test_a_logo_has_the_size_that_its_picture_has():
    logo = open_logo(png(120, 80))
    assert (logo.width, logo.height, _pixels(logo.png)) == (120, 80, _pixels(png(120, 80)))
    for side in (SIDE_MIN, SIDE_MAX):
        assert open_logo(png(side, SIDE_MIN)).width == side


@pytest.mark.parametrize(
    ("file", "problem"),
    [
        (b"", "is no PNG"),
        (b"GIF89a" + bytes(100), "is no PNG"),
        (png()[:40], "cannot be read"),
        (png()[:8] + bytes(100), "is no PNG"),
        (png(SIDE_MIN - 1, 20), "15 x 20 pixels"),
        (png(20, SIDE_MAX + 1), "20 x 1201 pixels"),
        (png() + bytes(FILE_MAX), "a logo has at most 131,072"),
        (png()[:60] + b"?" + png()[61:], "cannot be read"),
    ],
)
def test_what_is_no_logo_is_refused_with_the_reason(file, problem):
    with pytest.raises(LogoWrong, match=problem):
        open_logo(file)


@pytest.mark.parametrize("second", [(40_000, 40_000, 8, 6, 0, 0, 0), (120, 80, 8, 2, 0, 0, 0)])
def test_a_second_head_is_refused(second):
    """Another reader could take its size, of gigabytes, for that of the picture."""
    head, rest = png()[:33], png()[33:]
    with pytest.raises(LogoWrong, match="cannot be read"):
        open_logo(head + _chunk(b"IHDR", struct.pack(">IIBBBBB", *second)) + rest)


@pytest.mark.parametrize("kind", [b"iCCP", b"zTXt", b"acTL", b"tEXt", b"ruBb"])
def test_what_is_not_the_picture_is_left_out(kind):
    head, rest = png()[:33], png()[33:]
    logo = open_logo(head + _chunk(kind, b"name\0\0" + zlib.compress(bytes(1 << 20))) + rest)
    assert kind not in logo.png
    assert _pixels(logo.png) == _pixels(png())


@pytest.mark.parametrize(
    ("mode", "colour", "shown"),
    [("1", 1, (255,) * 3), ("L", 90, (90,) * 3), ("I;16", 40_000, (156,) * 3), ("RGBA", (1, 2, 3, 255), (1, 2, 3))],
)
def test_a_logo_of_any_depth_keeps_its_colours(mode, colour, shown):
    file = BytesIO()
    Image.new(mode, (40, 40), colour).save(file, "PNG")
    found = _pixels(open_logo(file.getvalue()).png)
    assert {(red, green, blue) for red, green, blue in zip(*[iter(found)] * 3, strict=True)} == {shown}


def test_a_file_that_ends_with_something_else_is_refused():
    for file in (png() + b"more", png() + png()[33:], png()[:-12]):
        with pytest.raises(LogoWrong, match="cannot be read"):
            open_logo(file)


def _chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def _pixels(file):
    return Image.open(BytesIO(file)).convert("RGB").tobytes()


def test_a_picture_that_states_a_huge_size_is_never_decoded(monkeypatch):
    monkeypatch.setattr("ledger.invoicing.logos._encoded", None)
    huge = bytearray(png())
    struct.pack_into(">II", huge, 16, 1 << 30, 1 << 30)
    with pytest.raises(LogoWrong, match="1073741824"):
        open_logo(bytes(huge))
