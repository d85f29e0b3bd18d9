"""The customers' data keys: one random key for each, wrapped by a sealing key, destroyed when the customer is erased.

A key is written in the commit of its customer's first event and emptied in the commit of the erasure. Keep the emptied
row: it distinguishes a destroyed key from a missing one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from uuid import UUID

import structlog
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from msgspec import Struct

from ledger.journal.append import KeyUnavailable, SealBroken
from ledger.journal.encryption.sealing import Seal
from ledger.journal.encryption.sealing_keys import DATA_KEY_BYTES, Draw, SealingKeys
from ledger.journal.inline import InlineTable, Row
from ledger.postgres.arrays import ENCODE_ARRAY, Array
from ledger.postgres.connection import Connection
from ledger.postgres.dataloader import DataLoader
from ledger.postgres.faults import DatabaseUnavailable
from ledger.postgres.merchant_reads import rows_of_merchants
from ledger.telemetry.unopened import note_unopened
from ledger.ttl_cache import TtlCache

_log = structlog.get_logger()

KEYS_MAX: Final = 50_000
REMEMBERED_S: Final = 60.0
"""How long a process caches a key, and so may still use one that another process has destroyed."""

# A new customer's key, or the destruction of one.
_WRITE: Final = """
insert into data_key (merchant_id, customer_id, sealing_key_id, wrapped, destroyed_at)
select merchant_id, customer_id, sealing_key_id, wrapped, destroyed_at from {rows}
on conflict (merchant_id, customer_id) do update set
  sealing_key_id = excluded.sealing_key_id, wrapped = excluded.wrapped, destroyed_at = excluded.destroyed_at
"""

TABLE: Final = InlineTable(
    "data_key",
    (
        ("merchant_id", "uuid"),
        ("customer_id", "uuid"),
        ("sealing_key_id", "text"),
        ("wrapped", "bytea"),
        ("destroyed_at", "timestamptz"),
    ),
    _WRITE,
    is_rare=True,
)

# The keys of these customers, destroyed ones included.
_FIND: Final = """
select q.n, d.sealing_key_id, d.wrapped
  from unnest(%s::int4[], %s::uuid[], %s::uuid[]) as q(n, merchant_id, customer_id)
  join data_key d on d.merchant_id = q.merchant_id and d.customer_id = q.customer_id
