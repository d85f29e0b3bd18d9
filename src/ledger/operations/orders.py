"""Create an order, charge an order.

The rule a stranger would break: the intent is committed before the processor hears of the payment, and no connection
is held while it thinks. A claim on the external id, not a look beforehand, decides who created an order first.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from uuid_utils.compat import uuid7

from ledger.gateways.contract import Card, ProcessorUnavailable
from ledger.ids import order_number, parse_uuid
from ledger.journal.append import Change, Claim, ClaimKind, ClaimTaken, VersionConflict
from ledger.merchants.state import Merchant
from ledger.operations.customers import introduce
from ledger.operations.drafts import Actor, OrderDraft, PaymentDraft
from ledger.operations.errand import Errand, RequestKey
from ledger.operations.keyed import keyed
from ledger.operations.ledger import Ledger, OrderReceipt
from ledger.operations.settlement import call_processor, load_order, record_outcome
from ledger.orders.commands import ChargeOrder, CreateOrder, NewPayment, NotSent
from ledger.orders.decide import decide_charge, decide_create, decide_resubmission
from ledger.orders.events import OrderCreated
from ledger.orders.evolve import evolve
from ledger.orders.state import EntryStatus, Order, OrderStatus, Payment
from ledger.orders.terms import MethodType, PaymentMethod, SurchargePolicy
from ledger.rejections import ConcurrentUpdate, CustomerNotFound, MethodNotEnabled, OrderNotFound, PaymentMethodNotFound

_ATTEMPTS: Final = 20


async def create_order(ledger: Ledger, actor: Actor, draft: OrderDraft, key: RequestKey | None = None) -> OrderReceipt:
    """Create a payment order, or find the one that this external id already made (contract N25-N29).

    Raises a Rejected (CustomerNotFound, MethodNotEnabled, IdempotencyMismatch, DuplicateExternalId, InvalidTerms …),
    ProcessorUnavailable where nothing was sent, or a Fault of the journal; under an idempotency key also
    IdempotencyKeyReused and RequestInProgress.
    """
    errand = Errand(ledger, actor, key)
    work = keyed(errand, lambda: _create(errand, draft))
    if draft.payment is None:  # one commit is all there is to it: nothing can be left half done by whoever hangs up
        return await work
    return await ledger.complete(work)


async def charge_order(
    ledger: Ledger, actor: Actor, reference: str, draft: PaymentDraft, key: RequestKey | None = None
) -> OrderReceipt:
    """Pay the order that `reference` (service id or external id) names. Raises like `create_order`, and OrderNotFound."""
    errand = Errand(ledger, actor, key)
    return await ledger.complete(keyed(errand, lambda: _charge(errand, reference, draft)))


async def _create(errand: Errand, draft: OrderDraft) -> OrderReceipt:
    ledger, merchant_id = errand.ledger, errand.merchant_id
    merchant = await ledger.merchant(merchant_id)
    payment = None if draft.payment is None else _new_payment(ledger, merchant, draft.payment)
    for _ in range(_ATTEMPTS):
        at = ledger.clock.now(merchant_id)
        try:
            introduction = await introduce(ledger, merchant_id, draft.customer, at)
        except CustomerNotFound:
            return await _resubmit_without_customer(errand, draft, merchant, payment, at)
        command = _create_command(
            draft, merchant, payment, introduction.customer.customer_id, at, order_number(await ledger.ordinals.take())
        )
        events = decide_create(None, command)
        order = _fold(None, events)
        claim = Claim(ClaimKind.ORDER_EXTERNAL_ID, draft.external_id, command.order_id)
        changes = [Change(command.order_id, 0, events, None, order), introduction.change]
        payment_id = None if payment is None else payment.payment_id
        record = [
            errand.accepted(command.order_id, payment_id),
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
            ledger.customers.forget(merchant_id, introduction.customer.external_id)
            await ledger.customers.by_id(merchant_id, introduction.customer.customer_id)
            continue
        ledger.customers.remember(merchant_id, introduction.customer, introduction.version)
        if payment is not None and draft.payment is not None:
            order = await _pay(errand, order, len(events), payment, draft.payment.card, command_id)
        return OrderReceipt(order=order, customer=introduction.customer, payment_id=payment_id, created=True)
    raise ConcurrentUpdate("The customer is being changed by many requests at once.")


async def _resubmit_without_customer(
    errand: Errand, draft: OrderDraft, merchant: Merchant, payment: NewPayment | None, at: datetime
) -> OrderReceipt:
    """An order outlives the person who made it: it is shown and paid by the same external id. Raises CustomerNotFound."""
    ledger, merchant_id = errand.ledger, errand.merchant_id
    if await ledger.journal.owner(merchant_id, ClaimKind.ORDER_EXTERNAL_ID, draft.external_id) is None:
        raise CustomerNotFound("The customer was not found.")
    return await _resubmit(errand, _create_command(draft, merchant, payment, uuid7(), at, ""), draft)


async def _resubmit(errand: Errand, command: CreateOrder, draft: OrderDraft) -> OrderReceipt:
    """The external id was there before: show what it made, or try again what failed."""
    ledger, merchant_id = errand.ledger, errand.merchant_id
    order_id = await ledger.journal.owner(merchant_id, ClaimKind.ORDER_EXTERNAL_ID, command.external_id)
    assert order_id is not None, "a claim does not go away"
    for _ in range(_ATTEMPTS):
        order, version = await load_order(ledger, merchant_id, order_id)
        events = decide_resubmission(order, command)
        if not events:
            return await _replay(errand, order, version, None)
        try:
            order = await _start(errand, order, version, events, command.payment, draft.payment)
        except VersionConflict:
            continue
        assert command.payment is not None
        return await _receipt(ledger, merchant_id, order, command.payment.payment_id, created=True)
    raise ConcurrentUpdate("The order is being changed by many requests at once.")


async def _charge(errand: Errand, reference: str, draft: PaymentDraft) -> OrderReceipt:
    ledger, merchant_id = errand.ledger, errand.merchant_id
    order_id = await find_order(ledger, merchant_id, reference)
    payment = _new_payment(ledger, await ledger.merchant(merchant_id), draft)
    for _ in range(_ATTEMPTS):
        order, version = await load_order(ledger, merchant_id, order_id)
        events = decide_charge(order, ChargeOrder(payment=payment, at=ledger.clock.now(merchant_id)))
        if not events:
            return await _replay(errand, order, version, payment.external_id)
        try:
            order = await _start(errand, order, version, events, payment, draft)
        except VersionConflict:
            continue
        return await _receipt(ledger, merchant_id, order, payment.payment_id, created=True)
    raise ConcurrentUpdate("The order is being changed by many requests at once.")


async def find_order(ledger: Ledger, merchant_id: UUID, reference: str) -> UUID:
    """The order that a path names: by service id, else by external id. Raises OrderNotFound."""
    order_id = parse_uuid(reference)
    if order_id is not None and await ledger.journal.reader.stream_from(merchant_id, order_id, OrderCreated):
        return order_id
    owner = await ledger.journal.owner(merchant_id, ClaimKind.ORDER_EXTERNAL_ID, reference)
    if owner is None:
        raise OrderNotFound("The payment order was not found.")
    return owner


async def _start(
    errand: Errand,
    order: Order,
    version: int,
    events: Sequence[Any],
    payment: NewPayment | None,
    draft: PaymentDraft | None,
) -> Order:
    """Commit a further payment's intent on an existing order and carry it out. Raises VersionConflict."""
    assert payment is not None, "events were decided for a payment"
    assert draft is not None, "a payment was asked for"
    order_id = order.terms.order_id
    after = _fold(order, events)
    change = Change(order_id, version, events, order, after)
    command_id = await errand.commit([change], record=[errand.accepted(order_id, payment.payment_id)])
    return await _pay(errand, after, version + len(events), payment, draft.card, command_id)


