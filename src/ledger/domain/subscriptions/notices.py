"""The messages that a subscription's customer is to receive: what causes one, and its state until its end.

Never refuse an event here, as in `evolve`. A message is due from the moment of its cause on.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final, assert_never
from uuid import UUID, uuid5

from ledger.domain.customers.terms import Attempts, begun, postponed
from ledger.domain.subscriptions.notice_events import (
    NoticeDropped,
    NoticeEvent,
    NoticeKind,
    NoticePostponed,
    NoticeRequested,
    NoticeSent,
)

NOTICE: Final = "subscription-notice"
"""The kind of the timer of a subscription's next message."""


class Notice(Attempts, frozen=True, kw_only=True):
    """A message that is neither sent nor dropped.

    `send_at` is when the next attempt is due by the merchant's clock. `payment_method_id` is the card that was charged,
    `next_attempt_at` the time of the next charge, both at the time of the cause.
    """

    notice_id: UUID
    kind: NoticeKind
    caused_at: datetime
    send_at: datetime
    invoice_id: UUID | None = None
    payment_method_id: UUID | None = None
    next_attempt_at: datetime | None = None


def trial_notice(subscription_id: UUID, at: datetime, trial_end: datetime) -> Notice:
    """Returns the message that a trial is about to end."""
    notice_id = uuid5(subscription_id, f"notice:trial:{trial_end.isoformat()}")
    return Notice(notice_id=notice_id, kind=NoticeKind.TRIAL_WILL_END, caused_at=at, send_at=at)


def failure_notice(
    order_id: UUID, invoice_id: UUID, at: datetime, method_id: UUID | None, next_attempt_at: datetime | None
) -> Notice:
    """Returns the message that a charge was declined."""
    return Notice(
        notice_id=uuid5(order_id, "notice:failed"),
        kind=NoticeKind.PAYMENT_FAILED,
        caused_at=at,
        send_at=at,
        invoice_id=invoice_id,
        payment_method_id=method_id,
        next_attempt_at=next_attempt_at,
    )


def receipt_notice(invoice_id: UUID, at: datetime, method_id: UUID | None) -> Notice:
    """Returns the receipt of a paid invoice."""
    return Notice(
        notice_id=uuid5(invoice_id, "notice:receipt"),
        kind=NoticeKind.RECEIPT,
        caused_at=at,
        send_at=at,
        invoice_id=invoice_id,
        payment_method_id=method_id,
    )


def evolve_notices(notices: tuple[Notice, ...], event: NoticeEvent) -> tuple[Notice, ...]:
    """Returns the open messages after `event`: those that were sent or dropped are left out."""
    if isinstance(event, NoticeSent | NoticeDropped):
        return tuple(notice for notice in notices if notice.notice_id != event.notice_id)
    return tuple(_evolve(notice, event) if notice.notice_id == event.notice_id else notice for notice in notices)


def notices_at(notices: tuple[Notice, ...]) -> datetime | None:
    """Returns when the next message, or the next attempt to send one, is due by the merchant's clock, or None.

    While an attempt is running, its job is repeated until there is an outcome, and no timer is needed.
    """
    return min((notice.send_at for notice in notices if notice.deadline_at is None), default=None)


def _evolve(notice: Notice, event: NoticeRequested | NoticePostponed) -> Notice:
    match event:
        case NoticeRequested():
            return begun(notice, event.deadline_at)
        case NoticePostponed():
            return postponed(notice, event.retry_at, unknown=event.unknown)
        case _:
            assert_never(event)
