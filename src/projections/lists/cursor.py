"""The cursor of a list, and the text that a client sends back.

A cursor names the last order that was read, not a number of orders: the next page neither repeats nor skips an order
when others arrive in between.
"""

from __future__ import annotations

import base64
import binascii
import struct
from datetime import datetime
from typing import Final
from uuid import UUID

from msgspec import Struct

from projections.binary import from_micros, micros

_CURSOR: Final = struct.Struct("!?qq16s")
_BEHIND_MAX: Final = 1 << 62
"""More orders than any list has. Refusing a higher number keeps the next cursor encodable."""


class Cursor(Struct, frozen=True):
    """The end of a page: its last order, and the number of orders up to and including that one."""

    ascending: bool
    created_at: datetime
    order_id: UUID
    behind: int


def encode_cursor(cursor: Cursor) -> str:
    """Returns the text of a `nextCursor`."""
    packed = _CURSOR.pack(cursor.ascending, micros(cursor.created_at), cursor.behind, cursor.order_id.bytes)
    return base64.urlsafe_b64encode(packed).decode()


def parse_cursor(text: str) -> Cursor | None:
    """Returns the cursor that a `nextCursor` encodes, or None if the service did not issue the text."""
    try:
        ascending, created, behind, order_id = _CURSOR.unpack(base64.b64decode(text, altchars=b"-_", validate=True))
        if not 0 <= behind <= _BEHIND_MAX:
            return None
        return Cursor(ascending, from_micros(created), UUID(bytes=order_id), behind)
    except (ValueError, binascii.Error, struct.error, OverflowError):
        return None