async def _pay(
    errand: Errand, order: Order, version: int, payment: NewPayment, card: Card | None, cause: UUID
) -> Order:
    """Carry out a committed intent. Raises ProcessorUnavailable once it is recorded that nothing was sent."""
    intent = order.payment(payment.payment_id).intent
    assert intent is not None, "it has just been committed"
    assert card is not None, "only card payments are asked of a processor"
    ledger, merchant_id = errand.ledger, errand.merchant_id
    outcome = await call_processor(ledger, merchant_id, order, intent, card)

    def answer(order_version: int) -> Sequence[Change]:
        return [] if isinstance(outcome, NotSent) else errand.kept([errand.answered(order_version, created=True)])

    context = errand.context(cause)
    order, _ = await record_outcome(ledger, merchant_id, order, version, payment.payment_id, outcome, context, answer)
    if order.payment(payment.payment_id).was_not_sent:
        raise ProcessorUnavailable("The payment processor cannot be reached; nothing was charged.")
    return order


async def _replay(errand: Errand, order: Order, version: int, payment_external_id: str | None) -> OrderReceipt:
    """Show what the first request made, after giving it a while to come to its end."""
    ledger, merchant_id = errand.ledger, errand.merchant_id
    until = time.monotonic() + ledger.patience.replay_wait_s
    pause = 0.01
    while _in_flight(order) and time.monotonic() < until:
        await asyncio.sleep(pause)
        pause = min(1.5 * pause, 0.25)
        order, version = await load_order(ledger, merchant_id, order.terms.order_id)
    payment = next(
        (p for p in order.payments if p.started.external_id == payment_external_id and payment_external_id is not None),
        order.payments[-1] if order.payments else None,
    )
    payment_id = None if payment is None else payment.payment_id
    if errand.key is not None:
        accepted = errand.accepted(order.terms.order_id, payment_id)
        await errand.commit([], record=[accepted, errand.answered(version, created=False, replayed=True)])
    return await _receipt(ledger, merchant_id, order, payment_id, created=False, replayed=True)


