"""What the database holds at one moment: the log, the rows of the read models, the sandbox processor's rows.

Read it in one snapshot, on a connection of the harness, and never from the service under test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from decimal import Decimal
from functools import cached_property
from typing import Any
from uuid import UUID

import msgspec
import psycopg
from msgspec import Struct
from tests.sealing import data_keys
from tests.whole_log import whole_log

from ledger.domain.customers.events import CustomerDetailsChanged, CustomerErased
from ledger.domain.money import SCALE
from ledger.domain.orders.events import OrderCreated
from ledger.domain.orders.evolve.order import evolve
from ledger.domain.orders.state import Order
from ledger.domain.payment_methods.events import (
    PaymentMethodBillingChanged,
    PaymentMethodDeleted,
    PaymentMethodSaved,
)
from ledger.domain.streams import ClaimKind
from ledger.journal.codec import CODEC
from ledger.journal.reader import LogReader, RecordedEvent
from ledger.postgres.connection import Connection, connect
from projections.rebuild import Rows, stored

_MERCHANTS = """
select merchant_id, position from merchant_head order by merchant_id
"""
_CLAIMS = "select kind, key, stream_id from claim where merchant_id = %s"
_BOOK = """
select idempotency_key, amount, authorized, captured + coalesce((
    select sum(moved) from sandbox_call c
     where c.merchant_id = b.merchant_id and c.reference = b.reference and c.kind = 'CAPTURE' and c.accepted), 0)::int8,
  decline_code is not null from sandbox_charge b where merchant_id = %s and decline_code is distinct from 'FENCED'
"""
_NOW = "select now()"
_VAULT = "select payment_method_id, customer_id, settled from vault_card where merchant_id = %s"
_UNFINISHED = """
select customer_id from data_key where merchant_id = %s and destroyed_at is not null and forgotten_at is null
"""


class Booked(Struct, frozen=True):
    """A call in the processor's rows. Amounts in minor units."""

    key: str
    amount: Decimal
    authorized: Decimal
    captured: Decimal
    declined: bool


class MerchantEvidence(Struct, frozen=True, kw_only=True, dict=True):
    """Everything stored for one merchant at one moment: `at`, by the database's clock.

    `vault` has the methods of the vault's numbers, and whether nothing is going to destroy each; `unfinished` the erased
    customers whose orders may still show them.
    """

    merchant_id: UUID
    at: datetime
    head: int
    log: Sequence[RecordedEvent]
    claims: Mapping[tuple[ClaimKind, str], UUID]
    rows: Rows
    book: Mapping[str, Booked]
    vault: Mapping[UUID, bool]
    unfinished: AbstractSet[UUID]

    @cached_property
    def streams(self) -> Mapping[UUID, Sequence[RecordedEvent]]:
        """The log by stream."""
        streams: dict[UUID, list[RecordedEvent]] = {}
        for recorded in self.log:
            streams.setdefault(recorded.stream_id, []).append(recorded)
        return streams

    @cached_property
    def histories(self) -> Mapping[UUID, Sequence[Order]]:
        """Every order after each of its events, oldest first."""
        histories: dict[UUID, list[Order]] = {}
        for stream_id, log in self.streams.items():
            if isinstance(log[0].event, OrderCreated):
                order: Order | None = None
                for recorded in log:
                    order = evolve(order, recorded.event)
                    histories.setdefault(stream_id, []).append(order)
        return histories

    @cached_property
    def orders(self) -> Mapping[UUID, Order]:
        """Every order as it is."""
        return {order_id: history[-1] for order_id, history in self.histories.items()}

    @cached_property
    def saved_methods(self) -> AbstractSet[UUID]:
        """Every payment method that was ever saved."""
        return {event.payment_method_id for _, event in self._events(PaymentMethodSaved)}

    @cached_property
    def deleted_methods(self) -> Mapping[UUID, int]:
        """The position at which each deleted method was deleted."""
        return {event.payment_method_id: position for position, event in self._events(PaymentMethodDeleted)}

    @cached_property
    def erased_customers(self) -> AbstractSet[UUID]:
        return {event.customer_id for _, event in self._events(CustomerErased)}

    @cached_property
    def written_values(self) -> Counter[str]:
        """How many events wrote each family name of a customer and each city of a saved method."""
        names = [event.last_name for _, event in self._events(CustomerDetailsChanged)]
        cities = [event.billing and event.billing.city for _, event in self._events(PaymentMethodBillingChanged)]
        return Counter(value for value in (*names, *cities) if isinstance(value, str))

    def _events(self, kind: type[Any]) -> Iterator[tuple[int, Any]]:
        return ((recorded.position, recorded.event) for recorded in self.log if isinstance(recorded.event, kind))


def asked_by(recorded: RecordedEvent) -> dict[str, Any]:
    """Returns who requested an event and why."""
    context: dict[str, Any] = msgspec.json.decode(recorded.context)
    return context


async def gather(url: str, merchant_id: UUID | None = None) -> list[MerchantEvidence]:
    """Returns the evidence on every merchant, or on one alone, from one snapshot. `url` is the owner's connection string."""
    connection = await connect(url, "chaos-evidence")
    async with connection:
        await connection.execute("set statement_timeout = '60s'")
        await connection.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)
        async with connection.transaction():
            heads = await (await connection.execute(_MERCHANTS)).fetchall()
            wanted = [(id_, head) for id_, head in heads if merchant_id in {None, id_}]
            return [await _merchant(connection, id_, head) for id_, head in wanted]


async def _merchant(connection: Connection, merchant_id: UUID, head: int) -> MerchantEvidence:
    reader = LogReader("", CODEC, data_keys())  # it reads on the connection that it is given
    log = await whole_log(reader, connection, merchant_id)
    claims = await (await connection.execute(_CLAIMS, (merchant_id,))).fetchall()
    book = await (await connection.execute(_BOOK, (merchant_id,))).fetchall()
    unfinished = {id_ for (id_,) in await (await connection.execute(_UNFINISHED, (merchant_id,))).fetchall()}
    saved = await (await connection.execute(_VAULT, (merchant_id,))).fetchall()
    now = await (await connection.execute(_NOW)).fetchone()
    assert now is not None, "there is always a now"
    return MerchantEvidence(
        merchant_id=merchant_id,
        at=now[0],
        head=head,
        log=log,
        claims={(ClaimKind(kind), key): stream_id for kind, key, stream_id in claims},
        rows=await stored(connection, merchant_id),
        vault={method: settled and customer not in unfinished for method, customer, settled in saved},
        unfinished=unfinished,
        book={key: _booked(key, amounts, declined=declined) for key, *amounts, declined in book},
    )


def _booked(key: str, amounts: Sequence[int], *, declined: bool) -> Booked:
    """Returns a call from its row. `amounts` are the three of `Booked`, scaled."""
    amount, authorized, captured = (Decimal(each) / SCALE for each in amounts)
    return Booked(key=key, amount=amount, authorized=authorized, captured=captured, declined=declined)
