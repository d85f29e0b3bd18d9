"""What became of any call to a processor: one door for operations, messages and the recovery.

The rule a stranger would break: an outcome is never refused. What is known already gives no events.
"""

from __future__ import annotations

from datetime import datetime
from typing import assert_never

from ledger.domain.orders.commands import (
    AUTHORIZATION_S,
    SESSION_S,
    Settle,
    SettleAuthentication,
    SettleAuthorization,
    SettleCapture,
    SettleReference,
    SettleRefund,
    SettleVoid,
)
from ledger.domain.orders.decide.authentication import settle_authentication
from ledger.domain.orders.decide.authorizations import decide_settlement
from ledger.domain.orders.decide.cancellation import settle_void
from ledger.domain.orders.decide.captures import settle_capture
from ledger.domain.orders.decide.references import settle_reference
from ledger.domain.orders.decide.refunds import settle_refund
from ledger.domain.orders.events import OrderEvent
from ledger.domain.orders.payment import EntryAction, Intent
from ledger.domain.orders.processor_outcomes import (
    AuthorizationOutcome,
    CaptureOutcome,
    ReferenceOutcome,
    RefundOutcome,
    VoidOutcome,
)
from ledger.domain.orders.state import Order

Outcome = AuthorizationOutcome | CaptureOutcome | VoidOutcome | RefundOutcome | ReferenceOutcome


def decide_outcome(order: Order, command: Settle) -> list[OrderEvent]:
    """Record what became of a call; no events where that is known already."""
    match command:
        case SettleAuthorization():
            return decide_settlement(order, command)
        case SettleAuthentication():
            return settle_authentication(order, command)
        case SettleCapture():
            return settle_capture(order, command)
        case SettleVoid():
            return settle_void(order, command)
        case SettleRefund():
            return settle_refund(order, command)
        case SettleReference():
            return settle_reference(order, command)
        case _:
            assert_never(command)


def settle(
    intent: Intent,
    outcome: Outcome,
    at: datetime,
    session_s: int = SESSION_S,
    authorization_s: int = AUTHORIZATION_S,
) -> Settle:
    """The command that records this outcome of this intent, which is an order's own. The times are the processor's."""
    payment_id, key = intent.payment_id, intent.idempotency_key
    assert payment_id is not None, "an intent is a payment's"
    match intent.action:
        case EntryAction.AUTHORIZATION:
            return SettleAuthorization(
                payment_id=payment_id,
                outcome=outcome,  # type: ignore[arg-type]
                at=at,
                session_s=session_s,
                authorization_s=authorization_s,
            )
        case EntryAction.CAPTURE:
            return SettleCapture(payment_id=payment_id, idempotency_key=key, outcome=outcome, at=at)  # type: ignore[arg-type]
        case EntryAction.CANCELLATION:
            return SettleVoid(payment_id=payment_id, idempotency_key=key, outcome=outcome, at=at)  # type: ignore[arg-type]
        case EntryAction.REFERENCE:
            return SettleReference(payment_id=payment_id, outcome=outcome, at=at)  # type: ignore[arg-type]
        case EntryAction.REFUND:
            assert intent.refund_id is not None, "a refund's intent names it"
            return SettleRefund(refund_id=intent.refund_id, payment_id=payment_id, outcome=outcome, at=at)  # type: ignore[arg-type]
        case _:
            return SettleAuthentication(
                payment_id=payment_id,
                idempotency_key=key,
                outcome=outcome,  # type: ignore[arg-type]
                at=at,
                session_s=session_s,
                authorization_s=authorization_s,
            )
