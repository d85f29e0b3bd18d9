"""The timers of orders: stored as the current order has them, and run by deciding on the order again.

A handler is an operation that decides on the order as it is: a timer that fires twice does nothing the second time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Final
from uuid import UUID

from ledger.background.effects import SetTimer
from ledger.background.scheduler.jobs import Handler
from ledger.domain.invoices.due import InvoiceTimerKind, invoice_timers
from ledger.domain.orders.events import TOPICS, PaymentAuthorized, PaymentCaptured
from ledger.domain.orders.state import Order
from ledger.domain.orders.timers import REMINDER, TimerKind, reminder_at, timers_of
from ledger.domain.streams import ORDERS
from ledger.journal.journal import Journal
from ledger.journal.reader import SeenEvent
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.due.remind import remind_payer
from ledger.operations.orders.due.timers import run_timer
from ledger.operations.orders.invoices.cancel import update_cancellation
from ledger.operations.orders.invoices.deadline import warn_of_deadline
from ledger.operations.orders.invoices.mail import mail_document
from ledger.operations.orders.invoices.stamp import stamp_due

_SETS_NO_TIMER: Final = frozenset(
    {"order-created.v1", "payment-started.v1", "authorization-requested.v1", "payer-forgotten.v1"}
)
_SALE: Final = (PaymentAuthorized, PaymentCaptured)
_OUTCOME_VERSION: Final = 4
"""The version of the first payment's outcome: after the events of the order, the payment and its intent."""


class OrderTimers:
    """Stores the timers of every order that has new events."""

    name = "order-dues"
    topics = frozenset(TOPICS) - _SETS_NO_TIMER

    def is_settled(self, seen: Sequence[SeenEvent]) -> bool:
        """Returns whether an order was paid in full by its first payment at once, as most are: it has no timers."""
        if len(seen) != len(_SALE) or seen[0].version != _OUTCOME_VERSION:
            return False
        events = [each.event for each in seen]
        return tuple(map(type, events)) == _SALE and events[0].amount == events[-1].amount

    async def timers(self, journal: Journal, merchant_id: UUID, stream_id: UUID) -> Sequence[SetTimer]:
        """Returns the timers of an order as it is now. Raises a Fault."""
        order, _ = await journal.load(merchant_id, ORDERS, stream_id)
        if order is None:
            return []
        return [
            *(SetTimer(timer.kind, stream_id, timer.payment_id, timer.at) for timer in timers_of(order)),
            *(SetTimer(kind, stream_id, about, at) for kind, about, at in invoice_timers(order)),
            *_reminder_timer(order, stream_id),
        ]


def _reminder_timer(order: Order, stream_id: UUID) -> list[SetTimer]:
    at = reminder_at(order)
    return [] if at is None else [SetTimer(REMINDER, stream_id, stream_id, at)]


async def _remind(ledger: Ledger, merchant_id: UUID, order_id: UUID, _: UUID, __: datetime) -> None:
    await remind_payer(ledger, merchant_id, order_id)


async def _run(
    kind: TimerKind, ledger: Ledger, merchant_id: UUID, order_id: UUID, payment_id: UUID, due_at: datetime
) -> None:
    await run_timer(ledger, merchant_id, order_id, kind, payment_id, due_at)


async def _stamp(ledger: Ledger, merchant_id: UUID, order_id: UUID, _: UUID, __: datetime) -> None:
    await stamp_due(ledger, merchant_id, order_id)


async def _warn(ledger: Ledger, merchant_id: UUID, order_id: UUID, payment_id: UUID, _: datetime) -> None:
    """Stamps due documents before it warns, so that it warns of no receipt that is about to be stamped."""
    await stamp_due(ledger, merchant_id, order_id)
    await warn_of_deadline(ledger, merchant_id, order_id, payment_id)


async def _ask_about_cancellation(
    ledger: Ledger, merchant_id: UUID, order_id: UUID, document_id: UUID, _: datetime
) -> None:
    await update_cancellation(ledger, merchant_id, order_id, document_id)


async def _mail(ledger: Ledger, merchant_id: UUID, order_id: UUID, document_id: UUID, _: datetime) -> None:
    await mail_document(ledger, merchant_id, order_id, document_id)


HANDLERS: Final[Mapping[str, Handler]] = {
    **{kind: partial(_run, kind) for kind in TimerKind},
    REMINDER: _remind,
    InvoiceTimerKind.STAMP: _stamp,
    InvoiceTimerKind.RECEIPT_DEADLINE: _warn,
    InvoiceTimerKind.CANCELLATION: _ask_about_cancellation,
    InvoiceTimerKind.MAIL: _mail,
}
