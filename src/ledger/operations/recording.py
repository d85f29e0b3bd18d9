"""A fact that somebody outside has told about an order: decide what follows, commit it, carry it out.

The rule a stranger would break: the same fact may be told twice, at once, to two processes. The order says whether it knows
it; the version in the commit says who was first.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from uuid import UUID

from uuid_utils.compat import uuid7

from ledger.journal.append import Change, VersionConflict
from ledger.journal.journal import Context
from ledger.operations.acting import ATTEMPTS
from ledger.operations.carrying_out import Course, announced, carry_out, withdraw_references
from ledger.operations.ledger import Ledger
from ledger.operations.standing import fold, load_order
from ledger.orders.events import OrderEvent
from ledger.orders.state import Order
from ledger.rejections import ConcurrentUpdate

Decide = Callable[[Order, datetime], list[OrderEvent]]
"""What follows for an order as it stands, at a moment of the merchant's clock; no events where it is known."""


async def record(ledger: Ledger, merchant_id: UUID, order_id: UUID, decide: Decide, context: Context) -> Order:
    """The order after a fact. Raises what `decide` raises, ConcurrentUpdate, a Fault of the journal."""
    for _ in range(ATTEMPTS):
        order, version = await load_order(ledger, merchant_id, order_id)
        events = decide(order, ledger.clock.now(merchant_id))
        if not events:
            return order
        after = Course(fold(order, events), version + len(events))
        try:
            change = Change(order_id, version, events, order, after.order)
            await ledger.journal.commit(merchant_id, uuid7(), [change], context=context)
        except VersionConflict:
            continue
        withdraw_references(ledger, merchant_id, after.order, events)
        return (await carry_out(ledger, merchant_id, after, announced(after.order, events), context)).order
    raise ConcurrentUpdate("The order is being changed by many requests at once.")
