"""The public events of one command: what a merchant's programs learn of it, and in which order.

A command is all events of one merchant's log with one `command_id`. Group by it: a status that a stream only passes
through within a command is not announced.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Final

from ledger.domain.customers.state import Customer
from ledger.domain.orders.state import Order
from ledger.domain.payment_methods.state import SavedMethods
from ledger.domain.plans.state import Plan
from ledger.domain.products.state import Product
from ledger.domain.public_events import catalog, customers, orders, subscriptions
from ledger.domain.public_events.command import CommandStream, PublicEvent
from ledger.domain.public_events.kinds import KINDS, ORDER_CREATED, Kind, ResourceType
from ledger.domain.subscriptions.state import Subscription
from ledger.domain.webhooks.state import WebhookEndpoint

_ANNOUNCERS: Final[Mapping[type, Callable[[CommandStream], list[PublicEvent]]]] = {
    Customer: customers.announced,
    SavedMethods: customers.announced_methods,
    Order: orders.announced,
    Plan: catalog.announced_plan,
    Product: catalog.announced_product,
    Subscription: subscriptions.announced,
    WebhookEndpoint: catalog.announced_endpoint,
}
"""What announces the changes of each kind of stream. The other kinds have no public events."""

_PLACES: Final = {
    ResourceType.CUSTOMER: 0,
    ResourceType.PAYMENT_METHOD: 1,
    ResourceType.PAYMENT: 3,
    ResourceType.PAYMENT_ORDER: 4,
    ResourceType.INVOICE: 5,
    ResourceType.COMPLEMENT: 5,
    ResourceType.CREDIT_NOTE: 5,
}
_LAST: Final = 6


def _place(kind: Kind) -> int:
    """Returns the place of a kind among those of one command: who pays, what is paid, payments, and what they did."""
    return 2 if kind is ORDER_CREATED else _PLACES.get(kind.resource_type, _LAST)


_PLACE_OF: Final = {kind: _place(kind) for kind in KINDS}


def public_events(command: Sequence[CommandStream]) -> list[PublicEvent]:
    """Returns the public events of a command in their order.

    That is: customers, their cards, created orders, payments, what the orders became, documents, and all others; within
    each of these the order of the log.
    """
    found: list[PublicEvent] = []
    for stream in sorted(command, key=attrgetter("position")):
        announce = _ANNOUNCERS.get(type(stream.after))
        if announce is not None:
            found += announce(stream)
    return sorted(found, key=lambda each: _PLACE_OF[each.kind])
