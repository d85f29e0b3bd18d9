"""The next invoice of a subscription, as it would be made at the end of the current period. Nothing is recorded."""

from __future__ import annotations

from ledger.domain.rejections import NoNextInvoice
from ledger.domain.subscriptions.commands import RunDue
from ledger.domain.subscriptions.decide import steps
from ledger.domain.subscriptions.decide.due_work import decide_period_end
from ledger.domain.subscriptions.events import InvoiceOpened
from ledger.domain.subscriptions.state import Invoice, InvoiceStatus, Subscription


def preview_next(state: Subscription) -> Invoice:
    """Returns the invoice that the end of the current period makes, if nothing changes until then.

    Raises SubscriptionCanceled; NoNextInvoice if the subscription ends without one.
    """
    steps.require_live(state)
    events = decide_period_end(state, RunDue(at=state.current_period_end))
    for n, event in enumerate(events, start=1):
        if isinstance(event, InvoiceOpened) and not _is_given_up(steps.after(state, events).invoice(event.invoice_id)):
            return steps.after(state, events[:n]).invoice(event.invoice_id)
    raise NoNextInvoice(
        "The subscription ends with its current period and nothing is left to invoice: resume it, or give it another "
        "plan."
    )


def _is_given_up(invoice: Invoice) -> bool:
    """Returns whether the subscription ends without a charge of this invoice, because it owes an older one."""
    return invoice.status is InvoiceStatus.UNCOLLECTIBLE
