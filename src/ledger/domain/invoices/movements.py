"""What moved the money of an order, in order: each receipt and each refund, with the document that it needs.

Add movements at the end only: documents are stamped in this order, and the balances that they show depend on it. An
amount that a document shows is read from the document. The announcement of a credit note freezes the division of its
refund into subtotal and surcharge (`Payment.frozen_refunds`): a later receipt of money changes the division of other
refunds only.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from uuid import UUID, uuid5

from msgspec import Struct

from ledger.domain.ids import entry_id
from ledger.domain.money import ZERO
from ledger.domain.orders.invoices.state import Document
from ledger.domain.orders.invoices.terms import CreditNoteTerms, InvoiceTerms, ReceiptTerms, RefundedParts
from ledger.domain.orders.payment import Payment
from ledger.domain.orders.refund import RefundPart
from ledger.domain.orders.state import Order
from ledger.domain.orders.surcharge import split_capture


class Movement(Struct, frozen=True, kw_only=True):
    """A receipt of money by a payment or, with `refund_id`, a refund of it.

    `change` is the change of the subtotal that the order holds, in minor units. `place` orders the movements.
    `refunded` is the division of a refund.
    """

    slot: str
    payment: Payment
    change: Decimal
    at: datetime
    place: tuple[int, int]
    refund_id: UUID | None = None
    payment_event_id: UUID | None = None
    refunded: RefundedParts | None = None


class DueDocument(Struct, frozen=True, kw_only=True):
    """The document that a movement needs: `amount`, in minor units, applied to the invoice or credited.

    `document` is the announced document, None before its announcement. `on_request` is True if a request alone
    announces it: an earlier document was cancelled, or an older release has invoiced the order. `balance` is the
    invoice's balance before this document, `installment` the receipt's number among the invoice's receipts, 0 for a
    credit note of an order without receipts.
    """

    movement: Movement
    amount: Decimal
    balance: Decimal
    installment: int
    document: Document | None
    on_request: bool

    @property
    def is_receipt(self) -> bool:
        return self.movement.refund_id is None


def movements(order: Order) -> list[Movement]:
    """Returns the receipts and the carried out refunds of an order, oldest first. Chargebacks are no movements."""
    found = [*_receipts(order), *_refunds(order)]
    return sorted(found, key=lambda movement: movement.place)


def due_documents(order: Order) -> list[DueDocument]:
    """Returns the receipts and credit notes that the order's movements need, in the order of stamping."""
    return _of_split_order(order) if order.terms.allow_partials else _of_single_order(order)


def _of_split_order(order: Order) -> list[DueDocument]:
    """Returns the receipts and credit notes of a PPD invoice.

    After each of them, the receipts less the credit notes equal the subtotal that the order held at that time, at most
    the invoice's total (invariant I8). An overpayment therefore needs no documents: it is refunded first (section 4.6).
    """
    total, held, applied, installment = order.terms.amount, ZERO, ZERO, 0
    due: list[DueDocument] = []
    for movement in movements(order):
        held += movement.change
        document, was_cancelled = _announced(order, movement)
        missing = min(max(held, ZERO), total) - applied
        is_receipt = movement.refund_id is None
        needed = max(missing if is_receipt else -missing, ZERO)
        amount = needed if document is None else _frozen_amount(document)
        if not amount:
            continue
        installment += is_receipt
        due.append(
            DueDocument(
                movement=movement,
                amount=amount,
                balance=total - applied,
                installment=installment,
                document=document,
                on_request=was_cancelled,
            )
        )
        applied += amount if is_receipt else -amount
    return due


