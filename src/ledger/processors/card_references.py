"""The cards that processors keep for later payments: their references, one table for all merchants.

A reference charges nothing without its account's secret key. Even so, it is in no event, log line, error or answer. The
log and this table are written one after the other: a row is kept before the commit that saves its payment method, is
unsettled again before the commit that deletes it, and is destroyed once the processor has forgotten the card.
`operations.payment_methods.sweep` finishes what a crash left unsettled.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from msgspec import Struct

from ledger.domain.orders.processor_outcomes import CardReference
from ledger.postgres.connection import SharedClient

# Keeps a reference. One that is there already only shows that it is in use.
_KEEP: Final = """
insert into payment_method_reference
  (merchant_id, payment_method_id, token, customer, customer_id, account, fingerprint)
values (%s, %s, %s, %s, %s, %s, %s)
on conflict (merchant_id, payment_method_id, token) do update set touched_at = clock_timestamp()
"""

# The reference by which a payment method is charged: the newest.
_NEWEST: Final = """
select token, customer from payment_method_reference
 where merchant_id = %s and payment_method_id = %s and account = %s order by kept_at desc, token limit 1
"""

# The payment methods of a customer that have this card at this account.
_SAME: Final = """
select payment_method_id from payment_method_reference
 where merchant_id = %s and customer_id = %s and account = %s and fingerprint = %s order by kept_at desc limit 10
"""

_OF_METHOD: Final = """
select merchant_id, customer_id, payment_method_id, account, token, customer, touched_at, unsettled_at
  from payment_method_reference where merchant_id = %s and payment_method_id = %s
"""
_OF_CUSTOMER: Final = """
select merchant_id, customer_id, payment_method_id, account, token, customer, touched_at, unsettled_at
  from payment_method_reference where merchant_id = %s and customer_id = %s
"""

# The unsettled references that were not touched lately, the oldest first.
_UNSETTLED: Final = """
select merchant_id, customer_id, payment_method_id, account, token, customer, touched_at, unsettled_at
  from payment_method_reference
 where not settled and touched_at <= clock_timestamp() - %s order by touched_at limit %s
"""

# Marks the references of a method, or of a customer, that are about to be forgotten.
_UNSETTLE_METHOD: Final = """
update payment_method_reference set settled = false, touched_at = clock_timestamp(), unsettled_at = clock_timestamp()
 where merchant_id = %s and payment_method_id = %s
"""
_UNSETTLE_CUSTOMER: Final = """
update payment_method_reference set settled = false, touched_at = clock_timestamp(), unsettled_at = clock_timestamp()
 where merchant_id = %s and customer_id = %s
"""

# Settles a reference unless it was touched since.
_SETTLE: Final = """
update payment_method_reference set settled = true
 where merchant_id = %s and payment_method_id = %s and token = %s and touched_at = %s
"""

# Brings up the earlier references of a method whose card was saved again, to be forgotten.
_UNSETTLE_EARLIER: Final = """
update payment_method_reference old
   set settled = false, touched_at = clock_timestamp(), unsettled_at = clock_timestamp()
  from payment_method_reference new
 where new.merchant_id = %s and new.payment_method_id = %s and new.token = %s and old.merchant_id = new.merchant_id
   and old.payment_method_id = new.payment_method_id and old.settled and old.kept_at < new.kept_at
"""

_TOUCH: Final = """
update payment_method_reference set touched_at = clock_timestamp()
 where merchant_id = %s and payment_method_id = %s and token = %s
