"""Logos on printed documents: PNG files, checked before one is stored.

Check the size that the file states before anything opens the picture: a few bytes can state a picture of gigabytes.
"""

from __future__ import annotations

import struct
from typing import Final

from msgspec import Struct

FILE_MAX: Final = 131_072
"""How many bytes the file of a logo may have. Each printed document contains it."""
SIDE_MIN, SIDE_MAX = 16, 1200
"""How many pixels a side may have. A logo is printed up to 52 mm wide: 1,200 pixels are 590 per inch."""

_BEGINNING: Final = b"\x89PNG\r\n\x1a\n"
_HEAD: Final = struct.Struct(">8sI4sII")


class LogoWrong(Exception):
    """A file that is no acceptable logo. The message completes the name of its field."""


class Logo(Struct, frozen=True):
    """A checked logo: the PNG, and its width and height in pixels."""

    png: bytes
    width: int
    height: int


def open_logo(png: bytes) -> Logo:
    """Returns a logo whose picture can be printed. It decodes the picture: call it in a thread. Raises LogoWrong."""
    if len(png) > FILE_MAX:
        raise LogoWrong(f"has {len(png):,} bytes: a logo has at most {FILE_MAX:,}")
    logo = read_logo(png)
    for side in (logo.width, logo.height):
        if not SIDE_MIN <= side <= SIDE_MAX:
            raise LogoWrong(
                f"is {logo.width} x {logo.height} pixels: each side of a logo has {SIDE_MIN} to {SIDE_MAX:,}"
            )
    _require_printable(png)
    return logo


def read_logo(png: bytes) -> Logo:
    """Returns a PNG with the size that it states. Raises LogoWrong if it is no PNG."""
    if len(png) < _HEAD.size:
        raise LogoWrong("is no PNG")
    beginning, _, kind, width, height = _HEAD.unpack_from(png)
    if beginning != _BEGINNING or kind != b"IHDR":
        raise LogoWrong("is no PNG")
    return Logo(png, width, height)


def _require_printable(png: bytes) -> None:
    """Raises LogoWrong if the library that prints documents cannot print the picture."""
    from fpdf import FPDF

    page = FPDF()
    page.add_page()
    try:
        page.image(png, 0, 0, 17, 17, keep_aspect_ratio=True)
        page.output()
    except Exception:  # noqa: BLE001 - the library raises many kinds for a damaged picture
        raise LogoWrong("is a PNG that cannot be read") from None
