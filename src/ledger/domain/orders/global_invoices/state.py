"""The state of a global invoice, folded from its events."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from msgspec import Struct

from ledger.domain.orders.global_invoices.events import IncludedOrder
from ledger.domain.orders.invoices.state import DocumentFailure, DocumentStatus, Stamp, StampingIntent
from ledger.domain.orders.invoices.terms import InvoiceTerms

MARGIN: Final = timedelta(seconds=5)
"""How long after its deadline an open call is first looked up."""
DUE: Final = "global-invoice"
"""The kind of the timer of a global invoice that is not stamped."""


class GlobalInvoice(Struct, frozen=True, kw_only=True):
    """A global invoice. `intent` is the call to the provider that has no outcome yet.

    A FAILED one states nothing: its orders were released.
    """

    global_invoice_id: UUID
    terms: InvoiceTerms
    orders: tuple[IncludedOrder, ...]
    created_at: datetime
    updated_at: datetime
    status: DocumentStatus = DocumentStatus.PENDING
    attempts: int = 0
    intent: StampingIntent | None = None
    retry_at: datetime | None = None
    stamp: Stamp | None = None
    failure: DocumentFailure | None = None

    @property
    def due_at(self) -> datetime | None:
        """When the document is to be looked at: once its open call is over, else at the next attempt; None at the end.

        A merchant's clock is never behind real time, in which calls end.
        """
        if self.status is not DocumentStatus.PENDING:
            return None
        return self.retry_at if self.intent is None else max(self.updated_at, self.intent.deadline_at + MARGIN)
