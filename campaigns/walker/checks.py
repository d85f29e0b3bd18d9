"""What has to hold of a merchant's log after a walk, computed from the events and from the processor's own rows.

Σ REP − Σ credit notes is the captured net subtotal, the taxes of an invoice are those of its receipts, what subscriptions
invoiced is what their orders captured, and the processor moved the money that the ledger recorded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Final
from uuid import UUID

from msgspec.structs import replace

from campaigns.chaos.evidence import MerchantEvidence
from campaigns.chaos.rules import nothing_is_left_open, the_book_agrees, the_log_has_no_gap, views_follow_from_the_log
from ledger.domain.fold import fold
from ledger.domain.money import ZERO
from ledger.domain.orders.invoices.state import DocumentStatus, Invoices, invoice_terms_of
from ledger.domain.orders.invoices.terms import CreditNoteTerms, InvoiceTerms, ReceiptTerms, TaxAmount
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import OrderStatus
from ledger.domain.orders.terms import MethodType
from ledger.domain.subscriptions.events import SubscriptionRequested
from ledger.domain.subscriptions.evolve import evolve
from ledger.domain.subscriptions.state import InvoiceStatus, Subscription

Given = Mapping[bool, Decimal]
"""What the processor gave back: to cards (True), and as payouts (False). In minor units."""

_SMALL: Final = 20
"""The centavos below which SAT's limits may lower the taxes of a credit note or further invoice."""
_NO_TIME: Final = timedelta(0)
_INVOICED: Final = {OrderStatus.COMPLETED, OrderStatus.PARTIALLY_REFUNDED}


def wrong_in(evidence: MerchantEvidence, given_back: Given) -> list[str]:
    """Returns what is wrong with a merchant's log, its read models and the processor's rows."""
    found = {
        "log": the_log_has_no_gap(evidence),
        "views": views_follow_from_the_log(evidence),
        "book": the_book_agrees(evidence),
        "given back": _given_back(evidence, given_back),
        "open": nothing_is_left_open(evidence, _NO_TIME),
        "fiscal": _documents(evidence.orders),
        "subscriptions": _subscriptions(evidence),
    }
    return [f"{rule}: {what}" for rule, broken in found.items() for what in broken]


def _documents(orders: Mapping[UUID, Order]) -> Iterator[str]:
    for order_id, order in orders.items():
        if order.invoices is not None:
            yield from (f"order {order_id}: {what}" for what in documents_wrong(order, order.invoices))


def documents_wrong(order: Order, invoices: Invoices) -> Iterator[str]:
    """Yields what the documents of an order state otherwise than its money. A cancelled document states nothing, and what
    moves after the cancellation of an invoice has none: such an order is left to its merchant.
    """
    waiting = [each.slot for each in invoices.valid if each.status is not DocumentStatus.EMITTED]
    if waiting:
        yield f"{waiting} are not stamped"
    invoice = invoices.stamped_invoice
    if invoice is None:
        if order.amount_paid >= order.amount and order.status in _INVOICED:
            yield f"it is {order.status} and has no invoice: {invoices.blocked}"
        return
    terms = invoice_terms_of(invoice)
    split = terms.payment_method == "PPD"
    stated = (invoices.applied() if split else terms.total) - invoices.credited()
    beyond = max(ZERO, order.amount_paid - terms.total)
    # What a bank took back has no document.
    kept = order.net + sum((payment.charged_back for payment in order.payments), ZERO)
    if not ZERO <= kept - stated <= beyond:
        yield f"its documents state {stated}, and it kept {kept} of {order.amount_paid} captured"
    if split:
        yield from _invoices_wrong(terms, invoices, stated)
    notes = [each.terms.taxes for each in invoices.credit_notes if not each.is_cancelled]
    if invoices.credited() == terms.total and not invoices.further_invoices:
        yield from _other_taxes("credit notes", notes, terms.taxes)


