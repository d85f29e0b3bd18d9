"""The return of a payer from the bank: asks the processor what has become of the payment, and records it.

The payer can come back as often as he likes: as long as the bank waits for him, nothing is written.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final

import structlog

from ledger.call_failures import TimedOut, Unavailable
from ledger.domain.orders.payment import Payment
from ledger.domain.orders.processor_outcomes import ActionRequired
from ledger.domain.orders.state import Order
from ledger.domain.rejections import Rejected
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.authenticate import continue_session
from ledger.operations.pipeline.accounts import processor_of
from ledger.operations.pipeline.processor_metrics import LOOK_UP, observed
from ledger.operations.pipeline.processor_requests import ask_about_session
from ledger.operations.pipeline.unit_of_work import load_order
from ledger.processors.payer_returns import PayerReturn

_log = structlog.get_logger()

_ASK_S: Final = 8.0
"""How long a payer waits for the processor's answer."""


async def payer_returned(ledger: Ledger, back: PayerReturn) -> Order:
    """Returns the order of a payer who is back, with what the processor shows of the payment. Raises a Fault.

    A processor that does not answer leaves the payment as it is: its message or the session's end follows.
    """
    order = await load_order(ledger, back.merchant_id, back.order_id)
    payment = order.payment(back.payment_id)
    if not payment.ends_by_call or payment.intent is not None:
        return order
    try:
        if not await _has_acted(ledger, back, order, payment):
            return order
        with suppress(Rejected):  # another call has continued or ended the session meanwhile
            await ledger.complete(continue_session(ledger, back.merchant_id, back.order_id, back.payment_id))
    except (Unavailable, TimedOut, TimeoutError) as failure:
        _log.warning("payer_return_not_asked", reason=type(failure).__name__, order_id=str(back.order_id))
    return await load_order(ledger, back.merchant_id, back.order_id)


async def _has_acted(ledger: Ledger, back: PayerReturn, order: Order, payment: Payment) -> bool:
    processor = await processor_of(ledger, back.merchant_id, payment.account)
    if processor is None:
        return False
    deadline_at = datetime.now(UTC) + timedelta(seconds=_ASK_S)
    with ledger.timeouts.within(_ASK_S):
        question = ask_about_session(processor, back.merchant_id, order, payment, deadline_at)
        return not isinstance(await observed(payment.processor, LOOK_UP, question), ActionRequired)
