"""The sheet of a printed document: letter paper, fonts that every reader has, colours, boxes and columns.

Everything is in millimetres from the upper left corner; font sizes are in points.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from fpdf import FPDF
from msgspec import Struct

if TYPE_CHECKING:
    from ledger.invoicing.pdf.words import Language

WIDTH, HEIGHT = 215.9, 279.4
MARGIN: Final = 14.0
RIGHT: Final = WIDTH - MARGIN
INNER: Final = WIDTH - 2 * MARGIN
_BOTTOM: Final = 16.0

INK: Final = (28, 33, 41)
FAINT: Final = (107, 114, 128)
ACCENT: Final = (23, 78, 97)
PALE: Final = (238, 243, 245)
LINE: Final = (214, 221, 226)
WARNING: Final = (176, 42, 32)

_ENCODING: Final = "windows-1252"


class Column(Struct, frozen=True):
    """A column of a table: its title, its width in mm, and its alignment (L, C or R)."""

    title: str
    width: float
    align: str = "L"


class Canvas(FPDF):
    """A document of pages with a number at the foot of each."""

    def __init__(self, page_label: str, foot: str, language: Language) -> None:
        super().__init__(unit="mm", format="letter")
        self.core_fonts_encoding = _ENCODING
        self._page_label, self._foot = page_label, foot
        self.set_lang("es-MX" if language == "es" else "en")
        self.set_margins(MARGIN, MARGIN)
        self.set_auto_page_break(auto=False)
        self.c_margin = 1.2
        self.add_page()

    def footer(self) -> None:
        self.set_y(HEIGHT - 10)
        self.write_line(MARGIN, HEIGHT - 10, self._foot, size=6.5, colour=FAINT)
        number = f"{self._page_label} {self.page_no()} / {{nb}}"
        self.write_line(MARGIN, HEIGHT - 10, number, size=6.5, colour=FAINT, width=INNER, align="R")

    def pen(self, size: float, style: str = "", colour: tuple[int, int, int] = INK, family: str = "Helvetica") -> None:
        self.set_font(family, style, size)
        self.set_text_color(*colour)

    def write_line(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float = 8,
        style: str = "",
        colour: tuple[int, int, int] = INK,
        width: float = 0,
        align: str = "L",
        family: str = "Helvetica",
    ) -> None:
        """Writes one line, which is cut at `width` if it is given."""
        self.pen(size, style, colour, family)
        self.set_xy(x, y)
        text = printable_text(text)
        if width and self.get_string_width(text) > width:
            text = self._cut(text, width)
        self.cell(width or self.get_string_width(text) + 3, size * 0.45, text, align=align)

    def write_block(
        self, x: float, y: float, width: float, text: str, *, size: float = 8, style: str = "", lines_max: int = 0
    ) -> float:
        """Writes text in lines of at most `width`. Returns the y below it."""
        self.pen(size, style)
        lines = self.wrapped(text, width)
        if lines_max and len(lines) > lines_max:
            lines = [*lines[: lines_max - 1], self._cut(lines[lines_max - 1] + " …", width)]
        step = size * 0.45
        for line in lines:
            self.set_xy(x, y)
            self.cell(width, step, line)
            y += step
        return y

    def wrapped(self, text: str, width: float) -> list[str]:
        """Returns the lines of a text in the present font. A word wider than the line is broken."""
        lines, line, room = [], "", width - 2 * self.c_margin
        for word in printable_text(text).split():
            candidate = f"{line} {word}" if line else word
            if self.get_string_width(candidate) <= room:
                line = candidate
                continue
            if line:
                lines.append(line)
            while self.get_string_width(word) > room:
                part = self._fitting(word, room)
                lines.append(word[:part])
                word = word[part:]  # noqa: PLW2901 - what is left of the word
            line = word
        return [*lines, line] if line else lines or [""]

    def fixed_width(self, x: float, y: float, width: float, text: str, *, size: float = 5.2) -> float:
        """Writes text without spaces (a seal) in lines of equal length. Returns the y below it."""
        self.pen(size, colour=FAINT, family="Courier")
        each = int((width - 2 * self.c_margin) / (0.6 * size * 0.3528))
        text, step = printable_text(text), size * 0.4
        for at in range(0, len(text), each):
            self.set_xy(x, y)
            self.cell(width, step, text[at : at + each])
            y += step
        return y

    def box(self, x: float, y: float, width: float, height: float, colour: tuple[int, int, int] = PALE) -> None:
        self.set_fill_color(*colour)
        self.rect(x, y, width, height, style="F", round_corners=True, corner_radius=1.2)

    def rule(self, y: float, x: float = MARGIN, to: float = RIGHT, colour: tuple[int, int, int] = LINE) -> None:
        self.set_draw_color(*colour)
        self.set_line_width(0.2)
        self.line(x, y, to, y)

    def heading(self, columns: Sequence[Column], y: float) -> float:
        """Draws the titles of a table. Returns the y below them."""
        self.set_fill_color(*ACCENT)
        self.rect(MARGIN, y, INNER, 5.6, style="F")
        x = MARGIN
        for column in columns:
            self.write_line(
                x,
                y + 1.2,
                column.title,
                size=7,
                style="B",
                colour=(255, 255, 255),
                width=column.width,
                align=column.align,
            )
            x += column.width
        return y + 5.6

    @property
    def foot_of_page(self) -> float:
        """Returns the y at which the content of a page ends."""
        return HEIGHT - _BOTTOM

    def has_room(self, y: float, height: float) -> bool:
        return y + height <= self.foot_of_page

    def modules(self, matrix: Sequence[Sequence[bool]], x: float, y: float, size: float) -> None:
        """Draws the modules of a QR code: one rectangle for each run of dark ones in a row, all in one path.

        Calls of `rect` for hundreds of rectangles would take a seventh of the time of a page.
        """
        module, path = size / len(matrix), []
        for n, row in enumerate(matrix):
            top, start = y + n * module, None
            for at, dark in enumerate([*row, False]):
                if dark and start is None:
                    start = at
                elif not dark and start is not None:
                    numbers = (x + start * module, HEIGHT - top, (at - start) * module, -module * 1.02)
                    path.append(" ".join(f"{number * self.k:.2f}" for number in numbers) + " re")
                    start = None
        self.set_fill_color(0, 0, 0)
        self._out(" ".join(path) + " f")

    def _cut(self, text: str, width: float) -> str:
        room = width - 2 * self.c_margin - self.get_string_width("…")
        return text[: self._fitting(text, room)].rstrip() + "…"

    def _fitting(self, text: str, room: float) -> int:
        """Returns how many characters fit, at least one."""
        used = 0.0
        for at, character in enumerate(text):
            used += self.get_string_width(character)
            if used > room:
                return max(at, 1)
        return len(text)


def printable_text(text: Any) -> str:
    """Returns a text in the characters of the fonts. Others lose their marks, or become a question mark."""
    plain = str(text)
    try:
        plain.encode(_ENCODING)
    except UnicodeEncodeError:
        return "".join(_nearest(each) for each in plain)
    return plain


def _nearest(character: str) -> str:
    for form in (character, unicodedata.normalize("NFKD", character)[:1]):
        try:
            form.encode(_ENCODING)
        except UnicodeEncodeError:
            continue
        return form
    return "?"
