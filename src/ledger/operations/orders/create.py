"""Creates an order and charges an order.

The claim on the external id decides which of two creations was first; no look-up beforehand does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final
from uuid import UUID

from msgspec.structs import replace
from uuid_utils.compat import uuid7

from ledger.domain.merchants.state import Merchant
from ledger.domain.orders.commands import ChargeOrder, CreateOrder, NewPayment, ResubmitOrder
from ledger.domain.orders.decide.guards import require_whole_centavos
from ledger.domain.orders.decide.payments import decide_charge, decide_create, decide_resubmission
from ledger.domain.orders.events import OrderEvent
from ledger.domain.orders.terms import ReminderPolicy, SurchargePolicy
from ledger.domain.rejections import (
    AmountNotChargeable,
    CardTokenInvalid,
    CustomerNotFound,
    DuplicateExternalId,
    InvalidField,
    MethodNotEnabled,
    PaymentMethodExpired,
    PaymentMethodNotFound,
)
from ledger.domain.streams import ORDERS, ClaimKind
from ledger.journal.append import Change, Claim, ClaimTaken, Conflict, VersionConflict
from ledger.operations.context.inputs import Actor, CustomersFiscal, OrderInput, PaymentInput
from ledger.operations.context.ledger import Ledger
from ledger.operations.context.results import OrderResult, RequestTarget
from ledger.operations.customers.upsert import upsert_customer
from ledger.operations.orders.customers_fiscal_data import may_take_fiscal_data, with_customers_fiscal_data
from ledger.operations.orders.invoices.policy import invoicing_policy
from ledger.operations.orders.invoices.stampable import require_stampable
from ledger.operations.orders.new_payment import new_payment, payment_plan, target_payment
from ledger.operations.orders.order_request import execute_on_order, execute_with_customer, read_customer
from ledger.operations.payment_methods.card_tokens import with_card_for_order, with_card_of_token
from ledger.operations.payment_methods.charge import decide_with_card
from ledger.operations.pipeline.payer import needs_payer, with_payer
from ledger.operations.pipeline.unit_of_work import IdempotencyKey, Plan, UnitOfWork

_OUTLIVED: Final = (
    CustomerNotFound,
    PaymentMethodNotFound,
    PaymentMethodExpired,
    CardTokenInvalid,
    InvalidField,
    AmountNotChargeable,
    MethodNotEnabled,
)
"""Refusals of a new order that do not concern one that exists: it is shown by the same external id.

