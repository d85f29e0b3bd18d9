"""What was paid too much goes back, where the merchant's settings say so (section 4.6).

The rule a stranger would break: the refund's id follows from the message that brought the money, so that it is asked for once;
until it is known to have left us, the message is not done with.
"""

from __future__ import annotations

from datetime import datetime
from itertools import count
from uuid import UUID, uuid5

import structlog

from ledger.domain.orders.commands import REFUND_WINDOW_S, RefundOverpayment
from ledger.domain.orders.decide.refunds import decide_overpayment_refund
from ledger.domain.orders.events import OrderEvent
from ledger.domain.orders.state import Order
from ledger.journal.journal import Context
from ledger.operations.ledger import Ledger
from ledger.operations.pipeline.execute import call_deadline, execute_fact
from ledger.processors.messages import DepositReceived

_log = structlog.get_logger()


class NotApplicableYet(Exception):
    """Nothing can be made of the message now, for the reason that it says."""


async def refund_overpayment(ledger: Ledger, message: DepositReceived, order: Order) -> None:
    """Refund what is held beyond the order's amount, as far as its processor gives that back. Raises Waits, a Fault.

    What was never sent is asked for again.
    """
    merchant = await ledger.merchant(message.merchant_id)
    if not merchant.refund_overpayment or order.overpaid_amount <= 0:
        return
    order_id, refund_id = order.terms.order_id, _refund_of_the_extra(message, order)
    able = None if ledger.processor is None else ledger.processor.capabilities

    def decide(order: Order, at: datetime) -> list[OrderEvent]:
        if order.refund(refund_id) is not None:
            return []
        if order.overpaid_amount > 0 and any(payment.refunding for payment in order.payments):
            raise NotApplicableYet("a refund is under way: what is held too much is known afterwards")
        command = RefundOverpayment(
            refund_id=refund_id,
            deadline_at=call_deadline(ledger),
            at=at,
            card_window_s=REFUND_WINDOW_S if able is None else int(able.refund_window_s),
            partial_payouts=able is None or able.partial_payouts,
        )
        return decide_overpayment_refund(order, command)

    context = Context(request="overpayment", causation=message.payment_id)
    order = await execute_fact(ledger, message.merchant_id, order_id, decide, context)
    refund = order.refund(refund_id)
    if refund is None:
        _log.warning("overpayment_stays", order_id=str(order_id), amount=str(order.overpaid_amount))
    elif refund.was_not_sent or refund.has_no_answer:
        raise NotApplicableYet("the refund of what was paid too much has not been answered yet")


def _refund_of_the_extra(message: DepositReceived, order: Order) -> UUID:
    """The refund that gives a deposit's extra back: another one where all before it were never sent."""
    name = f"overpayment:{message.processor}:{message.message_id}"
    ids = (uuid5(order.terms.order_id, f"{name}:{n}" if n else name) for n in count())
    return next(one for one in ids if (refund := order.refund(one)) is None or not refund.was_not_sent)
