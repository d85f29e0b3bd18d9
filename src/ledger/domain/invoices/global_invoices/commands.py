"""The commands of a global invoice. The outcomes of its call are those of every document."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from msgspec import Struct

from ledger.domain.invoices.global_invoices.contents import StatedOrder
from ledger.domain.orders.invoices.terms import GlobalPeriod, Issuer


class SendGlobalInvoice(Struct, frozen=True, kw_only=True):
    """Asks the provider for the stamp. `deadline_at` ends the call, in real time."""

    provider: str
    certificate: str
    deadline_at: datetime
    at: datetime


class AnnounceGlobalInvoice(SendGlobalInvoice, frozen=True, kw_only=True):
    """Announces a global invoice of these orders, and asks the provider for its stamp."""

    global_invoice_id: UUID
    folio: str
    series: str | None
    issuer: Issuer
    period: GlobalPeriod
    orders: Sequence[StatedOrder]
