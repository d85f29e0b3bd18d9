"""The fonts of printed documents: prepared TrueType files, of which each document embeds the outlines that it uses.

A document has to look alike on every reader (ISO 19005), so that no font is left to the reader. Embedding is copying:
the prepared files have one outline for each character (`prepare_fonts`), and a document's font is put together from
the bytes of those that its texts use.
"""

from __future__ import annotations

import struct
import unicodedata
import zlib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Final, Literal

FILES: Final = Path(__file__).with_name("typefaces")

FontName = Literal["sans", "bold", "mono"]

SUBSTITUTE: Final = "?"
"""What is printed for a character that the fonts lack, and that has no nearest one."""

_NAMES: Final[Mapping[FontName, str]] = {
    "sans": "DejaVuSansCondensed",
    "bold": "DejaVuSansCondensed-Bold",
    "mono": "DejaVuSansMono",
}
_ENTRY: Final = struct.Struct(">4sIII")
_GROUP: Final = struct.Struct(">III")
_TAG_LETTERS: Final = 6


class Font:
    """A prepared font: the widths of its characters in thousandths of its size, and their outlines."""

    def __init__(self, name: FontName) -> None:
        data = (FILES / f"{name}.ttf").read_bytes()
        self._tables = {tag: data[at : at + length] for tag, _, at, length in _ENTRY.iter_unpack(_directory(data))}
        head, hhea = self._tables[b"head"], self._tables[b"hhea"]
        self._units = _short(head, 18)
        self.postscript_name = _NAMES[name]
        self.is_bold, self.is_fixed = name == "bold", name == "mono"
        self.ascent, self.descent = (self._in_thousandths(_signed(hhea, at)) for at in (4, 6))
        self.cap_height = self._in_thousandths(_signed(self._tables[b"OS/2"], 88))
        self.box = [self._in_thousandths(_signed(head, at)) for at in (36, 38, 40, 42)]
        self._outlines = self._read_outlines()
        self.advances = self._read_advances()
        self.glyphs = self._read_glyphs()
        self.widths = {code: self.width_of(glyph) for code, glyph in self.glyphs.items()}

    def width_of(self, glyph: int) -> int:
        """Returns the width of a glyph in thousandths of the size."""
        return self._in_thousandths(self.advances[glyph])

    def printable(self, text: str) -> str:
        """Returns a text in the characters of the font. Others lose their marks, or become `SUBSTITUTE`."""
        if self.widths.keys() >= set(text):
            return text
        return "".join(each if each in self.widths else self._nearest(each) for each in text)

    def width(self, text: str) -> int:
        """Returns the width of a printable text in thousandths of the size."""
        widths = self.widths
        return sum(widths[each] for each in text)

    def program(self, glyphs: list[int]) -> bytes:
        """Returns a TrueType font of these glyphs, numbered from 0 in this order (ISO 32000-1, 9.9)."""
        outlines = [self._outlines[glyph] for glyph in glyphs]
        starts = [0]
        for outline in outlines:
            starts.append(starts[-1] + len(outline))
        advances = b"".join(struct.pack(">Hh", self.advances[each], self._bearing(each)) for each in glyphs)
        head, hhea, maxp = (self._tables[tag] for tag in (b"head", b"hhea", b"maxp"))
        return _assembled(
            {
                b"glyf": b"".join(outlines),
                b"head": head[:8] + bytes(4) + head[12:50] + struct.pack(">h", 1) + head[52:],
                b"hhea": hhea[:34] + struct.pack(">H", len(glyphs)),
                b"hmtx": advances,
                b"loca": struct.pack(f">{len(starts)}I", *starts),
                b"maxp": maxp[:4] + struct.pack(">H", len(glyphs)) + maxp[6:],
            }
        )

    def _nearest(self, character: str) -> str:
        plain = [each for each in unicodedata.normalize("NFKD", character) if not unicodedata.combining(each)]
        return "".join(plain) if plain and all(each in self.widths for each in plain) else SUBSTITUTE

    def _read_glyphs(self) -> dict[str, int]:
        """Returns the glyph of each character: the prepared font has one map of format 12."""
        cmap = self._tables[b"cmap"]
        at = _long(cmap, 8)
        count = _long(cmap, at + 12)
        groups = _GROUP.iter_unpack(cmap[at + 16 : at + 16 + count * _GROUP.size])
        return {chr(first + n): glyph + n for first, last, glyph in groups for n in range(last - first + 1)}

    def _read_outlines(self) -> list[bytes]:
        count, loca, glyf = _short(self._tables[b"maxp"], 4), self._tables[b"loca"], self._tables[b"glyf"]
        is_long = _short(self._tables[b"head"], 50)
        starts = struct.unpack_from(f">{count + 1}{'I' if is_long else 'H'}", loca)
        step = 1 if is_long else 2
        return [glyf[starts[n] * step : starts[n + 1] * step] for n in range(count)]

    def _read_advances(self) -> list[int]:
        """Returns the width of each glyph in the font's units: glyphs without one of their own have the last one."""
        count = _short(self._tables[b"hhea"], 34)
        advances = [_short(self._tables[b"hmtx"], n * 4) for n in range(count)]
        return advances + advances[-1:] * (len(self._outlines) - count)

    def _bearing(self, glyph: int) -> int:
        """Returns the left side bearing of a glyph, which is the left end of its outline."""
        outline = self._outlines[glyph]
        return _signed(outline, 2) if outline else 0

    def _in_thousandths(self, units: int) -> int:
        return round(units * 1000 / self._units)


