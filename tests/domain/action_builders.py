"""Builders for the core's tests: commands of order actions, and outcomes of processors, with short arguments.

Payments and refunds are numbered as in `builders`.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from msgspec.structs import replace
from tests.domain.builders import DEADLINE, NOON, SESSION, Number, new_payment, payment_id, refund_id

from ledger.domain.orders import commands as c
from ledger.domain.orders import processor_outcomes as o
from ledger.domain.orders.statuses import NextAction
from ledger.domain.orders.terms import Destination

CLABE = "646180157000000004"
VALIDATION_KEY = "validate-1"
DEVICE_DATA_KEY = "device-1"
CAPTURE_KEY = "capture-1"
VOID_KEY = "void-1"
RELEASE_KEY = "release-1"
DISPUTE, BATCH = "dsp-1", "lote-1"


def add_payment(n: int, amount: Number | None = None, **changes: Any) -> c.AddPayment:
    return c.AddPayment(payment=new_payment(n, amount, **changes), at=NOON)


def capture(amount: Number | None = None, name: str = CAPTURE_KEY, n: int | None = None) -> c.CapturePayment:
    return c.CapturePayment(
        idempotency_key=name,
        deadline_at=DEADLINE,
        at=NOON,
        amount=None if amount is None else Decimal(amount),
        payment_id=None if n is None else payment_id(n),
    )


def final_capture(amount: Number, name: str = CAPTURE_KEY) -> c.CapturePayment:
    return replace(capture(amount, name), final=True)


def release(name: str = RELEASE_KEY, n: int | None = None) -> c.ReleaseRest:
    return c.ReleaseRest(
        idempotency_key=name, deadline_at=DEADLINE, at=NOON, payment_id=None if n is None else payment_id(n)
    )


def record_release(outcome: o.ReleaseOutcome, n: int = 1, name: str = RELEASE_KEY) -> c.RecordReleaseOutcome:
    return c.RecordReleaseOutcome(payment_id=payment_id(n), idempotency_key=name, outcome=outcome, at=NOON)


def release_outcome(amount: Number) -> o.Released:
    return o.Released(amount=Decimal(amount), processor_reference="ref")


def start_capture(n: int = 1, name: str = CAPTURE_KEY, at: datetime = NOON) -> c.StartScheduledCapture:
    return c.StartScheduledCapture(payment_id=payment_id(n), idempotency_key=name, deadline_at=DEADLINE, at=at)


def record_capture(outcome: o.CaptureOutcome, n: int = 1, name: str = CAPTURE_KEY) -> c.RecordCaptureOutcome:
    return c.RecordCaptureOutcome(payment_id=payment_id(n), idempotency_key=name, outcome=outcome, at=NOON)


def capture_outcome(amount: Number) -> o.Captured:
    return o.Captured(amount=Decimal(amount), processor_reference="ref")


def cancel(n: int = 1, *, refund_captured: bool = False, reason: str | None = None) -> c.CancelOrder:
    return c.CancelOrder(
        cancellation_id=cancellation_id(n),
        refund_id=refund_id(n),
        deadline_at=DEADLINE,
        at=NOON,
        refund_captured=refund_captured,
        reason=reason,
    )


def cancellation_id(n: int = 1) -> UUID:
    return UUID(f"01890a5d-ac96-774b-bcce-b302099a83{n:02x}")


def cancel_payment(n: int = 1, name: str = VOID_KEY) -> c.CancelPayment:
    return c.CancelPayment(payment_id=payment_id(n), idempotency_key=name, deadline_at=DEADLINE, at=NOON)


def record_void(outcome: o.VoidOutcome, n: int = 1, name: str = VOID_KEY) -> c.RecordVoidOutcome:
    return c.RecordVoidOutcome(payment_id=payment_id(n), idempotency_key=name, outcome=outcome, at=NOON)


def refund(amount: Number, n: int = 1, **changes: Any) -> c.RefundOrder:
    fields: dict[str, Any] = {"refund_id": refund_id(n), "amount": Decimal(amount), "deadline_at": DEADLINE, "at": NOON}
    return c.RefundOrder(**(fields | changes))


def record_refund(outcome: o.RefundOutcome, n: int = 1, payment: int = 1) -> c.RecordRefundOutcome:
    return c.RecordRefundOutcome(refund_id=refund_id(n), payment_id=payment_id(payment), outcome=outcome, at=NOON)


def refund_outcome(amount: Number) -> o.Refunded:
    return o.Refunded(amount=Decimal(amount), processor_reference="ref")


def device_data(**changes: Any) -> c.SubmitDeviceData:
    fields: dict[str, Any] = {"idempotency_key": DEVICE_DATA_KEY, "deadline_at": DEADLINE, "at": NOON}
    return c.SubmitDeviceData(**(fields | changes))


def validate(**changes: Any) -> c.ValidateAuthentication:
    fields: dict[str, Any] = {
        "transaction_id": SESSION.transaction_id,
        "idempotency_key": VALIDATION_KEY,
        "deadline_at": DEADLINE,
        "at": NOON,
    }
    return c.ValidateAuthentication(**(fields | changes))


def record_authentication(
    outcome: o.AuthorizationOutcome, n: int = 1, step: NextAction = NextAction.CHALLENGE
) -> c.RecordAuthenticationOutcome:
    return c.RecordAuthenticationOutcome(
        payment_id=payment_id(n), idempotency_key=f"key-{n}-{step.lower()}", outcome=outcome, at=NOON
    )


def action_required(action: NextAction = NextAction.CHALLENGE) -> o.ActionRequired:
    return o.ActionRequired(
        next_action=action,
        authentication_transaction_id=SESSION.transaction_id,
        reference_id="ref-1",
        device_data_collection_url=SESSION.device_data_collection_url,
    )


def record_reference(outcome: o.ReferenceOutcome, n: int = 1) -> c.RecordReferenceOutcome:
    return c.RecordReferenceOutcome(payment_id=payment_id(n), outcome=outcome, at=NOON)


def reference_outcome() -> o.ReferenceIssued:
    return o.ReferenceIssued(
        reference=CLABE, processor_reference="ref", expires_at=NOON + timedelta(hours=72), clabe=CLABE
    )


def deposit(amount: Number, n: int = 1, name: str = "dep-1", sender: str | None = None) -> c.RecordDeposit:
    return c.RecordDeposit(
        payment_id=payment_id(n),
        deposit_id=name,
        amount=Decimal(amount),
        processor_reference="ref",
        at=NOON,
        sender_clabe=sender,
    )


def refund_destination(clabe: str = CLABE, n: int = 1) -> c.ChangeRefundDestination:
    return c.ChangeRefundDestination(
        reference=str(refund_id(n)), destination=Destination(clabe=clabe), deadline_at=DEADLINE, at=NOON
    )


def confirm_payout(n: int = 1, **changes: Any) -> c.ConfirmPayout:
    return c.ConfirmPayout(**({"reference": str(refund_id(n)), "at": NOON} | changes))


def dispute(stage: c.DisputeStage, amount: Number | None = None, n: int = 1, name: str = DISPUTE) -> c.RecordDispute:
    contested = None if amount is None else Decimal(amount)
    return c.RecordDispute(payment_id=payment_id(n), dispute_id=name, stage=stage, at=NOON, amount=contested)


def settlement(stage: c.SettlementStage, n: int = 1, name: str = BATCH, **fee: Any) -> c.RecordSettlement:
    return c.RecordSettlement(payment_id=payment_id(n), batch_id=name, stage=stage, at=NOON, **fee)


def expire(n: int = 1, after: timedelta = timedelta(days=8)) -> c.ExpirePayment:
    return c.ExpirePayment(payment_id=payment_id(n), at=NOON + after)