"""

_DESTROY: Final = """
delete from payment_method_reference where merchant_id = %s and payment_method_id = %s and token = %s
"""


class KeptCard(Struct, frozen=True, kw_only=True):
    """A card that the processor of `account` keeps, and the payment method that it is. Both times are real."""

    merchant_id: UUID
    customer_id: UUID
    payment_method_id: UUID
    account: str
    reference: CardReference
    touched_at: datetime
    unsettled_at: datetime


class CardReferences:
    """One process's access to the references. Every method raises DatabaseUnavailable."""

    def __init__(self, client: SharedClient) -> None:
        self._client = client

    async def keep(
        self,
        merchant_id: UUID,
        customer_id: UUID,
        payment_method_id: UUID,
        account: str,
        reference: CardReference,
    ) -> None:
        """Stores a reference for an event that is committed afterwards. A second time changes nothing."""
        names = (reference.token, reference.customer, customer_id, account, reference.fingerprint)
        await self._execute(_KEEP, merchant_id, payment_method_id, *names)

    async def find(self, merchant_id: UUID, payment_method_id: UUID, account: str) -> CardReference | None:
        """Returns the reference by which an account charges a payment method, None if it is forgotten."""
        rows = await self._execute(_NEWEST, merchant_id, payment_method_id, account)
        return CardReference(token=rows[0][0], customer=rows[0][1]) if rows else None

    async def same_card(self, merchant_id: UUID, customer_id: UUID, account: str, fingerprint: str) -> list[UUID]:
        """Returns the payment methods under which a customer has saved this card at an account, the newest first."""
        rows = await self._execute(_SAME, merchant_id, customer_id, account, fingerprint)
        return [method_id for (method_id,) in rows]

    async def of_method(self, merchant_id: UUID, payment_method_id: UUID) -> Sequence[KeptCard]:
        return _kept(await self._execute(_OF_METHOD, merchant_id, payment_method_id))

    async def of_customer(self, merchant_id: UUID, customer_id: UUID) -> Sequence[KeptCard]:
        return _kept(await self._execute(_OF_CUSTOMER, merchant_id, customer_id))

    async def unsettled(self, age_s: float, limit: int) -> Sequence[KeptCard]:
        """Returns at most `limit` unsettled references that were last touched at least `age_s` seconds ago."""
        return _kept(await self._execute(_UNSETTLED, timedelta(seconds=age_s), limit))

    async def unsettle(self, merchant_id: UUID, payment_method_id: UUID) -> None:
        """Marks the references of a method that is about to be deleted, so that a crash leaves them to the sweep."""
        await self._execute(_UNSETTLE_METHOD, merchant_id, payment_method_id)

    async def unsettle_all(self, merchant_id: UUID, customer_id: UUID) -> None:
        """Marks all references of a customer, as `unsettle` does."""
        await self._execute(_UNSETTLE_CUSTOMER, merchant_id, customer_id)

    async def settle(self, kept: KeptCard) -> None:
        """Settles the newest reference of a saved method, unless it was touched meanwhile. The earlier ones of the
        method come up as unsettled.
        """
        await self._execute(_SETTLE, *_key(kept), kept.touched_at)
        await self._execute(_UNSETTLE_EARLIER, *_key(kept))

    async def touch(self, kept: KeptCard) -> None:
        """Lets the sweep come back to a reference later."""
        await self._execute(_TOUCH, *_key(kept))

    async def destroy(self, kept: KeptCard) -> None:
        """Destroys a reference. A second time changes nothing."""
        await self._execute(_DESTROY, *_key(kept))

    async def _execute(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        async with self._client.turn() as connection:
            cursor = await connection.execute(statement.encode(), values, binary=True)
            return await cursor.fetchall() if cursor.description else []


def _key(kept: KeptCard) -> tuple[UUID, UUID, str]:
    return kept.merchant_id, kept.payment_method_id, kept.reference.token


def _kept(rows: list[tuple[Any, ...]]) -> Sequence[KeptCard]:
    return [
        KeptCard(
            merchant_id=merchant_id,
            customer_id=customer_id,
            payment_method_id=method_id,
            account=account,
            reference=CardReference(token=token, customer=customer),
            touched_at=touched_at,
            unsettled_at=unsettled_at,
        )
        for merchant_id, customer_id, method_id, account, token, customer, touched_at, unsettled_at in rows
    ]
