"""When a global invoice is to be looked at."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from ledger.domain.invoices.due import pause_of
from ledger.domain.orders.global_invoices.state import GlobalInvoice
from ledger.domain.orders.invoices.state import CancellationStatus, DocumentStatus

MARGIN: Final = timedelta(seconds=5)
"""How long after its deadline an open call is first looked up."""


def due_at(invoice: GlobalInvoice) -> datetime | None:
    """Returns when the document is to be looked at: once its open call is over, else at the next attempt to stamp it or
    the next question about its cancellation; None if nothing is left to do.

    A merchant's clock is never behind real time, in which calls end.
    """
    intent, cancellation = invoice.open_intent, invoice.cancellation
    if intent is not None:
        return max(invoice.updated_at, intent.deadline_at + MARGIN)
    if invoice.status is DocumentStatus.PENDING:
        return invoice.retry_at
    if cancellation is not None and cancellation.status is CancellationStatus.PENDING:
        return cancellation.updated_at + pause_of(cancellation)
    return None