def _invoices_wrong(own: InvoiceTerms, invoices: Invoices, stated: Decimal) -> Iterator[str]:
    """Yields what the invoices of a split order state otherwise than their receipts and credit notes. Receipts pay each
    invoice at most once; once the order is paid, receipts and invoices less credit notes have its total and its taxes.
    """
    documents = [each.terms for each in invoices.valid]
    receipts = [each for each in documents if isinstance(each, ReceiptTerms)]
    notes = [each for each in documents if isinstance(each, CreditNoteTerms)]
    of_type = [each for each in documents if isinstance(each, InvoiceTerms)]
    for invoice in of_type:
        its = [each for each in receipts if each.invoice_id == invoice.document_id]
        applied = sum((each.applied_amount for each in its), ZERO)
        if applied > invoice.total or (invoice is not own and applied < invoice.total):
            yield f"invoice {invoice.folio} over {invoice.total} has receipts over {applied}"
        if applied == invoice.total:
            yield from _other_taxes("receipts", [each.taxes for each in its], invoice.taxes)
    if stated != own.total or any(
        total < _SMALL for total in (*(each.total for each in notes), *(each.total for each in of_type))
    ):
        return
    taken_back = [[replace(tax, amount=-tax.amount) for tax in each.taxes] for each in notes]
    yield from _other_taxes("receipts less notes", [*(each.taxes for each in receipts), *taken_back], own.taxes)
    yield from _other_taxes("invoices less notes", [*(each.taxes for each in of_type), *taken_back], own.taxes)
    invoiced = sum((each.total for each in of_type), ZERO) - invoices.credited()
    if invoiced != own.total:
        yield f"its invoices less credit notes state {invoiced}, and it captured {own.total}"


def _other_taxes(what: str, parts: Iterable[Iterable[TaxAmount]], whole: Iterable[TaxAmount]) -> Iterator[str]:
    """Yields the taxes whose parts do not add up to the invoice's."""
    sums: Counter[tuple[str, str, Decimal, bool]] = Counter()
    for part in parts:
        for tax in part:
            sums[tax.type, tax.factor, tax.rate, tax.withheld] += tax.amount  # type: ignore[assignment]
    for tax in whole:
        found = sums.pop((tax.type, tax.factor, tax.rate, tax.withheld), 0)
        if found != tax.amount:
            yield f"the {what} state {found} of {tax.type} {tax.rate}, the invoice {tax.amount}"
    yield from (f"the {what} state {amount} of {tax}, the invoice none" for tax, amount in sums.items() if amount)


def _subscriptions(evidence: MerchantEvidence) -> Iterator[str]:
    states = [
        fold(evolve, None, [recorded.event for recorded in log])
        for log in evidence.streams.values()
        if isinstance(log[0].event, SubscriptionRequested)
    ]
    paid: dict[UUID, Decimal] = {}
    for state in states:
        yield from _billed_twice(state)
        for invoice in state.invoices:
            if invoice.status is InvoiceStatus.PAID and invoice.payment_order_id is not None:
                if invoice.payment_order_id in paid:
                    yield f"order {invoice.payment_order_id} pays two invoices"
                paid[invoice.payment_order_id] = invoice.amount
    charging = {state.subscription_id for state in states if state.charge is not None}
    for order_id, order in evidence.orders.items():
        if order.terms.subscription_id is None or order.terms.subscription_id in charging:
            continue
        if order.amount_paid != (due := paid.get(order_id, ZERO)):
            yield f"order {order_id} captured {order.amount_paid}, and its invoice is paid with {due}"
    yield from (
        f"an invoice is paid by {order_id}, which is no order" for order_id in paid.keys() - evidence.orders.keys()
    )


def _billed_twice(state: Subscription) -> Iterator[str]:
    billed = Counter(
        (invoice.plan_id, invoice.period_start, invoice.period_end)
        for invoice in state.invoices
        if invoice.period is not None and invoice.status is not InvoiceStatus.VOID
    )
    for (_, start, end), times in billed.items():
        if times > 1:
            yield f"subscription {state.subscription_id}: the period from {start} to {end} was billed {times} times"


def _given_back(evidence: MerchantEvidence, given_back: Given) -> Iterator[str]:
    recorded = {True: ZERO, False: ZERO}
    for order in evidence.orders.values():
        for payment in order.payments:
            recorded[payment.started.method.type is MethodType.CARD] += payment.refunded - payment.charged_back
    for to_card, amount in recorded.items():
        if amount != given_back[to_card]:
            kind = "to cards" if to_card else "as payouts"
            yield f"the ledger gave back {amount} {kind}, the processor {given_back[to_card]}"
