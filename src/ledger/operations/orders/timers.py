"""What falls due on an order by its merchant's clock: a capture that was put off, the end of a payment's time, a void.

The rule a stranger would break: whoever is reminded asks the order first. A reminder may come twice, late, or to two workers
at once; the key of the call follows from what was due, so that it is made once.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from uuid_utils.compat import uuid7

from ledger.domain.orders.state import Order
from ledger.domain.orders.timers import Due, DueKind, decide_due, due_key
from ledger.domain.rejections import ConcurrentUpdate
from ledger.journal.append import Change, VersionConflict
from ledger.journal.journal import Context
from ledger.operations.ledger import Ledger
from ledger.operations.pipeline.execute import ATTEMPTS, deadline
from ledger.operations.pipeline.loading import fold, load_order
from ledger.operations.pipeline.processor_calls import Course, announced, carry_out, withdraw_references


async def run_due(
    ledger: Ledger, merchant_id: UUID, order_id: UUID, kind: DueKind, payment_id: UUID, at: datetime
) -> Order:
    """Do what was due of this kind about a payment at `at` by the merchant's clock, and carry it out; the order afterwards.

    Nothing happens where it does not apply any more. Raises ConcurrentUpdate, a Fault of the journal.
    """
    due, key = Due(kind, payment_id, at), None
    context = Context(request="due", causation=payment_id)
    for _ in range(ATTEMPTS):
        order, version = await load_order(ledger, merchant_id, order_id)
        key = key or due_key(order, due)
        events = decide_due(order, due, key, deadline(ledger), ledger.clock.now(merchant_id))
        if not events:
            return order
        after = Course(fold(order, events), version + len(events))
        try:
            change = Change(order_id, version, events, order, after.order)
            await ledger.journal.commit(merchant_id, uuid7(), [change], context=context)
        except VersionConflict:
            continue
        withdraw_references(ledger, merchant_id, after.order, events)
        intents = announced(after.order, events)
        return (await carry_out(ledger, merchant_id, after, intents, context)).order
    raise ConcurrentUpdate("The order is being changed by many requests at once.")
