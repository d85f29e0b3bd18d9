"""The deciders of a global invoice, and of the orders in it.

Never refuse the outcome of a call. An order and its global invoice change in one commit: the order's events are decided
here too.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, assert_never

from ledger.domain.invoices.commands import NotFound, NotSent, Refused, Stamped, StampingOutcome, Unanswered
from ledger.domain.invoices.decide.announcements import FRESH
from ledger.domain.invoices.decide.stamping import UNSENT_PAUSES
from ledger.domain.invoices.global_invoices.commands import AnnounceGlobalInvoice, SendGlobalInvoice
from ledger.domain.invoices.global_invoices.contents import StatedOrder, global_terms
from ledger.domain.orders.events import IncludedInGlobalInvoice, ReleasedFromGlobalInvoice
from ledger.domain.orders.global_invoices.events import (
    GlobalInvoiceAnnounced,
    GlobalInvoiceEvent,
    GlobalInvoiceRefused,
    GlobalInvoiceStamped,
    GlobalStampingAbandoned,
    GlobalStampingRequested,
    GlobalStampingUnanswered,
    IncludedOrder,
)
from ledger.domain.orders.global_invoices.state import GlobalInvoice
from ledger.domain.orders.invoices.events import StampingAbandonedBecause
from ledger.domain.orders.invoices.state import DocumentStatus
from ledger.domain.orders.state import Order

_LAST: Final = len(UNSENT_PAUSES)


def decide_announcement(command: AnnounceGlobalInvoice) -> list[GlobalInvoiceEvent]:
    """Announces a global invoice and starts its stamping. The caller has chosen the orders and loaded each."""
    terms = global_terms(
        command.orders,
        document_id=command.global_invoice_id,
        folio=command.folio,
        issued_at=command.at,
        issuer=command.issuer,
        series=command.series,
        period=command.period,
    )
    announced = GlobalInvoiceAnnounced(
        global_invoice_id=command.global_invoice_id,
        terms=terms,
        orders=tuple(IncludedOrder(each.order.terms.order_id, each.amount) for each in command.orders),
        at=command.at,
    )
    return [announced, _requested(command, None)]


def decide_inclusion(stated: StatedOrder, command: AnnounceGlobalInvoice) -> list[IncludedInGlobalInvoice]:
    """Records on an order which global invoice states it, and what."""
    included = IncludedInGlobalInvoice(global_invoice_id=command.global_invoice_id, amount=stated.amount, at=command.at)
    return [included]


def decide_release(order: Order, invoice: GlobalInvoice, at: datetime) -> list[ReleasedFromGlobalInvoice]:
    """Records on an order that its global invoice was refused, or cancelled if it was stamped before. Returns no events
    if another one states it.
    """
    if order.global_invoice_id != invoice.global_invoice_id:
        return []
    cancelled = None if invoice.stamp is None else invoice.stamp.fiscal_uuid
    return [ReleasedFromGlobalInvoice(global_invoice_id=invoice.global_invoice_id, cancelled_uuid=cancelled, at=at)]


def decide_sending(invoice: GlobalInvoice, command: SendGlobalInvoice) -> list[GlobalInvoiceEvent]:
    """Sends a document again that was never stamped, once its pause has ended. Returns no events otherwise.

    A date that is too old for SAT is replaced: the provider certainly does not have the document.
    """
    retry_at = invoice.retry_at
    if invoice.status is not DocumentStatus.PENDING or invoice.intent is not None:
        return []
    if retry_at is None or retry_at > command.at:
        return []
    is_fresh = command.at - invoice.terms.issued_at < FRESH
    return [_requested(command, None if is_fresh else command.at)]


def decide_outcome(invoice: GlobalInvoice, outcome: StampingOutcome, at: datetime) -> list[GlobalInvoiceEvent]:
    """Records the outcome of the call. Returns no events if it is recorded already."""
    if invoice.status is not DocumentStatus.PENDING:
        return []
    match outcome:
        case Stamped():
            stamped = GlobalInvoiceStamped(
                fiscal_uuid=outcome.fiscal_uuid,
                invoice_id=outcome.invoice_id,
                stamped_at=outcome.stamped_at,
                xml_key=outcome.xml_key,
                pdf_key=outcome.pdf_key,
                xml_sha256=outcome.xml_sha256,
                at=at,
            )
            return [stamped]
        case _ if invoice.intent is None:
            return []
        case Refused(code=code, message=message):
            return [GlobalInvoiceRefused(code=code, message=message, at=at)]
        case Unanswered(reason=reason):
            return [] if invoice.intent.unknown else [GlobalStampingUnanswered(reason=reason, at=at)]
        case NotFound():
            return [GlobalStampingAbandoned(because=StampingAbandonedBecause.NOT_FOUND, retry_at=at, at=at)]
        case NotSent():
            retry_at = at + _pause(invoice)
            return [GlobalStampingAbandoned(because=StampingAbandonedBecause.NOT_SENT, retry_at=retry_at, at=at)]
        case _:
            assert_never(outcome)


def _pause(invoice: GlobalInvoice) -> timedelta:
    return UNSENT_PAUSES[min(invoice.attempts, _LAST) - 1]


def _requested(command: SendGlobalInvoice, issued_at: datetime | None) -> GlobalStampingRequested:
    return GlobalStampingRequested(
        provider=command.provider,
        certificate=command.certificate,
        deadline_at=command.deadline_at,
        at=command.at,
        issued_at=issued_at,
    )
