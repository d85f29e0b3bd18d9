"""The documents of a split order: which invoice, receipt or credit note states each movement of its money.

No authority has checked these rules: an accountant should confirm them (docs/how-to/stamp-invoices).

- After all documents, receipts less credit notes are the subtotal that the order holds, at most its invoice's total
  (invariant I8). An overpayment therefore needs none.
- Receipts pay an invoice at most once: their sum stays within its total. A credit note reduces what the invoice states
  for good, so that money which comes after one may have no invoice. What no invoice states gets a further invoice (PPD)
  over that part, and one receipt that pays it whole. Once the order is paid, invoices less credit notes are its total.
- A credit note is about a refund that returned money which receipts state: the payment's receipts less its credit notes
  exceed what is left of it. The present refund comes first, then earlier ones, the latest first: if an overpayment goes
  back after money of another payment, the credit note is the other payment's.
- Credit notes take back parts of the latest invoice first. A further invoice states the parts again that they took
  back, so that the taxes of receipts less credit notes, and of invoices less credit notes, are exactly those of what
  the order holds.

What an announced document shows is read from the document. Only what is missing beside these follows the rules.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Final
from uuid import UUID

from ledger.domain.invoices.movements import (
    DueDocument,
    DueKind,
    Movement,
    Part,
    announced,
    frozen_amount,
    movements,
)
from ledger.domain.money import ZERO
from ledger.domain.orders.invoices.state import INVOICE_SLOT, Document
from ledger.domain.orders.invoices.terms import InvoiceTerms
from ledger.domain.orders.state import Order

_NOTE: Final = "credit-note:"
_LATER: Final = "at"
"""Marks the slot of a credit note that a later refund than its own has made necessary."""


def due_of_split_order(order: Order) -> list[DueDocument]:
    """Returns the further invoices, the receipts and the credit notes of a split order, in the order of stamping."""
    books = _Books(order)
    for movement in movements(order):
        if movement.refund_id is None:
            books.receive(movement)
        else:
            books.give_back(movement)
    return books.due


class _Invoice:
    """An invoice while its documents are drawn up: `held` are the parts of the order's invoice that its receipts state
    and its credit notes do not take back.

    `paid` is the sum of its receipts, `credited` that of its credit notes. `on_request` is True if it was cancelled and
    a request alone draws it up again.
    """

    def __init__(self, slot: str, total: Decimal, *, on_request: bool = False) -> None:
        self.slot, self.total, self.on_request = slot, total, on_request
        self.held: list[Part] = []
        self.paid = self.credited = ZERO
        self.installments = 0

    @property
    def balance(self) -> Decimal:
        """What receipts left of the total, and credit notes added to that again (contract, section 8)."""
        return self.total - self.paid + self.credited

    def hold(self, parts: Sequence[Part]) -> None:
        last = self.held[-1][1] if self.held else None
        if len(parts) == 1 and (last is None or parts[0][0] > last):
            self.held.append(parts[0])
        else:
            self.held = _merged([*self.held, *parts])

    @property
    def is_own(self) -> bool:
        """Whether it is the order's own invoice, not a further one."""
        return self.slot == INVOICE_SLOT

    @property
    def unpaid(self) -> Decimal:
        return max(self.total - self.paid, ZERO)


class _Refund:
    """A refund of one payment: `noted` is what credit notes state of it."""

    def __init__(self, movement: Movement) -> None:
        self.movement = movement
        self.noted = ZERO

    @property
    def room(self) -> Decimal:
        return max(-self.movement.change - self.noted, ZERO)


class _Gaps:
    """The parts of the order's invoice that credit notes have taken back and no further invoice states.

    A credit note extends a gap, so that there is one: what a further invoice states is then one part. The receipt of
    several parts could not state the sum of their taxes within SAT's limits.
    """

    def __init__(self) -> None:
        self._parts: list[Part] = []

    def extend(self, invoice: _Invoice, amount: Decimal) -> list[Part]:
        """Takes parts out of what an invoice holds, `amount` in all at most, and returns them."""
        taken: list[Part] = []
        while amount > 0 and invoice.held:
            (start, end), is_upward = self._beside(invoice)
            size = min(amount, end - start)
            part = (start, start + size) if is_upward else (end - size, end)
            rest = (start + size, end) if is_upward else (start, end - size)
            invoice.held = [each for each in invoice.held if each != (start, end)] + [rest] * (rest[0] < rest[1])
            self._parts = _merged([*self._parts, part])
            taken.append(part)
            amount -= size
        return _merged(taken)

    def fill(self, amount: Decimal) -> list[Part]:
        """Returns parts that are stated again, `amount` in all: one if a gap is large enough."""
        filled: list[Part] = []
        while amount > 0 and self._parts:
            gap = max(self._parts, key=lambda part: part[1] - part[0])
            start = max(gap[0], gap[1] - amount)
            self._parts = [each for each in self._parts if each != gap] + [(gap[0], start)] * (gap[0] < start)
            filled.append((start, gap[1]))
            amount -= gap[1] - start
        return _merged(filled)

    def _beside(self, invoice: _Invoice) -> tuple[Part, bool]:
        """Returns the part that an invoice gives back next, and whether from its lower end: one beside a gap."""
        starts, ends = {start for start, _ in self._parts}, {end for _, end in self._parts}
        for part in invoice.held:
            if part[0] in ends:
                return part, True
        for part in invoice.held:
            if part[1] in starts:
                return part, False
        return (max(invoice.held), False) if invoice.is_own else (min(invoice.held), True)


