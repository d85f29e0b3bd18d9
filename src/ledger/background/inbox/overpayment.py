"""Refunds what was paid too much, if the merchant's settings ask for it (section 4.6).

The refund's id follows from the message that brought the money, so that it is requested once. The message is not
finished until the refund is known to have reached the processor.
"""

from __future__ import annotations

from itertools import count
from uuid import UUID, uuid5

import structlog

from ledger.domain.orders.commands import RefundOverpayment
from ledger.domain.orders.decide.overpayments import decide_overpayment_refund
from ledger.domain.orders.events import OrderEvent
from ledger.domain.orders.state import Order
from ledger.journal.append import Conflict
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.pipeline.accounts import rules_of
from ledger.operations.pipeline.execute import execute
from ledger.operations.pipeline.unit_of_work import Plan, UnitOfWork
from ledger.processors.messages import DepositReceived

_log = structlog.get_logger()


class NotApplicableYet(Exception):
    """The message cannot be applied yet, for the reason in its text."""


async def refund_overpayment(ledger: Ledger, message: DepositReceived, order: Order) -> None:
    """Refunds what is held beyond the order's amount, as far as its processor refunds it; a refund that was never sent
    is requested again.

    Raises NotApplicableYet, a Fault.
    """
    merchant = await ledger.merchant(message.merchant_id)
    if not merchant.settings.refund_overpayment or order.overpaid_amount <= 0:
        return
    order_id, refund_id = order.terms.order_id, _refund_id(message, order)
    uow = UnitOfWork(ledger, Actor(merchant_id=message.merchant_id, request_id="overpayment"), cause=message.payment_id)

    async def attempt(_: Conflict | None) -> Plan:
        order = await uow.order(order_id)
        events: list[OrderEvent] = []
        if order.refund(refund_id) is None:
            if order.overpaid_amount > 0 and any(payment.refunding for payment in order.payments):
                raise NotApplicableYet("a refund is under way: the overpaid amount is known when it ends")
            command = RefundOverpayment(
                refund_id=refund_id,
                deadline_at=ledger.call_deadline(),
                at=uow.now,
                rules=await rules_of(ledger, uow.merchant_id, order),
            )
            events = decide_overpayment_refund(order, command)
        return Plan(changes=[uow.change_order(order_id, events)])

    await execute(uow, attempt)
    order = await uow.order(order_id)
    refund = order.refund(refund_id)
    if refund is None:
        _log.warning("overpayment_stays", order_id=str(order_id), amount=str(order.overpaid_amount))
    elif refund.was_not_sent or refund.has_no_answer:
        raise NotApplicableYet("the refund of what was paid too much has not been answered yet")


def _refund_id(message: DepositReceived, order: Order) -> UUID:
    """Returns the id of the refund of a deposit's excess: a new one if every earlier one was never sent."""
    account = "" if message.account is None else f"{message.account}@"
    name = f"overpayment:{account}{message.processor}:{message.message_id}"
    ids = (uuid5(order.terms.order_id, f"{name}:{n}" if n else name) for n in count())
    return next(one for one in ids if (refund := order.refund(one)) is None or not refund.was_not_sent)
