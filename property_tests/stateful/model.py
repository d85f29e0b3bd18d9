"""The model of the interface: for every operation its expected answer, and the order afterwards.

Predict an answer before the request is sent. Each operation returns the status and the code that the service must
answer; a refused operation must not change the model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from property_tests.stateful.model_order import HELD, IN_PROGRESS, UNCAPTURED, Order, Payment, divided

MINUTE, HOUR, DAY = 60, 3600, 86_400
REFUNDABLE = (*HELD, "FAILED", "REFUNDED")
FINAL = ("FAILED", "CANCELLED", "REFUNDED")
PAYABLE = ("PENDING", "PARTIALLY_PAID", "FAILED", "REFERENCE_GENERATED")
TAKES_PARTS = (
    "PENDING", "PROCESSING", "PARTIALLY_PAID", "REFERENCE_GENERATED", "AUTHORIZED", "PARTIALLY_AUTHORIZED",
    "ACTION_REQUIRED", "PAYER_AUTHENTICATION_DEVICE_DATA_REQUIRED", "PAYER_AUTHENTICATION_CHALLENGE_REQUIRED",
)  # fmt: skip


class Expected(NamedTuple):
    """An expected answer: its HTTP status, and its `code` if it is an error."""

    status: int
    code: str | None = None


@dataclass
class DueMessage:
    """A message that the sandbox sends when the merchant's clock reaches `at`. `done` if its effect is recorded
    already."""

    at: float
    kind: str
    order: Order
    payment: Payment
    amount: int
    done: bool = False


def _no_receiver(_: DueMessage) -> None:
    raise AssertionError("no inbox receives the sandbox's messages")


@dataclass
class Model:
    """The model of one merchant: its orders, and its clock as the seconds by which it was advanced (`now`)."""

    rate: int | None
    now: float = 0
    orders: dict[str, Order] = field(default_factory=dict)
    outbox: list[DueMessage] = field(default_factory=list)
    deliver: Callable[[DueMessage], None] = field(default=_no_receiver)

    # ---------------------------------------------------------------- paying

    def create(self, order: Order, method: str | None, card: str | None) -> Expected:
        """POST /v2/payment-orders with a new or an existing external id (N25 to N28)."""
        known = self.orders.get(order.name)
        if known is not None:
            return self._again(known, order, method, card)
        order.split = order.split and method is None  # N22
        self.orders[order.name] = order
        return Expected(201) if method is None else self._pay(order, method, card, order.amount_asked, Expected(201))

    def _again(self, known: Order, asked: Order, method: str | None, card: str | None) -> Expected:
        if known.amount_asked != asked.amount_asked:
            return Expected(409, "IDEMPOTENCY_MISMATCH")
        if known.status == "CANCELLED":
            return Expected(409, "DUPLICATE_EXTERNAL_ID")
        if known.status != "FAILED" or method is None:
            return Expected(200)
        return self._pay(known, method, card, known.unpaid_subtotal, Expected(201))

    def charge(self, order: Order, method: str, card: str | None, amount: int | None) -> Expected:
        """POST …/charge (N31)."""
        if amount is not None and (amount <= 0 or not order.split):
            return Expected(400, "VALIDATION_ERROR")
        if order.status not in PAYABLE:
            return Expected(409, "ORDER_NOT_PAYABLE")
        acting = (p.status == "REQUIRES_ACTION" and p.action != "DISPLAY_REFERENCE" for p in order.payments)
        if not order.split and any(acting):
            return Expected(409, "ORDER_NOT_PAYABLE")
        part = order.unpaid_subtotal if amount is None else amount
        if part > order.free_subtotal:
            return Expected(422, "AMOUNT_EXCEEDS_PENDING")
        shown = [p for p in order.payments if p.status == "REQUIRES_ACTION" and p.action == "DISPLAY_REFERENCE"]
        for payment in shown if not order.split else ():
            payment.status, payment.ends_at = "CANCELLED", None
        return self._pay(order, method, card, part, Expected(200))

    def add_payment(self, order: Order, method: str, card: str | None, amount: int | None) -> Expected:
        """POST …/payments (N32 to N34)."""
        if amount is not None and amount <= 0:
            return Expected(400, "VALIDATION_ERROR")
        if not order.split:
            return Expected(409, "PARTIALS_NOT_ALLOWED")
        if order.status not in TAKES_PARTS:
            return Expected(409, "ORDER_NOT_PAYABLE")
        part = order.unpaid_subtotal if amount is None else amount
        if part > order.free_subtotal:
            return Expected(422, "AMOUNT_EXCEEDS_PENDING")
        return self._pay(order, method, card, part, Expected(201))

    def _pay(self, order: Order, method: str, card: str | None, part: int, done: Expected) -> Expected:
        surcharged = order.rate is not None and method == "card"
        payment = Payment(method, card, part, order.quoted(method, part), surcharged)
        order.payments.append(payment)
        if method != "card":
            payment.status, payment.action, payment.ends_at = (
                "REQUIRES_ACTION",
                "DISPLAY_REFERENCE",
                self.now + 72 * HOUR,
            )
            return done
        if payment.card.refuses is not None:
            payment.status = "FAILED"
            return Expected(422, payment.card.refuses)
        if payment.card.asks and not order.virtual:
            self._ask_payer(payment, payment.card.asks)
        elif not payment.card.answers:
            payment.status = "PENDING_AUTHORIZATION"
        else:
            self._grant(order, payment, capture=not order.manual)
        return done

    def _ask_payer(self, payment: Payment, action: str) -> None:
        payment.status, payment.action, payment.ends_at = "REQUIRES_ACTION", action, self.now + 15 * MINUTE

    def _grant(self, order: Order, payment: Payment, *, capture: bool) -> None:
        half = divided(payment.gross, 1, 2)
        payment.authorized = half if payment.card.half and 0 < half < payment.gross else payment.gross
        whole = payment.authorized == payment.gross
        payment.status, payment.granted_at = ("AUTHORIZED" if whole else "PARTIALLY_AUTHORIZED"), self.now
        payment.ends_at = None
        if capture and payment.card.captures:
            self._capture(order, payment, payment.authorized)
        elif capture:  # due at once, so at the next advance
            payment.status, payment.capture_due_at = "PENDING_CAPTURE", self.now + 0.001

    def _capture(self, order: Order, payment: Payment, amount: int) -> None:
        payment.captured += amount
        payment.captured_at, payment.capture_due_at = self.now, None
        order.record_inflow(payment)
        payment.status = "CAPTURED" if payment.captured >= payment.gross else "PARTIALLY_CAPTURED"
        if payment.method == "card" and payment.card.disputed:
            self.outbox.append(DueMessage(self.now + 2, "dispute", order, payment, amount))

    # ---------------------------------------------------------------- payer authentication

    def device_data(self, order: Order) -> Expected:
        """POST …/payer-authentication/device-data (N18)."""
        return self._continue_authentication(order, ("DEVICE_DATA",), fails=False)

    def validate(self, order: Order, *, fails: bool, wrong: bool) -> Expected:
        """POST …/payer-authentication/validate (N42) with the newest waiting payment's, a failing or a wrong id."""
        actions = ("CHALLENGE", "REDIRECT")
        if wrong and self._waiting(order, actions):
            return Expected(400, "VALIDATION_ERROR")
        return self._continue_authentication(order, actions, fails=fails, wrong=wrong)

    def _waiting(self, order: Order, actions: tuple[str, ...]) -> list[Payment]:
        return [p for p in order.payments if p.status == "REQUIRES_ACTION" and p.action in actions]

    def _continue_authentication(
        self, order: Order, actions: tuple[str, ...], *, fails: bool, wrong: bool = False
    ) -> Expected:
        waiting = self._waiting(order, actions)
        if not waiting:
            failed_before = not wrong and any(p.paid_otherwise for p in order.payments)
            return Expected(422, "AMOUNT_EXCEEDS_PENDING") if failed_before else Expected(409, "INVALID_ORDER_STATE")
        payment = waiting[-1]
        if payment.subtotal > order.free_subtotal:
            payment.status, payment.ends_at, payment.paid_otherwise = "FAILED", None, True
            return Expected(422, "AMOUNT_EXCEEDS_PENDING")
        if fails:
            payment.status, payment.ends_at = "FAILED", None
            return Expected(422, "PAYER_AUTHENTICATION_FAILED")
        if payment.action == "DEVICE_DATA" and payment.card.then_challenges:
            self._ask_payer(payment, "CHALLENGE")
            return Expected(200)
        self._grant(order, payment, capture=False)
        if not order.manual:
            payment.status, payment.capture_due_at = "PENDING_CAPTURE", self.now + 5
        return Expected(200)

    # ---------------------------------------------------------------- capture and cancel

    def capture(self, order: Order, amount: int | None) -> Expected:
        """POST …/capture (N41): the newest authorisation, or the rest of one that was captured in part."""
        if amount is not None and amount <= 0:
            return Expected(400, "VALIDATION_ERROR")
        found = [p for p in order.payments if self._is_capturable(p)]
        if order.cancel_requested or not found:
            return Expected(409, "INVALID_ORDER_STATE")
        payment = found[-1]
        left = payment.authorized - payment.captured
        taken = left if amount is None else amount
        if taken > left:
            return Expected(422, "CAPTURE_EXCEEDS_AUTHORIZED")
        more = payment.captured_split(payment.captured + taken)[0] - payment.captured_split(payment.captured)[0]
        if payment.captured and more > order.free_subtotal:
            return Expected(422, "AMOUNT_EXCEEDS_PENDING")
        if not payment.card.captures:
            self._refuse_capture(order, payment)
            return Expected(422, "PAYMENT_DECLINED")
        self._capture(order, payment, taken)
        return Expected(200)

    def _refuse_capture(self, order: Order, payment: Payment) -> None:
        payment.status, payment.capture_due_at = "AUTHORIZED" if order.manual else "FAILED", None

    def _is_capturable(self, payment: Payment) -> bool:
        if payment.status in UNCAPTURED:
            return True
        in_part = payment.method == "card" and payment.status == "PARTIALLY_CAPTURED" and not payment.refunded
        return in_part and payment.authorized > payment.captured and not self._has_lapsed(payment)

    def cancel(self, order: Order, *, refund_captured: bool) -> Expected:
        """POST …/cancel (N40)."""
        if order.cancel_requested:
            return Expected(200)
        if order.status in {*FINAL, "REFUND_PROCESSING"}:
            return Expected(409, "INVALID_ORDER_STATE")
        if order.status in {"COMPLETED", "PARTIALLY_REFUNDED"} or (order.net > 0 and not refund_captured):
            return Expected(409, "ORDER_HAS_CAPTURED_FUNDS")
        granted = [p for p in order.payments if p.status in UNCAPTURED]
        asking = [p for p in order.payments if p.status in {"PENDING_AUTHORIZATION", "PENDING_CANCELLATION"}]
        back = [p for p in order.in_order_of_capture if order.net > 0 and self._is_free(p) and p.refundable]
        if not (granted or asking or back) and order.net > 0:
            return Expected(409, "ORDER_HAS_CAPTURED_FUNDS")
        for payment in order.payments:
            if payment.status == "REQUIRES_ACTION":
                payment.status, payment.ends_at = "CANCELLED", None
        order.cancel_requested, order.closed = bool(granted or asking or back), not (granted or asking or back)
        self._void(asking, granted)
        for payment in back:
            self._request_refund(order, payment, payment.refundable)
        self._finish(order)
        return Expected(200)

    def cancel_part(self, order: Order, payment: Payment) -> Expected:
        """POST …/cancel of one part of a split order."""
        if payment.status in {"PENDING_CANCELLATION", "CANCELLED"}:
            return Expected(200)
        if not (order.split or order.cancel_requested):
            return Expected(409, "INVALID_ORDER_STATE")
        match payment.status:
            case "REQUIRES_ACTION":
                payment.status, payment.ends_at = "CANCELLED", None
            case "PENDING_AUTHORIZATION":
                self._void([payment], [])
            case status if status in UNCAPTURED:
                self._void([], [payment])
            case _:
                return Expected(409, "INVALID_ORDER_STATE")
        self._finish(order)
        return Expected(200)

    def _void(self, asking: list[Payment], granted: list[Payment]) -> None:
        for payment in asking:
            payment.status = "PENDING_CANCELLATION"
        for payment in granted:
            payment.void_refused = not payment.card.voids
            if not payment.void_refused:
                payment.status, payment.capture_due_at = "CANCELLED", None

    def _finish(self, order: Order) -> None:
        """Ends a pending cancellation when none of its calls is open."""
        if not order.cancel_requested:
            return
        voiding = any(p.status in UNCAPTURED and not p.void_refused for p in order.payments)
        if voiding or any(p.status in IN_PROGRESS or p.refunding for p in order.payments):
            return
        order.cancel_requested = False
        order.closed = order.net <= 0 and not any(p.status in UNCAPTURED for p in order.payments)

    # ---------------------------------------------------------------- refunds

    def refund(self, order: Order, amount: int, payment: Payment | None) -> Expected:
        """POST …/refund (N35 to N39), of one payment or newest first."""
        if amount <= 0:
            return Expected(400, "VALIDATION_ERROR")
        if order.cancel_requested:
            return Expected(409, "INVALID_ORDER_STATE")
        if not order.paid:
            return Expected(409, "ORDER_NOT_REFUNDABLE")
        shares = self._newest_first(order, amount) if payment is None else self._from_one(payment, amount)
        if isinstance(shares, Expected):
            return shares
        for one, share in shares:
            self._request_refund(order, one, share)
        return Expected(200)

    def _from_one(self, payment: Payment, amount: int) -> Expected | list[tuple[Payment, int]]:
        if payment.refunding:
            return Expected(409, "REFUND_IN_PROGRESS")
        if payment.status not in REFUNDABLE or not payment.captured or payment.contesting:
            return Expected(409, "ORDER_NOT_REFUNDABLE")
        if self._is_too_late(payment):
            return Expected(422, "REFUND_WINDOW_EXPIRED")
        if amount > payment.refundable:
            return Expected(422, "REFUND_AMOUNT_EXCEEDS_BALANCE")
        return [(payment, amount)]

    def _newest_first(self, order: Order, amount: int) -> Expected | list[tuple[Payment, int]]:
        free = [p for p in order.in_order_of_capture if self._is_free(p)]
        rest = sum(p.refundable for p in free if not self._is_too_late(p))
        busy = sum(p.refundable for p in order.payments if p.refunding)
        late = sum(p.refundable for p in free if self._is_too_late(p))
        if amount > rest + busy + late:
            return Expected(422, "REFUND_AMOUNT_EXCEEDS_BALANCE")
        if amount > rest:
            in_time = amount <= rest + busy
            return Expected(409, "REFUND_IN_PROGRESS") if in_time else Expected(422, "REFUND_WINDOW_EXPIRED")
        shares = []
        for payment in reversed([p for p in free if not self._is_too_late(p)]):
            share = min(amount, payment.refundable)
            if share:
                shares.append((payment, share))
            amount -= share
        return shares

    def _is_free(self, payment: Payment) -> bool:
        return payment.status in REFUNDABLE and not payment.refunding and not payment.contesting

    def _is_too_late(self, payment: Payment) -> bool:
        at = payment.captured_at
        return payment.method == "card" and at is not None and self.now > at + 180 * DAY

    def _request_refund(self, order: Order, payment: Payment, amount: int) -> None:
        way = payment.card.refunds if payment.method == "card" else "LATER"
        if way == "NEVER" or (payment.method != "card" and amount > payment.banked):
            return
        payment.refunding = amount
        if payment.status in HELD:
            payment.returns_to, payment.status = payment.status, "PENDING_REFUND"
        if way == "LATER":
            payment.banked -= amount
            self.outbox.append(DueMessage(self.now + 2, "refund", order, payment, amount))
        else:
            self._complete_refund(payment)

    def _complete_refund(self, payment: Payment) -> None:
        payment.refunded += payment.refunding
        payment.refunding = 0
        if payment.status == "PENDING_REFUND":
            payment.status = "REFUNDED" if payment.refunded >= payment.captured else "PARTIALLY_REFUNDED"
            payment.returns_to = None

    # ---------------------------------------------------------------- what the world does

    def deposit(self, order: Order, payment: Payment, amount: int) -> Expected:
        """POST /sandbox/deposits: any amount on a CLABE, the exact one on a cash reference (section 8.10)."""
        if payment.method != "spei" and amount != payment.gross:
            return Expected(409, "AMOUNT_MISMATCH")
        payment.banked += amount
        self.deposit_arrived(order, payment, amount)
        return Expected(200)

    def deposit_arrived(self, order: Order, payment: Payment, amount: int) -> None:
        """Records money on a reference, reported by the sandbox or by a message."""
        payment.late = payment.late or payment.status in {"EXPIRED", "CANCELLED"}
        payment.captured += amount
        payment.authorized = max(payment.authorized, payment.captured)
        payment.captured_at = self.now
        order.record_inflow(payment)
        if payment.status in {"EXPIRED", "CANCELLED"}:
            payment.status = "CAPTURED"
        elif payment.status in {"REQUIRES_ACTION", "PARTIALLY_CAPTURED"}:
            payment.status = "CAPTURED" if payment.captured >= payment.gross else "PARTIALLY_CAPTURED"
        payment.ends_at, order.closed = None, False  # money that comes later opens an order again (section 8.1)
        self._finish(order)

    def dispute(self, payment: Payment, outcome: str) -> Expected:
        """POST /sandbox/disputes about all that a payment holds. WON and LOST open the dispute if none is open."""
        if payment.status != "DISPUTED":
            if payment.status not in HELD or payment.refundable <= 0:
                return Expected(409, "INVALID_ORDER_STATE")
            self.contest(payment, payment.refundable, "the sandbox's")
        self.decided(payment, outcome)
        return Expected(200)

    def contest(self, payment: Payment, amount: int, name: str) -> None:
        """Opens a dispute about `amount`; `name` is the dispute's id. A final status stays."""
        if payment.status in HELD:
            payment.returns_to, payment.status = payment.status, "DISPUTED"
        payment.dispute, payment.contesting, payment.contested = name, True, amount

    def decided(self, payment: Payment, outcome: str) -> None:
        """Ends a dispute that is WON or LOST; OPENED leaves it open."""
        if outcome == "LOST":
            payment.refunded += min(payment.contested, payment.refundable)
            payment.taken += payment.contested
        if outcome == "LOST" and payment.status == "DISPUTED":
            payment.status = "REFUNDED" if payment.refunded >= payment.captured else "PARTIALLY_REFUNDED"
            payment.returns_to = None
        if outcome == "WON" and payment.status == "DISPUTED":
            payment.status = self._back(payment)
        payment.contesting = outcome == "OPENED"
        if not payment.contesting:
            payment.decided[payment.dispute] = payment.contested if outcome == "LOST" else 0

    def settle(self, payment: Payment, stage: str) -> Expected:
        """POST /sandbox/settlements: LISTED, then MATCHED or REFUSED; also REFUSED after MATCHED."""
        listed = payment.status == "PENDING_SETTLEMENT" or (payment.status == "SETTLED" and stage == "REFUSED")
        if stage == "LISTED" and payment.status in {"CAPTURED", "PARTIALLY_CAPTURED"}:
            payment.status, payment.batch, payment.batch_ended = "PENDING_SETTLEMENT", "the sandbox's", None
        elif stage != "LISTED" and listed:
            payment.status = "SETTLED" if stage == "MATCHED" else "CAPTURED"
            payment.batch_ended = stage.lower()
        else:
            return Expected(409, "INVALID_ORDER_STATE")
        return Expected(200)

    def _back(self, payment: Payment) -> str:
        back = payment.returns_to or "CAPTURED"
        payment.returns_to = None
        return "CAPTURED" if back == "PARTIALLY_CAPTURED" and payment.captured >= payment.gross else back

    # ---------------------------------------------------------------- the clock

    def advance(self, seconds: float) -> None:
        """POST /sandbox/clock: does everything that becomes due, in the order of its times."""
        until = self.now + seconds
        while due := min((at for at in self._due() if at <= until), default=None):
            self.now = due
            self._run_due()
        self.now = until

    def _due(self) -> list[float]:
        payments = [p for order in self.orders.values() for p in order.payments]
        times = (
            [due_message.at for due_message in self.outbox]
            + [p.ends_at for p in payments]
            + [p.capture_due_at for p in payments]
        )
        lapses = [p.granted_at + 7 * DAY for p in payments if self._may_lapse(p) and p.granted_at is not None]
        return [at for at in times if at is not None] + lapses

    def _may_lapse(self, payment: Payment) -> bool:
        return payment.status in {"AUTHORIZED", "PARTIALLY_AUTHORIZED"}

    def _has_lapsed(self, payment: Payment) -> bool:
        """Returns whether the issuer holds no rest of an authorisation any more."""
        return payment.granted_at is not None and payment.granted_at + 7 * DAY <= self.now

    def _run_due(self) -> None:
        for due_message in [due_message for due_message in self.outbox if due_message.at <= self.now]:
            self.outbox.remove(due_message)
            self.deliver(due_message)
        for order in self.orders.values():
            for payment in order.payments:
                self._expire(order, payment)
            self._finish(order)

    def confirmed(self, due_message: DueMessage) -> None:
        """Completes a refund that was in flight."""
        due_message.done = True
        self._complete_refund(due_message.payment)
        self._finish(due_message.order)

    def _expire(self, order: Order, payment: Payment) -> None:
        if payment.ends_at is not None and payment.ends_at <= self.now:
            payment.status, payment.ends_at = "EXPIRED", None
        if payment.capture_due_at is not None and payment.capture_due_at <= self.now:
            if payment.card.captures:
                self._capture(order, payment, payment.authorized)
            else:
                self._refuse_capture(order, payment)
        if self._has_lapsed(payment) and self._may_lapse(payment):
            payment.status = "EXPIRED"
