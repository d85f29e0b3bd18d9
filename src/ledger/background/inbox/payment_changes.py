"""Records what a processor's answer about a payment by card shows and its order lacks: the end of a payment whose payer
never came back, and what the merchant did on the processor's own pages.

Record facts of the processor alone, by the deciders of a call's outcome. A call without an outcome is the recovery's:
wait for it. What the log has already changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Final

from ledger.background.inbox.consumer import Applied, Disposition, RetryLater
from ledger.domain.orders.capabilities import AccountRules
from ledger.domain.orders.commands import RecordRefundOutcome, RefundOrder, ReverseRefund
from ledger.domain.orders.decide.cancellation import needs_release
from ledger.domain.orders.decide.outcomes import Outcome, decide_outcome, outcome_command
from ledger.domain.orders.decide.refunds import (
    decide_refund_outcome,
    decide_refund_reversal,
    decide_unrequested_refund,
)
from ledger.domain.orders.events import OrderEvent
from ledger.domain.orders.payment import EntryAction, Intent, Payment
from ledger.domain.orders.processor_outcomes import Captured, RefundRefused, Voided
from ledger.domain.orders.refund import RefundStatus
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import PaymentStatus
from ledger.domain.rejections import Rejected
from ledger.domain.streams import ORDERS
from ledger.journal.append import Conflict
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.message_delivery import UNKNOWN_ORDER
from ledger.operations.orders.authenticate import continue_session
from ledger.operations.pipeline.execute import execute
from ledger.operations.pipeline.unit_of_work import Plan, UnitOfWork, load_order
from ledger.processors.findings import PaymentState, Standing, UnrequestedRefund
from ledger.processors.messages import OrderMessage

REFUND_REASON: Final = "Refunded on the processor's own pages."
"""The reason of a refund that no request has asked for."""

_UNDER_WAY: Final = "a call about its payment has no outcome yet"
_NOT_CONTINUED: Final = "its payment still waits for its payer, and could not be continued"
_NO_LIMITS: Final = AccountRules(card_window_s=100 * 366 * 86_400, returns_to_payer=True)
"""The rules of what a processor has given back already: whatever it was, it is recorded."""


class _NotYet(Exception):
    """Nothing can be recorded of the payment now, for the reason in its text."""


async def record_payment_state(ledger: Ledger, names: tuple[str, ...], state: PaymentState) -> Disposition:
    """Records the state of a payment at an account with these names, as far as its order differs. Raises a Fault."""
    order = await _order_of(ledger, state)
    if order is None:
        return RetryLater(UNKNOWN_ORDER)
    payment = _payment_of(order, names, state)
    if payment is None:
        return Applied()  # another account has it, and gets a message of its own
    if payment.status is PaymentStatus.REQUIRES_ACTION and state.standing is not Standing.WAITING:
        try:
            await continue_session(ledger, state.merchant_id, state.order_id, state.payment_id)
        except Rejected as rejection:
            return RetryLater(f"{rejection.code}: {rejection}")
    return await _record(ledger, state, partial(_changed, state))


async def record_unrequested_refund(ledger: Ledger, names: tuple[str, ...], found: UnrequestedRefund) -> Disposition:
    """Records a refund that the merchant made on the processor's own pages, and its end. Raises a Fault."""
    order = await _order_of(ledger, found)
    if order is None:
        return RetryLater(UNKNOWN_ORDER)
    if _payment_of(order, names, found) is None:
        return Applied()
    return await _record(ledger, found, partial(_refunded, found, ledger.call_deadline()))


async def account_of(ledger: Ledger, message: OrderMessage) -> str | None:
    """Returns the name of the account at which the payment of a message was made, None if it is not known. Raises a
    Fault.
    """
    order = None if message.payment_id is None else await _order_of(ledger, message)
    payments = () if order is None else order.payments
    return next((each.account or None for each in payments if each.payment_id == message.payment_id), None)


