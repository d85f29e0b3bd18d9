"""Builders for the core's tests: the commands and events of orders and card payments, with short arguments.

Payments are numbered: `started(2, 4000)` is the start of the order's second payment. Amounts are in minor units.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from ledger.domain.fold import fold
from ledger.domain.orders import commands, events
from ledger.domain.orders import processor_outcomes as outcomes
from ledger.domain.orders.capabilities import METHODS, AccountRules, Candidate, Rules
from ledger.domain.orders.evolve.order import evolve
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import NextAction
from ledger.domain.orders.terms import (
    AuthenticationSession,
    CaptureMethod,
    CardSummary,
    DestinationType,
    MethodType,
    OrderTerms,
    PaymentMethod,
    Reference,
    SurchargePolicy,
)

NOON = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
DEADLINE = NOON + timedelta(seconds=30)
ORDER, CUSTOMER = (UUID(f"01890a5d-ac96-774b-bcce-b302099a80{n:02x}") for n in (1, 2))
VISA = CardSummary(
    bin="424242",
    last4="4242",
    brand="VISA",
    type="CREDIT",
    country="US",
    issuer_bank=None,
    exp_month=12,
    exp_year=2030,
)
THREE_PERCENT = SurchargePolicy(rate=Decimal(3), methods=(MethodType.CARD,))
CARD, SPEI = MethodType.CARD, MethodType.SPEI

Number = int | str | Decimal


def payment_id(n: int) -> UUID:
    return UUID(f"01890a5d-ac96-774b-bcce-b302099a81{n:02x}")


def key(n: int) -> str:
    return f"key-{n}"


def method(type_: MethodType = CARD) -> PaymentMethod:
    return PaymentMethod(method_id=UUID(int=7), type=type_, card=VISA if type_ is CARD else None)


def rules(**changes: Any) -> Rules:
    """Returns the rules of the account at which the payments of these builders are made."""
    return {"sandbox": AccountRules(**changes)}


def candidate(account: str = "sandbox", **changes: Any) -> Candidate:
    """Returns an account that takes every method."""
    return Candidate(account=account, **({"processor": "sandbox", "methods": METHODS} | changes))


def new_payment(n: int = 1, amount: Number | None = None, **changes: Any) -> commands.NewPayment:
    """Returns a payment. What is given of the account is that of the one candidate."""
    account = {name: changes.pop(name) for name in Candidate.__struct_fields__ if name in changes}
    fields: dict[str, Any] = {
        "payment_id": payment_id(n),
        "method": method(),
        "candidates": (candidate(**account),),
        "idempotency_key": key(n),
        "deadline_at": DEADLINE,
        "amount": None if amount is None else Decimal(amount),
    }
    return commands.NewPayment(**(fields | changes))


def create(amount: Number = 10000, **changes: Any) -> commands.CreateOrder:
    terms: dict[str, Any] = {"external_id": "pedido-1", "amount": Decimal(amount), "currency": "MXN"}
    terms |= {name: changes.pop(name) for name in OrderTerms.__struct_fields__ if name in changes}
    fields: dict[str, Any] = {
        "order_id": ORDER,
        "order_number": "PO0000000001",
        "customer_id": CUSTOMER,
        "at": NOON,
        "terms": OrderTerms(**terms),
    }
    return commands.CreateOrder(**(fields | changes))


def resubmit(create: commands.CreateOrder) -> commands.ResubmitOrder:
    return commands.ResubmitOrder(terms=create.terms, payment=create.payment, at=create.at)


def charge(n: int = 1, amount: Number | None = None, **changes: Any) -> commands.ChargeOrder:
    return commands.ChargeOrder(payment=new_payment(n, amount, **changes), at=NOON)


def record_authorization(n: int, outcome: outcomes.AuthorizationOutcome) -> commands.RecordAuthorizationOutcome:
    return commands.RecordAuthorizationOutcome(payment_id=payment_id(n), outcome=outcome, at=NOON)


def approved(authorized_amount: Number, captured_amount: Number | None = None) -> outcomes.Approved:
    captured = authorized_amount if captured_amount is None else captured_amount
    return outcomes.Approved(
        authorized=Decimal(authorized_amount),
        captured=Decimal(captured),
        processor_reference="ref",
        authorization_code="A1",
    )


def created(amount: Number = 10000, *, pending: bool = True, **changes: Any) -> events.OrderCreated:
    fields: dict[str, Any] = {
        "order_id": ORDER,
        "order_number": "PO0000000001",
        "external_id": "pedido-1",
        "customer_id": CUSTOMER,
        "amount": Decimal(amount),
        "currency": "MXN",
        "pending": pending,
        "at": NOON,
    }
    return events.OrderCreated(**(fields | changes))


def started(
    n: int, subtotal: Number, surcharge: Number = 0, type_: MethodType = CARD, **changes: Any
) -> events.PaymentStarted:
    return events.PaymentStarted(
        payment_id=payment_id(n),
        method=method(type_),
        subtotal=Decimal(subtotal),
        surcharge=Decimal(surcharge),
        at=NOON,
        **changes,
    )


def authorization_requested(n: int, amount: Number, *, capture: bool = True) -> events.AuthorizationRequested:
    return events.AuthorizationRequested(
        payment_id=payment_id(n),
        processor="sandbox",
        idempotency_key=key(n),
        amount=Decimal(amount),
        capture=capture,
        deadline_at=DEADLINE,
        at=NOON,
    )


def authorized(n: int, amount: Number) -> events.PaymentAuthorized:
    return events.PaymentAuthorized(
        payment_id=payment_id(n), amount=Decimal(amount), processor_reference="ref", authorization_code="A1", at=NOON
    )


def scheduled(n: int, amount: Number) -> events.CaptureScheduled:
    return events.CaptureScheduled(payment_id=payment_id(n), amount=Decimal(amount), due_at=NOON, at=NOON)


def capture_requested(n: int, amount: Number) -> events.CaptureRequested:
    return events.CaptureRequested(
        payment_id=payment_id(n), amount=Decimal(amount), idempotency_key=key(n), deadline_at=DEADLINE, at=NOON
    )


def captured(n: int, amount: Number) -> events.PaymentCaptured:
    return events.PaymentCaptured(payment_id=payment_id(n), amount=Decimal(amount), processor_reference="ref", at=NOON)


def authorized_and_captured(n: int, amount: Number, granted: Number | None = None) -> tuple[Any, ...]:
    """Returns the events of a payment that the processor authorised and captured in one call."""
    return authorized(n, amount if granted is None else granted), captured(n, amount)


def captured_by_steps(n: int, amount: Number) -> tuple[Any, ...]:
    """Returns the events of a payment whose capture is scheduled, requested and confirmed after its authorisation."""
    return authorized(n, amount), scheduled(n, amount), capture_requested(n, amount), captured(n, amount)


def declined(n: int, code: str = "INSUFFICIENT_FUNDS") -> events.PaymentDeclined:
    return events.PaymentDeclined(
        payment_id=payment_id(n), code=code, message="The card has insufficient funds.", at=NOON
    )


def unanswered(n: int) -> events.AuthorizationOutcomeUnknown:
    return events.AuthorizationOutcomeUnknown(payment_id=payment_id(n), reason="no answer", at=NOON)


def abandoned(
    n: int, because: events.AbandonedBecause = events.AbandonedBecause.NOT_FOUND
) -> events.AuthorizationAbandoned:
    return events.AuthorizationAbandoned(payment_id=payment_id(n), because=because, at=NOON)


def late_capture(n: int, amount: Number, granted: Number | None = None) -> events.LateCaptureReported:
    return events.LateCaptureReported(
        payment_id=payment_id(n),
        amount=Decimal(amount),
        authorized=Decimal(amount if granted is None else granted),
        processor_reference="ref",
        at=NOON,
    )


def paid(n: int, subtotal: Number, surcharge: Number = 0, type_: MethodType = CARD) -> tuple[Any, ...]:
    """Returns all events of a successful card payment."""
    gross = Decimal(subtotal) + Decimal(surcharge)
    return started(n, subtotal, surcharge, type_), authorization_requested(n, gross), *authorized_and_captured(n, gross)


def folded(history: Iterable[Any]) -> Order:
    return fold(evolve, None, history)


SPLIT = created(allow_partials=True)
SPLIT_WITH_SURCHARGE = created(allow_partials=True, surcharge=THREE_PERCENT)
MANUAL = CaptureMethod.MANUAL


def payer_action_required(n: int, action: NextAction = NextAction.CHALLENGE) -> events.PayerActionRequired:
    return events.PayerActionRequired(
        payment_id=payment_id(n), action=action, expires_at=NOON + timedelta(minutes=15), at=NOON, session=SESSION
    )


def authentication_requested(
    n: int, amount: Number, step: NextAction = NextAction.CHALLENGE
) -> events.AuthenticationRequested:
    return events.AuthenticationRequested(
        payment_id=payment_id(n),
        step=step,
        processor="sandbox",
        idempotency_key=f"key-{n}-{step.lower()}",
        amount=Decimal(amount),
        deadline_at=DEADLINE,
        at=NOON,
        transaction_id=None if step is NextAction.DEVICE_DATA else SESSION.transaction_id,
        capture_delay_s=5,
    )


def reference_requested(n: int, amount: Number) -> events.ReferenceRequested:
    return events.ReferenceRequested(
        payment_id=payment_id(n),
        processor="sandbox",
        idempotency_key=key(n),
        amount=Decimal(amount),
        expires_at=NOON + timedelta(hours=72),
        deadline_at=DEADLINE,
        at=NOON,
    )


def reference_issued(n: int) -> events.ReferenceIssued:
    return events.ReferenceIssued(
        payment_id=payment_id(n),
        reference=Reference(clabe="646180157000000004"),
        expires_at=NOON + timedelta(hours=72),
        processor_reference="ref",
        at=NOON,
    )


def deposited(n: int, amount: Number, name: str = "dep-1", *, is_late: bool = False) -> events.DepositReceived:
    return events.DepositReceived(
        payment_id=payment_id(n),
        deposit_id=name,
        amount=Decimal(amount),
        processor_reference="ref",
        at=NOON,
        late=is_late,
    )


def refund_requested(n: int, amount: Number, refund: int = 1, **changes: Any) -> events.RefundRequested:
    fields: dict[str, Any] = {
        "refund_id": refund_id(refund),
        "payment_id": payment_id(n),
        "amount": Decimal(amount),
        "reason": "unspecified",
        "processor": "sandbox",
        "idempotency_key": f"{refund_id(refund)}:{payment_id(n)}",
        "deadline_at": DEADLINE,
        "at": NOON,
        "destination_type": DestinationType.MANUAL if changes.get("payout") else None,
    }
    return events.RefundRequested(**(fields | changes))


def refunded(n: int, amount: Number, refund: int = 1) -> events.PaymentRefunded:
    return events.PaymentRefunded(
        refund_id=refund_id(refund),
        payment_id=payment_id(n),
        amount=Decimal(amount),
        processor_reference="ref",
        at=NOON,
    )


def refund_id(n: int) -> UUID:
    return UUID(f"01890a5d-ac96-774b-bcce-b302099a82{n:02x}")


def reference_open(n: int, subtotal: Number, surcharge: Number = 0) -> tuple[Any, ...]:
    """Returns all events of a payment whose reference waits for its deposit."""
    amount = Decimal(subtotal) + Decimal(surcharge)
    return started(n, subtotal, surcharge, SPEI), reference_requested(n, amount), reference_issued(n)


SESSION = AuthenticationSession(
    transaction_id="txn-1", reference_id="ref-1", device_data_collection_url="https://acs.example/collect"
)
