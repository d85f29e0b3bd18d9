"""The fonts of printed documents: embedded whole for what they print, in any script that they have."""

import io
import re

import pytest
from fontTools.ttLib import TTFont
from PIL import Image
from tests.invoicing.pdf_reader import fonts, objects, pages, texts

from ledger.invoicing.logos import open_logo
from ledger.invoicing.pdf.canvas import Canvas
from ledger.invoicing.pdf.file import picture_of
from ledger.invoicing.pdf.fonts import FontInUse, font_of

NAMES = {
    "Ñandú & Cía. «así» – €": "Ñandú & Cía. «así» – €",
    "Ελληνικός Οίκος Ά": "Ελληνικός Οίκος Ά",
    "Общество «Ёлка» №1": "Общество «Ёлка» №1",
    "Łódź, Đà Nẵng, İstanbul": "Łódź, Đà Nẵng, İstanbul",
    "Հայաստան საქართველო": "Հայաստան საქართველო",
    "café ☕ ✓ → ½ ﬁ": "café ☕ ✓ → ½ ﬁ",
    "東京 Store": "?? Store",  # no font has it
    "Å e\u0323\u0304": "Å e\u0323\u0304",
    "ℌ 𝐀 ①": "ℌ A ①",  # what has a nearest character becomes that
    "a\tb\u200b\x07c": "a b\u200b?c",
}


def printed(*lines: str) -> bytes:
    canvas = Canvas("Página", "Pie", "es")
    for n, line in enumerate(lines):
        canvas.write_line(20, 20 + n * 6, line, style="B" if n % 2 else "")
    return canvas.output()


@pytest.mark.parametrize("style", ["", "B"])
def test_names_of_any_script_are_printed_or_have_a_substitute(style):
    canvas = Canvas("Página", "", "es")
    for name in NAMES:
        canvas.write_line(20, 20, name, style=style)
    canvas.write_block(20, 30, 12, " ".join(NAMES), style=style)
    canvas.write_line(20, 90, " ".join(NAMES), style=style, width=30)
    assert texts(canvas.output())[: len(NAMES)] == list(NAMES.values())


def test_every_font_is_embedded_with_the_outlines_of_its_texts_and_no_more():
    found = fonts(printed("Ñandú 東京", "Общество"))
    assert len(found) == 2
    for descriptor, characters, program in found:
        assert b"/FontFile2 " in descriptor
        font = TTFont(io.BytesIO(program), checkChecksums=2)
        assert font["maxp"].numGlyphs == len(characters) + 1
        outlines = [font["glyf"][name] for name in font.getGlyphOrder()]
        assert all(each.numberOfContours > 0 for each in outlines[1:] if each is not outlines[_code(characters, " ")])
        assert [width for width, _ in font["hmtx"].metrics.values()] == _widths(characters, b"-Bold" in descriptor)


def _code(characters: dict[int, str], character: str) -> int:
    return next((code for code, each in characters.items() if each == character), 0)


def _widths(characters: dict[int, str], is_bold: bool) -> list[int]:
    font = font_of("bold" if is_bold else "sans")
    return [font.advances[0], *(font.advances[font.glyphs[each]] for each in characters.values())]


def test_a_file_is_as_the_format_wants_it():
    pdf = printed("Ñandú", "Общество")
    start = int(re.search(rb"startxref\n(\d+)\n%%EOF\n\Z", pdf)[1])
    table = pdf[start:].split(b"\n")
    assert table[:3] == [b"xref", b"0 %d" % (len(objects(pdf)) + 1), b"0000000000 65535 f "]
    for number, line in enumerate(table[3 : len(objects(pdf)) + 2], start=1):
        assert pdf[int(line[:10]) :].startswith(b"%d 0 obj\n" % number)
    for body in objects(pdf).values():
        if b"\nstream\n" in body:
            head, _, rest = body.partition(b"\nstream\n")
            assert int(re.search(rb"/Length (\d+)", head)[1]) == len(rest) - len(b"\nendstream")
    assert pdf == printed("Ñandú", "Общество")


def test_the_fonts_are_read_as_their_own_tables_have_them():
    for name, source in {
        "sans": "DejaVuSansCondensed",
        "bold": "DejaVuSansCondensed-Bold",
        "mono": "DejaVuSansMono",
    }.items():
        ours, theirs = font_of(name), TTFont(f"src/ledger/invoicing/pdf/typefaces/{name}.ttf", lazy=True)
        units, cmap = theirs["head"].unitsPerEm, theirs.getBestCmap()
        assert theirs["name"].getDebugName(6) == ours.postscript_name == source
        assert ours.glyphs == {chr(code): theirs.getGlyphID(glyph) for code, glyph in cmap.items()}
        assert ours.width("ÑüW.") == sum(round(theirs["hmtx"][cmap[ord(each)]][0] * 1000 / units) for each in "ÑüW.")
        assert not {"fpgm", "prep", "cvt ", "GPOS", "GSUB"} & set(theirs.keys())


def test_two_parts_of_a_font_have_two_tags():
    tags = set()
    for text in ("a", "b", "ab"):
        used = FontInUse(font_of("sans"))
        used.codes(text)
        tags.add(used.tag)
    assert len(tags) == 3
    assert all(re.fullmatch("[A-Z]{6}", tag) for tag in tags)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA"])
def test_a_logo_is_embedded_with_its_colours_and_its_transparency(mode):
    png = io.BytesIO()
    Image.new("RGBA", (40, 20), (200, 30, 60, 128)).convert(mode).save(png, "PNG")
    picture = picture_of(open_logo(png.getvalue()).png)
    assert (picture.width, picture.height) == (40, 20)
    assert picture.channels == (1 if mode in {"1", "L"} else 3)
    assert (picture.transparency is not None) is (mode in {"LA", "P", "RGBA"})
    canvas = Canvas("Página", "", "es")
    canvas.image(picture, 10, 10, 20, 10)
    canvas.add_page()
    canvas.image(picture, 10, 10, 20, 10)
    pdf = canvas.output()
    drawn = [body for body in objects(pdf).values() if b"/Subtype /Image" in body]
    assert len(drawn) == 1 + (picture.transparency is not None), "a picture is in the file once"
    assert all(b"/I0 Do" in page for page in pages(pdf))
