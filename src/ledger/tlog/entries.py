"""An event as an entry of the tree: UTF-8 JSON without spaces, its members in one order for ever.

An entry has hashes of the event's content and context, and nothing personal. The content of an event about a person is
encrypted before it is stored, and an erasure destroys the key alone, so that an erasure changes no entry.

Never change the form: proofs that were given out are about these bytes. The database builds the same ones
(see `tlog.store`).
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

import msgspec
from msgspec import Struct

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Entry(Struct, frozen=True, kw_only=True, rename="camel"):
    """What the tree has of an event. The hashes are SHA-256 in hex, the time is in microseconds since 1970 in UTC."""

    merchant_id: UUID
    position: int
    stream_id: UUID
    version: int
    topic: str
    recorded_at_us: int
    command_id: UUID
    data_sha256: str
    context_sha256: str


def entry_of(
    merchant_id: UUID,
    *,
    position: int,
    stream_id: UUID,
    version: int,
    topic: str,
    recorded_at: datetime,
    command_id: UUID,
    data: bytes,
    context: bytes,
) -> Entry:
    """Returns the entry of an event, from the columns of its row."""
    return Entry(
        merchant_id=merchant_id,
        position=position,
        stream_id=stream_id,
        version=version,
        topic=topic,
        recorded_at_us=(recorded_at - _EPOCH) // timedelta(microseconds=1),
        command_id=command_id,
        data_sha256=hashlib.sha256(data).hexdigest(),
        context_sha256=hashlib.sha256(context).hexdigest(),
    )


def encode_entry(entry: Entry) -> bytes:
    """Returns the bytes of an entry."""
    return msgspec.json.encode(entry)