class FontInUse:
    """A font in one document: the glyphs that its texts use, in the order in which they first occur."""

    def __init__(self, font: Font) -> None:
        self.font = font
        self._codes: dict[str, int] = {}
        self.glyphs = [0]

    def codes(self, text: str) -> str:
        """Returns the codes of a printable text, four hexadecimal digits for each character."""
        return "".join(f"{self._code(each):04X}" for each in text)

    @property
    def tag(self) -> str:
        """Returns the letters that distinguish this part of the font from others (ISO 32000-1, 9.6.4)."""
        number = zlib.crc32(struct.pack(f">{len(self.glyphs)}H", *self.glyphs))
        return "".join(chr(ord("A") + number // 26**n % 26) for n in range(_TAG_LETTERS))

    def program(self) -> bytes:
        return self.font.program(self.glyphs)

    def widths(self) -> list[int]:
        """Returns the width of each glyph in use in thousandths of the size."""
        return [self.font.width_of(glyph) for glyph in self.glyphs]

    def characters(self) -> Iterable[tuple[int, str]]:
        """Yields each code with its character."""
        return ((code, character) for character, code in self._codes.items())

    def _code(self, character: str) -> int:
        code = self._codes.get(character)
        if code is None:
            code = self._codes[character] = len(self.glyphs)
            self.glyphs.append(self.font.glyphs[character])
        return code


@cache
def font_of(name: FontName) -> Font:
    """Returns a font. Reading one takes milliseconds: it is read once."""
    return Font(name)


def _assembled(tables: Mapping[bytes, bytes]) -> bytes:
    """Returns the file of these tables, in the order of their tags, with its check sums (OpenType, otff)."""
    count = len(tables)
    power = count.bit_length() - 1
    start = struct.pack(">IHHHH", 0x00010000, count, 16 << power, power, (count << 4) - (16 << power))
    at, entries, bodies = 12 + 16 * count, [], []
    for tag, table in sorted(tables.items()):
        padded = table + bytes(-len(table) % 4)
        entries.append(_ENTRY.pack(tag, _check_sum(padded), at, len(table)))
        bodies.append(padded)
        at += len(padded)
    data = bytearray(b"".join([start, *entries, *bodies]))
    adjustment = (0xB1B0AFBA - _check_sum(data)) & 0xFFFFFFFF
    [place] = [at for tag, _, at, _ in _ENTRY.iter_unpack(b"".join(entries)) if tag == b"head"]
    struct.pack_into(">I", data, place + 8, adjustment)
    return bytes(data)


def _check_sum(padded: bytes | bytearray) -> int:
    words: tuple[int, ...] = struct.unpack(f">{len(padded) // 4}I", padded)
    return sum(words) & 0xFFFFFFFF


def _directory(data: bytes) -> bytes:
    return data[12 : 12 + _short(data, 4) * _ENTRY.size]


def _short(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 2], "big")


def _signed(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 2], "big", signed=True)


def _long(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "big")
