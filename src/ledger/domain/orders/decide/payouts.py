"""The deciders of refunds that the merchant pays out itself: it names an account for them, or confirms its payment.

Never change where a payout goes that a processor has: the money could go to both accounts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ledger.domain.ids import parse_uuid
from ledger.domain.orders.commands import ChangeRefundDestination, ConfirmPayout
from ledger.domain.orders.decide.closing import with_cancellation_closed
from ledger.domain.orders.decide.guards import wrong_state
from ledger.domain.orders.events import OrderEvent, PaymentRefunded, PayoutRequested, RefundDestinationChanged
from ledger.domain.orders.refund import Refund, RefundPart, RefundStatus
from ledger.domain.orders.state import Order
from ledger.domain.orders.terms import DestinationType
from ledger.domain.rejections import InvalidField, RefundInProgress, RefundNotFound


def decide_refund_destination(order: Order, command: ChangeRefundDestination) -> list[OrderEvent]:
    """Names the account for a refund that waits for the merchant: the processor pays it out, if it has not done so.

    The same account again is absorbed. Raises RefundNotFound, InvalidOrderState, RefundInProgress.
    """
    refund = find_refund(order, command.reference)
    if any(_goes_to(part, command) for part in refund.parts):
        return []
    events: list[OrderEvent] = []
    for part in _paid_out_by_hand(order, refund, "The destination of the refund cannot be changed any more"):
        payment = order.payment(part.payment_id)
        if part.amount > payment.captured - payment.refunded:
            raise wrong_state(
                order, "The money has gone back by an earlier refund that was reported late: it is not paid out again."
            )
        about: dict[str, Any] = {"refund_id": refund.refund_id, "payment_id": part.payment_id, "at": command.at}
        events.append(RefundDestinationChanged(destination=command.destination, **about))
        if part.by_merchant:
            request = PayoutRequested(
                amount=part.amount,
                processor=payment.processor,
                account=payment.account_in_event,
                idempotency_key=f"{refund.refund_id}:{part.payment_id}",
                deadline_at=command.deadline_at,
                **about,
            )
            events.append(request)
    return events


def decide_payout_confirmation(order: Order, command: ConfirmPayout) -> list[OrderEvent]:
    """Records that the merchant has paid out a refund. A second confirmation is absorbed.

    Raises RefundNotFound, InvalidField for `paidAt`, InvalidOrderState, RefundInProgress.
    """
    refund = find_refund(order, command.reference)
    if command.paid_at is not None and command.paid_at > command.at:
        raise InvalidField("paidAt", "must not be later than now")
    if command.paid_at is not None and command.paid_at < order.terms.at.replace(microsecond=0):  # shown with less
        raise InvalidField("paidAt", "must not be earlier than the order")
    if any(_is_paid_out(part) for part in refund.parts):
        return []
    paid: list[OrderEvent] = [
        PaymentRefunded(
            refund_id=refund.refund_id,
            payment_id=part.payment_id,
            amount=part.amount,
            processor_reference=command.payout_reference or "",
            at=command.at,
            paid_at=command.paid_at or command.at,
        )
        for part in _paid_out_by_hand(order, refund, "The refund cannot be confirmed")
    ]
    return with_cancellation_closed(order, paid)


def find_refund(order: Order, reference: str) -> Refund:
    """Returns the refund with this service id or the merchant's own id of it. Raises RefundNotFound."""
    refund_id = parse_uuid(reference)
    refund = None if refund_id is None else order.refund(refund_id)
    refund = refund or order.refund_by_external_id(reference)
    if refund is None:
        raise RefundNotFound("The order has no refund with this id.")
    return refund


def _is_paid_out(part: RefundPart) -> bool:
    """Returns whether a part that waited for the merchant is paid: confirmed by it, or by a sandbox."""
    return part.destination_type is DestinationType.MANUAL and part.status is RefundStatus.SUCCEEDED


def _goes_to(part: RefundPart, command: ChangeRefundDestination) -> bool:
    named = part.destination_type is DestinationType.ACCOUNT and part.status is not RefundStatus.FAILED
    return named and part.destination == command.destination


def _paid_out_by_hand(order: Order, refund: Refund, otherwise: str) -> Iterable[RefundPart]:
    """Returns the parts that wait for the merchant. Raises InvalidOrderState without one, RefundInProgress while a call
    about one of them has no outcome.
    """
    parts = [part for part in refund.parts if part.is_paid_out_by_hand]
    if not parts:
        raise wrong_state(
            order, f"{otherwise}: only a PENDING refund with the destination MANUAL waits for the merchant."
        )
    for part in parts:
        if order.payment(part.payment_id).intent is not None:
            raise RefundInProgress(
                "The refund is being requested: try again after a second.", paymentId=part.payment_id
            )
    return parts
