"""The model of an order and its payments: every sum and status that follows from them (contract 2.2 and 4), in minor
units.

Share no code with the service, and use integers only: a mistake would have to be made twice to go unnoticed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from property_tests.stateful.sandbox_cards import CARDS, Card

HELD = ("CAPTURED", "PARTIALLY_CAPTURED", "PENDING_SETTLEMENT", "SETTLED", "PARTIALLY_REFUNDED")
UNCAPTURED = ("AUTHORIZED", "PARTIALLY_AUTHORIZED", "PENDING_CAPTURE")
IN_PROGRESS = ("PENDING_AUTHORIZATION", "REQUIRES_ACTION", "PENDING_CANCELLATION")
STATUS_BY_ACTION = {
    "DEVICE_DATA": "PAYER_AUTHENTICATION_DEVICE_DATA_REQUIRED",
    "CHALLENGE": "PAYER_AUTHENTICATION_CHALLENGE_REQUIRED",
    "REDIRECT": "ACTION_REQUIRED",
    "DISPLAY_REFERENCE": "REFERENCE_GENERATED",
}


def divided(amount: int, part: int, whole: int) -> int:
    """Returns amount · part / whole, rounded half up."""
    return (2 * amount * part + whole) // (2 * whole)


@dataclass
class Payment:
    """A payment. `method` is card, spei, paycash or cie_cash_net. `inflows` has for each receipt of money its ordinal
    within the order and the payment's captured total after it.

    `banked` is the money that the sandbox's bank has received and not paid out. A deposit that only a message reports
    is not part of it.
    """

    method: str
    card_name: str | None
    subtotal: int
    surcharge: int
    surcharged: bool
    status: str = "CREATED"
    action: str | None = None
    authorized: int = 0
    captured: int = 0
    refunded: int = 0
    refunding: int = 0
    inflows: list[tuple[int, int]] = field(default_factory=list)
    returns_to: str | None = None
    contested: int = 0
    taken: int = 0
    contesting: bool = False
    dispute: str | None = None
    decided: dict[str | None, int] = field(default_factory=dict)
    batch: str | None = None
    batch_ended: str | None = None
    deposits: dict[str, int] = field(default_factory=dict)
    banked: int = 0
    late: bool = False
    paid_otherwise: bool = False
    void_refused: bool = False
    ends_at: float | None = None
    granted_at: float | None = None
    captured_at: float | None = None
    capture_due_at: float | None = None

    @property
    def card(self) -> Card:
        assert self.card_name is not None, "a card's"
        return CARDS[self.card_name]

    @property
    def gross(self) -> int:
        return self.subtotal + self.surcharge

    @property
    def refundable(self) -> int:
        return self.captured - self.refunded - self.refunding

    def captured_split(self, captured: int) -> tuple[int, int]:
        """Returns the subtotal and the surcharge of this captured total (section 8.5)."""
        if captured >= self.gross or not self.surcharge:
            return (captured - self.surcharge, self.surcharge) if captured else (0, 0)
        subtotal = min(captured, divided(captured, self.subtotal, self.gross))
        return subtotal, captured - subtotal

    def refund_split(self, refunded: int) -> tuple[int, int]:
        """Returns the subtotal and the surcharge of this refunded total (section 4.4): an excess first, without
        surcharge."""
        beyond = min(refunded, max(0, self.captured - self.gross))
        taken = min(self.captured, self.gross)
        subtotal = beyond + (divided(refunded - beyond, self.captured_split(taken)[0], taken) if taken else 0)
        return subtotal, refunded - subtotal

    @property
    def held_subtotal(self) -> int:
        return self.captured_split(self.captured)[0] - self.refund_split(self.refunded)[0]

    @property
    def reserved(self) -> int:
        """What a card authorisation, granted or requested, can still take of the subtotal (N33, section 8.3)."""
        if self.method != "card" or self.captured:
            return 0
        if self.status in {"PENDING_AUTHORIZATION", "PENDING_CANCELLATION", *UNCAPTURED}:
            return self.captured_split(self.authorized)[0] if self.authorized else self.subtotal
        return 0


@dataclass
class Order:
    """An order. `rate` is the surcharge in thousandths of the amount (3.5 % is 35), None if there is none."""

    name: str
    amount_asked: int
    split: bool
    pending: bool
    manual: bool
    rate: int | None
    virtual: bool = False
    payments: list[Payment] = field(default_factory=list)
    cancel_requested: bool = False
    closed: bool = False

    def quoted(self, method: str, subtotal: int) -> int:
        return 0 if self.rate is None or method != "card" else divided(subtotal, self.rate, 1000)

    @property
    def paid(self) -> int:
        return sum(payment.captured for payment in self.payments)

    @property
    def refunded(self) -> int:
        return sum(payment.refunded for payment in self.payments)

    @property
    def net(self) -> int:
        return self.paid - self.refunded

    @property
    def unpaid_subtotal(self) -> int:
        return max(0, self.amount_asked - sum(payment.held_subtotal for payment in self.payments))

    @property
    def free_subtotal(self) -> int:
        """What a further payment can pay: unpaid and not reserved."""
        return self.unpaid_subtotal - sum(payment.reserved for payment in self.payments)

    @property
    def surcharge(self) -> int | None:
        """By section 4.3: the captured surcharge of a split order; on one tender the latest quote, fixed once
        captured."""
        if self.rate is None:
            return None
        if self.split:
            inflows = sum(p.captured_split(p.captured)[1] for p in self.payments)
            return inflows - sum(p.refund_split(p.refunded)[1] for p in self.payments)
        return self._quote()

    def _quote(self) -> int | None:
        inflows = []
        for p in self.payments:
            before = (0, 0)
            for nth, captured in p.inflows:
                subtotal, surcharge = p.captured_split(min(captured, p.gross))
                inflows.append((nth, p, subtotal - before[0], surcharge - before[1]))
                before = subtotal, surcharge
        brought = [(p, subtotal, surcharge) for _, p, subtotal, surcharge in sorted(inflows, key=lambda one: one[0])]
        if self.payments:
            last = self.payments[-1]
            subtotal, surcharge = last.captured_split(min(last.captured, last.gross))
            brought.append((last, last.subtotal - subtotal, last.surcharge - surcharge))
        open_, total, applies = self.amount_asked, 0, False
        for payment, subtotal, surcharge in brought:
            if open_ <= 0:
                break
            applies = applies or payment.surcharged
            total += surcharge if subtotal <= open_ else divided(open_, surcharge, subtotal)
            open_ -= subtotal
        return total if applies else None

    def record_inflow(self, payment: Payment) -> None:
        """Records that the payment received money: its ordinal within the order, and the payment's total."""
        payment.inflows.append((sum(len(p.inflows) for p in self.payments), payment.captured))

    @property
    def in_order_of_capture(self) -> list[Payment]:
        return sorted((p for p in self.payments if p.captured), key=lambda p: p.inflows[0])

    @property
    def amount(self) -> int:
        return self.amount_asked + (self.surcharge or 0)

    @property
    def left_to_pay(self) -> int:
        return max(0, self.amount - self.net)

    @property
    def status(self) -> str:
        """The derived status (contract 2.2)."""
        if self.closed and self.net <= 0:
            return "REFUNDED" if self.refunded else "CANCELLED"
        if self.cancel_requested:
            return "CANCELLATION_REQUESTED"
        if any(payment.status == "PENDING_REFUND" for payment in self.payments):
            return "REFUND_PROCESSING"
        if self.split and self.paid:
            return "COMPLETED" if self.net >= self.amount else "PARTIALLY_PAID"
        if not self.split and self.refunded:
            return "REFUNDED" if self.net <= 0 else "PARTIALLY_REFUNDED"
        if self.net > 0:
            return "COMPLETED" if self.net >= self.amount else "PARTIALLY_PAID"
        return self._unpaid_status()

    def _unpaid_status(self) -> str:
        for payment in reversed(self.payments):
            match payment.status:
                case "REQUIRES_ACTION":
                    return STATUS_BY_ACTION[payment.action or ""]
                case "AUTHORIZED" | "PENDING_CAPTURE" | "PARTIALLY_AUTHORIZED":
                    return "AUTHORIZED" if payment.authorized >= payment.gross else "PARTIALLY_AUTHORIZED"
                case "CREATED" | "PENDING_AUTHORIZATION":
                    return "PROCESSING"
                case "PENDING_CANCELLATION":
                    return "CANCELLATION_REQUESTED"
        if not self.payments or self.split:
            return "PENDING"
        return "PENDING" if self.pending and self.payments[-1].status == "EXPIRED" else "FAILED"
