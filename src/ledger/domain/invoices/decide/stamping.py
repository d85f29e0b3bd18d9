"""The deciders of stamping: which document is stamped next, and what the provider answered.

Check in this order: the fields of the request (400), the order's state (409), the rules of stamping (422). Never refuse
the outcome of a call.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, assert_never

from msgspec import to_builtins
from msgspec.structs import replace

from ledger.domain.fold import fold
from ledger.domain.invoices.commands import (
    EnableInvoicing,
    NotFound,
    NotSent,
    RecordStamping,
    Refused,
    Stamped,
    StampNext,
    StampRequest,
    StampScope,
    Unanswered,
)
from ledger.domain.invoices.decide.announcements import Failures, drawn_up_again, new_documents
from ledger.domain.invoices.decide.cancellation import cancellation_of_refunded
from ledger.domain.invoices.due import due_documents, unstamped_slots
from ledger.domain.invoices.movements import document_id_of
from ledger.domain.invoices.receivers import combined, wrong_keys
from ledger.domain.orders.evolve.order import evolve
from ledger.domain.orders.invoices.events import (
    DocumentRefused,
    DocumentStamped,
    InvoiceEvent,
    InvoicingBlocked,
    InvoicingEnabled,
    StampingAbandoned,
    StampingAbandonedBecause,
    StampingRequested,
    StampingUnanswered,
)
from ledger.domain.orders.invoices.state import Document, DocumentFailure
from ledger.domain.orders.invoices.terms import InvoiceFolio, InvoiceTerms, InvoicingPolicy, PueRefund, ReceiptTerms
from ledger.domain.orders.state import Order
from ledger.domain.orders.terms import FiscalData
from ledger.domain.rejections import DocumentNotFound, InvalidField, OrderInGlobalInvoice, Rejected, refuse_fields

PAUSES: Final = (timedelta(minutes=5), timedelta(hours=1), timedelta(hours=6), timedelta(hours=24))
"""The pauses before a refused document is tried again by itself (contract 2.4)."""
UNSENT_PAUSES: Final = (timedelta(minutes=1), timedelta(minutes=5), timedelta(minutes=15), timedelta(hours=1))
"""The pauses after a call that was never sent; the last one repeats for as long as the provider is away."""


def decide_enabling(order: Order, command: EnableInvoicing) -> list[InvoiceEvent]:
    """Enables the invoices of an order. Returns no events if they are enabled already for the same receiver.

    Fields that are missing from `fiscal` are taken from the order. Raises OrderInGlobalInvoice; InvalidField if SAT's
    catalogues exclude the combination, or if the invoice is stamped, or being stamped, and `fiscal` names another tax
    id: receipts and credit notes must name the receiver of their invoice.
    """
    require_not_in_global(order)
    current, policy = order.invoices, command.policy
    given = None if command.fiscal is None else _checked(combined(command.fiscal, order.fiscal))
    rate = policy.rate_of(order.terms.currency)
    if current is not None:
        if current.enabled.exchange_rate is not None:
            rate = policy.exchange_rate  # the merchant's rate applies to an order without a rate of its own
        same_rate = rate in {None, current.enabled.exchange_rate}
        if same_rate and (given is None or _is_same(given, order.fiscal)):
            return []
        tax_id = None if given is None else given.tax_id
        named = {each.terms.receiver.tax_id for each in current.issued_invoices if each.has_receiver}
        if tax_id is not None and not named <= {tax_id}:
            raise InvalidField("fiscalConfig.taxId", "must be that of the invoice that is stamped, or being stamped")
    return [
        InvoicingEnabled(
            at=command.at,
            trigger=policy.trigger if current is None else current.enabled.trigger,
            time_zone=policy.time_zone,
            receipt_due_day=policy.receipt_due_day,
            pue_refund=_pue_refund(order, policy),
            exchange_rate=rate,
            fiscal=given,
            series=policy.series if current is None else current.enabled.series,
            folio=policy.folio if current is None else current.enabled.folio,
        )
    ]


def require_not_in_global(order: Order) -> None:
    """Raises OrderInGlobalInvoice if a global invoice states the order."""
    if order.global_invoice_id is not None:
        named = f"The global invoice {order.global_invoice_id} states the order"
        raise OrderInGlobalInvoice(f"{named}: it cannot be invoiced once more.")


def _pue_refund(order: Order, policy: InvoicingPolicy) -> PueRefund | None:
    """Returns the setting that applied when the order was invoiced first; None for a split order, and for one whose
    documents are of a release without the setting: no timer acts on their refunds.
    """
    if order.terms.allow_partials:
        return None
    if order.invoices is None:
        return policy.pue_refund
    known = order.invoices.enabled.pue_refund
    return known if known is not None or order.invoices.documents else policy.pue_refund


def _checked(receiver: FiscalData) -> FiscalData:
    refuse_fields([InvalidField(f"fiscalConfig.{name}", problem) for name, problem in wrong_keys(receiver)])
    return receiver


def _is_same(given: FiscalData, known: FiscalData | None) -> bool:
    """Returns whether two receivers have equal fields. Structs of two classes are never equal."""
    return known is not None and to_builtins(given) == to_builtins(known)


def decide_next(order: Order, command: StampNext) -> list[InvoiceEvent]:
    """Announces the documents that are due, and starts the stamping of the first one that is not stamped.

    The invoice of an order that was refunded in full may be cancelled instead (`cancellation_of_refunded`). Returns no
    events if nothing is due, a call is open, or the pause after a refusal has not ended. The reason why a document
    cannot be drawn up is recorded; a request that starts no stamping for that reason raises it: FiscalDataIncomplete,
    AmountNotStampable. Raises DocumentNotFound for a document that the request names and the order lacks.
    """
    if command.request is not None:
        _require_documents(order, command.request)
    if order.invoices is not None and order.invoices.open_intent is not None:
        return []
    if ending := cancellation_of_refunded(order, command):
        return ending
    drawn, not_drawn = new_documents(order, command)
    after = fold(evolve, order, drawn)
    started, not_started = _start(after, command)
    failed = [*not_drawn, *not_started]
    if command.request is not None and failed and not started:
        raise failed[0][1]
    return [*drawn, *_blocked(after, failed, command.at), *started]


def decide_blocked(order: Order, code: str, message: str, at: datetime) -> list[InvoiceEvent]:
    """Records, once, why no document of the order can be drawn up or sent."""
    reason = DocumentFailure(code, message, at)
    return _blocked(order, [(slot, reason) for slot in unstamped_slots(order)], at)


def series_to_count(order: Order, events: Sequence[InvoiceEvent]) -> str | None:
    """Returns the series whose counter has to give a folio to the document that these events begin to stamp; None if
    the document has its folio.
    """
    started = next((each for each in events if isinstance(each, StampingRequested)), None)
    invoices = None if started is None else fold(evolve, order, events).invoices
    if started is None or invoices is None or invoices.enabled.folio is not InvoiceFolio.COUNTER:
        return None
    document = invoices.document(started.document_id)
    return None if document is None or document.is_counted else document.terms.series


def with_folio(events: Sequence[InvoiceEvent], number: int) -> list[InvoiceEvent]:
    """Returns the events with the folio in the one that begins to stamp a document."""
    return [replace(each, folio=str(number)) if isinstance(each, StampingRequested) else each for each in events]


def decide_outcome(order: Order, command: RecordStamping) -> list[InvoiceEvent]:
    """Records the outcome of a call. Returns no events if it is recorded already. Never refuses."""
    invoices, at, document_id = order.invoices, command.at, command.document_id
    document = None if invoices is None else invoices.document(document_id)
    if document is None or document.stamp is not None:
        return []
    match command.outcome:
        case Stamped() as stamped:
            return [_stamped(document, stamped, at)]
        case _ if document.intent is None:
            return []
        case Refused(code=code, message=message):
            retry_at = at + PAUSES[document.refusals] if document.refusals < len(PAUSES) else None
            return [DocumentRefused(document_id=document_id, code=code, message=message, at=at, retry_at=retry_at)]
        case Unanswered(reason=reason):
            unknown = document.intent.unknown
            return [] if unknown else [StampingUnanswered(document_id=document_id, reason=reason, at=at)]
        case NotFound():
            because = StampingAbandonedBecause.NOT_FOUND
            return [StampingAbandoned(document_id=document_id, because=because, retry_at=at, at=at)]
        case NotSent():
            because = StampingAbandonedBecause.NOT_SENT
            retry_at = at + UNSENT_PAUSES[min(document.attempts, len(UNSENT_PAUSES)) - 1]
            return [StampingAbandoned(document_id=document_id, because=because, retry_at=retry_at, at=at)]
        case _:
            assert_never(command.outcome)


def _blocked(
    order: Order, failed: Sequence[tuple[str, Rejected | DocumentFailure]], at: datetime
) -> list[InvoiceEvent]:
    """Returns the events that record why documents cannot be drawn up, without the reasons that are known."""
    slots: dict[tuple[str, str], list[str]] = defaultdict(list)
    for slot, reason in failed:
        known = None if order.invoices is None else order.invoices.failure_of(slot)
        if known is None or (known.code, known.message) != (reason.code, reason.message):
            slots[reason.code, reason.message].append(slot)
    return [
        InvoicingBlocked(code=code, message=message, slots=tuple(same), at=at)
        for (code, message), same in slots.items()
    ]


def _start(order: Order, command: StampNext) -> tuple[list[InvoiceEvent], Failures]:
    """Returns the events that start the stamping of the first document that is due or requested, and the documents
    before it that cannot be drawn up again.
    """
    failed: list[tuple[str, Rejected]] = []
    for document in () if order.invoices is None else order.invoices.stampable:
        if not _is_wanted(document, command):
            continue
        try:
            again = drawn_up_again(order, command, document)
        except Rejected as reason:
            failed.append((document.slot, reason))
            continue
        requested = StampingRequested(
            document_id=document.document_id,
            provider=command.provider,
            certificate=command.certificate,
            deadline_at=command.deadline_at,
            at=command.at,
        )
        return [*again, requested], failed
    return [], failed


def _is_wanted(document: Document, command: StampNext) -> bool:
    request = command.request
    if request is None:
        return document.retry_at is not None and document.retry_at <= command.at
    before = command.attempts_before
    if before is not None and document.attempts > before.get(document.document_id, 0):
        return False
    if isinstance(document.terms, InvoiceTerms):
        further = {StampScope.COMPLEMENTS} if document.terms.supplements is not None else set()
        return request.scope in {StampScope.ALL, StampScope.INVOICE, *further}
    kind = StampScope.COMPLEMENTS if isinstance(document.terms, ReceiptTerms) else StampScope.CREDIT_NOTES
    is_named = not request.document_ids or document.document_id in request.document_ids
    return request.scope in {StampScope.ALL, kind} and is_named


def _require_documents(order: Order, request: StampRequest) -> None:
    known = {document.document_id for document in (() if order.invoices is None else order.invoices.documents)}
    due = {document_id_of(order, each.slot) for each in due_documents(order) if each.document is None}
    if not (known | due).issuperset(request.document_ids):
        raise DocumentNotFound("The order has no payment receipt or credit note with one of these ids.")


def _stamped(document: Document, stamped: Stamped, at: datetime) -> DocumentStamped:
    return DocumentStamped(
        document_id=document.document_id,
        fiscal_uuid=stamped.fiscal_uuid,
        invoice_id=stamped.invoice_id,
        stamped_at=stamped.stamped_at,
        xml_key=stamped.xml_key,
        pdf_key=stamped.pdf_key,
        xml_sha256=stamped.xml_sha256,
        at=at,
        mail=stamped.mail,
    )
