"""The cursors of the lists: what one names, and the text that a client sends back.

A cursor names the last entry that was read, not a number of entries: the next page neither repeats nor skips an entry
when others arrive in between. It belongs to its list, filters included: another list has other entries before it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import struct
from datetime import datetime
from functools import cache
from typing import Any, Final, Generic, TypeVar
from uuid import UUID

import msgspec
from msgspec import Struct

from projections.binary import from_micros, micros


class AnyCursor(Struct, frozen=True, kw_only=True):
    """What every cursor has: the hash of the list that it is of. It is empty in cursors of before there was one."""

    list_hash: bytes = b""


C = TypeVar("C", bound=AnyCursor)

_BEHIND_MAX: Final = {"q": 1 << 62, "I": 1 << 31}
"""More entries than any list has, by the code of their number. A higher one is refused: the next cursor, which adds a
page to it, can always be encoded."""
_HASH_BYTES: Final = 3
_PLACE: Final = frozenset({"limit", "offset", "cursor", "ascending", "as_of"})
"""The fields of a query that are no filters. A cursor has the direction and the time itself."""


class CursorCodec(Generic[C]):
    """Converts one type of cursors to texts and back.

    `codes` are the fields in the order in which they are packed, each with its code for `struct`. Clients hold the
    texts: never change the codes of a list. One of the fields is `behind`.
    """

    def __init__(self, cursor: type[C], **codes: str) -> None:
        self._cursor = cursor
        self._types = {field.name: field.type for field in msgspec.structs.fields(cursor)}
        self._names = tuple(codes)
        self._packing = struct.Struct("!" + "".join(codes.values()))
        self._behind_max = _BEHIND_MAX[codes["behind"]]

    def encode(self, cursor: C) -> str:
        """Returns the text of a `nextCursor`."""
        packed = self._packing.pack(*(_packed(getattr(cursor, name)) for name in self._names))
        return base64.urlsafe_b64encode(packed + cursor.list_hash).decode()

    def parse(self, text: str) -> C | None:
        """Returns the cursor that a `nextCursor` encodes, or None if the service did not issue the text."""
        try:
            sent = base64.b64decode(text, altchars=b"-_", validate=True)
            packed, list_hash = sent[: self._packing.size], sent[self._packing.size :]
            values = zip(self._names, self._packing.unpack(packed), strict=True)
            fields = {name: _unpacked(value, self._types[name]) for name, value in values}
        except (ValueError, binascii.Error, struct.error, OverflowError):
            return None
        if len(list_hash) not in (0, _HASH_BYTES) or not 0 <= fields["behind"] <= self._behind_max:
            return None
        return self._cursor(**fields, list_hash=list_hash)


def list_hash(query: Any, within: UUID | None = None) -> bytes:
    """Returns the hash that the cursors of a list have: of the kind of its entries, and of its filters. `within` is the
    resource whose entries a list has that is not the merchant's.

    The order of a filter's values has no effect. Clients hold the cursors: never change the name of a query, or of a
    filter, or what a filter is that is not sent.
    """
    filters = [(name, getattr(query, name), absent) for name, absent in _filters(query.__class__)]
    used = {
        name: sorted(value) if isinstance(value, tuple) else value for name, value, absent in filters if value != absent
    }
    of = () if within is None else (within,)
    listed = msgspec.json.encode([type(query).__name__, used, *of], order="deterministic")
    return hashlib.blake2b(listed, digest_size=_HASH_BYTES).digest()


@cache
def _filters(query: type[Struct]) -> tuple[tuple[str, Any], ...]:
    """Returns the names of a query's filters, each with its value if it is not sent."""
    return tuple((field.name, field.default) for field in msgspec.structs.fields(query) if field.name not in _PLACE)


def _packed(value: Any) -> Any:
    if isinstance(value, datetime):
        return micros(value)
    return value.bytes if isinstance(value, UUID) else value


def _unpacked(value: Any, type_: Any) -> Any:
    if type_ is datetime:
        return from_micros(value)
    return UUID(bytes=value) if type_ is UUID else value


class Cursor(AnyCursor, frozen=True):
    """The end of a page by the time of creation: its last entry, and the number of entries up to and including it."""

    ascending: bool
    created_at: datetime
    entry_id: UUID
    behind: int


CURSORS: Final = CursorCodec(Cursor, ascending="?", created_at="q", behind="q", entry_id="16s")
"""The cursors of orders, products, plans and subscriptions."""


class PastCursor(Cursor, frozen=True):
    """The end of a page of a list as of a time, which goes on as of the same time."""

    as_of: datetime


PAST_CURSORS: Final = CursorCodec(PastCursor, ascending="?", created_at="q", behind="q", entry_id="16s", as_of="q")
"""The cursors of orders and subscriptions as of a time."""


def parse_past_cursor(text: str, as_of: datetime | None) -> PastCursor | None:
    """Returns the cursor that a `nextCursor` of a list as of a time encodes, None for one of another list or time. None
    as the time accepts any.
    """
    cursor = PAST_CURSORS.parse(text)
    return cursor if cursor is not None and as_of in (None, cursor.as_of) else None
