"""The history of a payment, as `paymentEvents` shows it: an entry for each step, completed in place.

Never move an entry and never change its start: its id is computed from its place.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Final
from uuid import UUID

from msgspec.structs import replace

from ledger.domain.orders.payment import EntryAction, EntryStatus, HistoryEntry, Inflow, Payment
from ledger.domain.orders.state import Order

_OPEN: Final = frozenset({EntryStatus.PENDING, EntryStatus.UNKNOWN})

LATE_REASON: Final = "Reported late by the processor."
PAYER_WAS_QUICKER: Final = "The payer had paid before the session was ended."


def history_with(
    payment: Payment,
    action: EntryAction,
    status: EntryStatus,
    amount: Decimal | None,
    at: datetime,
    reason: str | None = None,
    refund_id: UUID | None = None,
    reported_amount: Decimal | None = None,
) -> tuple[HistoryEntry, ...]:
    """Returns the payment's entries with this step: its open entry is updated in place, else a new entry is added."""
    entries = payment.entries
    for place in range(len(entries) - 1, -1, -1):
        entry = entries[place]
        if entry.action is action and entry.status in _OPEN:
            refund_id, reported_amount = refund_id or entry.refund_id, reported_amount or entry.reported_amount
            updated = HistoryEntry(action, status, amount, entry.at, reason, refund_id, reported_amount)
            return (*entries[:place], updated, *entries[place + 1 :])
    return (*entries, HistoryEntry(action, status, amount, at, reason, refund_id, reported_amount))


def history_ended(
    payment: Payment, action: EntryAction, at: datetime, reason: str, *, amount: Decimal | None = None
) -> tuple[HistoryEntry, ...]:
    """Returns the entries of an ended payment: open steps failed for this reason, and the ending `action` succeeded."""
    closed = tuple(
        replace(entry, status=EntryStatus.FAILED, reason=reason)
        if entry.status in _OPEN and entry.action is not action
        else entry
        for entry in payment.entries
    )
    return history_with(replace(payment, entries=closed), action, EntryStatus.SUCCESS, amount, at)


def history_failed(payment: Payment, at: datetime, reason: str) -> tuple[HistoryEntry, ...]:
    """Returns the entries of a failed payment: its open steps failed; without one, a failed authorisation is added."""
    entries = tuple(
        replace(entry, status=EntryStatus.FAILED, amount=payment.amount, reason=reason)
        if entry.status in _OPEN
        else entry
        for entry in payment.entries
    )
    if entries != payment.entries:
        return entries
    return (*entries, HistoryEntry(EntryAction.AUTHORIZATION, EntryStatus.FAILED, payment.amount, at, reason))


def inflows_with(order: Order, payment: Payment, captured: Decimal, at: datetime) -> tuple[Inflow, ...]:
    """Returns the payment's inflows with one more, after all of the order; `captured` is the payment's total then."""
    return (*payment.inflows, Inflow(1 + receipts_of(order), captured, at))


def receipts_of(order: Order) -> int:
    """Returns how many receipts of money the order has had."""
    return sum(len(payment.inflows) for payment in order.payments)
