"""What is due about an order: load it, decide what follows now, commit that.

The rule a stranger would break: it is asked more than once. The order as it stands decides whether anything is still to be
done; a due time that nothing follows from any more is no failure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from uuid_utils.compat import uuid7

from ledger.journal.append import Change, VersionConflict
from ledger.journal.journal import Context
from ledger.operations.ledger import Ledger
from ledger.operations.settlement import load_order
from ledger.orders.events import OrderEvent
from ledger.orders.evolve import evolve
from ledger.orders.state import Order
from ledger.rejections import ConcurrentUpdate

_ATTEMPTS: Final = 20

DecideDue = Callable[[Order, datetime], Sequence[OrderEvent]]
"""What follows from what is due, on the order as it stands at a moment of its merchant's clock; nothing where it is done."""


async def carry_out(
    ledger: Ledger, merchant_id: UUID, order_id: UUID, payment_id: UUID, decide: DecideDue
) -> tuple[Order, int, bool]:
    """The order after a decision on what is due, its version, and whether anything followed.

    A decision that announces a call to a processor is committed here; whoever asked for it makes the call afterwards. Raises
    ConcurrentUpdate, a Fault: try again later.
    """
    for _ in range(_ATTEMPTS):
        order, version = await load_order(ledger, merchant_id, order_id)
        events = decide(order, ledger.clock.now(merchant_id))
        if not events:
            return order, version, False
        after: Order | None = order
        for event in events:
            after = evolve(after, event)
        assert after is not None, "an order does not go away"
        change = Change(order_id, version, events, order, after)
        context = Context(request="due", causation=payment_id)
        try:
            await ledger.journal.commit(merchant_id, uuid7(), [change], context=context)
        except VersionConflict:
            continue
        return after, version + len(events), True
    raise ConcurrentUpdate("The order is being changed by many requests at once.")