class _Books:
    """What an order's movements left, payment by payment, and the documents that state it so far."""

    def __init__(self, order: Order) -> None:
        self.due: list[DueDocument] = []
        self._order, self._total = order, order.terms.amount
        self._invoices = [_Invoice(INVOICE_SLOT, self._total)]
        self._gaps = _Gaps()
        self._held: dict[UUID, Decimal] = defaultdict(Decimal)
        self._stated: dict[UUID, Decimal] = defaultdict(Decimal)
        self._held_sum = self._stated_sum = ZERO
        self._refunds: dict[str, _Refund] = {}
        self._latest: dict[str, Document] = {}
        self._notes: dict[str, list[str]] = defaultdict(list)
        for document in () if order.invoices is None else order.invoices.documents:
            if document.slot.startswith(_NOTE) and document.slot not in self._latest:
                self._notes[_cause(document.slot)].append(document.slot)
            self._latest[document.slot] = document

    def receive(self, movement: Movement) -> None:
        """Adds the receipts of money that came in, the second one with the further invoice that it pays."""
        self._move(movement)
        missing, first = max(self._missing(), ZERO), self._invoices[0]
        document, was_cancelled = self._announced(movement.slot)
        amount = min(missing, first.unpaid) if document is None else frozen_amount(document)
        regular = min(amount, first.unpaid)  # an earlier release let receipts exceed the invoice
        parts = [(first.paid, first.paid + regular)] if regular else []
        parts += self._gaps.fill(amount - regular)
        self._receipt(movement, movement.slot, first, amount, parts, document, on_request=was_cancelled)
        further_slot = f"{INVOICE_SLOT}:{movement.place[0]}"
        if missing > amount or further_slot in self._latest:
            self._further_invoice(movement, further_slot, missing - amount)

    def give_back(self, movement: Movement) -> None:
        """Adds the credit notes that a refund makes necessary."""
        self._move(movement)
        self._refunds[movement.slot] = _Refund(movement)
        used = self._notes.get(movement.slot, [])
        for slot in used:
            document, was_cancelled = self._announced(slot)
            refund, invoice = self._refunds.get(_own_slot(slot)), self._invoice_of(slot)
            if refund is None or invoice is None:
                continue
            amount = frozen_amount(document) if document else min(self._excess(), self._cancelled_amount(slot))
            self._credit_note(movement, refund, slot, invoice, amount, document, on_request=was_cancelled)
        for refund, amount in self._returned(movement):
            for invoice, part in self._latest_first(amount):
                slot = _note_slot(movement, refund.movement, invoice)
                if slot not in used:
                    used = [*used, slot]
                    self._credit_note(movement, refund, slot, invoice, part, None, on_request=False)

    def _further_invoice(self, movement: Movement, slot: str, missing: Decimal) -> None:
        """Adds the further invoice of money that no invoice states, and its receipt."""
        invoice, was_cancelled = self._announced(slot)
        total = missing if invoice is None else _total_of(invoice)
        if total <= 0:
            return
        further, parts = _Invoice(slot, total, on_request=was_cancelled), self._gaps.fill(total)
        self._invoices.append(further)
        self.due.append(
            DueDocument(
                kind=DueKind.INVOICE,
                slot=slot,
                invoice_slot=slot,
                suffix=f"-S{movement.place[0]}",
                movement=movement,
                cause=movement,
                amount=total,
                parts=tuple(parts),
                balance=ZERO,
                installment=0,
                document=invoice,
                on_request=was_cancelled,
            )
        )
        receipt_slot = f"{movement.slot}:{slot}"
        receipt, its_cancelled = self._announced(receipt_slot)
        on_request = its_cancelled or was_cancelled
        self._receipt(movement, receipt_slot, further, total, parts, receipt, on_request=on_request)

    def _receipt(
        self,
        movement: Movement,
        slot: str,
        invoice: _Invoice,
        amount: Decimal,
        parts: list[Part],
        document: Document | None,
        *,
        on_request: bool,
    ) -> None:
        if not amount:
            return
        invoice.installments += 1
        further = "" if invoice.is_own else "-S"
        self.due.append(
            DueDocument(
                kind=DueKind.RECEIPT,
                slot=slot,
                invoice_slot=invoice.slot,
                suffix=f"-{movement.place[0]}{further}",
                movement=movement,
                cause=movement,
                amount=amount,
                parts=tuple(parts),
                balance=invoice.balance,
                installment=invoice.installments,
                document=document,
                on_request=on_request,
            )
        )
        invoice.paid += amount
        invoice.hold(parts)
        self._state(movement, amount)

    def _credit_note(
        self,
        cause: Movement,
        refund: _Refund,
        slot: str,
        invoice: _Invoice,
        amount: Decimal,
        document: Document | None,
        *,
        on_request: bool,
    ) -> None:
        if amount <= 0:
            return
        balance, parts = invoice.balance, self._gaps.extend(invoice, amount)
        self.due.append(
            DueDocument(
                kind=DueKind.CREDIT_NOTE,
                slot=slot,
                invoice_slot=invoice.slot,
                suffix=_note_suffix(cause, refund.movement, invoice),
                movement=refund.movement,
                cause=cause,
                amount=amount,
                parts=tuple(parts),
                balance=balance,
                installment=0,
                document=document,
                on_request=on_request or invoice.on_request,
            )
        )
        refund.noted += amount
        invoice.credited += amount
        self._state(refund.movement, -amount)

    def _returned(self, movement: Movement) -> Iterator[tuple[_Refund, Decimal]]:
        """Yields the refunds that returned stated money, each with the amount for which it lacks credit notes."""
        present = self._refunds[movement.slot]
        for refund in (present, *(each for each in reversed(self._refunds.values()) if each is not present)):
            if not self._excess():
                return
            payment_id = refund.movement.payment.payment_id
            stated_beyond = self._stated[payment_id] - self._held[payment_id]
            yield refund, min(self._excess(), refund.room, stated_beyond)

    def _latest_first(self, amount: Decimal) -> Iterator[tuple[_Invoice, Decimal]]:
        for invoice in reversed(self._invoices):
            part = min(amount, _sum_of(invoice.held))
            if part > 0:
                amount -= part
                yield invoice, part

    def _missing(self) -> Decimal:
        """Returns what receipts have to state beyond what documents state, negative if it is less."""
        return min(max(self._held_sum, ZERO), self._total) - self._stated_sum

    def _excess(self) -> Decimal:
        """Returns what credit notes have to state."""
        return max(-self._missing(), ZERO)

    def _move(self, movement: Movement) -> None:
        self._held[movement.payment.payment_id] += movement.change
        self._held_sum += movement.change

    def _state(self, movement: Movement, amount: Decimal) -> None:
        self._stated[movement.payment.payment_id] += amount
        self._stated_sum += amount

    def _announced(self, slot: str) -> tuple[Document | None, bool]:
        """Returns the same as `announced`, in less time: most documents were never cancelled."""
        latest, invoices = self._latest.get(slot), self._order.invoices
        if latest is None or invoices is None:
            return None, False
        if latest.stamp is not None and latest.cancellation is None:
            return latest, False
        return announced(self._order, slot)

    def _invoice_of(self, note_slot: str) -> _Invoice | None:
        _, _, further = note_slot.partition(f":{INVOICE_SLOT}:")
        slot = f"{INVOICE_SLOT}:{further}" if further else INVOICE_SLOT
        return next((each for each in self._invoices if each.slot == slot), None)

    def _cancelled_amount(self, slot: str) -> Decimal:
        """Returns what the slot's latest document stated, which was cancelled or dropped."""
        return frozen_amount(self._latest[slot])


