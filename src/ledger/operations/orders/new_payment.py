"""Builds the payment that a request asks for.

Refuses a method that the merchant does not take before anything is committed.
"""

from __future__ import annotations

from collections.abc import Sequence

from uuid_utils.compat import uuid7

from ledger.domain.merchants.state import Merchant
from ledger.domain.orders.commands import NewPayment
from ledger.domain.orders.events import OrderEvent
from ledger.domain.orders.state import Order
from ledger.domain.orders.terms import PaymentMethod
from ledger.domain.rejections import MethodNotEnabled
from ledger.domain.streams import CUSTOMERS
from ledger.operations.context.inputs import PaymentInput
from ledger.operations.context.ledger import Ledger
from ledger.operations.context.results import RequestTarget
from ledger.operations.payment_methods.charge import Decide, decide_with_card
from ledger.operations.pipeline.accounts import candidates
from ledger.operations.pipeline.payer import needs_payer, with_payer
from ledger.operations.pipeline.unit_of_work import Plan, UnitOfWork


async def new_payment(ledger: Ledger, merchant: Merchant, request: PaymentInput) -> NewPayment:
    """Returns the payment that a request asks for, with ids. Raises MethodNotEnabled, a Fault.

    `payment_methods.charge` puts a saved card into it. The decider, which knows the order, chooses the account that
    takes the method in the order's currency and amount.
    """
    name = request.type.lower()
    if request.type not in merchant.settings.payment_methods:
        accepted = ", ".join(method.lower() for method in merchant.settings.payment_methods)
        raise MethodNotEnabled(
            f"Payments by {name} are not enabled for this merchant: use {accepted}, or add {request.type} to "
            "settings.paymentMethods with PUT /v1/merchant."
        )
    if request.persist and ledger.vault is None and not request.card_tokens:
        raise MethodNotEnabled("Saving cards is not enabled for this merchant: leave out persist.")
    payment_id = request.payment_id or uuid7()
    return NewPayment(
        payment_id=payment_id,
        method=PaymentMethod(method_id=uuid7(), type=request.type, card=request.card_summary),
        candidates=await candidates(ledger, merchant.merchant_id, request.type, request.card_account),
        idempotency_key=str(payment_id),
        deadline_at=ledger.call_deadline(),
        amount=request.amount,
        installments=request.installments,
        external_id=request.external_id,
        virtual_terminal=request.virtual_terminal,
        billing_address=request.billing_address,
        device_information=request.device_information,
        metadata=request.metadata,
        description=request.description,
    )


async def payment_plan(
    uow: UnitOfWork, order: Order, request: PaymentInput, payment: NewPayment, decide: Decide
) -> Plan:
    """Returns the plan of a payment on an existing order, with the card that it brings, saves or names.

    Raises what `decide` raises, PaymentMethodNotFound, PaymentMethodExpired, CustomerNotFound, a Fault.
    """
    terms = order.terms
    if needs_payer(payment):
        customer, _ = await uow.ledger.journal.load(uow.merchant_id, CUSTOMERS, terms.customer_id)
        payment = with_payer(payment, customer)
    decided = await decide_with_card(uow, terms.customer_id, request, payment, decide, terms.billing_address)
    change = uow.change_order(terms.order_id, decided.events)
    target = target_payment(change.after, decided.events, payment, request.external_id)
    return Plan(changes=[change, *decided.changes], target=target, secrets=decided.secrets)


def target_payment(
    order: Order, events: Sequence[OrderEvent], payment: NewPayment | None, external_id: str | None
) -> RequestTarget:
    """Returns the payment that the events begin; without events the one with this external id, else the newest."""
    if events:
        assert payment is not None, "events were decided for a payment"
        return RequestTarget(payment_id=payment.payment_id)
    existing = None if external_id is None else order.payment_by_external_id(external_id)
    if existing is None and order.payments:
        existing = order.payments[-1]
    return RequestTarget() if existing is None else RequestTarget(payment_id=existing.payment_id)
