"""Self-invoicing: when the payer of an order may request its invoice (in Mexico: autofactura), and until when.

Pure functions of the order. Whether the payer holds a signed link is checked before.
"""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Final
from zoneinfo import ZoneInfo

from ledger.domain.invoices.paid_in_full import is_finished_by_release
from ledger.domain.orders.invoices.state import Document, DocumentStatus
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import OrderStatus
from ledger.domain.rejections import SelfInvoiceUnavailable
from ledger.py311_speedups import fast_members

_MONTHS: Final = 12
PAYER_REQUEST: Final = "payer:"
"""How the log names the request of a payer, before its id, which may be the payer's own text."""


@fast_members
class SelfInvoiceState(StrEnum):
    """What the payer of an order can do about its invoice."""

    OPEN = "OPEN"
    """The payer may request it."""
    BEING_STAMPED = "BEING_STAMPED"
    """Its receiver was given, and the service stamps it as soon as the provider answers."""
    INVOICED = "INVOICED"
    INVOICE_CANCELLED = "INVOICE_CANCELLED"
    """The merchant has cancelled it, or asks for that: the merchant alone draws up another."""
    BY_MERCHANT = "BY_MERCHANT"
    """The merchant has given the receiver with the order."""
    IN_GLOBAL_INVOICE = "IN_GLOBAL_INVOICE"
    """A global invoice states the order."""
    NOT_PAID = "NOT_PAID"
    REFUNDED = "REFUNDED"
    """The money went back, or is on its way."""
    CANCELLED = "CANCELLED"
    ERASED = "ERASED"
    """The customer was erased: no personal data is added."""


def self_invoice_state(order: Order) -> SelfInvoiceState:
    """Returns what the payer of an order can do about its invoice. An invoice that failed can be requested again."""
    invoice = None if order.invoices is None else order.invoices.invoice
    if order.payer_forgotten:
        return SelfInvoiceState.ERASED
    if invoice is not None and (invoice.stamp is not None or _is_under_way(invoice)):
        return _of_invoice(invoice)
    if order.global_invoice_id is not None:
        return SelfInvoiceState.IN_GLOBAL_INVOICE
    if order.amount_refunded > 0 and order.net <= 0:
        return SelfInvoiceState.REFUNDED
    if order.closed or order.cancel_requested:
        return SelfInvoiceState.CANCELLED
    if order.status is OrderStatus.REFUND_PROCESSING:
        return SelfInvoiceState.REFUNDED
    if not order.amount_paid or (order.amount_paid < order.amount and not is_finished_by_release(order)):
        return SelfInvoiceState.NOT_PAID
    return SelfInvoiceState.OPEN if order.terms.fiscal is None else SelfInvoiceState.BY_MERCHANT


def require_open(order: Order) -> None:
    """Raises SelfInvoiceUnavailable if the payer may not request the order's invoice."""
    state = self_invoice_state(order)
    if state is not SelfInvoiceState.OPEN:
        raise SelfInvoiceUnavailable(_WHY[state], state)


def self_invoice_ends_at(order: Order, time_zone: str) -> datetime:
    """Returns when the payer's link ends: with the month after that of the latest payment, in the merchant's time
    zone. An order without money has the end of the month after its creation.
    """
    received = [inflow.at for payment in order.payments for inflow in payment.inflows]
    local = max(received, default=order.terms.at).astimezone(ZoneInfo(time_zone))
    months = local.year * _MONTHS + local.month - 1 + 2
    end = datetime(months // _MONTHS, months % _MONTHS + 1, 1, tzinfo=ZoneInfo(time_zone))
    return end.astimezone(UTC)


def _is_under_way(invoice: Document) -> bool:
    """Whether the provider has been asked for the invoice, or will be without another request."""
    return invoice.intent is not None or (invoice.status is DocumentStatus.PENDING and invoice.retry_at is not None)


def _of_invoice(invoice: Document) -> SelfInvoiceState:
    if invoice.stamp is None:
        return SelfInvoiceState.BEING_STAMPED
    gone = invoice.is_cancelled or invoice.is_being_cancelled
    return SelfInvoiceState.INVOICE_CANCELLED if gone else SelfInvoiceState.INVOICED


_WHY: Final = {
    SelfInvoiceState.BEING_STAMPED: "The order's invoice is being stamped.",
    SelfInvoiceState.INVOICED: "The order has its invoice: read it with GET …/cfdi-url.",
    SelfInvoiceState.INVOICE_CANCELLED: "The order's invoice was cancelled, or is being cancelled: "
    "POST …/stamp draws up another.",
    SelfInvoiceState.BY_MERCHANT: "The order has fiscal data of its own: its invoice is stamped without the payer.",
    SelfInvoiceState.IN_GLOBAL_INVOICE: "A global invoice states the order.",
    SelfInvoiceState.NOT_PAID: "The order is not paid in full yet.",
    SelfInvoiceState.REFUNDED: "The order was refunded, or its refund is on its way.",
    SelfInvoiceState.CANCELLED: "The order is cancelled, or its cancellation is pending.",
    SelfInvoiceState.ERASED: "The order's customer was erased.",
}
