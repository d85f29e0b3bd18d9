"""Builds the sealed CFDI of a document, and prints a stamped one, with libraries that take seconds to load."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from uuid import UUID

from ledger.domain.orders.invoices.state import StampingIntent
from ledger.domain.orders.invoices.terms import DocumentTerms, Issuer
from ledger.invoicing.invoicing import Invoicing
from ledger.invoicing.pdf.notes import Notes

if TYPE_CHECKING:
    from ledger.invoicing.pdf.words import Language


async def sealed_xml(invoicing: Invoicing, merchant_id: UUID, terms: DocumentTerms, intent: StampingIntent) -> bytes:
    """Returns the sealed CFDI of a document: the same bytes each time. Raises a Fault, IssuerMissing."""
    issuer, signer = await invoicing.issuers.signer_of(merchant_id, intent.certificate)
    return await asyncio.to_thread(_build, terms, issuer, signer)


def printed(xml: bytes, language: Language, logo: bytes | None, notes: Notes) -> bytes:
    """Returns the printed form of a stamped document. It takes long: call it in a thread."""
    from ledger.invoicing.pdf.render import render

    return render(xml, language=language, logo=logo, notes=notes)


def load_libraries() -> None:
    """Imports what builds and prints documents. It takes seconds: call it in a thread, before a deadline is set."""
    import ledger.invoicing.cfdi.build
    import ledger.invoicing.pdf.render  # noqa: F401 - imported for its effect


def _build(terms: DocumentTerms, issuer: Issuer, signer: Any) -> bytes:
    from ledger.invoicing.cfdi.build import build

    return build(terms, issuer, signer)
