"""The decider of messages to a subscription's customer: which message is sent now, and the outcome of an attempt."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from ledger.domain.customers.terms import Accepted, NotAccepted, after_failure, why_not_begun
from ledger.domain.subscriptions.commands import NotifyCustomer, RecordNotice
from ledger.domain.subscriptions.notice_events import (
    NoticeDropped,
    NoticeDroppedBecause,
    NoticeEvent,
    NoticeKind,
    NoticePostponed,
    NoticeRequested,
    NoticeSent,
)
from ledger.domain.subscriptions.notices import Notice
from ledger.domain.subscriptions.state import InvoiceStatus, Subscription, SubscriptionStatus

_NOTHING_OWED: Final = (InvoiceStatus.PAID, InvoiceStatus.VOID)


def decide_notice(state: Subscription, command: NotifyCustomer) -> list[NoticeEvent]:
    """Records the attempt to send the oldest message that is due, or why it is not sent.

    Returns no events if none is due, or while other workers' attempts are running.
    """
    notice = next(_due(state, command), None)
    if notice is None:
        return []
    because = _why_not_sent(state, notice, command)
    if because is not None:
        return [NoticeDropped(notice_id=notice.notice_id, kind=notice.kind, because=because, at=command.at)]
    return [
        NoticeRequested(
            notice_id=notice.notice_id,
            kind=notice.kind,
            notifier=command.notifier,
            deadline_at=command.deadline_at,
            at=command.at,
        )
    ]


def decide_notice_outcome(state: Subscription, command: RecordNotice) -> list[NoticeEvent]:
    """Records how the running attempt to send a message ended. Returns no events if none is running."""
    notice = next((each for each in state.notices if each.notice_id == command.notice_id), None)
    if notice is None or notice.deadline_at is None:
        return []
    notice_id, at, outcome = command.notice_id, command.at, command.outcome
    if isinstance(outcome, Accepted):
        return [NoticeSent(notice_id=notice_id, at=at)]
    pause = after_failure(notice, outcome)
    if not isinstance(pause, timedelta):
        because = NoticeDroppedBecause(pause)
        return [NoticeDropped(notice_id=notice_id, kind=notice.kind, because=because, code=outcome.code, at=at)]
    unknown = isinstance(outcome, NotAccepted) and outcome.unknown
    return [NoticePostponed(notice_id=notice_id, code=outcome.code, retry_at=at + pause, at=at, unknown=unknown)]


def _due(state: Subscription, command: NotifyCustomer) -> Iterator[Notice]:
    """Yields the messages whose time has come, and those whose attempt was interrupted, oldest first."""
    for notice in state.notices:
        if notice.deadline_at is None:
            if notice.send_at <= command.at:
                yield notice
        elif command.real_at >= notice.deadline_at:
            yield notice


def _why_not_sent(state: Subscription, notice: Notice, command: NotifyCustomer) -> NoticeDroppedBecause | None:
    if not _is_needed(state, notice):
        return NoticeDroppedBecause.NOT_NEEDED
    withheld = command.withheld.get(notice.kind)
    if withheld is not None:
        return withheld
    given_up = why_not_begun(notice, notice.send_at, command.at)
    return None if given_up is None else NoticeDroppedBecause(given_up)


def _is_needed(state: Subscription, notice: Notice) -> bool:
    match notice.kind:
        case NoticeKind.TRIAL_WILL_END:
            return state.status is SubscriptionStatus.TRIALING and not state.cancel_at_period_end
        case NoticeKind.PAYMENT_FAILED:
            assert notice.invoice_id is not None, "a declined charge is an invoice's"
            return state.invoice(notice.invoice_id).status not in _NOTHING_OWED
        case NoticeKind.RECEIPT:
            return True
