"""The sheet of a printed document: letter paper, fonts, colours, boxes and columns.

Everything is in millimetres from the upper left corner; font sizes are in points.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ledger.invoicing.pdf.file import PdfFile, Picture, date_string, text_string
from ledger.invoicing.pdf.fonts import FontInUse, FontName, font_of

if TYPE_CHECKING:
    from ledger.invoicing.pdf.words import Language

WIDTH, HEIGHT = 215.9, 279.4
MARGIN: Final = 14.0
RIGHT: Final = WIDTH - MARGIN
INNER: Final = WIDTH - 2 * MARGIN
POINTS: Final = 72 / 25.4
"""The points of a millimetre."""
_BOTTOM: Final = 16.0
_CELL_MARGIN: Final = 1.2
_ROUNDING: Final = 1.2
_STEP: Final = 0.45
"""The height of a line in mm for each point of its font."""
_BASELINE: Final = 0.331
"""How far a line's base is below its upper edge, in mm for each point of its font."""
_CIRCLE: Final = 0.5523
"""Where the control points of a quarter of a circle lie (a Bézier curve)."""

Colour = tuple[int, int, int]
INK: Final = (28, 33, 41)
FAINT: Final = (107, 114, 128)
ACCENT: Final = (23, 78, 97)
PALE: Final = (238, 243, 245)
LINE: Final = (214, 221, 226)
WARNING: Final = (176, 42, 32)
WHITE: Final = (255, 255, 255)
_BLACK: Final = (0, 0, 0)


class Column(Struct, frozen=True):
    """A column of a table: its title, its width in mm, and its alignment (L, C or R)."""

    title: str
    width: float
    align: str = "L"


