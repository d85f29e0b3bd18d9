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

from ledger.domain.customers.state import Customer
from ledger.domain.fold import fold
from ledger.domain.orders.state import Order
from ledger.journal.append import Append, Change, Claim, ClaimKind, StreamWrite
from ledger.journal.codec import CODEC, Codec, postgres_micros
from ledger.journal.commit.notifier import Notifier
from ledger.journal.commit.writer import Writer
from ledger.journal.encryption import data_keys
from ledger.journal.encryption.data_keys import DataKey, DataKeys
from ledger.journal.encryption.sealing import Seal
from ledger.journal.inline import InlineProjections, Row
from ledger.journal.reader import LogReader
from ledger.postgres.connection import connect
from ledger.telemetry.metrics import JOURNAL_UP, PROCESS, QUEUE_COMMANDS

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

    `url` is a direct libpq connection string. `projections` are written in the same commit as the events. `keys` seal what
    is personal; None only for a codec whose events never are.
    """

    def __init__(
        self,
        url: str,
        projections: InlineProjections,
        keys: DataKeys | None = None,
        *,
        codec: Codec = CODEC,
        batch_max: int = 256,
        queue_max: int = 10_000,
    ) -> None:
        self._url = url
        self._codec = codec
        self._projections = projections
        self._keys = keys
        tables = projections.tables if keys is None else (*projections.tables, data_keys.TABLE)
        self.writer = Writer(url, tables, batch_max=batch_max, queue_max=queue_max)
        self.reader = LogReader(url, codec, keys)
        self._announcer = Notifier(url)

    @property
    def alive(self) -> bool:
        """Whether it can write and read at this moment."""
        return self.writer.alive and self.reader.alive

    def sample_metrics(self) -> None:
        """Sets the gauges of this process's writer."""
        QUEUE_COMMANDS.set(self.writer.depth)
        JOURNAL_UP.labels(PROCESS).set(self.writer.alive)

    async def start(self) -> None:
        """Connect. Raises psycopg.OperationalError."""
        await self.writer.start()
        await self.reader.start()
        self._announcer.start()
        if self._keys is not None:
            await self._keys.start()

    async def stop(self) -> None:
        """Write what waits, then disconnect."""
        await self.writer.stop()
        await self._announcer.stop()
        await self.reader.stop()
        if self._keys is not None:
            await self._keys.stop()

    async def commit(
        self,
        merchant_id: UUID,
        command_id: UUID,
        changes: Sequence[Change],
        claims: Sequence[Claim] = (),
        context: Context = Context(),  # noqa: B008 - frozen, shared on purpose
    ) -> int:
        """Append all changes with their claims and read-model rows, or nothing at all; the position of the last event.

        Raises Conflict (VersionConflict, ClaimTaken), DatabaseUnavailable, QueueFull: nothing was written. A caller that
        is cancelled has not taken the command back.
        """
        created, key_rows = self._keys_of(merchant_id, changes)
        seals = [await self._seal(merchant_id, change, created) for change in changes]
        encode = self._codec.encode_sealed
        streams = [
            StreamWrite(
                change.stream_id.bytes,
                change.expected,
                [encode(event, version, seal) for version, event in enumerate(change.events, change.expected + 1)],
            )
            for change, seal in zip(changes, seals, strict=True)
        ]
        rows = self._rows(merchant_id, changes, key_rows)
        append = Append(merchant_id.bytes, command_id.bytes, msgspec.json.encode(context), streams, claims, rows)
        position = await self.writer.submit(append)
        self._announcer.note(merchant_id)
        return position

    def _keys_of(self, merchant_id: UUID, changes: Sequence[Change]) -> tuple[Mapping[UUID, DataKey], Sequence[Row]]:
        """The keys of customers that begin here, and the rows of those and of keys that end here."""
        created: dict[UUID, DataKey] = {}
        rows: list[Row] = []
        for change in changes:
            customer = change.after
            if self._keys is None or not change.events or not isinstance(customer, Customer):
                continue
            if change.before is None:
                created[customer.customer_id], row = self._keys.create(merchant_id, customer.customer_id)
                rows.append(row)
            if customer.erased:
                at = postgres_micros(customer.updated_at)
                rows.append(self._keys.destroy(merchant_id, customer.customer_id, at))
        return created, rows

    async def _seal(self, merchant_id: UUID, change: Change, created: Mapping[UUID, DataKey]) -> Seal | None:
        """What seals the events of a change; None where nothing in it is personal, or the person has been forgotten."""
        if not any(map(self._codec.may_be_personal, change.events)):
            return None
        assert self._keys is not None, "whoever writes personal data is given the keys"
        customer_id = _subject(change.after)
        key = created.get(customer_id) or await self._keys.for_sealing(merchant_id, customer_id)
        cipher = key.cipher
        if cipher is None:
            return None
        return Seal(cipher, merchant_id, customer_id, change.stream_id, self._keys.draw)

    def _rows(
        self, merchant_id: UUID, changes: Sequence[Change], key_rows: Sequence[Row]
    ) -> Mapping[str, Sequence[Row]]:
        rows: dict[str, list[Row]] = {data_keys.TABLE.name: [*key_rows]} if key_rows else {}
        for change in changes:
            if change.events:
                for table, some in self._projections.rows(merchant_id, change).items():
                    rows.setdefault(table, []).extend(some)
        return rows

    async def load(
        self, merchant_id: UUID, stream_id: UUID, evolve: Callable[[S | None, Any], S]
    ) -> tuple[S | None, int]:
        """The state that a stream folds into and its version; (None, 0) where this merchant has no such stream."""
        events = await self.reader.stream(merchant_id, stream_id)
        return (fold(evolve, None, events), len(events)) if events else (None, 0)

    async def claim_owner(self, merchant_id: UUID, kind: ClaimKind, key: str) -> UUID | None:
        """The stream that took a key, if any did."""
        return await self.reader.claim_owner(merchant_id, kind, key)

    async def open_log(self, merchant_id: UUID) -> None:
        """Give a merchant its log: needed once, before its first commit."""
        connection = await connect(self._url, "ledger-open-log")
        async with connection:
            await connection.execute(_OPEN_LOG, (merchant_id,))


def _subject(state: Any) -> UUID:
    """The customer whom the personal data in a stream is about: its data key seals it."""
    match state:
        case Customer():
            return state.customer_id
        case Order():
            return state.terms.customer_id
        case _:
            raise AssertionError(f"nobody has said whom {type(state).__name__} is about")