def _merged(parts: Iterable[Part]) -> list[Part]:
    """Returns the parts from the first to the last, with those that touch as one."""
    found: list[Part] = []
    for start, end in sorted(parts):
        if found and found[-1][1] == start:
            found[-1] = (found[-1][0], end)
        else:
            found.append((start, end))
    return found


def _sum_of(parts: Sequence[Part]) -> Decimal:
    return sum((end - start for start, end in parts), ZERO)


def _note_slot(cause: Movement, refund: Movement, invoice: _Invoice) -> str:
    """Returns the slot of a credit note: its refund's, with the later refund that caused it and the further invoice."""
    later = "" if cause is refund else f":{_LATER}:{cause.slot.removeprefix(_NOTE)}"
    further = "" if invoice.is_own else f":{invoice.slot}"
    return f"{refund.slot}{later}{further}"


def _own_slot(note_slot: str) -> str:
    """Returns the slot of the refund that a credit note is about."""
    return note_slot.partition(f":{_LATER}:")[0].partition(f":{INVOICE_SLOT}:")[0]


def _cause(note_slot: str) -> str:
    """Returns the slot of the refund that made a credit note necessary."""
    own, _, cause = note_slot.partition(f":{INVOICE_SLOT}:")[0].partition(f":{_LATER}:")
    return f"{_NOTE}{cause}" if cause else own


def _note_suffix(cause: Movement, refund: Movement, invoice: _Invoice) -> str:
    places = [*cause.place, *(() if cause is refund else refund.place)]
    further = "" if invoice.is_own else f"-S{invoice.slot.removeprefix(f'{INVOICE_SLOT}:')}"
    return "".join(f"-{each}" for each in places) + further


def _total_of(document: Document) -> Decimal:
    assert isinstance(document.terms, InvoiceTerms), "the document of an invoice's slot is an invoice"
    return document.terms.total
