"""The file format of printed documents (ISO 32000-1): objects, streams, embedded fonts and pictures.

Nothing in a file depends on the time or the machine: the same objects give the same bytes.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Sequence
from datetime import datetime
from io import BytesIO
from typing import Final

from msgspec import Struct

from ledger.invoicing.pdf.fonts import Font, FontInUse

_BEGINNING: Final = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n"
_MAPPED_AT_ONCE: Final = 100
"""How many characters one block of a map to Unicode has at most."""
_NONSYMBOLIC: Final = 32
_FIXED_PITCH: Final = 1
_CMAP: Final = """\
/CIDInit /ProcSet findresource begin 12 dict begin begincmap
/CIDSystemInfo << /Registry (Adobe) /Ordering (UCS) /Supplement 0 >> def
/CMapName /Adobe-Identity-UCS def /CMapType 2 def
1 begincodespacerange <0000> <FFFF> endcodespacerange
{blocks}endcmap CMapName currentdict /CMap defineresource pop end end"""


class Picture(Struct, frozen=True):
    """A picture as a file contains it: `colours` of `width` × `height` pixels with `channels` bytes each, compressed as
    PNG does, and its transparency, a picture of one channel.
    """

    width: int
    height: int
    channels: int
    colours: bytes
    transparency: Picture | None = None


class PdfFile:
    """A file while it is written. Every `add…` returns the number of the new object."""

    def __init__(self) -> None:
        self._objects: list[bytes] = []

    def reserve(self) -> int:
        """Returns the number of an object that `fill` writes later, because others name it first."""
        self._objects.append(b"")
        return len(self._objects)

    def fill(self, number: int, text: str) -> None:
        self._objects[number - 1] = text.encode("ascii")

    def add(self, text: str) -> int:
        number = self.reserve()
        self.fill(number, text)
        return number

    def add_stream(self, content: bytes, entries: str = "", *, compressed: bool = False) -> int:
        """Adds bytes with the further entries of their dictionary. `compressed`: the entries name the filter."""
        if not compressed:
            content, entries = zlib.compress(content), f"/Filter /FlateDecode {entries}"
        head = f"<< {entries} /Length {len(content)} >>\nstream\n".encode("ascii")
        self._objects.append(head + content + b"\nendstream")
        return len(self._objects)

    def add_font(self, used: FontInUse) -> int:
        """Adds a font with the outlines in use, and its map to Unicode, by which readers search and copy."""
        font, program = used.font, used.program()
        name = f"/{used.tag}+{font.postscript_name}"
        embedded = self.add_stream(program, f"/Length1 {len(program)}")
        descriptor = self.add(
            f"<< /Type /FontDescriptor /FontName {name} /Flags {_flags(font)} /FontBBox {_array(font.box)} "
            f"/ItalicAngle 0 /Ascent {font.ascent} /Descent {font.descent} /CapHeight {font.cap_height} "
            f"/StemV {140 if font.is_bold else 80} /FontFile2 {embedded} 0 R >>"
        )
        outlines = self.add(
            f"<< /Type /Font /Subtype /CIDFontType2 /BaseFont {name} /CIDToGIDMap /Identity "
            "/CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >> "
            f"/FontDescriptor {descriptor} 0 R /W [0 {_array(used.widths())}] >>"
        )
        to_unicode = self.add_stream(_to_unicode(used.characters()))
        return self.add(
            f"<< /Type /Font /Subtype /Type0 /BaseFont {name} /Encoding /Identity-H "
            f"/DescendantFonts [{outlines} 0 R] /ToUnicode {to_unicode} 0 R >>"
        )

    def add_picture(self, picture: Picture) -> int:
        space = "/DeviceGray" if picture.channels == 1 else "/DeviceRGB"
        mask = "" if picture.transparency is None else f"/SMask {self.add_picture(picture.transparency)} 0 R "
        entries = (
            f"/Type /XObject /Subtype /Image /Width {picture.width} /Height {picture.height} /ColorSpace {space} "
            f"/BitsPerComponent 8 {mask}/Filter /FlateDecode /DecodeParms << /Predictor 15 /Colors {picture.channels} "
            f"/BitsPerComponent 8 /Columns {picture.width} >>"
        )
        return self.add_stream(picture.colours, entries, compressed=True)

    def written(self, root: int, about: int) -> bytes:
        """Returns the whole file. `root` is the number of its catalogue, `about` that of its properties."""
        out, starts = BytesIO(), []
        out.write(_BEGINNING)
        for number, body in enumerate(self._objects, start=1):
            starts.append(out.tell())
            out.write(f"{number} 0 obj\n".encode("ascii") + body + b"\nendobj\n")
        at, count = out.tell(), len(starts) + 1
        table = "".join(f"{start:010} 00000 n \n" for start in starts)
        name = hashlib.sha256(out.getvalue()).hexdigest()[:32]
        out.write(
            f"xref\n0 {count}\n0000000000 65535 f \n{table}trailer\n<< /Size {count} /Root {root} 0 R "
            f"/Info {about} 0 R /ID [<{name}> <{name}>] >>\nstartxref\n{at}\n%%EOF\n".encode("ascii")
        )
        return out.getvalue()


def text_string(text: str) -> str:
    """Returns a text of the file's properties, in any script (7.9.2.2)."""
    return f"<FEFF{text.encode('utf-16-be').hex().upper()}>"


def date_string(at: datetime) -> str:
    """Returns a time in UTC as the file's properties have it (7.9.4)."""
    return f"(D:{at:%Y%m%d%H%M%S}Z)"


def picture_of(png: bytes) -> Picture:
    """Returns the picture of a PNG that this service has encoded. It decodes the picture: call it in a thread."""
    from PIL import Image

    with Image.open(BytesIO(png), formats=["PNG"]) as image:
        if "A" in image.mode or "transparency" in image.info:
            whole = image.convert("RGBA")
            return _encoded(whole.convert("RGB"), _encoded(whole.getchannel("A")))
        return _encoded(image.convert("L" if image.mode in {"1", "L"} else "RGB"))


def _encoded(image: object, transparency: Picture | None = None) -> Picture:
    """Returns the pixels of a picture as PNG compresses them: its filters make half of what zlib alone does."""
    from PIL.Image import Image

    assert isinstance(image, Image), "a picture of Pillow"
    png = BytesIO()
    image.save(png, "PNG")
    data, at, parts = png.getvalue(), 8, []
    while at < len(data):
        length = int.from_bytes(data[at : at + 4], "big")
        if data[at + 4 : at + 8] == b"IDAT":
            parts.append(data[at + 8 : at + 8 + length])
        at += 12 + length
    return Picture(image.width, image.height, len(image.getbands()), b"".join(parts), transparency)


def _flags(font: Font) -> int:
    return _NONSYMBOLIC | (_FIXED_PITCH if font.is_fixed else 0)


def _array(numbers: Sequence[int]) -> str:
    return f"[{' '.join(map(str, numbers))}]"


def _to_unicode(characters: Iterable[tuple[int, str]]) -> bytes:
    lines = [f"<{code:04X}> <{character.encode('utf-16-be').hex().upper()}>" for code, character in characters]
    blocks = ""
    for start in range(0, len(lines), _MAPPED_AT_ONCE):
        some = lines[start : start + _MAPPED_AT_ONCE]
        blocks += f"{len(some)} beginbfchar\n" + "\n".join(some) + "\nendbfchar\n"
    return _CMAP.format(blocks=blocks).encode("ascii")
