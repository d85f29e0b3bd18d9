"""The fold of releases: the end of the hold on what a partial capture has left.

The status of the payment stays, and so does every call about it that is not the release.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from ledger.domain.orders.events import AuthorizationReleased, ReleasedBecause, ReleaseRefused, ReleaseRequested
from ledger.domain.orders.evolve.history import history_with
from ledger.domain.orders.evolve.payments import Folds, on_payment
from ledger.domain.orders.payment import EntryAction, EntryStatus, Intent, Payment

_LAPSED: Final = "The authorisation lapsed."


def _release_requested(payment: Payment, event: ReleaseRequested) -> Payment:
    intent = Intent(
        action=EntryAction.RELEASE,
        processor=payment.processor,
        idempotency_key=event.idempotency_key,
        amount=event.amount,
        capture=False,
        deadline_at=event.deadline_at,
        payment_id=event.payment_id,
    )
    return replace(
        payment,
        intent=intent,
        keys=(*payment.keys, event.idempotency_key),
        entries=history_with(payment, EntryAction.RELEASE, EntryStatus.PENDING, event.amount, event.at),
        updated_at=event.at,
    )


def _released(payment: Payment, event: AuthorizationReleased) -> Payment:
    lapsed = event.because is ReleasedBecause.LAPSED
    action, reason = (EntryAction.EXPIRATION, _LAPSED) if lapsed else (EntryAction.RELEASE, None)
    return replace(
        payment,
        released=event.amount,
        hold_ended_at=event.at,
        intent=None if payment.is_being_released else payment.intent,
        entries=history_with(payment, action, EntryStatus.SUCCESS, event.amount, event.at, reason),
        updated_at=event.at,
    )


def _release_refused(payment: Payment, event: ReleaseRefused) -> Payment:
    amount, reason = payment.capturable, event.message or event.code
    return replace(
        payment,
        intent=None,
        entries=history_with(payment, EntryAction.RELEASE, EntryStatus.FAILED, amount, event.at, reason),
        updated_at=event.at,
    )


EVOLVE: Final[Folds] = {
    ReleaseRequested: on_payment(_release_requested),
    AuthorizationReleased: on_payment(_released),
    ReleaseRefused: on_payment(_release_refused),
}
