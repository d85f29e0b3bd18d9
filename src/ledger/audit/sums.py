"""What the streams of a merchant add up to, for what is compared as a whole: counters, and rows with another key.

A sum of hashes is equal for the same rows in any order. Only where two sums differ is one compared with the other row
by row.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import Struct

from ledger.audit.invariants.subscriptions import paid_by_orders
from ledger.domain.customers.state import Customer
from ledger.domain.orders.state import Order
from ledger.domain.payment_methods.state import SavedMethods
from ledger.domain.subscriptions.state import Subscription
from ledger.journal.inline import Row
from projections.lists import tally
from projections.payment_methods import TABLE as METHODS

HASH_MODULUS: Final = 1 << 128


class Details(Struct, kw_only=True):
    """What the sums of a merchant are over, for one whose sums differ: payments of subscriptions by their orders, in
    minor units; saved cards; rows of `payment_method`.
    """

    paid: dict[UUID, Decimal] = msgspec.field(default_factory=dict)
    captured: dict[UUID, Decimal] = msgspec.field(default_factory=dict)
    saved: set[UUID] = msgspec.field(default_factory=set)
    methods: list[Row] = msgspec.field(default_factory=list)


class MerchantPart(Struct, kw_only=True):
    """What the streams of a merchant add up to, in one part of the audit. `first` and `last` are positions.

    `methods`, `saved` and `paid` are sums of hashes: of the rows of `payment_method`; of the ids of saved cards whose
    numbers are in the vault; of what orders of subscriptions captured, less that of what their invoices are paid with.
    `charging` are the orders of charges without an outcome.
    """

    events: int = 0
    orders: int = 0
    customers: int = 0
    first: int = 0
    last: int = 0
    tally: dict[tuple[int, bytes], int] = msgspec.field(default_factory=dict)
    methods: int = 0
    saved: int = 0
    paid: int = 0
    charging: list[UUID] = msgspec.field(default_factory=list)

    def note_position(self, position: int) -> None:
        """Counts an event."""
        self.events += 1
        if position > self.last:  # noqa: PLR1730 - `max` takes twice as long, for each event
            self.last = position
        if position < self.first or not self.first:
            self.first = position

    def take(self, state: Any, rows: dict[str, Any], details: Details | None) -> None:
        """Adds a stream, with its rows: those that are compared as a whole are taken out of `rows`."""
        for _, day, status, n in rows.pop(tally.TABLE.name, ()):
            self.tally[day, status] = self.tally.get((day, status), 0) + n
        for row in rows.pop(METHODS.name, ()):
            self.methods = (self.methods + row_hash(row)) % HASH_MODULUS
            if details is not None:
                details.methods.append(row)
        if isinstance(state, Order):
            self.orders += 1
            self._take_order(state, details)
        elif isinstance(state, Customer):
            self.customers += not state.erased
        elif isinstance(state, Subscription):
            self._take_subscription(state, details)
        elif isinstance(state, SavedMethods):
            saved = set(cards_in_vault(state))
            self.saved += sum(map(id_hash, saved))
            if details is not None:
                details.saved |= saved

    def _take_order(self, order: Order, details: Details | None) -> None:
        if order.terms.subscription_id is not None and order.amount_paid:
            self.paid += _payment_hash(order.terms.order_id, order.amount_paid)
            if details is not None:
                details.captured[order.terms.order_id] = order.amount_paid

    def _take_subscription(self, subscription: Subscription, details: Details | None) -> None:
        paid = paid_by_orders(subscription)
        self.paid -= sum(_payment_hash(*each) for each in paid)
        if subscription.charge is not None:
            self.charging.append(subscription.charge.order_id)
        if details is not None:
            details.paid |= dict(paid)

    def add(self, other: MerchantPart) -> None:
        """Adds what another part has of the same merchant."""
        self.first = min(filter(None, (self.first, other.first)), default=0)
        self.last = max(self.last, other.last)
        self.tally = dict(Counter(self.tally) + Counter(other.tally))
        self.charging += other.charging
        self.methods = (self.methods + other.methods) % HASH_MODULUS
        self.events += other.events
        self.orders += other.orders
        self.customers += other.customers
        self.saved += other.saved
        self.paid += other.paid


def row_hash(row: Row) -> int:
    """Returns a row's part of a sum. Numbers of all Python types count by their value."""
    plain = [int(cell) if isinstance(cell, int) else cell for cell in row]
    return _hash(repr(plain).encode())


def id_hash(of: UUID) -> int:
    """Returns an id's part of a sum."""
    return _hash(of.bytes)


def _payment_hash(order_id: UUID, amount: Decimal) -> int:
    return _hash(f"{order_id} {amount.normalize():f}".encode())


def _hash(content: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(content, digest_size=16).digest())


def cards_in_vault(methods: SavedMethods) -> Iterator[UUID]:
    """Yields the saved cards of a customer whose numbers are kept in the vault, and by no processor."""
    for method in methods.methods:
        if not method.deleted and method.account is None:
            yield method.payment_method_id
