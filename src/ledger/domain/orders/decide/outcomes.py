"""The outcomes of all calls to processors: the one decider for requests, messages and the recovery.

Never refuse an outcome. One that is recorded already gives no events.
"""

from __future__ import annotations

from datetime import datetime
from typing import assert_never

from ledger.domain.orders.commands import (
    RecordAuthenticationOutcome,
    RecordAuthorizationOutcome,
    RecordCaptureOutcome,
    RecordOutcome,
    RecordReferenceOutcome,
    RecordRefundOutcome,
    RecordReleaseOutcome,
    RecordSessionEnd,
    RecordVoidOutcome,
)
from ledger.domain.orders.decide.authentication import decide_authentication_outcome
from ledger.domain.orders.decide.authorizations import decide_authorization_outcome
from ledger.domain.orders.decide.cancellation import decide_void_outcome
from ledger.domain.orders.decide.captures import decide_capture_outcome
from ledger.domain.orders.decide.references import decide_reference_outcome
from ledger.domain.orders.decide.refunds import decide_refund_outcome
from ledger.domain.orders.decide.releases import decide_release_outcome
from ledger.domain.orders.decide.session_outcomes import decide_session_end_outcome
from ledger.domain.orders.events import OrderEvent
from ledger.domain.orders.payment import EntryAction, Intent
from ledger.domain.orders.processor_outcomes import (
    ActionRequired,
    Approved,
    AuthorizationOutcome,
    CaptureOutcome,
    ReferenceOutcome,
    RefundOutcome,
    ReleaseOutcome,
    VoidOutcome,
)
from ledger.domain.orders.state import Order
from ledger.domain.orders.validity import AUTHORIZATION_S, CHALLENGE_S

Outcome = AuthorizationOutcome | CaptureOutcome | VoidOutcome | ReleaseOutcome | RefundOutcome | ReferenceOutcome


def decide_outcome(order: Order, command: RecordOutcome) -> list[OrderEvent]:
    """Records the outcome of a call. Returns no events if it is recorded already. Never refuses."""
    match command:
        case RecordAuthorizationOutcome():
            return decide_authorization_outcome(order, command)
        case RecordAuthenticationOutcome():
            return decide_authentication_outcome(order, command)
        case RecordCaptureOutcome():
            return decide_capture_outcome(order, command)
        case RecordVoidOutcome():
            return decide_void_outcome(order, command)
        case RecordSessionEnd():
            return decide_session_end_outcome(order, command)
        case RecordReleaseOutcome():
            return decide_release_outcome(order, command)
        case RecordRefundOutcome():
            return decide_refund_outcome(order, command)
        case RecordReferenceOutcome():
            return decide_reference_outcome(order, command)
        case _:
            assert_never(command)


def outcome_command(intent: Intent, outcome: Outcome, at: datetime) -> RecordOutcome:
    """Returns the command that records this outcome of an order's intent."""
    payment_id, key = intent.payment_id, intent.idempotency_key
    session_s, authorization_s = _payer_times(outcome)
    assert payment_id is not None, "an intent belongs to a payment"
    match intent.action:
        case EntryAction.AUTHORIZATION:
            return RecordAuthorizationOutcome(
                payment_id=payment_id,
                outcome=outcome,  # type: ignore[arg-type]
                at=at,
                session_s=session_s,
                authorization_s=authorization_s,
            )
        case EntryAction.CAPTURE:
            return RecordCaptureOutcome(payment_id=payment_id, idempotency_key=key, outcome=outcome, at=at)  # type: ignore[arg-type]
        case EntryAction.CANCELLATION if intent.ends is not None:
            return RecordSessionEnd(
                payment_id=payment_id,
                idempotency_key=key,
                outcome=outcome,  # type: ignore[arg-type]
                at=at,
                authorization_s=authorization_s,
            )
        case EntryAction.CANCELLATION:
            return RecordVoidOutcome(payment_id=payment_id, idempotency_key=key, outcome=outcome, at=at)  # type: ignore[arg-type]
        case EntryAction.RELEASE:
            return RecordReleaseOutcome(payment_id=payment_id, idempotency_key=key, outcome=outcome, at=at)  # type: ignore[arg-type]
        case EntryAction.REFERENCE:
            return RecordReferenceOutcome(payment_id=payment_id, outcome=outcome, at=at)  # type: ignore[arg-type]
        case EntryAction.REFUND:
            assert intent.refund_id is not None, "a refund's intent names it"
            return RecordRefundOutcome(refund_id=intent.refund_id, payment_id=payment_id, outcome=outcome, at=at)  # type: ignore[arg-type]
        case _:
            return RecordAuthenticationOutcome(
                payment_id=payment_id,
                idempotency_key=key,
                outcome=outcome,  # type: ignore[arg-type]
                at=at,
                session_s=session_s,
                authorization_s=authorization_s,
            )


def _payer_times(outcome: Outcome) -> tuple[int, int]:
    """Returns how long a payer has to act and how long an authorisation can be captured, in seconds."""
    session_s = outcome.session_s if isinstance(outcome, ActionRequired) else None
    validity_s = outcome.validity_s if isinstance(outcome, Approved) else None
    return CHALLENGE_S if session_s is None else session_s, AUTHORIZATION_S if validity_s is None else validity_s
