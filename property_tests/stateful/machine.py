"""The rules of a merchant's own requests, drawn by Hypothesis, for the service and for the model.

Never derive an expectation from an answer: the model predicts first, then the answer, the order and its payments must
match.
"""

from __future__ import annotations

from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule
from property_tests.stateful.base_machine import numbers, part_of, shares, throttled
from property_tests.stateful.message_rules import MessageRules
from property_tests.stateful.model import Expected
from property_tests.stateful.model_order import UNCAPTURED, Order
from property_tests.stateful.sandbox_cards import CARDS
from property_tests.stateful.service import API, order_path

ADDRESS = {"address": "Av. Insurgentes Sur 1602", "city": "Ciudad de México", "postalCode": "03940", "country": "MX"}

amounts = st.sampled_from([10_000, 10_000, 333, 7])
kinds = st.sampled_from(["split", "split", "pending", "at once", "at once", "virtual"])
tenders = st.sampled_from([*(("card", card) for card in CARDS), ("card", "good"), ("card", "good"), ("spei", None),
                           ("spei", None), ("paycash", None), ("cie_cash_net", None)])  # fmt: skip


def tender(method: str, card: str | None) -> dict[str, Any]:
    """Returns the members of a request that name the payment's method."""
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


def may_create_again(machine: MessageRules) -> bool:
    """Returns whether an order may be created again: once in six requests, and if no order takes a payment, because
    then no other rule may be left.
    """
    recent = machine.requests - machine.last.get("create again", 0) < 6
    return not recent or not any(is_payable(order) or order.split for order in machine.model.orders.values())


