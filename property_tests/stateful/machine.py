"""Everything that can happen to a merchant's orders, drawn by Hypothesis, asked of the service and of the oracle alike.

The rule a stranger would break: no rule looks at an answer to decide what it expects. The oracle speaks first; then the
service's answer, its order and every payment of it must be what was said.
"""

from __future__ import annotations

from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule
from property_tests.stateful.asking import now_and_then, numbers, part_of, shares
from property_tests.stateful.cards import CARDS
from property_tests.stateful.oracle import Expected
from property_tests.stateful.service import API, order_path
from property_tests.stateful.sums import UNCAPTURED, Order
from property_tests.stateful.telling import Telling

ADDRESS = {"address": "Av. Insurgentes Sur 1602", "city": "Ciudad de México", "postalCode": "03940", "country": "MX"}

amounts = st.sampled_from([10_000, 10_000, 333, 7])
kinds = st.sampled_from(["split", "split", "pending", "at once", "at once", "virtual"])
tenders = st.sampled_from([*(("card", card) for card in CARDS), ("card", "good"), ("card", "good"), ("spei", None),
                           ("spei", None), ("paycash", None), ("cie_cash_net", None)])  # fmt: skip


def tender(method: str, card: str | None) -> dict[str, Any]:
    """How a payment is made, as a request says it."""
    if card is None:
        return {"paymentMethod": {"type": method}}
    details = {"number": CARDS[card].number, "expiryMonth": "12", "expiryYear": "2034", "cvc": "123"}
    return {"paymentMethod": {"type": "card", "cardDetails": details}, "billingAddress": ADDRESS}


def waits_for_device(order: Order) -> bool:
    return any(payment.status == "REQUIRES_ACTION" and payment.action == "DEVICE_DATA" for payment in order.payments)


def waits_for_payer(order: Order) -> bool:
    actions = {"CHALLENGE", "REDIRECT"}
    return any(payment.status == "REQUIRES_ACTION" and payment.action in actions for payment in order.payments)


def is_authorized(order: Order) -> bool:
    return any(payment.status in UNCAPTURED for payment in order.payments)


def is_payable(order: Order) -> bool:
    return order.status in {"PENDING", "FAILED", "REFERENCE_GENERATED", "PARTIALLY_PAID"}


