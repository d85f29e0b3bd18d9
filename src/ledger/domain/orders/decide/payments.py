"""The deciders that create an order, open payments on it and erase its payer.

Decide from the state and the command alone; the same command again gives no events. Check in this order: malformed
input (400), the order's state (409), the rules of the business (422).
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Final

from msgspec.structs import asdict

from ledger.domain.money import quantum_of, shortest
from ledger.domain.orders.commands import AddPayment, ChargeOrder, CreateOrder, NewPayment, ResubmitOrder
from ledger.domain.orders.decide.candidates import account_in_event, choose
from ledger.domain.orders.decide.guards import (
    require_amount,
    require_lines,
    require_multiple,
)
from ledger.domain.orders.decide.references import cancel_references, reference_requested
from ledger.domain.orders.events import (
    PERSONAL,
    AuthorizationRequested,
    CancelledBecause,
    OrderCreated,
    OrderEvent,
    PaymentStarted,
    RemindersScheduled,
)
from ledger.domain.orders.invoices.events import InvoicingEnabled
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import NextAction, OrderStatus, PaymentStatus
from ledger.domain.orders.surcharge import quote
from ledger.domain.orders.terms import CaptureMethod, MethodType
from ledger.domain.rejections import (
    AmountExceedsPending,
    DuplicateExternalId,
    IdempotencyMismatch,
    InvalidField,
    OrderNotPayable,
    PartialsNotAllowed,
)
from ledger.personal_data import without

PAYABLE: Final = (
    OrderStatus.PENDING,
    OrderStatus.PARTIALLY_PAID,
    OrderStatus.FAILED,
    OrderStatus.REFERENCE_GENERATED,
)
"""The statuses in which an order can be charged (contract N31)."""

TAKES_PARTS: Final = (
    OrderStatus.PENDING,
    OrderStatus.PROCESSING,
    OrderStatus.PARTIALLY_PAID,
    OrderStatus.REFERENCE_GENERATED,
    OrderStatus.AUTHORIZED,
    OrderStatus.PARTIALLY_AUTHORIZED,
    OrderStatus.ACTION_REQUIRED,
    OrderStatus.PAYER_AUTHENTICATION_DEVICE_DATA_REQUIRED,
    OrderStatus.PAYER_AUTHENTICATION_CHALLENGE_REQUIRED,
)
"""The statuses in which a split order takes a further part (section 8.3)."""


def decide_create(order: None, command: CreateOrder) -> list[OrderEvent]:
    """Creates an order, and announces its payment if the command brings one (contract N7).

    Only an order that is created pending takes partial payments (N22). Raises InvalidField for `amount` (N6) and for
    `lineItems` that do not add up to it (N5), MethodNotEnabled if the processor does not take the method in the order's
    currency, and AmountNotChargeable for a fraction of a minor unit that no payment can have.
    """
    assert order is None, "an external id is claimed once"
    terms = command.terms
    require_amount(terms.amount)
    require_lines(terms.line_items, terms.amount)
    created = _created(command)
    events: list[OrderEvent] = [created, *_policies(command)]
    if command.payment is None:
        return events
    assert command.payment.amount is None, "the payment of a new order pays all of it"
    return [*events, *_payment_events(created, command.payment, terms.amount, command.at)]


def _policies(command: CreateOrder) -> list[OrderEvent]:
    """Returns the events that enable invoices (of an order with fiscal data) and reminders (of one with a due date)."""
    events: list[OrderEvent] = []
    if command.invoicing is not None:
        invoicing = command.invoicing
        enabled = InvoicingEnabled(
            at=command.at,
            trigger=invoicing.trigger,
            time_zone=invoicing.time_zone,
            receipt_due_day=invoicing.receipt_due_day,
            pue_refund=None if command.terms.allow_partials else invoicing.pue_refund,
            exchange_rate=invoicing.rate_of(command.terms.currency),
            series=invoicing.series,
            folio=invoicing.folio,
        )
        events.append(enabled)
    if command.reminders is not None and command.terms.due_date is not None:
        scheduled = RemindersScheduled(due_date=command.terms.due_date, policy=command.reminders, at=command.at)
        events.append(scheduled)
    return events


def decide_resubmission(order: Order, command: ResubmitOrder) -> list[OrderEvent]:
    """Decides on a second request with the external id of an existing order (contract N25 to N28, section 8.8).

    A FAILED order gets a new payment if the request brings a method; every other order is returned as it is, without
    events. Raises IdempotencyMismatch if amount or currency differ, DuplicateExternalId if the order was
    cancelled, MethodNotEnabled.
    """
    terms = order.terms
    for field, current, requested in (
        ("amount", terms.amount, command.terms.amount),
        ("currency", terms.currency, command.terms.currency),
    ):
        if requested != current:
            raise IdempotencyMismatch(
                f"The order with this externalId has another {field}: repeat that {field} or use another externalId.",
                field=field,
            )
    if order.status is OrderStatus.CANCELLED:
        raise DuplicateExternalId(
            "The order with this externalId was cancelled: use another externalId.", field="externalId"
        )
    payment = command.payment
    if payment is None or order.status is not OrderStatus.FAILED or order.has_payment(payment.payment_id):
        return []
    return _further_payment(order, payment, order.unpaid_subtotal, command.at)


def decide_charge(order: Order, command: ChargeOrder) -> list[OrderEvent]:
    """Pays an order that waits for its payment (contract N31): all that is unpaid, or a part of a split order.

    The same payment again is absorbed, by its id or by the merchant's id of it (section 8.7). Raises
    IdempotencyMismatch, InvalidField for `amount`, OrderNotPayable, AmountExceedsPending, MethodNotEnabled.
    """
    payment = command.payment
    if order.has_payment(payment.payment_id) or _is_repeated(order, payment):
        return []
    if payment.amount is not None:
        _require_part(order, payment.amount)
    _require_status(order, PAYABLE)
    _require_no_session(order)
    amount = _payment_subtotal(order, payment)
    # The new payment replaces the reference of an order of one tender (N31).
    replaced = cancel_references(order, CancelledBecause.REPLACED, command.at)
    return [*_further_payment(order, payment, amount, command.at), *replaced]


def decide_payment(order: Order, command: AddPayment) -> list[OrderEvent]:
    """Pays a part of a split order (contract N32 and N33), also while other parts are in progress (section 8.3).

    The same payment again is absorbed, by its id or by the merchant's id of it (section 8.7). Raises
    IdempotencyMismatch, InvalidField for `amount`, PartialsNotAllowed, OrderNotPayable, AmountExceedsPending,
    MethodNotEnabled.
    """
    payment = command.payment
    if order.has_payment(payment.payment_id) or _is_repeated(order, payment):
        return []
    if payment.amount is not None:
        require_multiple(order, payment.amount)
    if not order.terms.allow_partials:
        raise PartialsNotAllowed(
            "The order does not allow partial payments: charge all of it instead.", currentStatus=order.status
        )
    _require_status(order, TAKES_PARTS)
    return _further_payment(order, payment, _payment_subtotal(order, payment), command.at)


def _require_status(order: Order, allowed: tuple[OrderStatus, ...]) -> None:
    if order.status not in allowed:
        raise OrderNotPayable(
            f"An order that is {order.status} cannot be charged.", currentStatus=order.status, allowedStatuses=allowed
        )


def _require_no_session(order: Order) -> None:
    """Raises OrderNotPayable while the payer of an order of one tender is asked to act: both payments could be made.

    An order that holds a part of its money is PARTIALLY_PAID meanwhile, a status in which orders are charged.
    """
    acting = (
        payment.status is PaymentStatus.REQUIRES_ACTION and payment.next_action is not NextAction.DISPLAY_REFERENCE
        for payment in order.payments
    )
    if not order.terms.allow_partials and any(acting):
        raise OrderNotPayable(
            "The payer is still asked to complete another payment of the order: wait for its end.",
            currentStatus=order.status,
            allowedStatuses=PAYABLE,
        )


def _payment_subtotal(order: Order, payment: NewPayment) -> Decimal:
    """Returns the part of the subtotal that the payment pays, in minor units.

    Raises AmountExceedsPending above what is unpaid and not reserved by card authorisations (N33).
    """
    amount = order.unpaid_subtotal if payment.amount is None else payment.amount
    if amount > order.unpaid_subtotal - order.reserved:
        raise AmountExceedsPending(
            "The amount exceeds what is unpaid and not reserved by other payments.",
            amountPending=order.amount_pending,
            amountReserved=order.reserved,
        )
    return amount


def _is_repeated(order: Order, payment: NewPayment) -> bool:
    """Returns whether the order has a payment with this external id. Raises IdempotencyMismatch for another amount."""
    existing = None if payment.external_id is None else order.payment_by_external_id(payment.external_id)
    if existing is None:
        return False
    if payment.amount is not None and payment.amount != existing.started.subtotal:
        raise IdempotencyMismatch(
            "The payment with this externalId has another amount: repeat that amount or use another externalId.",
            field="amount",
        )
    return True


def _require_part(order: Order, amount: Decimal) -> None:
    if not order.terms.allow_partials:
        raise InvalidField("amount", "must be absent: only an order that allows partial payments is paid in parts")
    require_multiple(order, amount)


def _created(command: CreateOrder) -> OrderCreated:
    """Returns the event that stores the command's terms. Only an order created pending takes partial payments (N22)."""
    pending = command.payment is None
    terms = asdict(command.terms)
    terms["amount"] = shortest(command.terms.amount)
    terms["allow_partials"] = command.terms.allow_partials and pending
    return OrderCreated(
        order_id=command.order_id,
        order_number=command.order_number,
        customer_id=command.customer_id,
        pending=pending,
        at=command.at,
        surcharge=command.surcharge,
        **terms,
    )


