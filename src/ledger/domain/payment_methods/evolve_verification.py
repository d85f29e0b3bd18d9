"""The fold of the verifications of cards that are to be saved."""

from __future__ import annotations

from typing import Any, Final, assert_never
from uuid import UUID

from msgspec.structs import replace

from ledger.domain.payment_methods.events import (
    CardVerificationAbandoned,
    CardVerificationChallenged,
    CardVerificationDeclined,
    CardVerificationEnded,
    CardVerificationRequested,
    CardVerificationResumed,
    CardVerificationUnanswered,
    CardVerified,
)
from ledger.domain.payment_methods.state import SavedMethods, Verification, VerificationCall
from ledger.domain.payment_methods.terms import VerificationEnd

_LEFT_OPEN: Final = frozenset({VerificationEnd.REPLACED, VerificationEnd.DELETED, VerificationEnd.CUSTOMER_ERASED})
"""The ends that the merchant decides: the processor learns of them afterwards."""

VerificationEvent = (
    CardVerificationRequested
    | CardVerificationChallenged
    | CardVerificationResumed
    | CardVerificationUnanswered
    | CardVerified
    | CardVerificationDeclined
    | CardVerificationAbandoned
    | CardVerificationEnded
)


def evolve_verification(methods: SavedMethods | None, event: VerificationEvent) -> SavedMethods:
    """Returns the methods after an event of a verification. `methods` is None before the first card."""
    if isinstance(event, CardVerificationRequested):
        before = methods or SavedMethods(customer_id=event.customer_id)
        return replace(before, verifications=(*_without_verified(before, event), _requested(event)))
    assert methods is not None, "a verification begins with its request"
    match event:
        case CardVerificationChallenged():
            waits = {
                "call": None,
                "next_action": event.action,
                "session": event.session,
                "action_expires_at": event.expires_at,
                "session_reference": event.processor_reference,
            }
            return _changed(methods, event.verification_id, event, **waits)
        case CardVerificationResumed():
            resumed = VerificationCall(
                idempotency_key=event.idempotency_key,
                deadline_at=event.deadline_at,
                announced_at=event.at,
                step=event.step,
                transaction_id=event.transaction_id,
            )
            return _changed(methods, event.verification_id, event, call=resumed)
        case CardVerificationUnanswered():
            open_call = _verification(methods, event.verification_id).call
            call = None if open_call is None else replace(open_call, came_back_at=event.at)
            return _changed(methods, event.verification_id, event, call=call)
        case CardVerified():
            return _ended(methods, event, VerificationEnd.VERIFIED, eci=event.eci)
        case CardVerificationDeclined():
            why = {"decline_code": event.code, "refused_by_risk": event.by_risk, "eci": event.eci}
            why["network_advice"] = event.network_advice
            return _ended(methods, event, VerificationEnd.DECLINED, **why)
        case CardVerificationAbandoned():
            return _abandoned(methods, event)
        case CardVerificationEnded():
            return _ended(methods, event, VerificationEnd(event.because))
        case _:
            assert_never(event)


def _without_verified(before: SavedMethods, event: CardVerificationRequested) -> tuple[Verification, ...]:
    """Returns the verifications without the one that has saved this card before: nothing is decided by it any more,
    and a card can be verified any number of times.
    """
    if before.method(event.payment_method_id) is None:
        return before.verifications  # a card that was verified is saved; without one, nothing is searched
    latest = before.latest_verification(event.payment_method_id)
    if latest is None or latest.ended is not VerificationEnd.VERIFIED:
        return before.verifications
    n = before.place_of(latest.verification_id)
    return before.verifications[:n] + before.verifications[n + 1 :]


def _requested(event: CardVerificationRequested) -> Verification:
    return Verification(
        verification_id=event.verification_id,
        payment_method_id=event.payment_method_id,
        customer_id=event.customer_id,
        card=event.card,
        processor=event.processor,
        created_at=event.at,
        updated_at=event.at,
        billing=event.billing,
        is_default=event.is_default,
        account_in_event=event.account,
        by_token=event.by_token,
        call=VerificationCall(
            idempotency_key=event.idempotency_key, deadline_at=event.deadline_at, announced_at=event.at
        ),
    )


def _abandoned(methods: SavedMethods, event: CardVerificationAbandoned) -> SavedMethods:
    """Returns the methods after a call without effect: a payer who had acted can be asked again."""
    if _verification(methods, event.verification_id).session is not None:
        return _changed(methods, event.verification_id, event, call=None)
    return _ended(methods, event, VerificationEnd.NOT_FOUND if event.sent else VerificationEnd.NOT_SENT)


def _ended(methods: SavedMethods, event: Any, end: VerificationEnd, **changes: Any) -> SavedMethods:
    """Returns the methods with a verification that has ended. Of its card, it keeps what orders keep."""
    card = replace(_verification(methods, event.verification_id).card, cardholder_name=None)
    gone = {"billing": None, "call": None, "next_action": None, "session": None, "action_expires_at": None}
    if end not in _LEFT_OPEN:
        gone["session_reference"] = None
    return _changed(methods, event.verification_id, event, card=card, ended=end, **gone, **changes)


def _verification(methods: SavedMethods, verification_id: UUID) -> Verification:
    return methods.verifications[methods.place_of(verification_id)]


def _changed(methods: SavedMethods, verification_id: UUID, event: Any, **changes: Any) -> SavedMethods:
    n, all_ = methods.place_of(verification_id), methods.verifications
    changed = replace(all_[n], updated_at=event.at, **changes)
    return replace(methods, verifications=(*all_[:n], changed, *all_[n + 1 :]))
