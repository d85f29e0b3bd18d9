"""What falls due on an order by its merchant's clock: a capture that was put off, the end of a payment's time, a void.

The rule a stranger would break: whoever is reminded asks the order first. A reminder may come twice, late, or to two workers
at once; the key of the call follows from what was due, so that it is made once.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from uuid_utils.compat import uuid7

from ledger.domain.orders.state import Order
from ledger.domain.orders.timers import Timer, TimerKind, decide_timer, timer_key
from ledger.domain.rejections import ConcurrentUpdate
from ledger.journal.append import Change, VersionConflict
from ledger.journal.journal import Context
from ledger.operations.ledger import Ledger
from ledger.operations.pipeline.execute import ATTEMPTS, call_deadline
from ledger.operations.pipeline.loading import fold, load_order
from ledger.operations.pipeline.processor_calls import Progress, make_calls, new_intents, withdraw_references


async def run_timer(
    ledger: Ledger, merchant_id: UUID, order_id: UUID, kind: TimerKind, payment_id: UUID, at: datetime
) -> Order:
    """Do what was due of this kind about a payment at `at` by the merchant's clock, and carry it out; the order afterwards.

    Nothing happens where it does not apply any more. Raises ConcurrentUpdate, a Fault of the journal.
    """
    due, key = Timer(kind, payment_id, at), None
    context = Context(request="due", causation=payment_id)
    for _ in range(ATTEMPTS):
        order, version = await load_order(ledger, merchant_id, order_id)
        key = key or timer_key(order, due)
        events = decide_timer(order, due, key, call_deadline(ledger), ledger.clock.now(merchant_id))
        if not events:
            return order
        after = Progress(fold(order, events), version + len(events))
        try:
            change = Change(order_id, version, events, order, after.order)
            await ledger.journal.commit(merchant_id, uuid7(), [change], context=context)
        except VersionConflict:
            continue
        withdraw_references(ledger, merchant_id, after.order, events)
        intents = new_intents(after.order, events)
        return (await make_calls(ledger, merchant_id, after, intents, context)).order
    raise ConcurrentUpdate("The order is being changed by many requests at once.")
