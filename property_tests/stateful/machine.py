"""Everything that can happen to a merchant's orders, drawn by Hypothesis, asked of the service and of the oracle alike.

The rule a stranger would break: no rule looks at an answer to decide what it expects. The oracle speaks first; then the
service's answer, its order and every payment of it must be what was said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from property_tests.stateful.cards import CARDS
from property_tests.stateful.oracle import DAY, HOUR, MINUTE, Expected, Oracle
from property_tests.stateful.service import API, Answer, Service, Shop, order_path
from property_tests.stateful.sums import HELD, UNCAPTURED, Order, Payment
from tests.invariants import broken_sums

KILL_EACH = 60
WAITS = {10: "PT10S", 20 * MINUTE: "PT20M", 73 * HOUR: "PT73H", 8 * DAY: "P8D", 181 * DAY: "P181D"}
ADDRESS = {"address": "Av. Insurgentes Sur 1602", "city": "Ciudad de México", "postalCode": "03940", "country": "MX"}

numbers = st.integers(0, 999)
tenders = st.sampled_from([*(("card", card) for card in CARDS), ("card", "good"), ("card", "good"), ("spei", None),
                           ("spei", None), ("paycash", None), ("cie_cash_net", None)])  # fmt: skip
shares = st.sampled_from([None, None, 1, 2, 3, 0, 9])
"""Which part of what is left: all, a half, a third; 0 stands for an amount of nothing, 9 for more than there is."""


def tender(method: str, card: str | None) -> dict[str, Any]:
    """How a payment is made, as a request says it."""
    if card is None:
        return {"paymentMethod": {"type": method}}
    details = {"number": CARDS[card].number, "expiryMonth": "12", "expiryYear": "2034", "cvc": "123"}
    return {"paymentMethod": {"type": "card", "cardDetails": details}, "billingAddress": ADDRESS}


def part_of(whole: int, share: int | None) -> int | None:
    match share:
        case None | 0:
            return share
        case 9:
            return whole + 1
        case _:
            return max(1, whole // share)


def waits_for_device(order: Order) -> bool:
    return any(payment.status == "REQUIRES_ACTION" and payment.action == "DEVICE_DATA" for payment in order.payments)


def waits_for_payer(order: Order) -> bool:
    actions = {"CHALLENGE", "REDIRECT"}
    return any(payment.status == "REQUIRES_ACTION" and payment.action in actions for payment in order.payments)


def is_authorized(order: Order) -> bool:
    return any(payment.status in UNCAPTURED for payment in order.payments)


def stage_fits(payment: Payment, stage: str) -> bool:
    """Whether a batch can say so of a payment; what it cannot say waits in the inbox, and has tests of its own."""
    listed = payment.status == "PENDING_SETTLEMENT"
    return listed if stage != "LISTED" else payment.status in {"CAPTURED", "PARTIALLY_CAPTURED"}


def is_payable(order: Order) -> bool:
    return order.status in {"PENDING", "FAILED", "REFERENCE_GENERATED", "PARTIALLY_PAID"}


def now_and_then(name: str, gap: int, meant: Callable[[Order], bool] = lambda _: False) -> Any:
    """A rule that may run while an order is there that it is meant for, and otherwise only every `gap` requests."""

    def may_run(machine: Merchant) -> bool:
        orders = machine.oracle.orders.values()
        return bool(orders) and (machine.asked - machine.last.get(name, 0) >= gap or any(map(meant, orders)))

    return precondition(may_run)


class Merchant(RuleBasedStateMachine):
    """One merchant's life. `service`, `shops` and `reached` belong to the whole session."""

    service: ClassVar[Service]
    shops: ClassVar[Iterator[Shop]]
    reached: ClassVar[Counter[tuple[str, int, str | None]]]
    orders_max: ClassVar[int] = 5

    @initialize()
    def open_shop(self) -> None:
        self.shop = next(self.shops)
        self.oracle = Oracle(self.shop.rate)
        self.seen: dict[str, dict[str, Any]] = {}
        self.ids: dict[str, str] = {}
        self.asked = 0
        self.last: dict[str, int] = {}
        self.told: set[str] = set()

    # ---------------------------------------------------------------- paying

    @rule(
        amount=st.sampled_from([10_000, 10_000, 333, 7]),
        kind=st.sampled_from(["split", "split", "pending", "at once", "at once", "virtual"]),
        manual=st.booleans(),
        by=tenders,
    )
    def create(self, amount: int, kind: str, manual: bool, by: tuple[str, str | None]) -> None:
        if len(self.oracle.orders) < self.orders_max:
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

    # ---------------------------------------------------------------- the world

    @rule(n=numbers, share=st.sampled_from([None, None, None, 2, 3]))
    @precondition(lambda self: self._references())
    def deposit(self, n: int, share: int | None) -> None:
        references = self._references()
        order, payment = references[n % len(references)]
        amount = part_of(max(1, payment.gross - payment.captured), share) or payment.gross
        shown = self._payment(order, payment)
        details = shown.get("speiDetails") or shown["cieDetails"]
        where = {"clabe": details["clabe"]} if payment.method == "spei" else {"reference": details["reference"]}
        message = {"messageId": f"message/{n}/{len(self.oracle.outbox)}/{payment.captured}/{order.name}"}
        body = where | {"amount": amount} | message
        expected = self.oracle.deposit(order, payment, amount)
        self._post("deposit", order.name, expected, f"{API}/sandbox/deposits", body)
        if n % 2 and expected.status == 200:
            self.service.other_process()
            self._post("deposit, again", order.name, expected, f"{API}/sandbox/deposits", body)

    def _references(self) -> list[tuple[Order, Payment]]:
        every = [(order, p) for order in self.oracle.orders.values() for p in order.payments]
        return [(order, p) for order, p in every if p.method != "card"]

    @rule(n=numbers, outcome=st.sampled_from(["OPENED", "WON", "LOST"]))
    @precondition(lambda self: self._held())
    def dispute(self, n: int, outcome: str) -> None:
        held = self._held()
        if not held:
            return
        order, payment = held[n % len(held)]
        body = {"paymentId": self._id(order, payment), "outcome": outcome}
        self._post("dispute", order.name, self.oracle.dispute(payment, outcome), f"{API}/sandbox/disputes", body)

    @rule(n=numbers, stage=st.sampled_from(["LISTED", "LISTED", "MATCHED", "REFUSED"]))
    @precondition(lambda self: self._held())
    def settle(self, n: int, stage: str) -> None:
        held = [one for one in self._held() if stage_fits(one[1], stage)]
        if not held:
            return
        order, payment = held[n % len(held)]
        body = {"paymentIds": [self._id(order, payment)], "stage": stage}
        self._post("settle", order.name, self.oracle.settle(payment, stage), f"{API}/sandbox/settlements", body)

    def _held(self) -> list[tuple[Order, Payment]]:
        """Payments with money that the bank and the acquirer have been told of: that takes a moment of the clock."""
        every = [(order, p) for order in self.oracle.orders.values() for p in order.payments]
        every = [(order, p) for order, p in every if self._id(order, p) in self.told]
        return [(order, p) for order, p in every if p.status == "DISPUTED" or (p.status in HELD and p.refundable > 0)]

    @rule(seconds=st.sampled_from([10, 10, 10, 10, *WAITS]))
    @now_and_then("clock", 5)
    def advance(self, seconds: int) -> None:
        self._wait(seconds)

    def _wait(self, seconds: int) -> None:
        self.oracle.advance(seconds)
        answer = self.service.ask(self.shop, "POST", f"{API}/sandbox/clock", {"advanceBy": WAITS[seconds]})
        assert answer.status == 200, answer
        self._count("clock", 200)
        for name in self.oracle.orders:
            self._compare(name)
        self.told = {p["id"] for order in self.seen.values() for p in order["payments"]}

    @rule()
    @now_and_then("restart", 9)
    def restart(self) -> None:
        """Mostly on to the other process; now and then one is killed where it stands."""
        self._count("restart", 0)
        if self.reached["restart", 0, None] % KILL_EACH == 0:
            self.service.kill()
        else:
            self.service.other_process()

    # ---------------------------------------------------------------- asking and comparing

    def _count(self, name: str, status: int, code: str | None = None) -> None:
        self.asked += 1
        self.last[name] = self.asked
        self.reached[name, status, code] += 1

    def _pick(self, n: int, likely: Callable[[Order], object]) -> Order:
        """An order: mostly one for which the rule is meant, sometimes any."""
        orders = list(self.oracle.orders.values())
        meant = [order for order in orders if likely(order)]
        chosen = orders if n % 5 == 4 or not meant else meant
        return chosen[n // 5 % len(chosen)]

    def _post(self, rule_name: str, name: str, expected: Expected, path: str, body: Any) -> None:
        answer = self.service.ask(self.shop, "POST", path, body)
        self._count(rule_name, answer.status, answer.code)
        assert (answer.status, answer.code) == expected, f"{path} {body}: expected {expected}, got {answer}"
        self._compare(name, changed=expected.status < 300 or bool(answer.body.get("paymentOrder")))

    def _read(self, name: str) -> dict[str, Any]:
        answer: Answer = self.service.ask(self.shop, "GET", order_path(name))
        assert answer.status == 200, answer
        return answer.body

    def _compare(self, name: str, *, changed: bool = True) -> None:
        """The order as it is served is the oracle's, and what was refused has changed nothing."""
        order, served = self.oracle.orders[name], self._read(name)
        assert served["id"] == self.ids.setdefault(name, served["id"])  # I11
        assert as_served(served) == as_expected(order), f"served {as_served(served)}\nexpected {as_expected(order)}"
        assert list(broken_sums(served)) == []
        if not changed and name in self.seen and served["updatedAt"] != self.seen[name]["updatedAt"]:
            assert any(payment.no_longer_fitted or payment.status == "FAILED" for payment in order.payments)
        self.seen[name] = served

    def _payment(self, order: Order, payment: Payment) -> dict[str, Any]:
        position = next(n for n, one in enumerate(order.payments) if one is payment)
        shown: dict[str, Any] = self.seen[order.name]["payments"][position]
        return shown

    def _id(self, order: Order, payment: Payment) -> str:
        return str(self._payment(order, payment)["id"])

    def teardown(self) -> None:
        """Nothing was made twice under one name (I11)."""
        if getattr(self, "ids", None):
            listed = self.service.ask(self.shop, "GET", f"{API}/v2/payment-orders?limit=100").body["data"]
            assert sorted(row["externalId"] for row in listed) == sorted(self.ids)
            assert {row["externalId"]: row["id"] for row in listed} == self.ids


def as_served(order: dict[str, Any]) -> dict[str, Any]:
    """What the service says of an order, and the oracle too."""
    names = ("status", "amount", "subtotalAmount", "surchargeAmount", "amountPaid", "amountRefunded", "amountPending")
    each = ("status", "amount", "authorizedAmount", "capturedAmount", "refundedAmount")
    only_where_true = ("nextAction", "lateDeposit")
    payments = [
        {name: payment[name] for name in each} | {name: payment.get(name) or None for name in only_where_true}
        for payment in order["payments"]
    ]
    return {name: order[name] for name in names} | {"payments": payments}


def as_expected(order: Order) -> dict[str, Any]:
    """The same, as the oracle has it: numbers on the order, decimal strings on payments."""
    return {
        "status": order.status,
        "amount": order.amount,
        "subtotalAmount": order.amount_asked,
        "surchargeAmount": order.surcharge,
        "amountPaid": order.paid,
        "amountRefunded": order.refunded,
        "amountPending": order.left_to_pay,
        "payments": [
            {
                "status": payment.status,
                "nextAction": payment.action if payment.status == "REQUIRES_ACTION" else None,
                "amount": str(payment.gross),
                "authorizedAmount": str(payment.authorized),
                "capturedAmount": str(payment.captured),
                "refundedAmount": str(payment.refunded),
                "lateDeposit": payment.late or None,
            }
            for payment in order.payments
        ],
    }
