"""One call to the stamping provider about a document: builds the sealed CFDI, sends it, and stores what came back.

Record a stamp only once its files are stored. Where that fails the outcome counts as unknown, and recovery looks the
document up again.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

import structlog

from ledger.domain.invoices.commands import NotFound, NotSent, Refused, Stamped, StampingOutcome, Unanswered
from ledger.domain.orders.invoices.state import Document, StampingIntent
from ledger.domain.orders.invoices.terms import DocumentTerms, Issuer
from ledger.domain.orders.state import Order
from ledger.invoicing import contract
from ledger.invoicing.contract import LookUp, ProviderTimedOut, ProviderUnavailable, StampRequest
from ledger.invoicing.files import FilesUnavailable
from ledger.invoicing.invoicing import Invoicing
from ledger.invoicing.issuers import IssuerMissing
from ledger.operations.context.ledger import Ledger
from ledger.postgres.faults import Fault
from ledger.telemetry.metrics import STAMPS

if TYPE_CHECKING:
    from ledger.invoicing.pdf.words import Language

_log = structlog.get_logger()

_SILENT: Final = Unanswered("The stamping provider did not answer in time.")
_UNREADABLE: Final = Unanswered("The stamping provider's answer could not be read.")
_NOT_STORED: Final = Unanswered("The stamped document could not be stored.")
NOT_BUILT: Final = "CFDI_NOT_BUILT"
"""The code of a document that could not be built or sealed: nothing was sent."""


async def stamp(
    ledger: Ledger, merchant_id: UUID, order: Order, document: Document, intent: StampingIntent
) -> StampingOutcome:
    """Has a document of the order stamped and returns the outcome, once its files are stored. Never raises."""
    invoicing = ledger.invoicing
    if invoicing is None or invoicing.provider is None:
        return NotSent()
    try:
        xml = await sealed_xml(invoicing, merchant_id, document, intent)
    except (Fault, IssuerMissing):
        return NotSent()
    except Exception as fault:  # noqa: BLE001 - it is shown to the merchant, who can send other fiscal data
        _log.error("document_not_built", document_id=str(document.document_id), reason=type(fault).__name__)
        return Refused(NOT_BUILT, f"The document could not be built: {fault}")
    request = StampRequest(
        merchant_id=merchant_id, document_id=document.document_id, deadline_at=intent.deadline_at, xml=xml
    )
    left_s = (intent.deadline_at - datetime.now(UTC)).total_seconds()
    if left_s <= 0:
        return NotSent()
    try:
        async with asyncio.timeout(left_s):
            answer = await invoicing.provider.stamp(request)
    except ProviderUnavailable:
        return NotSent()
    except (ProviderTimedOut, TimeoutError):
        return _SILENT
    except Exception as fault:  # noqa: BLE001 - an answer that cannot be read is an unknown outcome
        _log.error("stamping_provider_failed", provider=intent.provider, reason=type(fault).__name__)
        return _UNREADABLE
    return await _outcome(ledger, invoicing, merchant_id, order, document, answer)


async def look_up(
    ledger: Ledger,
    merchant_id: UUID,
    order: Order,
    document: Document,
    intent: StampingIntent,
    *,
    late_s: float,
    timeout_s: float,
) -> StampingOutcome | None:
    """Returns the outcome of a call without an answer, or None where it is still unknown. Raises a Fault.

    "Not found" is final `late_s` seconds after the deadline, and not before the provider's own time for late arrivals
    is over. A provider that keeps a row for each document recognises a repeated one by its id, and needs no such time.
    """
    invoicing = ledger.invoicing
    if invoicing is None or invoicing.provider is None:
        return None
    provider, now = invoicing.provider, datetime.now(UTC)
    if not provider.capabilities.can_fence:
        late_s = max(late_s, provider.capabilities.late_arrival_s)
    is_final = now >= intent.deadline_at + timedelta(seconds=late_s)
    xml = await sealed_xml(invoicing, merchant_id, document, intent)
    request = LookUp(
        merchant_id=merchant_id,
        document_id=document.document_id,
        deadline_at=now + timedelta(seconds=timeout_s),
        xml=xml,
        fence=False,  # the document is sent again under this id, which a fence would refuse for ever
    )
    try:
        async with asyncio.timeout(timeout_s):
            found = await provider.look_up(request)
    except (ProviderTimedOut, ProviderUnavailable, TimeoutError):
        return None
    if found is None:
        return NotFound() if is_final else None
    outcome = await _outcome(ledger, invoicing, merchant_id, order, document, found)
    return None if isinstance(outcome, Unanswered) else outcome


async def sealed_xml(invoicing: Invoicing, merchant_id: UUID, document: Document, intent: StampingIntent) -> bytes:
    """Returns the sealed CFDI of a document: the same bytes each time. Raises a Fault, IssuerMissing."""
    issuer, signer = await invoicing.issuers.signer_of(merchant_id, intent.certificate)
    return await asyncio.to_thread(_build, document.terms, issuer, signer)


async def _outcome(
    ledger: Ledger,
    invoicing: Invoicing,
    merchant_id: UUID,
    order: Order,
    document: Document,
    answer: contract.Stamped | contract.Refused,
) -> StampingOutcome:
    if isinstance(answer, contract.Refused):
        STAMPS.labels("refused").inc()
        return Refused(answer.code, answer.message)
    document_id = document.document_id
    try:
        logo = await invoicing.issuers.logo_of(merchant_id)
        pdf = await asyncio.to_thread(_print, answer.xml, await _language(ledger, merchant_id, order), logo)
        files = await invoicing.files.put(merchant_id, document_id, answer.fiscal_uuid, answer.xml, pdf)
    except Exception as fault:  # noqa: BLE001 - the stamp exists, and is looked up until its files are stored
        reason = str(fault) if isinstance(fault, FilesUnavailable) else type(fault).__name__
        _log.error("stamped_document_not_stored", document_id=str(document_id), reason=reason)
        return _NOT_STORED
    STAMPS.labels("stamped").inc()
    return Stamped(
        fiscal_uuid=answer.fiscal_uuid,
        invoice_id=answer.invoice_id,
        stamped_at=answer.stamped_at,
        xml_key=files.xml_key,
        pdf_key=files.pdf_key,
        xml_sha256=files.sha256,
    )


def load_libraries() -> None:
    """Imports what builds and prints documents. It takes seconds: call it in a thread, before a deadline is set."""
    import ledger.invoicing.cfdi.build
    import ledger.invoicing.pdf.render  # noqa: F401 - imported for its effect


def _build(terms: DocumentTerms, issuer: Issuer, signer: Any) -> bytes:
    from ledger.invoicing.cfdi.build import build

    return build(terms, issuer, signer)


async def _language(ledger: Ledger, merchant_id: UUID, order: Order) -> Language:
    """Returns the language that the customer prefers (contract N49). Spanish after an erasure. Raises a Fault."""
    found = await ledger.customers.by_id(merchant_id, order.terms.customer_id)
    return "en" if found is not None and found.customer.preferences.language == "en" else "es"


def _print(xml: bytes, language: Language, logo: bytes | None) -> bytes:
    from ledger.invoicing.pdf.render import render

    return render(xml, language=language, logo=logo)
