"""The decider of the warning that the deadline of a payment receipt is near (contract N47)."""

from __future__ import annotations

from ledger.domain.invoices.commands import WarnOfDeadline
from ledger.domain.invoices.due import WARNING, unstamped_receipts
from ledger.domain.invoices.events import InvoiceEvent, ReceiptDeadlineNear
from ledger.domain.orders.state import Order


def decide_deadline_warning(order: Order, command: WarnOfDeadline) -> list[InvoiceEvent]:
    """Warns once for each payment. Returns no events before the warning is due, or where the receipt is stamped.

    It returns none either while a document of the order is being stamped. The outcome of that call sets the timer of
    the warning again. A call whose outcome is unknown prevents no warning.
    """
    due_at = unstamped_receipts(order).get(command.payment_id)
    intent = None if order.invoices is None else order.invoices.open_intent
    if intent is not None and not intent.unknown and command.real_at < intent.deadline_at:
        return []
    warned = () if order.invoices is None else order.invoices.warned
    if due_at is None or command.payment_id in warned or command.at < due_at - WARNING:
        return []
    return [ReceiptDeadlineNear(payment_id=command.payment_id, receipt_due_at=due_at, at=command.at)]
