"""The journal's front door: commit what was decided, load what is true.

The rule a stranger would break: whoever catches a `Conflict` loads again and decides again. Sending the same events
at a higher version is not a retry, it is a different decision that nobody made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar
from uuid import UUID

import msgspec
from msgspec import Struct

from ledger.journal.append import Append, Change, Claim, ClaimKind, StreamWrite
from ledger.journal.codec import CODEC, Codec
from ledger.journal.connection import connect
from ledger.journal.inline import InlineProjections, Row
from ledger.journal.reader import Reader
from ledger.journal.writer import Writer

S = TypeVar("S")

# A merchant's log begins with its head; asking twice changes nothing.
_OPEN_LOG = "insert into merchant_head (merchant_id) values (%s) on conflict do nothing"


class Context(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who asked and why: kept beside every event, never inside it. `causation` is the command that led to this one."""

    actor: UUID | None = None
    request: str | None = None
    causation: UUID | None = None


class Journal:
    """One process's way into the event store.

    `url` is a direct libpq connection string. `projections` are written in the same commit as the events.
    """

    def __init__(
        self,
        url: str,
        projections: InlineProjections,
        *,
        codec: Codec = CODEC,
        batch_max: int = 256,
        queue_max: int = 10_000,
    ) -> None:
        self._url = url
        self._codec = codec
        self._projections = projections
        self.writer = Writer(url, projections.tables, batch_max=batch_max, queue_max=queue_max)
        self.reader = Reader(url, codec)

    @property
    def alive(self) -> bool:
        """Whether it can write and read at this moment."""
        return self.writer.alive and self.reader.alive

    async def start(self) -> None:
        """Connect. Raises psycopg.OperationalError."""
        await self.writer.start()
        await self.reader.start()

    async def stop(self) -> None:
        """Write what waits, then disconnect."""
        await self.writer.stop()
        await self.reader.stop()

    async def commit(
        self,
        merchant_id: UUID,
        command_id: UUID,
        changes: Sequence[Change],
        claims: Sequence[Claim] = (),
        context: Context = Context(),  # noqa: B008 - frozen, shared on purpose
    ) -> int:
        """Append all changes with their claims and read-model rows, or nothing at all; the position of the last event.

        Raises Conflict (VersionConflict, ClaimTaken), DatabaseUnavailable, JournalFull: nothing was written. A caller that
        is cancelled has not taken the command back.
        """
        append = self.encode(merchant_id, command_id, changes, claims, context)
        return await self.writer.submit(append)

    def encode(
        self,
        merchant_id: UUID,
        command_id: UUID,
        changes: Sequence[Change],
        claims: Sequence[Claim] = (),
        context: Context = Context(),  # noqa: B008 - frozen, shared on purpose
    ) -> Append:
        """The command as the writer takes it."""
        encode = self._codec.encode
        return Append(
            merchant_id.bytes,
            command_id.bytes,
            msgspec.json.encode(context),
            [StreamWrite(c.stream_id.bytes, c.expected, [encode(event) for event in c.events]) for c in changes],
            claims,
            self._rows(merchant_id, changes),
        )

    def _rows(self, merchant_id: UUID, changes: Sequence[Change]) -> Mapping[str, Sequence[Row]]:
        written = [self._projections.rows(merchant_id, change) for change in changes if change.events]
        if len(written) == 1:
            return written[0]
        rows: dict[str, list[Row]] = {}
        for tables in written:
            for table, some in tables.items():
                rows.setdefault(table, []).extend(some)
        return rows

    async def load(
        self, merchant_id: UUID, stream_id: UUID, evolve: Callable[[S | None, Any], S]
    ) -> tuple[S | None, int]:
        """The state that a stream folds into and its version; (None, 0) where this merchant has no such stream."""
        state: S | None = None
        events = await self.reader.stream(merchant_id, stream_id)
        for event in events:
            state = evolve(state, event)
        return state, len(events)

    async def owner(self, merchant_id: UUID, kind: ClaimKind, key: str) -> UUID | None:
        """The stream that took a key, if any did."""
        return await self.reader.owner(merchant_id, kind, key)

    async def open_log(self, merchant_id: UUID) -> None:
        """Give a merchant its log: needed once, before its first commit."""
        connection = await connect(self._url, "ledger-open-log")
        async with connection:
            await connection.execute(_OPEN_LOG, (merchant_id,))
