"""The log read back: streams by id, claims by key, a merchant's events by position.

The rule a stranger would break: a merchant's log is followed by position, never by time and never by another sequence.
Positions are commit-ordered and gap-free; nothing else is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from msgspec import Struct

from ledger.journal.append import ClaimKind
from ledger.journal.coalesce import Coalescer
from ledger.journal.codec import Codec
from ledger.journal.connection import Connection
from ledger.journal.packing import PACK

# All events of the asked streams, oldest first.
_STREAMS: Final = """
select k.n, e.version, e.topic, e.data
  from unnest(%s::int4[], %s::uuid[], %s::uuid[]) as k(n, m, o)
 cross join lateral (select version, topic, data from event
                      where merchant_id = k.m and stream_id = k.o order by version) e
 order by k.n, e.version
"""

# Whose keys these are.
_CLAIMS: Final = """
select k.n, c.stream_id from unnest(%s::int4[], %s::uuid[], %s::int4[], %s::text[]) as k(n, m, kind, key)
  join claim c on c.merchant_id = k.m and c.kind = k.kind and c.key = k.key
"""

# A stretch of one merchant's log, in commit order.
_FEED: Final = """
select position, stream_id, version, recorded_at, command_id, topic, data, context
  from event where merchant_id = %s and position > %s order by position limit %s
"""

# One stream with everything that is known of each event.
_HISTORY: Final = """
select position, stream_id, version, recorded_at, command_id, topic, data, context
  from event where merchant_id = %s and stream_id = %s order by version
"""

StreamKey = tuple[UUID, UUID]
ClaimKey = tuple[UUID, ClaimKind, str]
Stored = list[tuple[str, bytes]]
"""A stream as topics and bytes."""


class Recorded(Struct, frozen=True):
    """An event with what the log knows beside it. `context` is JSON: who asked, by which request, because of what."""

    position: int
    stream_id: UUID
    version: int
    recorded_at: datetime
    command_id: UUID
    topic: str
    event: Any
    context: bytes


class Reader:
    """Point reads of the log, coalesced; feeds and histories on the connection that the caller brings."""

    def __init__(self, url: str, codec: Codec) -> None:
        self._codec = codec
        self._streams = Coalescer[StreamKey, Stored](url, "ledger-streams", _fetch_streams)
        self._claims = Coalescer[ClaimKey, UUID](url, "ledger-claims", _fetch_claims)

    @property
    def alive(self) -> bool:
        return self._streams.alive and self._claims.alive

    @property
    def coalescers(self) -> Sequence[Coalescer[Any, Any]]:
        """What answers the point reads: for those who count."""
        return self._streams, self._claims

    async def start(self) -> None:
        """Connect. Raises psycopg.OperationalError."""
        await self._streams.start()
        await self._claims.start()

    async def stop(self) -> None:
        await self._streams.stop()
        await self._claims.stop()

    async def stream(self, merchant_id: UUID, stream_id: UUID) -> Sequence[Any]:
        """The events of a stream, oldest first; none where there is no such stream of this merchant. Raises UnknownTopic."""
        stored = await self._streams.get((merchant_id, stream_id)) or ()
        # Decoded here and not where reads are shared: a stream that cannot be read is no matter of those who read others.
        return [self._codec.decode(topic, data) for topic, data in stored]

    async def owner(self, merchant_id: UUID, kind: ClaimKind, key: str) -> UUID | None:
        """The stream that took a key, if any did."""
        return await self._claims.get((merchant_id, kind, key))

    async def feed(self, connection: Connection, merchant_id: UUID, after: int, limit: int) -> list[Recorded]:
        """At most `limit` events of a merchant behind position `after`, in commit order."""
        rows = await connection.cursor(binary=True).execute(_FEED, (merchant_id, after, limit))
        return [self._recorded(row) for row in await rows.fetchall()]

    async def history(self, connection: Connection, merchant_id: UUID, stream_id: UUID) -> list[Recorded]:
        """A stream's events with their envelopes, oldest first."""
        rows = await connection.cursor(binary=True).execute(_HISTORY, (merchant_id, stream_id))
        return [self._recorded(row) for row in await rows.fetchall()]

    def _recorded(self, row: tuple[Any, ...]) -> Recorded:
        position, stream_id, version, recorded_at, command_id, topic, data, context = row
        event = self._codec.decode(topic, data)
        return Recorded(position, stream_id, version, recorded_at, command_id, topic, event, context)


async def _fetch_streams(connection: Connection, keys: Sequence[StreamKey]) -> Mapping[StreamKey, Stored]:
    merchants, streams = [key[0].bytes for key in keys], [key[1].bytes for key in keys]
    rows = await connection.cursor(binary=True).execute(
        _STREAMS, (PACK["int4"](range(len(keys))), PACK["uuid"](merchants), PACK["uuid"](streams))
    )
    found: dict[StreamKey, Stored] = {}
    for n, _, topic, data in await rows.fetchall():
        found.setdefault(keys[n], []).append((topic, data))
    return found


async def _fetch_claims(connection: Connection, keys: Sequence[ClaimKey]) -> Mapping[ClaimKey, UUID]:
    rows = await connection.cursor(binary=True).execute(
        _CLAIMS,
        (
            PACK["int4"](range(len(keys))),
            PACK["uuid"]([merchant.bytes for merchant, _, _ in keys]),
            PACK["int4"]([kind for _, kind, _ in keys]),
            PACK["text"]([key.encode() for _, _, key in keys]),
        ),
    )
    return {keys[n]: owner for n, owner in await rows.fetchall()}
