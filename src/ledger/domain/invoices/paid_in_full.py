"""When an order was paid in full, and what its invoice states: its amount, or what it took if a release finished it.

Pure functions of the order.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from ledger.domain.invoices.movements import movements
from ledger.domain.money import ZERO
from ledger.domain.orders.invoices.state import invoice_terms_of
from ledger.domain.orders.state import Order


def paid_in_full_at(order: Order) -> datetime | None:
    """Returns when the money that an order held last came to its amount; None if it never did, or gave back all of it
    since. What comes in beyond the amount changes nothing.

    What a partial capture has left, and no authorisation holds any more, is not waited for: an order is also paid once
    it holds the rest of its amount, and the last such hold has ended.
    """
    return _reached_at(order, order.terms.amount) or _finished_at(order)


def is_finished_by_release(order: Order) -> bool:
    """Returns whether a release, a final capture or the end of a hold has finished an order of one payment that was
    never paid in full and holds money.
    """
    if order.terms.allow_partials or order.closed or order.cancel_requested or order.amount_paid >= order.amount:
        return False
    return _finished_at(order) is not None


def invoiced_subtotal(order: Order) -> Decimal:
    """Returns what an invoice that is drawn up now states, in minor units: what was asked, or what came in of it if an
    order of one payment was not paid in full and the rest was released. Refunds have documents of their own.
    """
    if order.terms.allow_partials or not order.amount_released or order.amount_paid >= order.amount:
        return order.terms.amount
    captured = (each.captured_split(order.quantum).subtotal for each in order.payments)
    return min(order.terms.amount, sum(captured, ZERO))


def invoice_total(order: Order) -> Decimal:
    """Returns the total of the order's own invoice, in minor units: as its document states it, if there is a valid one,
    else as one that is drawn up now does.
    """
    invoice = None if order.invoices is None else order.invoices.invoice
    if invoice is None or invoice.is_cancelled:
        return invoiced_subtotal(order)
    return invoice_terms_of(invoice).total


def _finished_at(order: Order) -> datetime | None:
    """Returns when the last hold of partial captures ended, or the money came after it, with which the order held all
    of its amount that was not released; None if nothing was released, or the rest is still to be paid.
    """
    ended_at = [each.hold_ended_at for each in order.payments if each.released and each.hold_ended_at is not None]
    if not ended_at:
        return None
    paid_at = _reached_at(order, order.terms.amount - _released_subtotal(order))
    return None if paid_at is None else max(paid_at, *ended_at)


def _released_subtotal(order: Order) -> Decimal:
    return sum((each.released_split(order.quantum).subtotal for each in order.payments), ZERO)


def _reached_at(order: Order, total: Decimal) -> datetime | None:
    """Returns when the subtotal that an order held last came to `total`; None if it never did, or it is gone since."""
    held, reached_at = ZERO, None
    for movement in movements(order):
        before, held = held, held + movement.change
        if before < total <= held:
            reached_at = movement.at
        elif held <= 0:
            reached_at = None
    return reached_at
