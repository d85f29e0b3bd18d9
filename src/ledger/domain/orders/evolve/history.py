"""The history of a payment, as `paymentEvents` shows it: each step begun once and settled in its place.

The rule a stranger would break: an entry keeps its place and its beginning for ever, because its id is made of the place.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Final
from uuid import UUID

from msgspec.structs import replace

from ledger.domain.orders.payment import EntryAction, EntryStatus, HistoryEntry, Payment

_UNSETTLED: Final = frozenset({EntryStatus.PENDING, EntryStatus.UNKNOWN})


def history_with(
    payment: Payment,
    action: EntryAction,
    status: EntryStatus,
    amount: Decimal | None,
    at: datetime,
    reason: str | None = None,
    refund_id: UUID | None = None,
) -> tuple[HistoryEntry, ...]:
    """The payment's entries with this step begun, or settled where it was begun."""
    entries = payment.entries
    for place in range(len(entries) - 1, -1, -1):
        entry = entries[place]
        if entry.action is action and entry.status in _UNSETTLED:
            settled = HistoryEntry(action, status, amount, entry.at, reason, refund_id or entry.refund_id)
            return (*entries[:place], settled, *entries[place + 1 :])
    return (*entries, HistoryEntry(action, status, amount, at, reason, refund_id))


def history_ended(
    payment: Payment, action: EntryAction, at: datetime, reason: str, *, amount: Decimal | None = None
) -> tuple[HistoryEntry, ...]:
    """The payment's entries once it is over: what was under way failed for this reason, and the ending itself succeeded."""
    over = tuple(
        replace(entry, status=EntryStatus.FAILED, reason=reason)
        if entry.status in _UNSETTLED and entry.action is not action
        else entry
        for entry in payment.entries
    )
    return history_with(replace(payment, entries=over), action, EntryStatus.SUCCESS, amount, at)


def history_failed(payment: Payment, at: datetime, reason: str) -> tuple[HistoryEntry, ...]:
    """The payment's entries once it has failed: whatever was under way did."""
    steps = tuple(
        replace(entry, status=EntryStatus.FAILED, amount=payment.amount, reason=reason)
        if entry.status in _UNSETTLED
        else entry
        for entry in payment.entries
    )
    if steps != payment.entries:
        return steps
    return (*steps, HistoryEntry(EntryAction.AUTHORIZATION, EntryStatus.FAILED, payment.amount, at, reason))
