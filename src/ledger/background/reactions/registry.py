"""All reactions, and the handlers of due work by kind: for workers and for clocks that are moved.

Every kind of timer that a reaction sets needs a handler here. A job without a handler fails until it is given up, which
is logged as an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ledger.background.reactions import (
    global_invoice_timers,
    order_timers,
    payment_index,
    subscription_timers,
    verification_timers,
)
from ledger.background.reactions.dispatcher import AnyReaction
from ledger.background.scheduler.jobs import Handler

REACTIONS: Final[tuple[AnyReaction, ...]] = (
    order_timers.OrderTimers(),
    payment_index.PaymentIndex(),
    subscription_timers.SubscriptionTimers(),
    subscription_timers.SubscriptionOrders(),
    verification_timers.VerificationTimers(),
    global_invoice_timers.GlobalInvoiceTimers(),
)
HANDLERS: Final[Mapping[str, Handler]] = {
    **order_timers.HANDLERS,
    **subscription_timers.HANDLERS,
    **verification_timers.HANDLERS,
    **global_invoice_timers.HANDLERS,
}