def _of_single_order(order: Order) -> list[DueDocument]:
    """Returns the credit notes of a PUE invoice, which states the payment itself.

    All notes sum to the part of the invoice's total that the order no longer holds, and each is at most its refund. The
    latest refund is stated first: an overpayment that went back, and money that was paid again, need no note.
    """
    if not order.refunds:
        return []
    found, total = movements(order), order.terms.amount
    held = sum((movement.change for movement in found), ZERO)
    refunds = [(movement, *_announced(order, movement)) for movement in found if movement.refund_id is not None]
    stated = sum((_frozen_amount(document) for _, document, _ in refunds if document is not None), ZERO)
    missing = max(total - min(max(held, ZERO), total) - stated, ZERO)
    amounts: list[Decimal] = []
    for movement, document, _ in reversed(refunds):
        amount = min(missing, -movement.change) if document is None else _frozen_amount(document)
        missing -= amount if document is None else ZERO
        amounts.insert(0, amount)
    due: list[DueDocument] = []
    credited = ZERO
    for (movement, document, was_cancelled), amount in zip(refunds, amounts, strict=True):
        if not amount:
            continue
        due.append(
            DueDocument(
                movement=movement,
                amount=amount,
                balance=credited,
                installment=0,
                document=document,
                on_request=was_cancelled or order.invoices is None or order.invoices.enabled.pue_refund is None,
            )
        )
        credited += amount
    return due


def document_id_of(order: Order, slot: str) -> UUID:
    """Returns the id of the next document that is announced for a slot: the same however often it is drawn up."""
    return uuid5(order.terms.order_id, f"{slot}/{earlier_documents(order, slot)}")


def earlier_documents(order: Order, slot: str) -> int:
    """Returns how many documents were announced for a slot: all were cancelled or dropped if another one follows."""
    return 0 if order.invoices is None else sum(each.slot == slot for each in order.invoices.documents)


def _announced(order: Order, movement: Movement) -> tuple[Document | None, bool]:
    """Returns the movement's document, None if it has none, and whether one of the present invoice was cancelled.

    Documents of a cancelled invoice are cancelled with it: those of the next invoice come by themselves.
    """
    invoices = order.invoices
    latest = None if invoices is None else invoices.latest(movement.slot)
    if invoices is None or latest is None or not (latest.is_cancelled or invoices.is_dropped(latest)):
        return latest, False
    assert not isinstance(latest.terms, InvoiceTerms), "a movement has a receipt or a credit note"
    return None, invoices.invoice is None or latest.terms.invoice_id == invoices.invoice.document_id


def _frozen_amount(document: Document) -> Decimal:
    match document.terms:
        case ReceiptTerms(applied_amount=amount) | CreditNoteTerms(total=amount):
            return amount
        case _:
            raise AssertionError("a movement's document is a receipt or a credit note")


def _receipts(order: Order) -> Iterator[Movement]:
    for payment in order.payments:
        before = ZERO
        for inflow in payment.inflows:
            after = split_capture(inflow.captured, payment.requested_split, order.quantum).subtotal
            yield Movement(
                slot=f"receipt:{inflow.ordinal}",
                payment=payment,
                change=after - before,
                at=inflow.at,
                place=(inflow.ordinal, 0),
            )
            before = after


def _refunds(order: Order) -> Iterator[Movement]:
    for refund in order.refunds:
        for part in refund.parts:
            if part.success is None:
                continue
            payment, success = order.payment(part.payment_id), part.success
            refunded = _given_back(payment, part, order.quantum)
            yield Movement(
                slot=f"credit-note:{refund.refund_id}:{part.payment_id}",
                payment=payment,
                change=-refunded.subtotal,
                at=success.at,
                place=(success.receipts_before, success.ordinal),
                refund_id=refund.refund_id,
                payment_event_id=entry_id(part.payment_id, part.ordinal),
                refunded=refunded,
            )


def _given_back(payment: Payment, part: RefundPart, quantum: Decimal) -> RefundedParts:
    """Returns what this part of a refund gave back (section 4.4)."""
    before = payment.parts_of_refund(part.before, quantum)
    after = payment.parts_of_refund(min(part.before + part.amount, payment.captured), quantum)
    return RefundedParts(
        before=part.before,
        subtotal=after.subtotal - before.subtotal,
        surcharge=after.surcharge - before.surcharge,
    )
