"""What moved the money of an order, in order: each receipt and each refund. `DueDocument` is what one of them needs.

Add movements at the end only: documents are stamped in this order, and the balances that they show depend on it. An
amount that a document shows is read from the document. The announcement of a credit note freezes the division of its
refund into subtotal and surcharge (`Payment.frozen_refunds`): a later receipt of money changes the division of other
refunds only.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from uuid import UUID, uuid5

from msgspec import Struct

from ledger.domain.ids import entry_id
from ledger.domain.money import ZERO
from ledger.domain.orders.invoices.state import INVOICE_SLOT, Document
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


Part = tuple[Decimal, Decimal]
"""A part of the order's invoice, between two amounts of its total."""


class DueKind(StrEnum):
    """What a due document is: a further invoice, a payment receipt or a credit note."""

    INVOICE = "INVOICE"
    RECEIPT = "RECEIPT"
    CREDIT_NOTE = "CREDIT_NOTE"


class DueDocument(Struct, frozen=True, kw_only=True):
    """The document that a movement needs: `amount`, in minor units, invoiced, applied to an invoice or credited.

    `movement` is what it states, `cause` what made it necessary: a credit note may be about an earlier refund.
    `slot` is its place, `invoice_slot` that of the invoice that it belongs to; `suffix` ends its folio. `parts` are the
    parts of the order's invoice that it states. `document` is the announced document, None before its announcement.
    `on_request` is True if a request alone announces it: an earlier document was cancelled, or an older release has
    invoiced the order. `balance` is the balance of its invoice before this document, `installment` the receipt's number
    among the invoice's receipts, 0 for any other document.
    """

    kind: DueKind
    slot: str
    invoice_slot: str
    suffix: str
    movement: Movement
    cause: Movement
    amount: Decimal
    parts: tuple[Part, ...]
    balance: Decimal
    installment: int
    document: Document | None
    on_request: bool

    @property
    def is_receipt(self) -> bool:
        return self.kind is DueKind.RECEIPT


def movements(order: Order) -> list[Movement]:
    """Returns the receipts and the carried out refunds of an order, oldest first. Chargebacks are no movements."""
    found = [*_receipts(order), *_refunds(order)]
    return sorted(found, key=lambda movement: movement.place)


def document_id_of(order: Order, slot: str) -> UUID:
    """Returns the id of the next document that is announced for a slot: the same however often it is drawn up."""
    return uuid5(order.terms.order_id, f"{slot}/{earlier_documents(order, slot)}")


def earlier_documents(order: Order, slot: str) -> int:
    """Returns how many documents were announced for a slot: all were cancelled or dropped if another one follows."""
    return 0 if order.invoices is None else sum(each.slot == slot for each in order.invoices.documents)


def announced(order: Order, slot: str) -> tuple[Document | None, bool]:
    """Returns the document of a slot, None if it has none, and whether one of the present invoice was cancelled.

    Documents of a cancelled invoice are cancelled with it: those of the next invoice come by themselves.
    """
    invoices = order.invoices
    latest = None if invoices is None else invoices.latest(slot)
    if invoices is None or latest is None or not (latest.is_cancelled or invoices.is_dropped(latest)):
        return latest, False
    if isinstance(latest.terms, InvoiceTerms):
        parent, of = invoices.invoice, latest.terms.supplements
    else:
        parent, of = invoices.latest(invoice_slot_of(slot)), latest.terms.invoice_id
    return None, parent is None or of == parent.document_id


def invoice_slot_of(slot: str) -> str:
    """Returns the slot of the invoice that a receipt or credit note of this slot belongs to."""
    _, _, further = slot.partition(f":{INVOICE_SLOT}:")
    return f"{INVOICE_SLOT}:{further}" if further else INVOICE_SLOT


def frozen_amount(document: Document) -> Decimal:
    """Returns what a receipt or a credit note states."""
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
