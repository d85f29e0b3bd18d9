"""Logos on printed documents: PNG files, of which the picture alone is stored, encoded anew.

Check every chunk before anything opens the picture: a few bytes can state a picture of gigabytes, and two readers can
take two different chunks for the picture.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from io import BytesIO
from typing import Final

from msgspec import Struct

FILE_MAX: Final = 131_072
"""How many bytes the file of a logo may have."""
_ENCODED_MAX: Final = 2 * FILE_MAX
"""The same for the picture encoded anew, which each printed document contains. Others encode a picture better."""
SIDE_MIN, SIDE_MAX = 16, 1200
"""How many pixels a side may have. A logo is printed up to 52 mm wide: 1,200 pixels are 590 per inch."""

_BEGINNING: Final = b"\x89PNG\r\n\x1a\n"
_HEAD: Final = struct.Struct(">8sI4sII")
_LENGTH: Final = struct.Struct(">I")
_PICTURE: Final = frozenset({b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND"})
"""The chunks that make up the picture. The others are left out: texts and profiles, which can be bombs too."""
_KEPT: Final = frozenset({"1", "L", "LA", "P", "RGB", "RGBA"})
"""The kinds of picture that stay what they are. The only other kind of a PNG has grey levels of sixteen bits."""


class LogoWrong(Exception):
    """A file that is no acceptable logo. The message completes the name of its field."""


class Logo(Struct, frozen=True):
    """A checked logo: the PNG, and its width and height in pixels."""

    png: bytes
    width: int
    height: int


def open_logo(png: bytes) -> Logo:
    """Returns the picture of a file as a logo. It decodes the picture: call it in a thread. Raises LogoWrong."""
    if len(png) > FILE_MAX:
        raise LogoWrong(f"has {len(png):,} bytes: a logo has at most {FILE_MAX:,}")
    return encode_logo(png)


def encode_logo(png: bytes) -> Logo:
    """Returns the picture of a file, of any length, as a logo. Raises LogoWrong."""
    stated = read_logo(png)
    for side in (stated.width, stated.height):
        if not SIDE_MIN <= side <= SIDE_MAX:
            raise LogoWrong(
                f"is {stated.width} x {stated.height} pixels: each side of a logo has {SIDE_MIN} to {SIDE_MAX:,}"
            )
    encoded = _encoded(_picture_of(png))
    if len(encoded) > _ENCODED_MAX:
        raise LogoWrong(f"has {len(encoded):,} bytes once it is encoded anew: a logo has at most {_ENCODED_MAX:,} then")
    return Logo(encoded, stated.width, stated.height)


def read_logo(png: bytes) -> Logo:
    """Returns a PNG with the size that it states. Raises LogoWrong if it is no PNG."""
    if len(png) < _HEAD.size:
        raise LogoWrong("is no PNG")
    beginning, _, kind, width, height = _HEAD.unpack_from(png)
    if beginning != _BEGINNING or kind != b"IHDR":
        raise LogoWrong("is no PNG")
    return Logo(png, width, height)


def _picture_of(png: bytes) -> bytes:
    """Returns the PNG with the chunks of its picture alone. Raises LogoWrong for a wrong chunk or a second head."""
    picture, kinds = [_BEGINNING], list[bytes]()
    for kind, chunk in _chunks(png):
        if kind in _PICTURE:
            picture.append(chunk)
            kinds.append(kind)
    if kinds.count(b"IHDR") != 1 or kinds[-1:] != [b"IEND"] or kinds.count(b"IEND") != 1:
        raise LogoWrong("is a PNG that cannot be read")
    return b"".join(picture)


def _chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yields each chunk with its kind. Raises LogoWrong if one is cut off, or its check sum is wrong."""
    at = len(_BEGINNING)
    while at < len(png):
        chunk = png[at : at + 12]
        if len(chunk) == 12:
            [length] = _LENGTH.unpack_from(chunk)
            chunk = png[at : at + 12 + length]
            if len(chunk) == 12 + length and _LENGTH.unpack_from(chunk, 8 + length) == (zlib.crc32(chunk[4:-4]),):
                yield chunk[4:8], chunk
                at += len(chunk)
                continue
        raise LogoWrong("is a PNG that cannot be read")


def _encoded(png: bytes) -> bytes:
    """Returns a PNG encoded anew. Raises LogoWrong if its picture cannot be read."""
    from PIL import Image

    Image.MAX_IMAGE_PIXELS = SIDE_MAX * SIDE_MAX  # of every picture that this process opens: it opens logos alone
    encoded = BytesIO()
    try:
        with Image.open(BytesIO(png), formats=["PNG"]) as image:
            picture = image if image.mode in _KEPT else image.convert("I").point(lambda level: level / 256).convert("L")
            picture.save(encoded, "PNG")  # with `optimize`, a picture of noise takes seconds
    except Exception:  # noqa: BLE001 - the library raises many kinds for a damaged picture
        raise LogoWrong("is a PNG that cannot be read") from None
    return encoded.getvalue()
