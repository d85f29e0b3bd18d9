"""The decider of the warning that the deadline of a payment receipt is near (contract N47).

How long before the deadline it is given is `RECEIPT_DEADLINE_WARNING` of `domain/invoices/due`.
"""

from __future__ import annotations

from datetime import datetime

from ledger.domain.invoices.commands import WarnOfDeadline
from ledger.domain.invoices.due import RECEIPT_DEADLINE_WARNING, unstamped_receipts
from ledger.domain.orders.invoices.events import InvoiceEvent, ReceiptDeadlineNear
from ledger.domain.orders.state import Order


def decide_deadline_warning(order: Order, command: WarnOfDeadline) -> list[InvoiceEvent]:
    """Warns once for each payment. Returns no events before the warning is due, or if the receipt is stamped, or
    while a document of the order is being stamped.
    """
    due_at = near_deadline(order, command)
    if due_at is None or is_being_stamped(order, command):
        return []
    return [ReceiptDeadlineNear(payment_id=command.payment_id, receipt_due_at=due_at, at=command.at)]


def near_deadline(order: Order, command: WarnOfDeadline) -> datetime | None:
    """Returns the deadline of a payment's receipt if a warning is due now, else None."""
    due_at = unstamped_receipts(order).get(command.payment_id)
    warned = () if order.invoices is None else order.invoices.warned
    if due_at is None or command.payment_id in warned or command.at < due_at - RECEIPT_DEADLINE_WARNING:
        return None
    return due_at


def is_being_stamped(order: Order, command: WarnOfDeadline) -> bool:
    """Returns whether a call about the order can still succeed: it has no answer, and its deadline has not passed.

    A call whose outcome is unknown prevents no warning.
    """
    intent = None if order.invoices is None else order.invoices.open_intent
    return intent is not None and not intent.unknown and command.real_at < intent.deadline_at