class Merchant(Telling):
    """One merchant's life. What belongs to the whole session stands in `Asking`."""

    orders_max: ClassVar[int] = 5

    @initialize(rate=st.sampled_from([None, 30, 35]), amount=amounts, kind=kinds, manual=st.booleans(), by=tenders)
    def open_shop(self, rate: int | None, amount: int, kind: str, manual: bool, by: tuple[str, str | None]) -> None:
        """A merchant always has an order: without one, nothing can happen."""
        self.begin(rate)
        self._order(amount, kind, manual, by)

    # ---------------------------------------------------------------- paying

    @rule(amount=amounts, kind=kinds, manual=st.booleans(), by=tenders)
    @precondition(lambda self: len(self.oracle.orders) < self.orders_max)
    def create(self, amount: int, kind: str, manual: bool, by: tuple[str, str | None]) -> None:
        self._order(amount, kind, manual, by)

    def _order(self, amount: int, kind: str, manual: bool, by: tuple[str, str | None]) -> None:
        order = Order(f"order/{len(self.oracle.orders)}", amount, kind == "split", kind in {"split", "pending"}, manual,
                      self.shop.rate, kind == "virtual")  # fmt: skip
        self._create("create", order, None if order.pending else by)

    @rule(n=numbers, other_amount=st.booleans(), pending=st.booleans(), by=tenders)
    @now_and_then("create again", 6)
    def create_again(self, n: int, other_amount: bool, pending: bool, by: tuple[str, str | None]) -> None:
        known = self._pick(n, lambda order: order.status in {"FAILED", "CANCELLED"})
        amount = known.amount_asked + (other_amount and n % 3 == 0)
        asked = Order(known.name, amount, known.split, pending, known.manual, known.rate, known.virtual)
        self._create("create again", asked, None if pending else by)

    def _create(self, name: str, order: Order, by: tuple[str, str | None] | None) -> None:
        body = {
            "externalId": order.name,
            "amount": order.amount_asked,
            "currency": "MXN",
            "customer": {"externalId": "ana", "firstName": "Ana"},
            "pending": by is None,
            "allowPartials": order.split,
            "captureMethod": "MANUAL" if order.manual else "AUTOMATIC",
            "virtualTerminal": order.virtual,
        }
        expected = self.oracle.create(order, *(by or (None, None)))
        self._post(name, order.name, expected, f"{API}/v2/payment-orders", body | (tender(*by) if by else {}))

    @rule(n=numbers, share=shares, by=tenders)
    @now_and_then("charge", 6, is_payable)
    def charge(self, n: int, share: int | None, by: tuple[str, str | None]) -> None:
        order = self._pick(n, is_payable)
        amount = part_of(order.unpaid_subtotal, share) if order.split or n % 7 == 0 else None
        self._pay("charge", order, amount, by, self.oracle.charge(order, *by, amount))

    @rule(n=numbers, share=shares, by=tenders)
    @now_and_then("payments", 8, lambda order: order.split)
    def add_payment(self, n: int, share: int | None, by: tuple[str, str | None]) -> None:
        order = self._pick(n, lambda order: order.split)
        amount = part_of(order.free_subtotal, share)
        self._pay("payments", order, amount, by, self.oracle.add_payment(order, *by, amount))

    def _pay(self, name: str, order: Order, amount: int | None, by: tuple[str, str | None], expected: Expected) -> None:
        body = tender(*by) | ({} if amount is None else {"amount": amount}) | {"virtualTerminal": order.virtual}
        self._post(name, order.name, expected, order_path(order.name, name), body)

    # ---------------------------------------------------------------- what follows a payment

    @rule(n=numbers)
    @now_and_then("device data", 20, waits_for_device)
    def device_data(self, n: int) -> None:
        order = self._pick(n, waits_for_device)
        expected = self.oracle.device_data(order)
        self._post(
            "device data", order.name, expected, order_path(order.name, "payer-authentication", "device-data"), {}
        )

    @rule(n=numbers, how=st.sampled_from(["right", "right", "right", "fails", "wrong"]))
    @now_and_then("validate", 20, waits_for_payer)
    def validate(self, n: int, how: str) -> None:
        order = self._pick(n, waits_for_payer)
        typed = {"fails": "please-fail", "wrong": "somebody-else"}.get(how) or self._transaction(order)
        expected = self.oracle.validate(order, fails=how == "fails", wrong=typed == "somebody-else")
        path = order_path(order.name, "payer-authentication", "validate")
        self._post("validate", order.name, expected, path, {"authenticationTransactionId": typed})

    def _transaction(self, order: Order) -> str:
        """The challenge that the order's newest payment was last seen to wait for."""
        shown = self._read(order.name).get("payerAuthentication") or {}
        newest = order.payments[-1] if order.payments else None
        waits = newest is not None and newest.status == "REQUIRES_ACTION" and newest.action in {"CHALLENGE", "REDIRECT"}
        return str(shown["authenticationTransactionId"]) if waits else "somebody-else"

    @rule(n=numbers, share=shares)
    @now_and_then("capture", 15, is_authorized)
    def capture(self, n: int, share: int | None) -> None:
        order = self._pick(n, is_authorized)
        left = max((p.authorized - p.captured for p in order.payments), default=1)
        amount = part_of(left, share)
        expected = self.oracle.capture(order, amount)
        body = {} if amount is None else {"amount": amount}
        self._post("capture", order.name, expected, order_path(order.name, "capture"), body)

    @rule(n=numbers, refund_captured=st.booleans())
    @now_and_then("cancel", 8)
    def cancel(self, n: int, refund_captured: bool) -> None:
        order = self._pick(n, lambda order: order.payments and order.status not in {"COMPLETED", "FAILED"})
        expected = self.oracle.cancel(order, refund_captured=refund_captured)
        self._post(
            "cancel", order.name, expected, order_path(order.name, "cancel"), {"refundCaptured": refund_captured}
        )

    @rule(n=numbers, which=numbers)
    @now_and_then("cancel a part", 12)
    def cancel_part(self, n: int, which: int) -> None:
        order = self._pick(n, lambda order: order.split and order.payments)
        if not order.payments:
            return
        payment = order.payments[which % len(order.payments)]
        body = {"paymentId": self._id(order, payment)}
        expected = self.oracle.cancel_part(order, payment)
        self._post("cancel a part", order.name, expected, order_path(order.name, "cancel"), body)

    @rule(n=numbers, share=shares, named=st.booleans())
    @now_and_then("refund", 15, lambda order: order.net > 0)
    def refund(self, n: int, share: int | None, named: bool) -> None:
        order = self._pick(n, lambda order: order.net > 0)
        held = [p for p in order.payments if p.captured]
        payment = held[n % len(held)] if named and held else None
        left = payment.refundable if payment is not None else sum(p.refundable for p in held)
        amount = part_of(left, share)
        amount = max(1, left) if amount is None else amount
        expected = self.oracle.refund(order, amount, payment)
        body = {"amount": amount, "reason": "Taza rota"}
        if payment is not None:
            body["paymentId"] = self._id(order, payment)
        self._post("refund", order.name, expected, order_path(order.name, "refund"), body)