async def _record(
    ledger: Ledger, found: PaymentState | UnrequestedRefund, decide: Callable[[Order, datetime], list[OrderEvent]]
) -> Disposition:
    """Commits what `decide` returns for the order as it is now, unless a call about the payment is under way."""
    actor = Actor(merchant_id=found.merchant_id, request_id="message")
    uow = UnitOfWork(ledger, actor, cause=found.payment_id)

    async def attempt(_: Conflict | None) -> Plan:
        order = await uow.order(found.order_id)
        if order.payment(found.payment_id).intent is not None:
            raise _NotYet(_UNDER_WAY)
        return Plan(changes=[uow.change_order(found.order_id, decide(order, uow.now))])

    try:
        await execute(uow, attempt, is_fact=True)
    except _NotYet as reason:
        return RetryLater(str(reason))
    except Rejected as rejection:
        return RetryLater(f"{rejection.code}: {rejection}")
    return Applied()


async def _order_of(ledger: Ledger, found: PaymentState | UnrequestedRefund | OrderMessage) -> Order | None:
    merchant_id, order_id = found.merchant_id, found.order_id
    if order_id is None or not await ledger.journal.reader.stream_from(merchant_id, order_id, ORDERS.first):
        return None
    return await load_order(ledger, merchant_id, order_id)


def _payment_of(order: Order, names: tuple[str, ...], found: PaymentState | UnrequestedRefund) -> Payment | None:
    """Returns the payment that an answer is about, if it was made at the account with these names.

    A payment can have a second object at its processor, which names the payment too and holds none of its money.
    """
    for payment in order.payments:
        if payment.payment_id == found.payment_id and payment.account in names:
            objects = {found.processor_reference, payment.processor_reference or payment.session_reference}
            return payment if None in objects or len(objects) == 1 else None
    return None


def _changed(state: PaymentState, order: Order, at: datetime) -> list[OrderEvent]:
    """Returns the events that the log lacks, none if it has everything. Raises _NotYet.

    What a payer's session has come to is recorded by the call that continues it alone: that call, or the session's end,
    would record the money a second time.
    """
    payment = order.payment(state.payment_id)
    if payment.status is PaymentStatus.REQUIRES_ACTION and state.standing is not Standing.WAITING:
        raise _NotYet(_NOT_CONTINUED)
    outcome: Outcome
    match state.standing:
        case Standing.CAPTURED if state.captured > payment.captured:
            action, key = EntryAction.CAPTURE, state.capture_key
            outcome = Captured(
                amount=state.captured - payment.captured,
                processor_reference=state.processor_reference,
                released=state.released,
            )
        case Standing.VOIDED if payment.is_uncaptured or needs_release(payment):
            action, key = EntryAction.CANCELLATION, state.void_key
            outcome = Voided(processor_reference=state.processor_reference)
        case _:
            return []
    intent = Intent(
        action=action,
        processor=payment.processor,
        idempotency_key=key,
        amount=payment.capturable,
        capture=action is EntryAction.CAPTURE,
        deadline_at=at,
        payment_id=payment.payment_id,
    )
    return decide_outcome(order, outcome_command(intent, outcome, at))


def _refunded(found: UnrequestedRefund, deadline_at: datetime, order: Order, at: datetime) -> list[OrderEvent]:
    """Returns the events of a refund without a call: it is requested and answered in one commit. Raises Rejected."""
    known = order.refund(found.refund_id)
    if known is None:
        if isinstance(found.outcome, RefundRefused):
            return []  # it gave nothing back
        payment = order.payment(found.payment_id)
        command = RefundOrder(
            refund_id=found.refund_id,
            amount=found.amount,
            payment_id=found.payment_id,
            reason=REFUND_REASON,
            deadline_at=deadline_at,
            at=at,
            rules={payment.account: _NO_LIMITS},
        )
        return decide_unrequested_refund(order, command, found.outcome)
    if (part := known.part(found.payment_id)) is not None and part.status is RefundStatus.SUCCEEDED:
        return _reversed(found, order, at)
    outcome = RecordRefundOutcome(refund_id=found.refund_id, payment_id=found.payment_id, outcome=found.outcome, at=at)
    return decide_refund_outcome(order, outcome)


def _reversed(found: UnrequestedRefund, order: Order, at: datetime) -> list[OrderEvent]:
    """Returns the event of a refund that succeeded and has come back since, none for one that has not."""
    if not isinstance(found.outcome, RefundRefused):
        return []
    code, message = found.outcome.code, found.outcome.message
    command = ReverseRefund(refund_id=found.refund_id, payment_id=found.payment_id, code=code, at=at, message=message)
    return decide_refund_reversal(order, command)
