"""Prepares the fonts of printed documents: `python -m ledger.invoicing.pdf.prepare_fonts FOLDER`, at development.

FOLDER has the files of DejaVu 2.37. What is left of each: the outlines of the scripts below, every one whole (no parts
shared with others, no hints), and their widths. Commit the result: a service prepares nothing.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

from ledger.invoicing.pdf.fonts import FILES

SOURCES: Final = {
    "sans": "DejaVuSansCondensed.ttf",
    "bold": "DejaVuSansCondensed-Bold.ttf",
    "mono": "DejaVuSansMono.ttf",
}
SCRIPTS: Final = (
    range(0x0020, 0x0600),  # Latin, IPA, Greek, Cyrillic, Armenian, Hebrew
    range(0x0600, 0x0700),  # Arabic
    range(0x10A0, 0x1100),  # Georgian
    range(0x1E00, 0x2000),  # Latin of Vietnamese and others, Greek with all accents
    range(0x2000, 0x2400),  # punctuation, currencies, numbers, arrows, signs of mathematics
    range(0x2460, 0x27C0),  # signs in circles, lines, shapes, symbols
    range(0x2C60, 0x2C80),  # more Latin
    range(0xFB00, 0xFB50),  # ligatures
    range(0xFFFD, 0xFFFE),
    range(0x1F600, 0x1F650),  # faces
)
_SEAL: Final = range(0x20, 0x180)
"""Seals and original chains are the only texts in the font of one width."""


def main(folder: Path) -> None:
    for name, source in SOURCES.items():
        characters = list(_SEAL) if name == "mono" else [each for script in SCRIPTS for each in script]
        prepare(folder / source, FILES / f"{name}.ttf", characters)


def prepare(source: Path, target: Path, characters: list[int]) -> None:
    """Writes a font with the outlines of these characters alone."""
    from fontTools import subset, ttLib

    options = subset.Options(
        hinting=False,
        layout_features=[],
        notdef_outline=True,
        glyph_names=False,
        legacy_kern=False,
        name_IDs=[0, 1, 2, 4, 6],
        drop_tables=["FFTM", "GDEF", "GPOS", "GSUB", "MATH", "gasp", "kern"],
    )
    font: Any = ttLib.TTFont(source, recalcTimestamp=False)
    subsetter = subset.Subsetter(options)
    subsetter.populate(unicodes=characters)
    subsetter.subset(font)
    _make_whole(font)
    _map_directly(font, set(characters))
    font.save(target)


def _make_whole(font: Any) -> None:
    """Replaces glyphs that consist of others by outlines of their own."""
    from fontTools.pens.recordingPen import DecomposingRecordingPen
    from fontTools.pens.ttGlyphPen import TTGlyphPen

    glyphs, table = font.getGlyphSet(), font["glyf"]
    whole = {}
    for name in font.getGlyphOrder():
        if table[name].isComposite():
            parts, outline = DecomposingRecordingPen(glyphs), TTGlyphPen(None)
            glyphs[name].draw(parts)
            parts.replay(outline)
            whole[name] = outline.glyph()
    for name, glyph in whole.items():
        table[name] = glyph


def _map_directly(font: Any, characters: set[int]) -> None:
    """Leaves one map from characters to glyphs, of format 12, which `fonts` reads."""
    from fontTools.ttLib.tables._c_m_a_p import CmapSubtable

    table = CmapSubtable.newSubtable(12)
    table.platformID, table.platEncID, table.language = 3, 10, 0
    table.format, table.reserved, table.length = 12, 0, 0
    table.cmap = {code: name for code, name in font.getBestCmap().items() if code in characters}
    font["cmap"].tables = [table]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