def _further_payment(order: Order, payment: NewPayment, subtotal: Decimal, at: datetime) -> list[OrderEvent]:
    """Returns the events of a further payment of an order, without personal data if its payer was erased."""
    started, *more = _payment_events(order.terms, payment, subtotal, at)
    if order.payer_forgotten:
        started = without(started, PERSONAL[PaymentStarted])
    return [started, *more]


def _payment_events(terms: OrderCreated, payment: NewPayment, subtotal: Decimal, at: datetime) -> list[OrderEvent]:
    """Returns the start of a payment of `subtotal` plus its surcharge, and the intent of its call to the processor.

    Raises MethodNotEnabled, AmountNotChargeable.
    """
    surcharge = quote(terms.surcharge, payment.method.type, subtotal, quantum_of(terms.amount))
    started = PaymentStarted(
        payment_id=payment.payment_id,
        method=payment.method,
        subtotal=shortest(subtotal),
        surcharge=shortest(surcharge),
        at=at,
        external_id=payment.external_id,
        virtual_terminal=payment.virtual_terminal,
        billing_address=payment.billing_address,
        device_information=payment.device_information,
        metadata=payment.metadata,
        description=payment.description,
        saves_card=payment.saves_card,
        installments=payment.installments,
    )
    amount = shortest(subtotal + surcharge)
    chosen = choose(payment, terms.currency, subtotal, amount)
    if payment.method.type is not MethodType.CARD:
        return [started, reference_requested(terms, payment, chosen, amount, at)]
    return [
        started,
        AuthorizationRequested(
            payment_id=payment.payment_id,
            processor=chosen.processor,
            account=account_in_event(chosen),
            idempotency_key=payment.idempotency_key,
            amount=amount,
            capture=terms.capture_method is CaptureMethod.AUTOMATIC,
            deadline_at=payment.deadline_at,
            at=at,
        ),
    ]
