"""The dependencies of operations on electronic invoices, in one value."""

from __future__ import annotations

from msgspec import Struct

from ledger.invoicing.contract import StampingProvider
from ledger.invoicing.files import DocumentFiles
from ledger.invoicing.issuers import Issuers
from ledger.invoicing.self_invoice_links import SelfInvoiceLinks


class Invoicing(Struct, frozen=True, kw_only=True):
    """One process's access to stamping. `provider` is None in production until one is configured."""

    provider: StampingProvider | None
    issuers: Issuers
    files: DocumentFiles
    links: SelfInvoiceLinks
    timeout_s: float = 30.0
    """How long a call to the provider may take, in seconds of real time."""
