"""The public events of a payment order and its payments in one command."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeVar
from uuid import UUID

from ledger.domain.money import ZERO
from ledger.domain.orders.events import (
    AuthorizationReleased,
    DepositReceived,
    ProcessorCall,
    ReleasedBecause,
    ReminderDue,
    ReminderKind,
)
from ledger.domain.orders.payment import Payment
from ledger.domain.orders.refund import Refund, RefundStatus
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import OrderStatus, PaymentStatus
from ledger.domain.public_events import documents, kinds
from ledger.domain.public_events.command import CommandStream, LoggedEvent, PublicEvent, Subject
from ledger.domain.public_events.kinds import Kind
from ledger.domain.public_events.lookup import causes, facts_of_topics, last_cause
from ledger.domain.public_events.statuses import ORDER_STATUSES, PAYMENT_STATUSES

T = TypeVar("T")

_FACTS: Final = facts_of_topics(
    frozenset(
        {
            kinds.PAYMENT_CREATED,
            kinds.PAYMENT_CAPTURED,
            kinds.PAYMENT_LATE_DEPOSIT,
            kinds.PAYMENT_REFUNDED,
            kinds.PAYMENT_SETTLED,
            kinds.PAYMENT_DISPUTED,
            kinds.PAYMENT_DISPUTE_CLOSED,
            kinds.ORDER_REMINDER_DUE,
            kinds.ORDER_OVERDUE,
        }
    )
)
"""The kinds of which each event of the log is one: facts about money, begun payments, times of reminders."""


def announced(stream: CommandStream) -> list[PublicEvent]:
    """Returns the public events of an order, its payments and its documents, in the log's order."""
    before, after = stream.before, stream.after
    found = [
        *_of_order(stream, before, after),
        *_facts(stream),
        *_of_payments(stream, before, after),
        *documents.announced(stream, before, after),
    ]
    return sorted(found, key=lambda each: each.position)


def _of_order(stream: CommandStream, before: Order | None, after: Order) -> Iterator[PublicEvent]:
    """Yields what is announced of the order itself: its creation, else its status and its other changes."""
    if before is None:
        yield _order_event(stream, kinds.ORDER_CREATED)
    elif before.status is not after.status:
        yield _order_event(stream, ORDER_STATUSES[after.status], before.status)
    if before is not None and any(_is_update(stream, each) for each in causes(stream, kinds.ORDER_UPDATED)):
        yield _order_event(stream, kinds.ORDER_UPDATED)
    if after.overpaid_amount > (ZERO if before is None else before.overpaid_amount):
        yield _order_event(stream, kinds.ORDER_OVERPAID)


def _is_update(stream: CommandStream, logged: LoggedEvent) -> bool:
    """Returns whether the event changes an order by itself. A capture that releases the rest is announced already."""
    event = logged.event
    if not isinstance(event, AuthorizationReleased) or event.because is not ReleasedBecause.FINAL_CAPTURE:
        return True
    return not any(causes(stream, kinds.PAYMENT_CAPTURED, payment_id=event.payment_id))


def _order_event(stream: CommandStream, kind: Kind, previous: OrderStatus | None = None) -> PublicEvent:
    return PublicEvent(
        kind=kind,
        resource_id=stream.stream_id,
        stream_id=stream.stream_id,
        version=stream.version,
        position=last_cause(stream, kind),
        previous_status=previous,
    )


def _facts(stream: CommandStream) -> Iterator[PublicEvent]:
    """Yields a public event for each fact that an event of the log states."""
    for logged in stream.events:
        for kind in _FACTS.get(logged.topic, ()):
            if _is_stated(kind, logged.event):
                yield _fact(stream, kind, logged)


def _is_stated(kind: Kind, event: object) -> bool:
    """Returns whether the event states the fact of this kind: some topics have a second kind for a field's value."""
    match event:
        case DepositReceived():
            return event.late or kind is not kinds.PAYMENT_LATE_DEPOSIT
        case ReminderDue():
            return (event.kind is ReminderKind.OVERDUE) is (kind is kinds.ORDER_OVERDUE)
        case _:
            return True