"""

# A key for a customer whose stream is older than data keys are, unless another process was first.
_PROVIDE: Final = """
insert into data_key (merchant_id, customer_id, sealing_key_id, wrapped)
select * from unnest(%s::uuid[], %s::uuid[], %s::text[], %s::bytea[]) on conflict do nothing
"""

Owner = bytes
"""The ids of a merchant and of its customer, 16 bytes each: hashed and compared faster than UUIDs."""

StoredKey = tuple[str | None, bytes | None]
"""The sealing key of a data key, and the wrapped key; neither of them once it is destroyed."""


class DataKey(Struct, frozen=True):
    """A customer's data key: its cipher, None if it was destroyed; or the reason why it is unavailable.

    `draw` draws the nonces.
    """

    owner: Owner
    draw: Draw
    available: AESGCM | None = None
    fault: KeyUnavailable | SealBroken | None = None

    def seal(self, stream_id: bytes) -> Seal | None:
        """Returns the cipher for the events of a stream of the customer, None if the key was destroyed.

        Raises KeyUnavailable, SealBroken.
        """
        if self.fault is not None:
            raise type(self.fault)(*self.fault.args)
        return None if self.available is None else Seal(self.available, self.owner, stream_id, self.draw)


class DataKeys:
    """One process's access to the data keys. It reads those that it has not cached over a connection of its own."""

    def __init__(self, url: str, sealing: SealingKeys, *, draw: Draw = os.urandom) -> None:
        self._sealing, self._draw = sealing, draw
        self._cache = TtlCache[Owner, DataKey](KEYS_MAX, REMEMBERED_S)
        self._loader = DataLoader[Owner, DataKey](url, "ledger-data-keys", self._provide)

    @property
    def alive(self) -> bool:
        return self._loader.alive

    async def start(self) -> None:
        """Connects. Raises psycopg.OperationalError."""
        await self._loader.start()

    async def stop(self) -> None:
        await self._loader.stop()

    def create(self, merchant_id: UUID, customer_id: UUID) -> tuple[DataKey, Row]:
        """Creates the key of a new customer. Returns it with its row: the key exists once that row is committed."""
        raw = self._draw(DATA_KEY_BYTES)
        key = DataKey(merchant_id.bytes + customer_id.bytes, self._draw, AESGCM(raw))
        self._cache.put(key.owner, key)
        wrapped = self._sealing.wrap(merchant_id, customer_id, raw)
        return key, (merchant_id.bytes, customer_id.bytes, self._sealing.newest.encode(), wrapped, None)

    def destroy(self, merchant_id: UUID, customer_id: UUID, at_micros: int) -> Row:
        """Returns the row that destroys a customer's key once it is committed. `at_micros` since 2000-01-01 UTC."""
        self._cache.drop(merchant_id.bytes + customer_id.bytes)
        return (merchant_id.bytes, customer_id.bytes, None, None, at_micros)

    def cached(self, owner: Owner) -> DataKey | None:
        """Returns a customer's key if this process has it cached, else None."""
        return self._cache.get(owner)

    async def for_sealing(self, owner: Owner) -> DataKey:
        """Returns the key of an existing customer. Raises DatabaseUnavailable."""
        key = self._cache.get(owner) or await self._loader.get(owner)
        assert key is not None, "the loader creates a missing key"
        return key

    async def for_opening(
        self, connection: Connection, owners: Iterable[Owner], *, uses_cached: bool = True
    ) -> Mapping[Owner, DataKey]:
        """Returns the keys of these customers. Reads those that are not cached in one query; all of them without
        `uses_cached`, so that a key which another process has destroyed opens nothing. Raises DatabaseUnavailable.
        """
        keys = await self.each_for_opening(connection, owners, uses_cached=uses_cached)
        available = {owner: key for owner, key in keys.items() if isinstance(key, DataKey)}
        for key in keys.values():
            if isinstance(key, DatabaseUnavailable):
                raise key
        return available

    async def each_for_opening(
        self, connection: Connection, owners: Iterable[Owner], *, uses_cached: bool = True
    ) -> Mapping[Owner, DataKey | DatabaseUnavailable]:
        """Returns what `for_opening` does, with the fault of each customer whose node cannot be reached."""
        cached = {owner: self._cache.get(owner) if uses_cached else None for owner in owners}
        missing = [owner for owner, key in cached.items() if key is None]
        rows, faults = await self._rows(connection, missing) if missing else ({}, {})
        return {owner: key or faults.get(owner) or self._key(owner, rows.get(owner)) for owner, key in cached.items()}

    async def _provide(
        self, connection: Connection, owners: Sequence[Owner]
    ) -> Mapping[Owner, DataKey | DatabaseUnavailable]:
        """Returns the customers' keys, and creates missing ones: a customer may be older than data keys are."""
        rows, faults = await self._rows(connection, owners)
        without = [owner for owner in owners if owner not in rows and owner not in faults]
        if without:
            created = [self._sealing.wrap(*_ids(owner), self._draw(DATA_KEY_BYTES)) for owner in without]
            columns = (
                *_columns(without),
                ENCODE_ARRAY["text"]([self._sealing.newest.encode()] * len(created)),
                ENCODE_ARRAY["bytea"](created),
            )
            await connection.execute(_PROVIDE, columns)
            provided, gone = await self._rows(connection, without)
            rows, faults = rows | provided, faults | gone
        return {owner: faults.get(owner) or self._key(owner, rows[owner]) for owner in owners}

    async def _rows(
        self, connection: Connection, owners: Sequence[Owner]
    ) -> tuple[dict[Owner, StoredKey], dict[Owner, DatabaseUnavailable]]:
        """Returns the keys of customers that have one, and the faults of those whose node cannot be reached."""
        found, faults = await rows_of_merchants(
            connection,
            _FIND,
            [owner[:16] for owner in owners],
            lambda numbers: (ENCODE_ARRAY["int4"](numbers), *_columns([owners[n] for n in numbers])),
        )
        rows = {owners[n]: (sealing_key, wrapped) for n, sealing_key, wrapped in found}
        return rows, {owners[n]: fault for n, fault in faults.items()}

    def _key(self, owner: Owner, stored: StoredKey | None) -> DataKey:
        """Returns the key in a row. An unavailable key is not cached, so that it works as soon as it is available."""
        key = key_in(self._sealing, owner, stored, self._draw)
        if key.fault is None:
            self._cache.put(owner, key)
        return key


def key_in(sealing: SealingKeys, owner: Owner, stored: StoredKey | None, draw: Draw = os.urandom) -> DataKey:
    """Returns the key in a row, or the reason why it is unavailable; None is a customer without a row."""
    try:
        return DataKey(owner, draw, _unwrapped(sealing, owner, stored))
    except (KeyUnavailable, SealBroken) as fault:
        _log.error("data_key_unavailable", reason=str(fault))
        return DataKey(owner, draw, fault=fault)


def _unwrapped(sealing: SealingKeys, owner: Owner, stored: StoredKey | None) -> AESGCM | None:
    merchant_id, customer_id = _ids(owner)
    if stored is None:
        note_unopened("customer", "missing")
        raise KeyUnavailable(f"customer {customer_id} has no data key in this database")
    sealing_key, wrapped = stored
    if sealing_key is None or wrapped is None:
        return None
    return AESGCM(sealing.unwrap(sealing_key, merchant_id, customer_id, wrapped))


def _ids(owner: Owner) -> tuple[UUID, UUID]:
    return UUID(bytes=owner[:16]), UUID(bytes=owner[16:])


def _columns(owners: Sequence[Owner]) -> tuple[Array, Array]:
    merchants = ENCODE_ARRAY["uuid"]([owner[:16] for owner in owners])
    return merchants, ENCODE_ARRAY["uuid"]([owner[16:] for owner in owners])
