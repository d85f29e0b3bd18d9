"""The documents of a month that are not stamped: announced ones from their events, others from orders that have them.

A document that cannot be drawn up has no date of issue: it belongs to the month in which that was recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from msgspec import Struct

from ledger.domain.invoices.due import blocked_documents, status_of_document
from ledger.domain.invoices.movements import DueDocument, DueKind, document_id_of
from ledger.domain.invoices.paid_in_full import invoiced_subtotal
from ledger.domain.orders.invoices.state import INVOICE_SLOT, Document, DocumentFailure, DocumentStatus
from ledger.domain.orders.invoices.terms import InvoiceTerms, ReceiptTerms
from ledger.domain.orders.state import Order

ORDERS_MAX: Final = 500
"""How many orders with documents that cannot be drawn up one report reads."""
DOCUMENTS_MAX: Final = 1000
"""How many documents that are not stamped one report lists."""

_CENTS: Final = Decimal(100)

# The orders in which a document could not be drawn up in a time, the earliest first. The index has this topic alone.
_BLOCKED: Final = """
select stream_id from event
 where merchant_id = %(merchant_id)s and recorded_at >= %(begin)s and recorded_at < %(end)s
   and topic = 'invoicing-blocked.v1'
 group by stream_id order by min(recorded_at), stream_id limit %(limit)s
"""


class MissingDocument(Struct, frozen=True, kw_only=True, rename="camel"):
    """A document that is not stamped. `total` is in major units of the currency, as in the lines of the month."""

    order_id: UUID
    document_id: UUID
    kind: str
    state: str
    currency: str
    total: Decimal
    failure_code: str | None
    failure_reason: str | None


COLUMNS: Final = MissingDocument.__struct_encode_fields__


def blocked_statement(merchant_id: UUID, begin: datetime, end: datetime) -> tuple[str, Mapping[str, Any]]:
    """Returns the query of the orders in which a document could not be drawn up between two times: one more than
    `ORDERS_MAX` if there are more.
    """
    return _BLOCKED, {"merchant_id": merchant_id, "begin": begin, "end": end, "limit": ORDERS_MAX + 1}


def missing_documents(
    announced: Iterable[tuple[UUID, Document]], blocked: Sequence[Order], begin: datetime, end: datetime
) -> list[MissingDocument]:
    """Returns the unstamped documents among those announced in a time, and those that `blocked` orders could not draw
    up in it, in the order of their orders' ids.
    """
    known = {order.terms.order_id for order in blocked}
    found = [
        _missing(order_id, document, document.status, document.failure)
        for order_id, document in announced
        if document.stamp is None and order_id not in known
    ]
    for order in blocked:
        found += _of_order(order, begin, end)
    return sorted(found, key=lambda each: (each.order_id, each.kind, each.document_id))


def kind_of(terms: Any) -> str:
    """Returns the kind of a document as the report names it."""
    match terms:
        case InvoiceTerms(payment_method=method):
            return f"INVOICE_{method}"
        case ReceiptTerms():
            return "REP"
        case _:
            return "CREDIT_NOTE"


def total_of(document: Document) -> Decimal:
    """Returns the total of a document, of a receipt what it pays of its invoice, in minor units."""
    return document.terms.applied_amount if isinstance(document.terms, ReceiptTerms) else document.terms.total


def _of_order(order: Order, begin: datetime, end: datetime) -> Iterator[MissingDocument]:
    invoices, order_id = order.invoices, order.terms.order_id
    if invoices is None:
        return
    for document in invoices.current:
        if document.stamp is None and begin <= document.terms.issued_at < end:
            failure = invoices.failure_of(document.slot) or document.failure
            yield _missing(order_id, document, status_of_document(invoices, document), failure)
    rows = [(document_id_of(order, due.slot), _kind_of_due(due), due.amount, why)
            for due, why in blocked_documents(order)]  # fmt: skip
    invoice_failure = invoices.failure_of(INVOICE_SLOT)
    if invoices.invoice is None and invoice_failure is not None:
        kind = "INVOICE_PPD" if order.terms.allow_partials else "INVOICE_PUE"
        rows.append((document_id_of(order, INVOICE_SLOT), kind, invoiced_subtotal(order), invoice_failure))
    for document_id, kind, amount, why in rows:
        if begin <= why.at < end:
            yield MissingDocument(
                order_id=order_id,
                document_id=document_id,
                kind=kind,
                state=DocumentStatus.FAILED,
                currency=order.terms.currency,
                total=amount / _CENTS,
                failure_code=why.code,
                failure_reason=why.message,
            )


def _kind_of_due(due: DueDocument) -> str:
    match due.kind:
        case DueKind.INVOICE:
            return "INVOICE_PPD"
        case DueKind.RECEIPT:
            return "REP"
        case DueKind.CREDIT_NOTE:
            return "CREDIT_NOTE"


def _missing(
    order_id: UUID, document: Document, status: DocumentStatus, failure: DocumentFailure | None
) -> MissingDocument:
    is_failed = status is DocumentStatus.FAILED and failure is not None
    return MissingDocument(
        order_id=order_id,
        document_id=document.document_id,
        kind=kind_of(document.terms),
        state=status,
        currency=document.terms.currency,
        total=total_of(document) / _CENTS,
        failure_code=failure.code if is_failed and failure is not None else None,
        failure_reason=failure.message if is_failed and failure is not None else None,
    )
