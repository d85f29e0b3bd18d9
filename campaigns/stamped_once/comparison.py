"""Compares three records of the same documents: what the client traded, what the provider stamped, what the log has."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID

from lxml import etree

from campaigns.chaos.evidence import MerchantEvidence
from ledger.domain.orders.invoices.state import Document, DocumentStatus
from ledger.domain.orders.invoices.terms import InvoiceTerms, ReceiptTerms
from ledger.domain.orders.state import Order

_CFDI: Final = {
    "cfdi": "http://www.sat.gob.mx/cfd/4",
    "pago": "http://www.sat.gob.mx/Pagos20",
    "tfd": "http://www.sat.gob.mx/TimbreFiscalDigital",
}


class Movement(NamedTuple):
    """A payment or a refund as the client made it, in minor units."""

    kind: str
    payment_id: str
    amount: int


class Wanted(NamedTuple):
    """An order, and what needs a document after its invoice, in order."""

    merchant_id: UUID
    order_id: str
    movements: tuple[Movement, ...]


class Recorded(NamedTuple):
    """A stamp as the provider recorded it."""

    merchant_id: UUID
    document_id: UUID
    fiscal_uuid: UUID
    xml: bytes


class Totals(NamedTuple):
    """How much was compared."""

    orders: int
    documents: int
    stamps: int
    attempts: int


def compare(
    wanted: Sequence[Wanted], record: Sequence[Recorded], evidence: Sequence[MerchantEvidence], files: Path
) -> tuple[list[str], Totals]:
    """Returns what does not agree, and how much was compared. `files` is the folder of the stored documents."""
    orders = {order_id: order for merchant in evidence for order_id, order in merchant.orders.items()}
    by_document = {each.document_id: each for each in record}
    violations = [
        f"document {document_id} was stamped {times} times"
        for document_id, times in Counter(each.document_id for each in record).items()
        if times > 1
    ]
    documents: list[Document] = []
    for each in wanted:
        order = orders.get(UUID(each.order_id))
        if order is None or order.invoices is None:
            violations.append(f"order {each.order_id} has no documents")
            continue
        documents += order.invoices.documents
        violations += [f"order {each.order_id}: {what}" for what in _of_order(each, order, by_document, files)]
    violations += _out_of_order(orders, record)
    known = {each.document_id for each in documents}
    violations += [f"the provider stamped {each.document_id}, which no order has" for each in record
                   if each.document_id not in known]  # fmt: skip
    attempts = sum(each.attempts for each in documents)
    return violations, Totals(len(wanted), len(documents), len(record), attempts)


def _of_order(wanted: Wanted, order: Order, record: Mapping[UUID, Recorded], files: Path) -> Iterator[str]:
    assert order.invoices is not None, "the caller checked it"
    documents = order.invoices.documents
    found = [_movement_of(document) for document in documents[1:]]
    if found != list(wanted.movements) or not isinstance(documents[0].terms, InvoiceTerms):
        yield f"its documents are {found}, and it was paid and refunded by {list(wanted.movements)}"
    installments: Counter[UUID] = Counter()
    for document in documents:
        name, stamp = document.slot, document.stamp
        recorded = record.get(document.document_id)
        if document.status is not DocumentStatus.EMITTED or stamp is None:
            yield f"{name} is {document.status}"
            continue
        if recorded is None:
            yield f"{name} was never stamped by the provider"
            continue
        if recorded.fiscal_uuid != stamp.fiscal_uuid:
            yield f"{name} has the fiscal UUID {stamp.fiscal_uuid}, and was stamped as {recorded.fiscal_uuid}"
        stored = files / stamp.xml_key
        content = stored.read_bytes() if stored.is_file() else b""
        if content != recorded.xml or sha256(content).hexdigest() != stamp.xml_sha256:
            yield f"{name} is not stored as it was stamped"
        if isinstance(document.terms, ReceiptTerms):
            installments[document.terms.invoice_id] += 1
            yield from _stated_otherwise(document, recorded.xml, installments[document.terms.invoice_id])
        else:
            yield from _stated_otherwise(document, recorded.xml, 0)


def _movement_of(document: Document) -> Movement:
    terms = document.terms
    if isinstance(terms, ReceiptTerms):
        return Movement("REP", str(terms.payment_id), int(terms.applied_amount))
    if isinstance(terms, InvoiceTerms):
        return Movement("INVOICE", str(terms.payment_id), int(terms.total))
    return Movement("CREDIT_NOTE", str(terms.payment_id), int(terms.total))


def _stated_otherwise(document: Document, xml: bytes, installments: int) -> Iterator[str]:
    """Yields what a stamped document states otherwise than its frozen terms, read by a parser that is not ours."""
    root, terms = etree.fromstring(xml), document.terms
    if len(root.findall(".//tfd:TimbreFiscalDigital", _CFDI)) != 1:
        yield f"{document.slot} has not one stamp"
    if root.get("Folio") != terms.folio:
        yield f"{document.slot} has the folio {root.get('Folio')}, not {terms.folio}"
    if isinstance(terms, ReceiptTerms):
        related = root.find(".//pago:DoctoRelacionado", _CFDI)
        stated = None if related is None else (related.get("NumParcialidad"), related.get("ImpPagado"))
        if stated != (str(installments), f"{terms.applied_amount / 100:.2f}"):
            yield f"{document.slot} states {stated}, and is receipt {installments} over {terms.applied_amount}"
    elif root.get("Total") != f"{terms.total / 100:.2f}":
        yield f"{document.slot} states {root.get('Total')}, not {terms.total}"


def _out_of_order(orders: Mapping[UUID, Order], record: Sequence[Recorded]) -> Iterator[str]:
    """Yields the orders whose documents the provider stamped in another order than theirs."""
    place = {
        document.document_id: (order_id, n)
        for order_id, order in orders.items()
        for n, document in enumerate(() if order.invoices is None else order.invoices.documents)
    }
    stamped: dict[UUID, list[int]] = defaultdict(list)
    for each in record:
        if each.document_id in place:
            order_id, n = place[each.document_id]
            stamped[order_id].append(n)
    for order_id, places in stamped.items():
        if places != sorted(places):
            yield f"order {order_id}: its documents were stamped in the order {places}"
