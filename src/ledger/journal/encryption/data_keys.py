"""The customers' data keys: one each, random, wrapped by a sealing key, destroyed when the person is to be forgotten.

The rule a stranger would break: a key is written in the commit of its customer's first event and emptied in the commit
that says the customer was erased. The emptied row stays, so that a destroyed key is never taken for a missing one.
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
from ledger.journal.encryption.sealing_keys import DATA_KEY_BYTES, Draw, SealingKeys
from ledger.journal.inline import InlineTable, Row
from ledger.postgres.arrays import ENCODE_ARRAY, Array
from ledger.postgres.connection import Connection
from ledger.postgres.dataloader import DataLoader
from ledger.ttl_cache import TtlCache

_log = structlog.get_logger()

KEYS_MAX: Final = 50_000
REMEMBERED_S: Final = 60.0
"""How long a process may go on with a key that was destroyed elsewhere."""

# A new customer's key, or the end of one.
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
)

# The keys of these customers, destroyed ones included.
_FIND: Final = """
select q.n, d.sealing_key_id, d.wrapped
  from unnest(%s::int4[], %s::uuid[], %s::uuid[]) as q(n, merchant_id, customer_id)
  join data_key d on d.merchant_id = q.merchant_id and d.customer_id = q.customer_id
"""

# A key for a customer whose stream is older than data keys are; whoever was first has made it.
_PROVIDE: Final = """
insert into data_key (merchant_id, customer_id, sealing_key_id, wrapped)
select * from unnest(%s::uuid[], %s::uuid[], %s::text[], %s::bytea[]) on conflict do nothing
"""

Owner = tuple[UUID, UUID]
"""Merchant and customer."""

_Stored = tuple[str | None, bytes | None]  # sealing key and wrapped key; neither of them once it is destroyed


class DataKey(Struct, frozen=True):
    """A customer's key as far as it can be had."""

    known: AESGCM | None = None
    fault: KeyUnavailable | SealBroken | None = None

    @property
    def cipher(self) -> AESGCM | None:
        """What seals and opens; None where the key was destroyed. Raises KeyUnavailable, SealBroken."""
        if self.fault is not None:
            raise type(self.fault)(*self.fault.args)
        return self.known


class DataKeys:
    """One process's way to the data keys, over a connection of its own for those that it has not met lately."""

    def __init__(self, url: str, sealing: SealingKeys, *, draw: Draw = os.urandom) -> None:
        self._sealing, self.draw = sealing, draw
        self._known = TtlCache[Owner, DataKey](KEYS_MAX, REMEMBERED_S)
        self._provided = DataLoader[Owner, DataKey](url, "ledger-data-keys", self._provide)

    async def start(self) -> None:
        """Connect. Raises psycopg.OperationalError."""
        await self._provided.start()

    async def stop(self) -> None:
        await self._provided.stop()

    def create(self, merchant_id: UUID, customer_id: UUID) -> tuple[DataKey, Row]:
        """A key for a new customer, and the row that keeps it: it exists once that row is committed."""
        raw = self.draw(DATA_KEY_BYTES)
        key = DataKey(AESGCM(raw))
        self._known.put((merchant_id, customer_id), key)
        wrapped = self._sealing.wrap(merchant_id, customer_id, raw)
        return key, (merchant_id.bytes, customer_id.bytes, self._sealing.newest.encode(), wrapped, None)

    def destroy(self, merchant_id: UUID, customer_id: UUID, at_micros: int) -> Row:
        """The row that destroys a customer's key once it is committed. `at_micros` since 2000-01-01 UTC."""
        self._known.drop((merchant_id, customer_id))
        return (merchant_id.bytes, customer_id.bytes, None, None, at_micros)

    async def for_sealing(self, merchant_id: UUID, customer_id: UUID) -> DataKey:
        """The key of a customer that exists. Raises DatabaseUnavailable."""
        key = self._known.get((merchant_id, customer_id)) or await self._provided.get((merchant_id, customer_id))
        assert key is not None, "what is missing is made"
        return key

    async def for_opening(self, connection: Connection, owners: Iterable[Owner]) -> Mapping[Owner, DataKey]:
        """The keys of these customers, asked of the database in one query where this process has not met them lately."""
        known = {owner: self._known.get(owner) for owner in owners}
        missing = [owner for owner, key in known.items() if key is None]
        found = await self._find(connection, missing) if missing else {}
        return {owner: key or found[owner] for owner, key in known.items()}

    async def _provide(self, connection: Connection, owners: Sequence[Owner]) -> Mapping[Owner, DataKey]:
        """The customers' keys, made where there are none: a customer may be older than data keys are."""
        rows = await self._rows(connection, owners)
        without = [owner for owner in owners if owner not in rows]
        if without:
            made = [self._sealing.wrap(*owner, self.draw(DATA_KEY_BYTES)) for owner in without]
            columns = (
                *_columns(without),
                ENCODE_ARRAY["text"]([self._sealing.newest.encode()] * len(made)),
                ENCODE_ARRAY["bytea"](made),
            )
            await connection.execute(_PROVIDE, columns)
            rows |= await self._rows(connection, without)
        return {owner: self._key(owner, rows[owner]) for owner in owners}

    async def _find(self, connection: Connection, owners: Sequence[Owner]) -> dict[Owner, DataKey]:
        rows = await self._rows(connection, owners)
        return {owner: self._key(owner, rows.get(owner)) for owner in owners}

    async def _rows(self, connection: Connection, owners: Sequence[Owner]) -> dict[Owner, _Stored]:
        cursor = connection.cursor(binary=True)
        await cursor.execute(_FIND, (ENCODE_ARRAY["int4"](range(len(owners))), *_columns(owners)))
        return {owners[n]: (sealing_key, wrapped) for n, sealing_key, wrapped in await cursor.fetchall()}

    def _key(self, owner: Owner, stored: _Stored | None) -> DataKey:
        """The key in a row; one that cannot be had is not remembered, so that it works as soon as it can be."""
        try:
            key = DataKey(self._unwrapped(owner, stored))
        except (KeyUnavailable, SealBroken) as fault:
            _log.error("data_key_unavailable", reason=str(fault))
            return DataKey(fault=fault)
        self._known.put(owner, key)
        return key

    def _unwrapped(self, owner: Owner, stored: _Stored | None) -> AESGCM | None:
        if stored is None:
            raise KeyUnavailable(f"customer {owner[1]} has no data key in this database")
        sealing_key, wrapped = stored
        if sealing_key is None or wrapped is None:
            return None
        return AESGCM(self._sealing.unwrap(sealing_key, *owner, wrapped))


def _columns(owners: Sequence[Owner]) -> tuple[Array, Array]:
    return ENCODE_ARRAY["uuid"]([merchant.bytes for merchant, _ in owners]), ENCODE_ARRAY["uuid"](
        [customer.bytes for _, customer in owners]
    )
