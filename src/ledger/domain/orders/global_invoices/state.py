"""The state of a global invoice, folded from its events."""

from __future__ import annotations

from datetime import datetime
from typing import Final
from uuid import UUID

from msgspec import Struct

from ledger.domain.orders.global_invoices.events import IncludedOrder
from ledger.domain.orders.invoices.state import (
    CancellationStatus,
    DocumentCancellation,
    DocumentFailure,
    DocumentStatus,
    Stamp,
    StampingIntent,
)
from ledger.domain.orders.invoices.terms import CancellationMotive, InvoiceTerms

DUE: Final = "global-invoice"
"""The kind of the timer of a global invoice with an open call, that is to be sent again, or is being cancelled."""


class GlobalInvoice(Struct, frozen=True, kw_only=True):
    """A global invoice. `intent` is the call that is to stamp it and has no outcome yet, `cancellation` the latest one.

    One that is FAILED or cancelled states nothing, and its orders are released; if it was cancelled because a
    substitute replaces it (motive 01), the substitute states them.
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
    cancellation: DocumentCancellation | None = None

    @property
    def is_cancelled(self) -> bool:
        return self.cancellation is not None and self.cancellation.status is CancellationStatus.CANCELLED

    @property
    def open_intent(self) -> StampingIntent | None:
        """The open call about the document: a request to stamp or to cancel it."""
        return self.intent or (None if self.cancellation is None else self.cancellation.intent)

    @property
    def has_released_orders(self) -> bool:
        """Whether its orders are free: it is refused, or cancelled without a substitute."""
        if self.cancellation is None or not self.is_cancelled:
            return self.status is DocumentStatus.FAILED
        return self.cancellation.motive is not CancellationMotive.WITH_SUBSTITUTE