An order outlives its customer, its card and the fiscal data of its customer, and an earlier release or another
account may have taken its amount and its method.
"""

Requirement = Callable[[UnitOfWork], Awaitable[Change]]
"""Returns the check that the commit makes besides, of a stream that stays as it is. May raise."""


async def create_order(
    ledger: Ledger,
    actor: Actor,
    request: OrderInput,
    key: IdempotencyKey | None = None,
    *,
    requires: Requirement | None = None,
) -> OrderResult:
    """Creates a payment order, or returns the one that has this external id already (contract N25 to N29).

    Raises what `requires` raises, and like `execute_on_order`; CustomerNotFound, MethodNotEnabled, IdempotencyMismatch,
    InvalidField, AmountNotChargeable, CardTokenInvalid; DuplicateExternalId if that order was cancelled, or has another
    id than the one that the caller fixes.
    """
    if request.payment is not None and request.payment.card_tokens:
        terms = request.terms
        payment = await with_card_of_token(ledger, actor.merchant_id, request.payment, terms.currency, terms.amount)
        request = replace(request, payment=payment)
    uow = UnitOfWork(ledger, actor, key, creates=True)
    existing: UUID | None = None

    async def decide_with_requirement(conflict: Conflict | None) -> Plan:
        assert requires is not None, "this decides for a request with a requirement"
        required = await requires(uow)
        plan = await decide(conflict)
        return replace(plan, changes=[*plan.changes, required])

    async def decide(conflict: Conflict | None) -> Plan:
        nonlocal existing
        merchant = ledger.known_merchant(uow.merchant_id) or await ledger.merchant(uow.merchant_id)
        payment = None if request.payment is None else await new_payment(ledger, merchant, request.payment)
        # A card is not kept for a request that only repeats another.
        saves_card = conflict is None and request.payment is not None and request.payment.persist
        if existing is None and (saves_card or _is_made(conflict, request)):
            existing = await _order_with(uow, request.terms.external_id)
        if existing is None:
            try:
                return await _new_order(uow, request, payment, merchant, conflict)
            except _OUTLIVED:
                existing = await _order_with(uow, request.terms.external_id)
                if existing is None:
                    raise
        if request.order_id not in {None, existing}:
            raise DuplicateExternalId(
                f"Another order has the externalId {request.terms.external_id!r} already.", field="externalId"
            )
        plan = await _resubmission(uow, request, payment, existing)
        await read_customer(uow, plan)
        return plan

    work = execute_with_customer(uow, decide if requires is None else decide_with_requirement)
    if request.payment is None:  # a single commit: a caller that hangs up leaves nothing half done
        return await work
    return await ledger.complete(work)


async def charge_order(
    ledger: Ledger, actor: Actor, reference: str, request: PaymentInput, key: IdempotencyKey | None = None
) -> OrderResult:
    """Pays the order that `reference` (service id or external id) names (contract N31).

    Raises like `create_order`; OrderNotFound, OrderNotPayable, AmountExceedsPending.
    """
    request = await with_card_for_order(ledger, actor, reference, request)
    uow = UnitOfWork(ledger, actor, key, creates=True)

    async def attempt(_: Conflict | None) -> Plan:
        order = await uow.find(ORDERS, reference)
        payment = await new_payment(ledger, await ledger.merchant(uow.merchant_id), request)

        def decide(payment: NewPayment) -> Sequence[OrderEvent]:
            return decide_charge(order, ChargeOrder(payment=payment, at=uow.now))

        return await payment_plan(uow, order, request, payment, decide)

    return await ledger.complete(execute_on_order(uow, attempt))


async def _new_order(
    uow: UnitOfWork,
    request: OrderInput,
    payment: NewPayment | None,
    merchant: Merchant,
    conflict: Conflict | None,
) -> Plan:
    """Returns the plan of a new order, with its customer. Raises CustomerNotFound, InvalidField,
    AmountNotChargeable.
    """
    uses_saved = request.payment is not None and (
        request.payment.persist or request.payment.saved_method_id is not None
    )
    takes_fiscal, asks_payer = may_take_fiscal_data(request, merchant), needs_payer(payment)
    customer = await upsert_customer(uow, request.customer, conflict, look_up=uses_saved or takes_fiscal or asks_payer)
    if payment is not None and asks_payer:
        payment = with_payer(payment, customer.change.after)
    customer_id = customer.change.stream_id
    terms = with_customers_fiscal_data(request, customer.change.after) if takes_fiscal else request.terms
    invoicing = None
    if terms.fiscal is not None:
        invoicing = await invoicing_policy(uow.ledger, merchant, request.exchange_rate)
    if invoicing is not None and request.customers_fiscal is not CustomersFiscal.IF_THERE:
        require_whole_centavos(terms.amount)
        await require_stampable(uow.ledger, uow.merchant_id, terms, invoicing)
    command = CreateOrder(
        order_id=request.order_id or uuid7(),
        order_number=uow.ledger.order_numbers.at_hand() or await uow.ledger.order_numbers.take(),
        customer_id=customer_id,
        at=uow.now,
        terms=terms,
        payment=payment,
        surcharge=_surcharge(merchant) if request.surcharged else None,
        invoicing=invoicing,
        reminders=None if terms.due_date is None else reminder_policy(merchant),
    )
    claims = [Claim(ClaimKind.ORDER_EXTERNAL_ID, request.terms.external_id, command.order_id), *customer.claims]
    if payment is None or request.payment is None:
        change = uow.change_order(command.order_id, decide_create(None, command))
        return Plan(changes=[change, customer.change], claims=claims)

    def decide(payment: NewPayment) -> Sequence[OrderEvent]:
        return decide_create(None, replace(command, payment=payment, at=uow.now))  # the saved cards were read since

    decided = await decide_with_card(
        uow, customer_id, request.payment, payment, decide, request.terms.billing_address, customer_is_checked=True
    )
    return Plan(
        changes=[uow.change_order(command.order_id, decided.events), customer.change, *decided.changes],
        claims=claims,
        target=RequestTarget(payment_id=payment.payment_id),
        secrets=decided.secrets,
    )


def _surcharge(merchant: Merchant) -> SurchargePolicy | None:
    settings = merchant.settings
    if settings.surcharge_rate is None:
        return None
    return SurchargePolicy(rate=settings.surcharge_rate, methods=settings.surcharge_methods)


def reminder_policy(merchant: Merchant) -> ReminderPolicy:
    """Returns the merchant's policy for reminders of a due date that is set now."""
    return ReminderPolicy(days=merchant.settings.reminder_days, time_zone=merchant.settings.time_zone)


async def _resubmission(uow: UnitOfWork, request: OrderInput, payment: NewPayment | None, order_id: UUID) -> Plan:
    """Returns the plan of an external id that was sent again: shows the order, or pays one that failed."""
    order = await uow.order(order_id)
    uow.forget(order.terms.customer_id)  # the cache may have the customer as before a change, and no commit checks it

    def decide(payment: NewPayment | None) -> Sequence[OrderEvent]:
        return decide_resubmission(order, ResubmitOrder(terms=request.terms, payment=payment, at=uow.now))

    if payment is None or request.payment is None:
        events = decide(None)
        change = uow.change_order(order_id, events)
        return Plan(changes=[change], target=target_payment(change.after, events, None, None))
    return await payment_plan(uow, order, request.payment, payment, decide)


async def _order_with(uow: UnitOfWork, external_id: str) -> UUID | None:
    return await uow.owner(ORDERS, external_id)


def _is_made(conflict: Conflict | None, request: OrderInput) -> bool:
    """Returns whether another request made an order with the same external id, or with the id that this one brings."""
    if isinstance(conflict, ClaimTaken):
        return conflict.claim.kind is ClaimKind.ORDER_EXTERNAL_ID
    return isinstance(conflict, VersionConflict) and conflict.stream_id == request.order_id
