"""An order as it stands: found by what a path names, loaded with its version, taken on by further events.

The rule a stranger would break: what was loaded may be old when it is used. Only the version in a commit tells.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from ledger.domain.ids import parse_uuid
from ledger.domain.orders.events import OrderCreated, OrderEvent
from ledger.domain.orders.evolve.order import evolve
from ledger.domain.orders.state import Order
from ledger.domain.rejections import OrderNotFound
from ledger.journal.append import ClaimKind
from ledger.operations.ledger import Ledger
from ledger.operations.results import RequestTarget


async def find_order(ledger: Ledger, merchant_id: UUID, reference: str) -> UUID:
    """The order that a path names: by service id, else by external id. Raises OrderNotFound."""
    order_id = parse_uuid(reference)
    if order_id is not None and await ledger.journal.reader.stream_from(merchant_id, order_id, OrderCreated):
        return order_id
    owner = await ledger.journal.claim_owner(merchant_id, ClaimKind.ORDER_EXTERNAL_ID, reference)
    if owner is None:
        raise OrderNotFound("The payment order was not found.")
    return owner


async def load_order(ledger: Ledger, merchant_id: UUID, order_id: UUID) -> tuple[Order, int]:
    """An order that is known to exist, as the log has it now."""
    order, version = await ledger.journal.load(merchant_id, order_id, evolve)
    assert order is not None, "an order does not go away"
    await ledger.clock.refresh(merchant_id)  # what is decided on this state is not dated before it
    return order, version


def fold(order: Order | None, events: Sequence[OrderEvent]) -> Order:
    """The order after these events."""
    for event in events:
        order = evolve(order, event)
    assert order is not None, "a stream begins with its creation"
    return order


def is_under_way(order: Order, subject: RequestTarget) -> bool:
    """Whether somebody is talking to a processor about this right now; an unknown outcome is not worth waiting for."""
    for payment in order.payments:
        intent = payment.intent
        if intent is None or intent.unknown or subject.payment_id not in {None, payment.payment_id}:
            continue
        if subject.refund_id in {None, intent.refund_id}:
            return True
    return False
