"""The documents of an order of one payment: its invoice (PUE) states the payment, credit notes state its refunds."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from ledger.domain.invoices.movements import DueDocument, DueKind, Movement, announced, frozen_amount, movements
from ledger.domain.invoices.paid_in_full import invoice_total
from ledger.domain.money import ZERO
from ledger.domain.orders.invoices.state import INVOICE_SLOT, Invoices
from ledger.domain.orders.state import Order


def due_of_single_order(order: Order) -> list[DueDocument]:
    """Returns the credit notes of a PUE invoice, which states the payment itself.

    All notes sum to the part of the invoice's total that the order no longer holds, and each is at most its refund. The
    latest refund is stated first: an overpayment that went back, and money that was paid again, need no note.
    """
    if not order.refunds:
        return []
    found, total = movements(order), invoice_total(order)
    held = sum((movement.change for movement in found), ZERO)
    refunds = [_Refund(order, movement) for movement in found if movement.refund_id is not None]
    stated = sum((each.amount for each in refunds), ZERO)
    _divide(max(total - min(max(held, ZERO), total) - stated, ZERO), refunds)
    due: list[DueDocument] = []
    credited = ZERO
    for each in refunds:
        if not each.amount:
            continue
        receipts_before, ordinal = each.movement.place
        due.append(
            DueDocument(
                kind=DueKind.CREDIT_NOTE,
                slot=each.movement.slot,
                invoice_slot=INVOICE_SLOT,
                suffix=f"-{receipts_before}-{ordinal}",
                movement=each.movement,
                cause=each.movement,
                amount=each.amount,
                parts=((total - credited - each.amount, total - credited),),
                balance=credited,
                installment=0,
                document=each.document,
                on_request=each.was_cancelled or order.invoices is None or order.invoices.enabled.pue_refund is None,
            )
        )
        credited += each.amount
    return due


class _Refund:
    """A refund while the credit notes are drawn up: `amount` is what its credit note states."""

    def __init__(self, order: Order, movement: Movement) -> None:
        self.movement = movement
        self.document, self.was_cancelled = announced(order, movement.slot)
        self.amount = ZERO if self.document is None else frozen_amount(self.document)
        self.cancelled = self._cancelled_in(order.invoices) if self.was_cancelled else ZERO

    def take(self, amount: Decimal) -> Decimal:
        """Adds to the credit note, which is not announced, at most what is left of the refund. Returns what it took."""
        taken = ZERO if self.document is not None else min(amount, -self.movement.change - self.amount)
        self.amount += taken
        return taken

    def _cancelled_in(self, invoices: Invoices | None) -> Decimal:
        latest = None if invoices is None else invoices.latest(self.movement.slot)
        return ZERO if latest is None else frozen_amount(latest)


def _divide(missing: Decimal, refunds: Sequence[_Refund]) -> None:
    """Divides what credit notes still have to state among the refunds without one.

    What a cancelled credit note stated stays its refund's, and waits for a request: no other refund's note replaces it.
    The rest is that of the latest refunds.
    """
    for each in refunds:
        missing -= each.take(min(missing, each.cancelled))
    latest_first = refunds[::-1]
    for each in sorted(latest_first, key=lambda refund: refund.was_cancelled):
        missing -= each.take(missing)
