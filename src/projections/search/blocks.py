"""Blocks: many lines in one row of the database, and the bits and beginnings by which a search skips the row.

The bits of a block may claim a text that it lacks, but must never miss one that it contains. A search takes the bits of
its text from this module too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

from msgspec import Struct

from projections.search.lines import FIELD_END, LineKind

BLOCK_BYTES: Final = 6_500
"""The size of the lines and ids of a row that fits, with its bits, on one of the database's pages of 8 KiB."""
_LINE_BYTES: Final = 40
"""The bytes that a line takes beside its text: an id, a time, and a share of the row's data about all lines."""
_FIRST, _SECOND, _MASK = 6_151, 389, 8_191
"""They choose one of 8,192 bits for a gram. After a change, a migration has to make all blocks be packed again."""


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
        """All lines, separated by newlines."""
        return "\n".join([line.text for line in self.lines])


class Summary(NamedTuple):
    """What lets a search skip a full block, as the columns of its row have it.

    `shared` has for each field of orders the beginning that it has in all lines: a text that this contains is in every
    line. `oldest` and `newest` are times of creation, of orders too; `local_grams` are of customers' e-mails.
    """

    grams: bytes
    local_grams: bytes | None = None
    shared: str | None = None
    oldest: Any = None
    newest: Any = None


def summary(kind: int, texts: str, ats: Sequence[Any]) -> Summary:
    """Returns the summary of a full block with these lines, which newlines separate, and the times of its orders."""
    lines = texts.split("\n")
    if kind == LineKind.CUSTOMER:
        return Summary(grams(texts), local_grams(lines))
    fields = zip(*[line.split(FIELD_END) for line in lines], strict=True)
    times = [at for at in ats if at is not None]
    return Summary(grams(texts), None, FIELD_END.join([_beginning(same) for same in fields]), min(times), max(times))


def blocks(lines: Iterable[SearchLine], block_bytes: int = BLOCK_BYTES) -> Iterator[Block]:
    """Yields the lines by id, in blocks of about `block_bytes`. Every block but the last is full."""
    block: list[SearchLine] = []
    bytes_left = block_bytes
    for line in sorted(lines, key=lambda line: line.id):
        size = len(line.text.encode()) + _LINE_BYTES
        if block and size > bytes_left:
            yield Block(block, full=True)
            block, bytes_left = [], block_bytes
        block.append(line)
        bytes_left -= size
    if block:
        yield Block(block, full=False)


def grams(texts: str) -> bytes:
    """Returns 8,192 bits, with one set for each gram of the lines: one to three consecutive bytes. Grams share bits."""
    lines = texts.encode()
    ended = lines + b"\n\n"
    threes = set(zip(lines, ended[1:], ended[2:], strict=False))
    twos = {three[:2] for three in threes}
    ones = set(lines)
    # This repeats `_bit`: calling it for each gram would double the time.
    found = {(first * _FIRST + second * _SECOND + third) & _MASK for first, second, third in threes}
    found |= {(first * _FIRST + second * _SECOND) & _MASK for first, second in twos}
    found |= {first * _FIRST & _MASK for first in ones}
    bits = bytearray((_MASK + 1) // 8)
    for bit in found:
        bits[bit >> 3] |= 1 << (bit & 7)
    return bytes(bits)


def local_grams(emails: Iterable[str]) -> bytes:
    """Returns the grams of e-mails that begin before the first @. The last of them extend to one byte after it."""
    return grams("\n".join([email[: email.find("@") + 2] if "@" in email else email for email in emails]))


def gram_bits(folded: str) -> tuple[int, int, int] | None:
    """Returns three bits of every block with this text: of its beginning, middle and end. None for an empty text."""
    text = folded.encode()
    if not text:
        return None
    last = max(len(text) - 3, 0)
    first, middle, end = (_bit(*text[at : at + 3]) for at in (0, last // 2, last))
    return first, middle, end


def _beginning(texts: Sequence[str]) -> str:
    """Returns the longest common beginning of all texts, which is that of the lowest and the highest of them."""
    lowest, highest = min(texts), max(texts)
    same = next((n for n, (a, b) in enumerate(zip(lowest, highest, strict=False)) if a != b), len(lowest))
    return lowest[:same]


def _bit(first: int, second: int = 0, third: int = 0) -> int:
    return (first * _FIRST + second * _SECOND + third) & _MASK
