"""Keeps, opens and destroys the numbers of saved cards, as the vault's own database role.

Never log a number, and return one only from `open`. Every opening is logged with the payment that asked for it.

The log and this table are written in two transactions, by two roles. A row is `settled` only once the log is known to
have its payment method. A number is kept before the commit that saves its method, is unsettled again before the commit
that deletes it, and is destroyed after that. `operations.payment_methods.sweep` finishes what a crash left unsettled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

import structlog
from msgspec import Struct
from uuid_utils.compat import uuid7

from ledger.journal.append import KeyUnavailable, SealBroken
from ledger.journal.encryption.sealing_keys import SealingKeys
from ledger.operations.context.card_vault import UnsettledCard
from ledger.postgres.arrays import ENCODE_ARRAY
from ledger.postgres.connection import Connection
from ledger.postgres.dataloader import DataLoader
from ledger.telemetry.metrics import CARDS_OPENED
from ledger.vault.sealed_card import SealedCard, fingerprint, open_card, seal_card

_log = structlog.get_logger()

# Stores card numbers. A number that the customer has already keeps its id; its time is updated, so that the sweep does
# not destroy it.
_KEEP: Final = """
insert into vault_card as v
  (merchant_id, payment_method_id, customer_id, fingerprint, sealing_key_id, wrapped_key, sealed_number)
select * from unnest(%s::uuid[], %s::uuid[], %s::uuid[], %s::bytea[], %s::text[], %s::bytea[], %s::bytea[])
on conflict (merchant_id, customer_id, fingerprint) do update set touched_at = clock_timestamp()
returning v.merchant_id, v.customer_id, v.fingerprint, v.payment_method_id
"""

# The sealed numbers of these payment methods.
_FIND: Final = """
select v.merchant_id, v.payment_method_id, v.sealing_key_id, v.wrapped_key, v.sealed_number
  from unnest(%s::uuid[], %s::uuid[]) as q(merchant_id, payment_method_id)
  join vault_card v on v.merchant_id = q.merchant_id and v.payment_method_id = q.payment_method_id
"""

# Marks numbers that are about to be deleted.
_UNSETTLE: Final = """
update vault_card set settled = false, touched_at = clock_timestamp()
 where merchant_id = %s and payment_method_id = any(%s)
"""

_DESTROY: Final = "delete from vault_card where merchant_id = %s and payment_method_id = any(%s)"

_DESTROY_ALL: Final = "delete from vault_card where merchant_id = %s and customer_id = %s"

# The unsettled numbers that were not touched lately, the oldest first.
_UNSETTLED: Final = """
select merchant_id, customer_id, payment_method_id, touched_at from vault_card
 where not settled and touched_at <= clock_timestamp() - %s order by touched_at limit %s
"""

# Settles or destroys an unsettled number, by whether its method is saved, unless the number was touched since.
_IS_SAVED: Final = """
update vault_card set settled = true
 where merchant_id = %s and payment_method_id = %s and touched_at = %s and not settled
