"""Finds orders by the names that processors have for their payments.

A name may be stored later than a message that uses it arrives, and two processors may use the same name: retry later,
and check the order that was found.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final
from uuid import UUID

from ledger.postgres.connection import Connection
from ledger.postgres.dataloader import DataLoader

Name = tuple[UUID, str]
"""A merchant, and a name of one of its payments."""
Place = tuple[UUID, UUID]
"""An order and its payment."""

_FIND: Final = """
select n.merchant_id, n.name, n.order_id, n.payment_id from payment_name n
  join unnest(%s::uuid[], %s::text[]) as q(merchant_id, name) on q.merchant_id = n.merchant_id and q.name = n.name
"""


class PaymentLookup:
    """Names as the reaction `payment_index` has stored them. Call `start` before and `stop` after."""

    def __init__(self, url: str) -> None:
        self._places = DataLoader[Name, list[Place]](url, "ledger-payment-names", _fetch)

    async def start(self) -> None:
        """Connects. Raises psycopg.OperationalError."""
        await self._places.start()

    async def stop(self) -> None:
        await self._places.stop()

    async def find(self, merchant_id: UUID, name: str) -> Sequence[Place]:
        """Returns the payments with this name: one, none yet, or one for each processor. Raises a Fault."""
        return await self._places.get((merchant_id, name)) or []


@asynccontextmanager
async def open_lookup(url: str) -> AsyncIterator[PaymentLookup]:
    """Connects a look-up for a block. Raises psycopg.OperationalError."""
    lookup = PaymentLookup(url)
    await lookup.start()
    try:
        yield lookup
    finally:
        await lookup.stop()


async def _fetch(connection: Connection, names: Sequence[Name]) -> Mapping[Name, list[Place]]:
    merchants, texts = zip(*names, strict=True)
    rows = await connection.execute(_FIND, (list(merchants), list(texts)))
    found: dict[Name, list[Place]] = {}
    for merchant_id, name, order_id, payment_id in await rows.fetchall():
        found.setdefault((merchant_id, name), []).append((order_id, payment_id))
    return found