class Merchant(MessageRules):
    """The state machine of one merchant: one run of the test. `BaseMachine` has what the session shares."""

    orders_max: ClassVar[int] = 5

    @initialize(rate=st.sampled_from([None, 30, 35]), amount=amounts, kind=kinds, manual=st.booleans(), by=tenders)
    def open_shop(self, rate: int | None, amount: int, kind: str, manual: bool, by: tuple[str, str | None]) -> None:
        """Registers the merchant and creates its first order: every other rule needs one."""
        self.begin(rate)
        self._order(amount, kind, manual, by)

    # ---------------------------------------------------------------- paying

    @rule(amount=amounts, kind=kinds, manual=st.booleans(), by=tenders)
    @precondition(lambda self: len(self.model.orders) < self.orders_max)
    def create(self, amount: int, kind: str, manual: bool, by: tuple[str, str | None]) -> None:
        self._order(amount, kind, manual, by)

    def _order(self, amount: int, kind: str, manual: bool, by: tuple[str, str | None]) -> None:
        order = Order(f"order/{len(self.model.orders)}", amount, kind == "split", kind in {"split", "pending"}, manual,
                      self.merchant.rate, kind == "virtual")  # fmt: skip
        self._create("create", order, None if order.pending else by)

    @rule(n=numbers, other_amount=st.booleans(), pending=st.booleans(), by=tenders)
    @precondition(may_create_again)
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
        expected = self.model.create(order, *(by or (None, None)))
        self._post(name, order.name, expected, f"{API}/v2/payment-orders", body | (tender(*by) if by else {}))

    @rule(n=numbers, share=shares, by=tenders)
    @throttled("charge", 6, is_payable)
    def charge(self, n: int, share: int | None, by: tuple[str, str | None]) -> None:
        order = self._pick(n, is_payable)
        amount = part_of(order.unpaid_subtotal, share) if order.split or n % 7 == 0 else None
        self._pay("charge", order, amount, by, self.model.charge(order, *by, amount))

    @rule(n=numbers, share=shares, by=tenders)
    @throttled("payments", 8, lambda order: order.split)
    def add_payment(self, n: int, share: int | None, by: tuple[str, str | None]) -> None:
        order = self._pick(n, lambda order: order.split)
        amount = part_of(order.free_subtotal, share)
        self._pay("payments", order, amount, by, self.model.add_payment(order, *by, amount))

    def _pay(self, name: str, order: Order, amount: int | None, by: tuple[str, str | None], expected: Expected) -> None:
        body = tender(*by) | ({} if amount is None else {"amount": amount}) | {"virtualTerminal": order.virtual}
        self._post(name, order.name, expected, order_path(order.name, name), body)

    # ---------------------------------------------------------------- what follows a payment

    @rule(n=numbers)
    @throttled("device data", 20, waits_for_device)
    def device_data(self, n: int) -> None:
        order = self._pick(n, waits_for_device)
        expected = self.model.device_data(order)
        self._post(
            "device data", order.name, expected, order_path(order.name, "payer-authentication", "device-data"), {}
        )

    @rule(n=numbers, how=st.sampled_from(["right", "right", "right", "fails", "wrong"]))
    @throttled("validate", 20, waits_for_payer)
    def validate(self, n: int, how: str) -> None:
        order = self._pick(n, waits_for_payer)
        typed = {"fails": "please-fail", "wrong": "another-transaction"}.get(how) or self._transaction(order)
        expected = self.model.validate(order, fails=how == "fails", wrong=typed == "another-transaction")
        path = order_path(order.name, "payer-authentication", "validate")
        self._post("validate", order.name, expected, path, {"authenticationTransactionId": typed})

    def _transaction(self, order: Order) -> str:
        """Returns the transaction id of the newest payment's challenge, or an unknown one if it has none."""
        shown = self._read(order.name).get("payerAuthentication") or {}
        newest = order.payments[-1] if order.payments else None
        waits = newest is not None and newest.status == "REQUIRES_ACTION" and newest.action in {"CHALLENGE", "REDIRECT"}
        return str(shown["authenticationTransactionId"]) if waits else "another-transaction"

    @rule(n=numbers, share=shares)
    @throttled("capture", 15, is_authorized)
    def capture(self, n: int, share: int | None) -> None:
        order = self._pick(n, is_authorized)
        left = max((p.authorized - p.captured for p in order.payments), default=1)
        amount = part_of(left, share)
        expected = self.model.capture(order, amount)
        body = {} if amount is None else {"amount": amount}
        self._post("capture", order.name, expected, order_path(order.name, "capture"), body)

    @rule(n=numbers, refund_captured=st.booleans())
    @throttled("cancel", 8)
    def cancel(self, n: int, refund_captured: bool) -> None:
        order = self._pick(n, lambda order: order.payments and order.status not in {"COMPLETED", "FAILED"})
        expected = self.model.cancel(order, refund_captured=refund_captured)
        self._post(
            "cancel", order.name, expected, order_path(order.name, "cancel"), {"refundCaptured": refund_captured}
        )

    @rule(n=numbers, which=numbers)
    @throttled("cancel a part", 12)
    def cancel_part(self, n: int, which: int) -> None:
        order = self._pick(n, lambda order: order.split and order.payments)
        if not order.payments:
            return
        payment = order.payments[which % len(order.payments)]
        body = {"paymentId": self._id(order, payment)}
        expected = self.model.cancel_part(order, payment)
        self._post("cancel a part", order.name, expected, order_path(order.name, "cancel"), body)

    @rule(n=numbers, share=shares, named=st.booleans())
    @throttled("refund", 15, lambda order: order.net > 0)
    def refund(self, n: int, share: int | None, named: bool) -> None:
        order = self._pick(n, lambda order: order.net > 0)
        held = [p for p in order.payments if p.captured]
        payment = held[n % len(held)] if named and held else None
        left = payment.refundable if payment is not None else sum(p.refundable for p in held)
        amount = part_of(left, share)
        amount = max(1, left) if amount is None else amount
        expected = self.model.refund(order, amount, payment)
        body = {"amount": amount, "reason": "Taza rota"}
        if payment is not None:
            body["paymentId"] = self._id(order, payment)
        self._post("refund", order.name, expected, order_path(order.name, "refund"), body)
