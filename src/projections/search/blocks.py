"""Many lines in one row of the database, and what it says about them: the bits and beginnings by which a search passes over it.

The rule a stranger would break: what a block says may be too much and never too little. So whoever looks for a text takes
its bits from here too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from msgspec import Struct

from projections.search.lines import FIELD_END

BLOCK_BYTES: Final = 6_500
"""So much of lines and their ids makes a row that fits, with its bits, on one of the 8 KiB pages of the database."""
_LINE_BYTES: Final = 40
"""What a line takes beside its text: an id, a time, their share of what the row says about all."""
_FIRST, _SECOND, _MASK = 6_151, 389, 8_191
"""Which of 8,192 bits stands for a gram. Stored blocks say it: other numbers need a migration after which all are packed anew."""


class SearchLine(Struct, frozen=True, gc=False):
    """The folded text of an order, with the time of its creation, or of a customer's e-mail."""

    id: UUID
    at: datetime | None
    text: str


class Block(Struct, frozen=True):
    """Lines of one row, by id."""

    lines: Sequence[SearchLine]
    full: bool

    @property
    def texts(self) -> str:
        """All lines, one below the other."""
        return "\n".join([line.text for line in self.lines])

    @property
    def shared(self) -> str:
        """The beginnings that each field has in all lines, parted like the fields. What stands in it stands in every line."""
        fields = zip(*[line.text.split(FIELD_END) for line in self.lines], strict=True)
        return FIELD_END.join([_beginning(same) for same in fields])

    @property
    def span(self) -> tuple[datetime, datetime]:
        """When the oldest and the newest of its orders were created."""
        times = [line.at for line in self.lines if line.at is not None]
        return min(times), max(times)


def blocks(lines: Iterable[SearchLine], block_bytes: int = BLOCK_BYTES) -> Iterator[Block]:
    """The lines by id, in blocks of so many bytes. Only the last one is not full."""
    some: list[SearchLine] = []
    room = block_bytes
    for line in sorted(lines, key=lambda line: line.id):
        size = len(line.text.encode()) + _LINE_BYTES
        if some and size > room:
            yield Block(some, full=True)
            some, room = [], block_bytes
        some.append(line)
        room -= size
    if some:
        yield Block(some, full=False)


def grams(texts: str) -> bytes:
    """A bit for each gram in some lines: for one, two and three bytes that follow each other. Several grams share a bit."""
    lines = texts.encode()
    ended = lines + b"\n\n"
    threes = set(zip(lines, ended[1:], ended[2:], strict=False))
    twos = {three[:2] for three in threes}
    ones = set(lines)
    # `_bit`, written out: a call for each would cost as much again.
    found = {(first * _FIRST + second * _SECOND + third) & _MASK for first, second, third in threes}
    found |= {(first * _FIRST + second * _SECOND) & _MASK for first, second in twos}
    found |= {first * _FIRST & _MASK for first in ones}
    said = bytearray((_MASK + 1) // 8)
    for bit in found:
        said[bit >> 3] |= 1 << (bit & 7)
    return bytes(said)


def local_grams(emails: Iterable[str]) -> bytes:
    """The grams of some e-mails that begin before the first @; the last of them reach a byte behind it."""
    return grams("\n".join([email[: email.find("@") + 2] if "@" in email else email for email in emails]))


def gram_bits(folded: str) -> tuple[int, int, int] | None:
    """Three bits that are set wherever this text stands: of its beginning, its middle and its end. None of no text."""
    text = folded.encode()
    if not text:
        return None
    last = max(len(text) - 3, 0)
    first, middle, end = (_bit(*text[at : at + 3]) for at in (0, last // 2, last))
    return first, middle, end


def _beginning(texts: Sequence[str]) -> str:
    """What all texts begin with: what the lowest and the highest of them do."""
    lowest, highest = min(texts), max(texts)
    same = next((n for n, (a, b) in enumerate(zip(lowest, highest, strict=False)) if a != b), len(lowest))
    return lowest[:same]


def _bit(first: int, second: int = 0, third: int = 0) -> int:
    return (first * _FIRST + second * _SECOND + third) & _MASK