class Canvas:
    """A document of pages with a number at the foot of each."""

    def __init__(self, page_label: str, foot: str, language: Language) -> None:
        self._page_label, self._foot, self._language = page_label, foot, language
        self._fonts: dict[FontName, FontInUse] = {}
        self._pictures: list[Picture] = []
        self._pages: list[list[str]] = []
        self._properties: dict[str, str] = {}
        self._font, self._size, self._colour = self._used("sans"), 8.0, INK
        self.add_page()

    def about(self, title: str, author: str, created_at: datetime) -> None:
        """Sets the properties of the file. `created_at` is in UTC."""
        texts = {"Title": text_string(title), "Author": text_string(author)}
        self._properties = {**texts, "CreationDate": date_string(created_at)}

    def add_page(self) -> None:
        self._pages.append([])

    @property
    def pages(self) -> list[str]:
        """Returns what is drawn on each page, in the operators of the file format."""
        return ["\n".join(page) for page in self._pages]

    def pen(self, size: float, style: str = "", colour: Colour = INK, family: FontName = "sans") -> None:
        """Sets the font of the next texts. `style` B is bold."""
        self._font, self._size, self._colour = self._used("bold" if style == "B" else family), size, colour

    def width(self, text: str) -> float:
        """Returns the width of a printable text in mm."""
        return self._font.font.width(text) * self._size / 1000 / POINTS

    def printable(self, text: str) -> str:
        """Returns a text in the characters of the present font, without characters that control."""
        return self._font.font.printable(" ".join(text.split()) if not text.isprintable() else text)

    def write_line(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float = 8,
        style: str = "",
        colour: Colour = INK,
        width: float = 0,
        align: str = "L",
        family: FontName = "sans",
    ) -> None:
        """Writes one line, which is cut at `width` if it is given."""
        self.pen(size, style, colour, family)
        text = self.printable(text)
        if width and self.width(text) > width:
            text = self._cut(text, width)
        self._show(x, y, text, width, align)

    def write_block(
        self, x: float, y: float, width: float, text: str, *, size: float = 8, style: str = "", lines_max: int = 0
    ) -> float:
        """Writes text in lines of at most `width`. Returns the y below it."""
        self.pen(size, style)
        lines = self.wrapped(text, width)
        if lines_max and len(lines) > lines_max:
            lines = [*lines[: lines_max - 1], self._cut(lines[lines_max - 1] + " …", width)]
        for line in lines:
            self._show(x, y, line, width, "L")
            y += size * _STEP
        return y

    def wrapped(self, text: str, width: float) -> list[str]:
        """Returns the lines of a text in the present font. A word wider than the line is broken."""
        lines, line, room = [], "", width - 2 * _CELL_MARGIN
        for word in self.printable(text).split():
            candidate = f"{line} {word}" if line else word
            if self.width(candidate) <= room:
                line = candidate
                continue
            if line:
                lines.append(line)
            while self.width(word) > room:
                part = self._fitting(word, room)
                lines.append(word[:part])
                word = word[part:]  # noqa: PLW2901 - what is left of the word
            line = word
        return [*lines, line] if line else lines or [""]

    def fixed_width(self, x: float, y: float, width: float, text: str, *, size: float = 5.2) -> float:
        """Writes text without spaces (a seal) in lines of equal length. Returns the y below it."""
        self.pen(size, colour=FAINT, family="mono")
        each = int((width - 2 * _CELL_MARGIN) / self.width("0"))
        text, step = self.printable(text), size * 0.4
        for at in range(0, len(text), each):
            self._show(x, y, text[at : at + each], width, "L")
            y += step
        return y

    def box(self, x: float, y: float, width: float, height: float, colour: Colour = PALE) -> None:
        """Fills a rectangle with round corners."""
        left, right, top, bottom, radius = x, x + width, y, y + height, _ROUNDING
        far = radius * (1 - _CIRCLE)
        path = [
            f"{_point(left + radius, top)} m {_point(right - radius, top)} l",
            _curve((right - far, top), (right, top + far), (right, top + radius)),
            f"{_point(right, bottom - radius)} l",
            _curve((right, bottom - far), (right - far, bottom), (right - radius, bottom)),
            f"{_point(left + radius, bottom)} l",
            _curve((left + far, bottom), (left, bottom - far), (left, bottom - radius)),
            f"{_point(left, top + radius)} l",
            _curve((left, top + far), (left + far, top), (left + radius, top)),
        ]
        self._draw(f"{_rgb(colour)} rg {' '.join(path)} f")

    def fill(self, x: float, y: float, width: float, height: float, colour: Colour) -> None:
        """Fills a rectangle."""
        self._draw(f"{_rgb(colour)} rg {_rectangle(x, y, width, height)} f")

    def rule(self, y: float, x: float = MARGIN, to: float = RIGHT, colour: Colour = LINE) -> None:
        self._draw(f"{_rgb(colour)} RG {0.2 * POINTS:.2f} w {_point(x, y)} m {_point(to, y)} l S")

    def image(self, picture: Picture, x: float, y: float, width: float, height: float) -> None:
        """Draws a picture in this size."""
        if picture not in self._pictures:
            self._pictures.append(picture)
        name = f"/I{self._pictures.index(picture)}"
        size = f"{width * POINTS:.2f} 0 0 {height * POINTS:.2f}"
        self._draw(f"q {size} {_point(x, y + height)} cm {name} Do Q")

    def heading(self, columns: Sequence[Column], y: float) -> float:
        """Draws the titles of a table. Returns the y below them."""
        self.fill(MARGIN, y, INNER, 5.6, ACCENT)
        x = MARGIN
        for column in columns:
            self.write_line(
                x, y + 1.2, column.title, size=7, style="B", colour=WHITE, width=column.width, align=column.align
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
        """Draws the modules of a QR code: one rectangle for each run of dark ones in a row, all in one path."""
        module, path = size / len(matrix), []
        for n, row in enumerate(matrix):
            top, start = y + n * module, None
            for at, dark in enumerate([*row, False]):
                if dark and start is None:
                    start = at
                elif not dark and start is not None:
                    path.append(_rectangle(x + start * module, top, (at - start) * module, module * 1.02))
                    start = None
        self._draw(f"{_rgb(_BLACK)} rg {' '.join(path)} f")

    def output(self) -> bytes:
        """Returns the whole file. Nothing can be drawn after it."""
        self._draw_feet()
        file = PdfFile()
        tree = file.reserve()
        contents = [file.add_stream("\n".join(page).encode("ascii")) for page in self._pages]
        fonts = " ".join(
            f"/{name} {file.add_font(used)} 0 R" for name, used in self._fonts.items() if len(used.glyphs) > 1
        )
        pictures = " ".join(f"/I{n} {file.add_picture(each)} 0 R" for n, each in enumerate(self._pictures))
        resources = file.add(f"<< /Font << {fonts} >> /XObject << {pictures} >> >>")
        size = f"[0 0 {WIDTH * POINTS:.2f} {HEIGHT * POINTS:.2f}]"
        pages = [
            file.add(
                f"<< /Type /Page /Parent {tree} 0 R /MediaBox {size} /Resources {resources} 0 R /Contents {each} 0 R >>"
            )
            for each in contents
        ]
        kids = " ".join(f"{each} 0 R" for each in pages)
        file.fill(tree, f"<< /Type /Pages /Count {len(pages)} /Kids [{kids}] >>")
        language = "es-MX" if self._language == "es" else "en"
        root = file.add(f"<< /Type /Catalog /Pages {tree} 0 R /Lang ({language}) >>")
        about = file.add(f"<< {' '.join(f'/{name} {value}' for name, value in self._properties.items())} >>")
        return file.written(root, about)

    def _draw_feet(self) -> None:
        pages = self._pages
        for n, page in enumerate(pages, start=1):
            self._pages = [page]
            self.write_line(MARGIN, HEIGHT - 10, self._foot, size=6.5, colour=FAINT)
            number = f"{self._page_label} {n} / {len(pages)}"
            self.write_line(MARGIN, HEIGHT - 10, number, size=6.5, colour=FAINT, width=INNER, align="R")
        self._pages = pages

    def _used(self, name: FontName) -> FontInUse:
        used = self._fonts.get(name)
        if used is None:
            used = self._fonts[name] = FontInUse(font_of(name))
        return used

    def _show(self, x: float, y: float, text: str, width: float, align: str) -> None:
        """Writes a printable text in the present font. `y` is the upper edge of its line."""
        if not text:
            return
        match align:
            case "R":
                x += width - _CELL_MARGIN - self.width(text)
            case "C":
                x += (width - self.width(text)) / 2
            case _:
                x += _CELL_MARGIN
        [name] = [name for name, used in self._fonts.items() if used is self._font]
        place = _point(x, y + self._size * _BASELINE)
        codes = self._font.codes(text)
        self._draw(f"{_rgb(self._colour)} rg BT /{name} {self._size:g} Tf {place} Td <{codes}> Tj ET")

    def _draw(self, operators: str) -> None:
        self._pages[-1].append(operators)

    def _cut(self, text: str, width: float) -> str:
        room = width - 2 * _CELL_MARGIN - self.width("…")
        return text[: self._fitting(text, room)].rstrip() + "…"

    def _fitting(self, text: str, room: float) -> int:
        """Returns how many characters fit, at least one."""
        used = 0.0
        for at, character in enumerate(text):
            used += self.width(character)
            if used > room:
                return max(at, 1)
        return len(text)


def _point(x: float, y: float) -> str:
    return f"{x * POINTS:.2f} {(HEIGHT - y) * POINTS:.2f}"


def _rectangle(x: float, y: float, width: float, height: float) -> str:
    """Returns the path of a rectangle from its upper left corner."""
    return f"{_point(x, y)} {width * POINTS:.2f} {-height * POINTS:.2f} re"


def _curve(*points: tuple[float, float]) -> str:
    return " ".join(_point(*each) for each in points) + " c"


def _rgb(colour: Colour) -> str:
    return " ".join(f"{channel / 255:.3g}" for channel in colour)
