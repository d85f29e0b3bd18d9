"""The rules of one subscription: its moves (I7), its periods (S1), the orders that pay it (S2), its charge (S3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from itertools import pairwise
from typing import Any
from uuid import UUID

from ledger.audit.invariants.broken import Broken
from ledger.domain.money import ZERO
from ledger.domain.subscriptions.events import ChargeBegun
from ledger.domain.subscriptions.state import SUBSCRIPTION_EDGES, InvoiceStatus, Subscription


def broken_subscription(before: Subscription | None, event: Any, after: Subscription) -> Iterator[Broken]:
    """Yields the rules that a subscription breaks after an event. `before` is None for its first event."""
    status = None if before is None else before.status
    if status is not after.status and (status, after.status) not in SUBSCRIPTION_EDGES:
        yield Broken("I7", f"the subscription moved from {status} to {after.status}")
    if isinstance(event, ChargeBegun) and before is not None and before.charge is not None:
        yield Broken("S3", f"order {event.order_id} is charged, and the charge of {before.charge.order_id} is open")
    if before is None or before.invoices is not after.invoices:
        yield from _broken_periods(after)
        yield from _broken_invoices(after)


def broken_payments(paid: Mapping[UUID, Decimal], captured: Mapping[UUID, Decimal]) -> Iterator[Broken]:
    """Yields the invoices that no order of their amount has paid, and the orders that paid without an invoice (S2).

    `paid` are the amounts of PAID invoices by the order that paid, `captured` what the orders of subscriptions have
    captured, both in minor units. Leave out the order of a charge without an outcome.
    """
    for order_id in sorted(paid.keys() | captured.keys()):
        due, taken = paid.get(order_id), captured.get(order_id)
        if due is None:
            if taken:
                yield Broken("S2", f"order {order_id} has captured {taken}, and no invoice is paid by it")
        elif taken is None:
            yield Broken("S2", f"an invoice over {due} is paid by {order_id}, which is no order of a subscription")
        elif due != taken:
            yield Broken("S2", f"order {order_id} has captured {taken}, and its invoice is over {due}")


def paid_by_orders(subscription: Subscription) -> list[tuple[UUID, Decimal]]:
    """Returns the orders that paid the invoices of a subscription, with the invoices' amounts in minor units."""
    return [
        (invoice.payment_order_id, invoice.amount)
        for invoice in subscription.invoices
        if invoice.status is InvoiceStatus.PAID and invoice.payment_order_id is not None and invoice.amount
    ]


def _broken_periods(subscription: Subscription) -> Iterator[Broken]:
    """Yields the periods that overlap, or that leave a gap. A change of plan may begin a new row of periods."""
    cycles = [invoice for invoice in subscription.invoices if invoice.period is not None]
    for one in cycles:
        if one.period_end <= one.period_start:
            yield Broken("S1", f"invoice {one.invoice_id} is of a period that ends before it begins")
    charged = [invoice for invoice in cycles if invoice.status is not InvoiceStatus.VOID]
    for one, two in pairwise(charged):
        if two.period_start < one.period_end:
            yield Broken("S1", f"the periods of the invoices {one.invoice_id} and {two.invoice_id} overlap")
    for one, two in pairwise(cycles):
        follows = two.period is not None and one.period is not None and two.period == one.period + 1
        if follows and two.period_start > one.period_end:
            yield Broken("S1", f"between the periods of the invoices {one.invoice_id} and {two.invoice_id} is a gap")


def _broken_invoices(subscription: Subscription) -> Iterator[Broken]:
    seen: set[UUID] = set()
    for order_id, _ in paid_by_orders(subscription):
        if order_id in seen:
            yield Broken("S2", f"order {order_id} pays two invoices")
        seen.add(order_id)
    for invoice in subscription.invoices:
        lines = sum([line.amount for line in invoice.lines], ZERO)
        if lines != invoice.amount or invoice.amount < 0:
            yield Broken("S2", f"invoice {invoice.invoice_id} is over {invoice.amount}, and its lines over {lines}")