"""
_IS_NOT_SAVED: Final = """
delete from vault_card where merchant_id = %s and payment_method_id = %s and touched_at = %s and not settled
"""

_Method = tuple[UUID, UUID]
"""Merchant and payment method."""


class _Number(Struct, frozen=True):
    """A number to keep: `payment_method_id` is its id if the customer does not have it yet."""

    merchant_id: UUID
    customer_id: UUID
    fingerprint: bytes
    payment_method_id: UUID
    card: SealedCard

    @property
    def place(self) -> tuple[UUID, UUID, bytes]:
        return self.merchant_id, self.customer_id, self.fingerprint


class _Statement(Struct, frozen=True):
    """A statement that may be executed twice. `values` are hashable."""

    text: str
    values: tuple[Any, ...]


class Vault:
    """One process's access to the numbers of saved cards: `url` is of the vault's own role."""

    def __init__(self, url: str, keys: SealingKeys, fingerprint_key: bytes) -> None:
        self._keys, self._fingerprint_key = keys, fingerprint_key
        self._cards = DataLoader[_Method, SealedCard](url, "ledger-vault", _find)
        self._changes = DataLoader[_Number | _Statement, Any](url, "ledger-vault-changes", _change)

    @property
    def alive(self) -> bool:
        """Whether numbers can be opened and kept."""
        return self._cards.alive and self._changes.alive

    async def start(self) -> None:
        """Connects. Raises psycopg.OperationalError."""
        await self._cards.start()
        await self._changes.start()

    async def stop(self) -> None:
        await self._cards.stop()
        await self._changes.stop()

    async def keep(self, merchant_id: UUID, customer_id: UUID, number: str) -> UUID:
        """Stores a number sealed and returns the id of its payment method: the existing id for a number that is stored
        already.
        """
        method_id = uuid7()
        sealed = seal_card(self._keys, merchant_id, method_id, number)
        found = fingerprint(self._fingerprint_key, merchant_id, customer_id, number)
        kept = await self._changes.get(_Number(merchant_id, customer_id, found, method_id, sealed))
        assert isinstance(kept, UUID), "every number that is kept has an id"
        return kept

    async def open(self, merchant_id: UUID, payment_method_id: UUID, payment_id: UUID) -> str | None:
        """Returns the number for the call of a payment, None if it is destroyed.

        Raises KeyUnavailable, SealBroken, DatabaseUnavailable.
        """
        card, outcome = await self._cards.get((merchant_id, payment_method_id)), "opened"
        try:
            if card is None:
                outcome = "missing"
                return None
            return open_card(self._keys, merchant_id, payment_method_id, card)
        except (KeyUnavailable, SealBroken):
            outcome = "broken"
            raise
        finally:
            CARDS_OPENED.labels(outcome).inc()
            ids = {"merchant_id": merchant_id, "payment_method_id": payment_method_id, "payment_id": payment_id}
            _log.info("card_opened", outcome=outcome, **{name: str(value) for name, value in ids.items()})

    async def unsettle(self, merchant_id: UUID, payment_method_ids: Sequence[UUID]) -> None:
        """Marks numbers that are about to be deleted, so that a crash leaves them to the sweep."""
        await self._execute(_UNSETTLE, merchant_id, tuple(payment_method_ids))

    async def destroy(self, merchant_id: UUID, payment_method_ids: Sequence[UUID]) -> None:
        """Destroys numbers and their keys. A second time changes nothing."""
        await self._execute(_DESTROY, merchant_id, tuple(payment_method_ids))

    async def destroy_all(self, merchant_id: UUID, customer_id: UUID) -> None:
        """Destroys all numbers of a customer and their keys. A second time changes nothing."""
        await self._execute(_DESTROY_ALL, merchant_id, customer_id)

    async def unsettled(self, age_s: float, limit: int) -> Sequence[UnsettledCard]:
        """Returns at most `limit` unsettled numbers that were last touched at least `age_s` seconds ago."""
        rows = await self._execute(_UNSETTLED, timedelta(seconds=age_s), limit)
        return [UnsettledCard(*row) for row in rows]

    async def settle(self, card: UnsettledCard, *, is_saved: bool) -> None:
        """Settles a number whose method is saved, and destroys any other, unless it was touched meanwhile."""
        statement = _IS_SAVED if is_saved else _IS_NOT_SAVED
        await self._execute(statement, card.merchant_id, card.payment_method_id, card.touched_at)

    async def _execute(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] | None = await self._changes.get(_Statement(statement, values))
        return rows or []


async def _find(connection: Connection, methods: Sequence[_Method]) -> Mapping[_Method, SealedCard]:
    columns = [ENCODE_ARRAY["uuid"]([method[n].bytes for method in methods]) for n in (0, 1)]
    cursor = await connection.execute(_FIND, columns, binary=True)
    return {(merchant, method): SealedCard(*sealed) for merchant, method, *sealed in await cursor.fetchall()}


async def _change(
    connection: Connection, changes: Sequence[_Number | _Statement]
) -> Mapping[_Number | _Statement, Any]:
    """Executes changes; all numbers among them are stored in one commit.

    Returns the ids of numbers and the rows of statements.
    """
    done: dict[_Number | _Statement, Any] = {}
    if numbers := [change for change in changes if isinstance(change, _Number)]:
        done |= await _keep(connection, numbers)
    for change in changes:
        if isinstance(change, _Statement):
            values = [list(value) if isinstance(value, tuple) else value for value in change.values]
            cursor = await connection.execute(change.text.encode(), values, binary=True)
            done[change] = await cursor.fetchall() if cursor.description else []
    return done


async def _keep(connection: Connection, numbers: Sequence[_Number]) -> Mapping[_Number | _Statement, UUID]:
    """Keeps numbers in the order of their places, so that two processes cannot lock each other out."""
    once = {number.place: number for number in sorted(numbers, key=lambda number: number.place)}
    rows = once.values()
    columns = (
        ENCODE_ARRAY["uuid"]([row.merchant_id.bytes for row in rows]),
        ENCODE_ARRAY["uuid"]([row.payment_method_id.bytes for row in rows]),
        ENCODE_ARRAY["uuid"]([row.customer_id.bytes for row in rows]),
        ENCODE_ARRAY["bytea"]([row.fingerprint for row in rows]),
        ENCODE_ARRAY["text"]([row.card.sealing_key_id.encode() for row in rows]),
        ENCODE_ARRAY["bytea"]([row.card.wrapped_key for row in rows]),
        ENCODE_ARRAY["bytea"]([row.card.sealed_number for row in rows]),
    )
    cursor = await connection.execute(_KEEP, columns, binary=True)
    ids = {(merchant, customer, found): method for merchant, customer, found, method in await cursor.fetchall()}
    return {number: ids[number.place] for number in numbers}