def _in_flight(order: Order) -> bool:
    """Whether somebody is talking to the processor right now; an unknown outcome is not worth waiting for."""
    return order.status is OrderStatus.PROCESSING and not _unknown(order.payments[-1])


def _unknown(payment: Payment) -> bool:
    return bool(payment.entries) and payment.entries[-1].status is EntryStatus.UNKNOWN


async def _receipt(
    ledger: Ledger, merchant_id: UUID, order: Order, payment_id: UUID | None, *, created: bool, replayed: bool = False
) -> OrderReceipt:
    known = await ledger.customers.by_id(merchant_id, order.terms.customer_id)
    assert known is not None, "an order's customer does not go away"
    return OrderReceipt(order=order, customer=known.customer, payment_id=payment_id, created=created, replayed=replayed)


def _fold(order: Order | None, events: Sequence[Any]) -> Order:
    for event in events:
        order = evolve(order, event)
    assert order is not None
    return order


def _new_payment(ledger: Ledger, merchant: Merchant, draft: PaymentDraft) -> NewPayment:
    """The payment that a draft asks for, with ids. Raises MethodNotEnabled, PaymentMethodNotFound."""
    if draft.saved_method_id is not None:
        raise PaymentMethodNotFound("The saved payment method was not found.")
    if ledger.processor is None or draft.type is not MethodType.CARD or draft.type not in merchant.payment_methods:
        raise MethodNotEnabled(f"Payments by {draft.type.lower()} are not enabled for this merchant.")
    if draft.persist:
        raise MethodNotEnabled("Saving cards is not enabled for this merchant.")
    assert draft.card_summary is not None, "a card draft carries its summary"
    payment_id = draft.payment_id or uuid7()
    return NewPayment(
        payment_id=payment_id,
        method=PaymentMethod(method_id=uuid7(), type=draft.type, card=draft.card_summary),
        processor=ledger.processor.capabilities.name,
        idempotency_key=str(payment_id),
        deadline_at=datetime.now(UTC) + timedelta(seconds=ledger.patience.processor_timeout_s),
        amount=draft.amount,
        external_id=draft.external_id,
        virtual_terminal=draft.virtual_terminal,
        billing_address=draft.billing_address,
        device_information=draft.device_information,
        metadata=draft.metadata,
    )


def _create_command(
    draft: OrderDraft, merchant: Merchant, payment: NewPayment | None, customer_id: UUID, at: datetime, number: str
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
