"""From the draft of a payment to the payment itself: what a new payment of any order begins with.

The rule a stranger would break: a payment that nobody could carry out is never begun. Whether the merchant takes the method
is asked here, before anything is committed.
"""

from __future__ import annotations

from collections.abc import Sequence

from uuid_utils.compat import uuid7

from ledger.domain.merchants.state import Merchant
from ledger.domain.orders.commands import NewPayment
from ledger.domain.orders.events import OrderEvent
from ledger.domain.orders.state import Order
from ledger.domain.orders.terms import MethodType, PaymentMethod
from ledger.domain.rejections import MethodNotEnabled, PaymentMethodNotFound
from ledger.operations.inputs import PaymentInput
from ledger.operations.ledger import Ledger
from ledger.operations.pipeline.execute import call_deadline
from ledger.operations.results import RequestTarget


def new_payment(ledger: Ledger, merchant: Merchant, draft: PaymentInput) -> NewPayment:
    """The payment that a draft asks for, with ids. Raises MethodNotEnabled, PaymentMethodNotFound.

    Whether the processor takes the method in the order's currency is asked by the decider, which knows the order.
    """
    if draft.saved_method_id is not None:
        raise PaymentMethodNotFound("The saved payment method was not found.")
    if ledger.processor is None or draft.type not in merchant.payment_methods:
        raise MethodNotEnabled(f"Payments by {draft.type.lower()} are not enabled for this merchant.")
    if draft.persist:
        raise MethodNotEnabled("Saving cards is not enabled for this merchant.")
    assert draft.type is not MethodType.CARD or draft.card_summary is not None, "a card draft carries its summary"
    payment_id = draft.payment_id or uuid7()
    able = ledger.processor.capabilities
    return NewPayment(
        payment_id=payment_id,
        method=PaymentMethod(method_id=uuid7(), type=draft.type, card=draft.card_summary),
        processor=able.name,
        idempotency_key=str(payment_id),
        deadline_at=call_deadline(ledger),
        amount=draft.amount,
        external_id=draft.external_id,
        virtual_terminal=draft.virtual_terminal,
        billing_address=draft.billing_address,
        device_information=draft.device_information,
        metadata=draft.metadata,
        description=draft.description,
        reference_s=int(able.reference_validity_s),
        currencies=None if draft.type is MethodType.CARD else able.reference_currencies,
    )


def target_payment(
    order: Order, events: Sequence[OrderEvent], payment: NewPayment | None, external_id: str | None
) -> RequestTarget:
    """The payment that a request has begun, or the one that it finds there: by the merchant's id for it, else the newest."""
    if events:
        assert payment is not None, "events were decided for a payment"
        return RequestTarget(payment_id=payment.payment_id)
    known = None if external_id is None else order.payment_by_external_id(external_id)
    if known is None and order.payments:
        known = order.payments[-1]
    return RequestTarget() if known is None else RequestTarget(payment_id=known.payment_id)