def _fact(stream: CommandStream, kind: Kind, logged: LoggedEvent) -> PublicEvent:
    event = logged.event
    payment_id: UUID | None = getattr(event, "payment_id", None)
    return PublicEvent(
        kind=kind,
        resource_id=payment_id or stream.stream_id,
        stream_id=stream.stream_id,
        version=stream.version,
        position=logged.position,
        subject=Subject(
            payment_id=payment_id,
            refund_id=getattr(event, "refund_id", None),
            dispute_id=getattr(event, "dispute_id", None),
        ),
    )


def _of_payments(stream: CommandStream, before: Order | None, after: Order) -> Iterator[PublicEvent]:
    """Yields the changes of status of each payment that the command touched, and what failed of refunds."""
    for earlier, payment in _paired(() if before is None else before.payments, after.payments):
        if payment is not earlier:
            kind = _status_kind(stream, earlier, payment)
            if kind is not None:
                yield _payment_event(stream, kind, payment, earlier)
    yield from _failed_refunds(stream, before, after)


def _paired(before: Sequence[T], after: Sequence[T]) -> Iterator[tuple[T | None, T]]:
    """Yields what an order has after the command, each with its earlier state: an order only ever gets more of it."""
    yield from zip((*before, *[None] * (len(after) - len(before))), after, strict=True)


def _status_kind(stream: CommandStream, before: Payment | None, after: Payment) -> Kind | None:
    """Returns the kind of a payment's change of status by the command, None if it is announced otherwise or not."""
    if after.status is PaymentStatus.REQUIRES_ACTION:  # another action does not change the status
        kind = kinds.PAYMENT_REQUIRES_ACTION
        return kind if any(causes(stream, kind, payment_id=after.payment_id)) else None
    for kind in PAYMENT_STATUSES[after.status].kinds:
        return None if before is not None and before.status is after.status else kind
    captured = after.captured > (ZERO if before is None else before.captured)
    granted = any(causes(stream, kinds.PAYMENT_AUTHORIZED, payment_id=after.payment_id))
    return kinds.PAYMENT_AUTHORIZED if granted and not captured else None


def _payment_event(stream: CommandStream, kind: Kind, payment: Payment, before: Payment | None) -> PublicEvent:
    return PublicEvent(
        kind=kind,
        resource_id=payment.payment_id,
        stream_id=stream.stream_id,
        version=stream.version,
        position=last_cause(stream, kind, payment_id=payment.payment_id),
        previous_status=None if before is None else before.status,
        subject=Subject(payment_id=payment.payment_id),
    )


def _failed_refunds(stream: CommandStream, before: Order | None, after: Order) -> Iterator[PublicEvent]:
    """Yields the parts of refunds that failed by the command."""
    failed = [
        (part.payment_id, refund.refund_id)
        for earlier, refund in _paired(() if before is None else before.refunds, after.refunds)
        for part in (refund.parts if refund is not earlier else ())
        if part.status is RefundStatus.FAILED and not _had_failed(earlier, part.payment_id)
    ]
    abandoned = list(causes(stream, kinds.PAYMENT_REFUND_FAILED, call=ProcessorCall.REFUND)) if failed else []
    for payment_id, refund_id in failed:
        yield PublicEvent(
            kind=kinds.PAYMENT_REFUND_FAILED,
            resource_id=payment_id,
            stream_id=stream.stream_id,
            version=stream.version,
            position=_position_of_failure(stream, payment_id, refund_id, abandoned),
            subject=Subject(payment_id=payment_id, refund_id=refund_id),
        )


def _had_failed(before: Refund | None, payment_id: UUID) -> bool:
    part = None if before is None else before.part(payment_id)
    return part is not None and part.status is RefundStatus.FAILED


def _position_of_failure(stream: CommandStream, payment_id: UUID, refund_id: UUID, abandoned: list[LoggedEvent]) -> int:
    """Returns the position of the event by which a payment's part of a refund failed.

    An abandoned call does not name its refund. It is that of one refund, so it is taken out of `abandoned`.
    """
    kind = kinds.PAYMENT_REFUND_FAILED
    if any(causes(stream, kind, payment_id=payment_id, refund_id=refund_id)):
        return last_cause(stream, kind, payment_id=payment_id, refund_id=refund_id)
    for logged in abandoned:
        if logged.event.payment_id == payment_id:
            abandoned.remove(logged)
            return logged.position
    return last_cause(stream, kind, payment_id=payment_id)
