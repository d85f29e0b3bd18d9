"""What moved the money of an order, in order: each receipt and each refund, with the document that it needs.

Add movements at the end only: documents are stamped in this order, and the balances that they show depend on it. An
amount that a document shows is read from the document. The order's present division into subtotal and surcharge counts
for the other movements alone, so that it never changes a document.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from uuid import UUID

from msgspec import Struct

from ledger.domain.ids import entry_id
from ledger.domain.invoices.state import Document
from ledger.domain.invoices.terms import CreditNoteTerms, ReceiptTerms
from ledger.domain.money import ZERO
from ledger.domain.orders.payment import Payment
from ledger.domain.orders.refund import Refund, RefundPart
from ledger.domain.orders.state import Order


class Movement(Struct, frozen=True, kw_only=True):
    """A receipt of money by a payment or, with `refund_id`, a refund of it.

    `total` is the payment's total so far without surcharge and without overpaid money, received or refunded, in minor
    units. `place` orders the movements.
    """

    slot: str
    payment: Payment
    total: Decimal
    at: datetime
    place: tuple[int, int]
    refund_id: UUID | None = None
    payment_event_id: UUID | None = None


class DueDocument(Struct, frozen=True, kw_only=True):
    """The document that a movement needs: `amount`, in minor units, applied to the invoice or credited.

    `document` is the announced one, None before. `was_cancelled` is True where an earlier one was cancelled. `balance`
    is the invoice's balance before it, `installment` the receipt's number among the invoice's receipts.
    """

    movement: Movement
    amount: Decimal
    balance: Decimal
    installment: int
    document: Document | None
    was_cancelled: bool

    @property
    def is_receipt(self) -> bool:
        return self.movement.refund_id is None


def movements(order: Order) -> list[Movement]:
    """Returns the receipts and the carried out refunds of an order, oldest first. Chargebacks are no movements."""
    found = [*_receipts(order), *_refunds(order)]
    return sorted(found, key=lambda movement: movement.place)


def due_documents(order: Order) -> list[DueDocument]:
    """Returns the receipts and credit notes that the order's movements need, in the order of stamping.

    A receipt applies at most the invoice's balance, a credit note gives back at most what was applied (invariant I8):
    an overpayment needs no documents.
    """
    balance, installment = order.terms.amount, 0
    applied: dict[UUID, Decimal] = defaultdict(Decimal)
    credited: dict[UUID, Decimal] = defaultdict(Decimal)
    received: dict[UUID, Decimal] = defaultdict(Decimal)
    due: list[DueDocument] = []
    for movement in movements(order):
        payment_id = movement.payment.payment_id
        latest = None if order.invoices is None else order.invoices.latest(movement.slot)
        document = None if latest is None or latest.is_cancelled else latest
        if movement.refund_id is None:
            received[payment_id] = movement.total
            amount = min(movement.total - applied[payment_id], balance)
        else:
            unapplied = received[payment_id] - applied[payment_id]
            amount = max(movement.total - unapplied, ZERO) - credited[payment_id]
            amount = min(amount, applied[payment_id] - credited[payment_id])
        amount = max(amount, ZERO) if document is None else _frozen_amount(document)
        if not amount:
            continue
        installment += movement.refund_id is None
        due.append(
            DueDocument(
                movement=movement,
                amount=amount,
                balance=balance,
                installment=installment,
                document=document,
                was_cancelled=document is None and latest is not None,
            )
        )
        if movement.refund_id is None:
            applied[payment_id] += amount
            balance -= amount
        else:
            credited[payment_id] += amount
            balance += amount
    return due


def _frozen_amount(document: Document) -> Decimal:
    match document.terms:
        case ReceiptTerms(applied_amount=amount) | CreditNoteTerms(total=amount):
            return amount
        case _:
            raise AssertionError("a movement's document is a receipt or a credit note")


def _receipts(order: Order) -> Iterator[Movement]:
    for payment in order.payments:
        for inflow in payment.inflows:
            yield Movement(
                slot=f"receipt:{inflow.ordinal}",
                payment=payment,
                total=payment.split_up_to_amount(order.quantum, inflow.captured).subtotal,
                at=inflow.at,
                place=(inflow.ordinal, 0),
            )


def _refunds(order: Order) -> Iterator[Movement]:
    refunded: dict[UUID, Decimal] = defaultdict(Decimal)
    done = ((refund, part) for refund in order.refunds for part in refund.parts if part.success is not None)
    for refund, part in sorted(done, key=_refund_place):
        payment = order.payment(part.payment_id)
        refunded[part.payment_id] += _creditable(payment, part, order.quantum)
        assert part.success is not None, "filtered above"
        yield Movement(
            slot=f"credit-note:{refund.refund_id}:{part.payment_id}",
            payment=payment,
            total=refunded[part.payment_id],
            at=part.success.at,
            place=(part.success.receipts_before, part.success.ordinal),
            refund_id=refund.refund_id,
            payment_event_id=entry_id(part.payment_id, part.ordinal),
        )


def _refund_place(entry: tuple[Refund, RefundPart]) -> tuple[int, int]:
    success = entry[1].success
    assert success is not None, "only refunds that were carried out have a place"
    return success.receipts_before, success.ordinal


def _creditable(payment: Payment, part: RefundPart, quantum: Decimal) -> Decimal:
    """Returns the subtotal that this part of a refund gave back, by section 4.4, without overpaid money."""
    overpaid = max(ZERO, payment.captured - payment.amount)

    def up_to(refunded: Decimal) -> Decimal:
        return payment.parts_of_refund(refunded, quantum).subtotal - min(refunded, overpaid)

    return up_to(min(part.before + part.amount, payment.captured)) - up_to(part.before)
