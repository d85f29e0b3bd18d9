"""Create an order, charge an order.

The rule a stranger would break: the intent is committed before the processor hears of the payment, and no connection
is held while it thinks. A claim on the external id, not a look beforehand, decides who created an order first.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from uuid_utils.compat import uuid7

from ledger.domain.ids import order_number
from ledger.domain.merchants.state import Merchant
from ledger.domain.orders.commands import ChargeOrder, CreateOrder, NewPayment
from ledger.domain.orders.decide.payments import decide_charge, decide_create, decide_resubmission
from ledger.domain.orders.terms import SurchargePolicy
from ledger.domain.rejections import ConcurrentUpdate, CustomerNotFound
from ledger.journal.append import Change, Claim, ClaimKind, ClaimTaken, VersionConflict
from ledger.operations.customers.upsert import upsert_customer
from ledger.operations.inputs import Actor, OrderInput, PaymentInput
from ledger.operations.ledger import Ledger
from ledger.operations.orders.new_payment import new_payment, target_payment
from ledger.operations.pipeline.execute import ATTEMPTS, execute, require_sent
from ledger.operations.pipeline.idempotency import run_idempotently
from ledger.operations.pipeline.loading import find_order, fold
from ledger.operations.pipeline.processor_calls import Progress, make_calls, new_intents
from ledger.operations.pipeline.processor_requests import NO_SECRETS, SecretInputs
from ledger.operations.pipeline.unit_of_work import IdempotencyKey, UnitOfWork
from ledger.operations.results import OrderResult, RequestTarget


async def create_order(
    ledger: Ledger, actor: Actor, draft: OrderInput, key: IdempotencyKey | None = None
) -> OrderResult:
    """Create a payment order, or find the one that this external id already made (contract N25-N29).

    Raises a Rejected (CustomerNotFound, MethodNotEnabled, IdempotencyMismatch, DuplicateExternalId, InvalidField …),
    ProcessorUnavailable where nothing was sent, or a Fault of the journal; under an idempotency key also
    IdempotencyKeyReused and RequestInProgress.
    """
    errand = UnitOfWork(ledger, actor, key)
    work = run_idempotently(errand, lambda: _create(errand, draft), creates=True)
    if draft.payment is None:  # one commit is all there is to it: nothing can be left half done by whoever hangs up
        return await work
    return await ledger.complete(work)


async def charge_order(
    ledger: Ledger, actor: Actor, reference: str, draft: PaymentInput, key: IdempotencyKey | None = None
) -> OrderResult:
    """Pay the order that `reference` (service id or external id) names. Raises like `create_order`, and OrderNotFound."""
    errand = UnitOfWork(ledger, actor, key)
    return await ledger.complete(run_idempotently(errand, lambda: _charge(errand, reference, draft), creates=True))


async def _create(errand: UnitOfWork, draft: OrderInput) -> OrderResult:
    ledger, merchant_id = errand.ledger, errand.merchant_id
    merchant = await ledger.merchant(merchant_id)
    payment = None if draft.payment is None else new_payment(ledger, merchant, draft.payment)
    for _ in range(ATTEMPTS):
        at = ledger.clock.now(merchant_id)
        try:
            introduction = await upsert_customer(ledger, merchant_id, draft.customer, at)
        except CustomerNotFound:
            return await _resubmit_without_customer(errand, draft, merchant, payment, at)
        command = _create_command(
            draft, merchant, payment, introduction.customer.customer_id, at, order_number(await ledger.ordinals.take())
        )
        events = decide_create(None, command)
        order = fold(None, events)
        claim = Claim(ClaimKind.ORDER_EXTERNAL_ID, draft.external_id, command.order_id)
        changes = [Change(command.order_id, 0, events, None, order), introduction.change]
        payment_id = None if payment is None else payment.payment_id
        record = [
            errand.accepted(command.order_id, RequestTarget(payment_id=payment_id)),
            errand.answered(len(events), created=True) if payment is None else None,
        ]
        try:
            command_id = await errand.commit(changes, [claim, *introduction.claims], record=record)
        except ClaimTaken as taken:
            if taken.claim is claim:
                return await _resubmit(errand, command, draft)
            await ledger.customers.by_external_id(merchant_id, taken.claim.key)
            continue
        except VersionConflict:
            ledger.customers.drop(merchant_id, introduction.customer.external_id)
            await ledger.customers.by_id(merchant_id, introduction.customer.customer_id)
            continue
        ledger.customers.put(merchant_id, introduction.customer, introduction.version)
        if payment is not None and draft.payment is not None:
            course = await make_calls(
                ledger, merchant_id, Progress(order, len(events)), new_intents(order, events), errand.context(command_id),
                SecretInputs(card=draft.payment.card),
                lambda after: errand.settled(after.version, sent=after.sent, created=True),
            )  # fmt: skip
            require_sent(course)
            order = course.order
        return OrderResult(order=order, customer=introduction.customer, payment_id=payment_id, created=True)
    raise ConcurrentUpdate("The customer is being changed by many requests at once.")


async def _resubmit_without_customer(
    errand: UnitOfWork, draft: OrderInput, merchant: Merchant, payment: NewPayment | None, at: datetime
) -> OrderResult:
    """An order outlives the person who made it: it is shown and paid by the same external id. Raises CustomerNotFound."""
    ledger, merchant_id = errand.ledger, errand.merchant_id
    if await ledger.journal.claim_owner(merchant_id, ClaimKind.ORDER_EXTERNAL_ID, draft.external_id) is None:
        raise CustomerNotFound("The customer was not found.")
    return await _resubmit(errand, _create_command(draft, merchant, payment, uuid7(), at, ""), draft)


async def _resubmit(errand: UnitOfWork, command: CreateOrder, draft: OrderInput) -> OrderResult:
    """The external id was there before: show what it made, or try again what failed."""
    ledger, merchant_id, payment = errand.ledger, errand.merchant_id, command.payment
    order_id = await ledger.journal.claim_owner(merchant_id, ClaimKind.ORDER_EXTERNAL_ID, command.external_id)
    assert order_id is not None, "a claim does not go away"
    enclosed = NO_SECRETS if draft.payment is None else SecretInputs(card=draft.payment.card)
    return await execute(
        errand,
        order_id,
        lambda order, _: decide_resubmission(order, command),
        lambda order, events: target_payment(order, events, payment, None),
        enclosed,
        creates=True,
    )


async def _charge(errand: UnitOfWork, reference: str, draft: PaymentInput) -> OrderResult:
    ledger, merchant_id = errand.ledger, errand.merchant_id
    order_id = await find_order(ledger, merchant_id, reference)
    payment = new_payment(ledger, await ledger.merchant(merchant_id), draft)
    return await execute(
        errand,
        order_id,
        lambda order, at: decide_charge(order, ChargeOrder(payment=payment, at=at)),
        lambda order, events: target_payment(order, events, payment, draft.external_id),
        SecretInputs(card=draft.card),
        creates=True,
    )


def _create_command(
    draft: OrderInput, merchant: Merchant, payment: NewPayment | None, customer_id: UUID, at: datetime, number: str
) -> CreateOrder:
    surcharge = None
    if merchant.surcharge_rate is not None:
        surcharge = SurchargePolicy(rate=merchant.surcharge_rate, methods=merchant.surcharge_methods)
    return CreateOrder(
        order_id=uuid7(),
        order_number=number,
        external_id=draft.external_id,
        customer_id=customer_id,
        amount=draft.amount,
        currency=draft.currency,
        at=at,
        payment=payment,
        allow_partials=draft.allow_partials,
        capture_method=draft.capture_method,
        surcharge=surcharge,
        virtual_terminal=draft.virtual_terminal,
        description=draft.description,
        invoice_number=draft.invoice_number,
        due_date=draft.due_date,
        metadata=draft.metadata,
        billing_address=draft.billing_address,
        device_information=draft.device_information,
        fiscal=draft.fiscal,
        line_items=draft.line_items,
    )
