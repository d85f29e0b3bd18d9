"""The base of all rules: the model predicts, the service answers, then the log and the served orders are compared.

After each request I7 is checked for every appended event, I1 to I6 and I11 for every order with a new event, as it is
served then, and every order is compared with the model. At the end of a run all orders are read, and some earlier
readings are asked for again.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition
from property_tests.stateful.model import Expected, Model
from property_tests.stateful.model_inbox import Inbox
from property_tests.stateful.model_order import Order, Payment
from property_tests.stateful.move_coverage import LogFollower
from property_tests.stateful.past_readings import Reading, assert_read_again
from property_tests.stateful.service import API, Service, order_path

from ledger.audit.invariants.answers import broken_amounts
from ledger.domain.orders.state import Order as Folded
from ledger.domain.orders.state import derive_status

numbers = st.integers(0, 999)
shares = st.sampled_from([None, None, 1, 2, 3, 0, 9])
"""The divisor of what is left: None for all, 2 for half; 0 means an amount of zero, 9 one more than there is."""


def part_of(whole: int, share: int | None) -> int | None:
    match share:
        case None | 0:
            return share
        case 9:
            return whole + 1
        case _:
            return max(1, whole // share)


def throttled(name: str, gap: int, applies: Callable[[Order], bool] = lambda _: False) -> Any:
    """Returns a precondition: the rule may run while it applies to an order, and else only once in `gap` requests."""

    def may_run(machine: BaseMachine) -> bool:
        recent = machine.requests - machine.last.get(name, 0) < gap
        return not recent or any(map(applies, machine.model.orders.values()))

    return precondition(may_run)


class BaseMachine(RuleBasedStateMachine):
    """One merchant's requests and comparisons. `service`, `reached` and `runs` are shared by the whole session.

    `reached` counts the answers of each rule; `runs` counts the completed runs by their number of steps.
    """

    service: ClassVar[Service]
    reached: ClassVar[Counter[tuple[str, int, str | None]]]
    runs: ClassVar[Counter[int]]

    def begin(self, rate: int | None) -> None:
        """Registers a new merchant with this surcharge."""
        self.merchant = self.service.ledger_access.merchant(rate)
        self.model = Model(rate)
        self.inbox = Inbox(self.model)
        self.model.deliver = self.inbox.deliver_due
        self.follower = LogFollower(self.service.ledger_access.coverage)
        self.latest: dict[str, dict[str, Any]] = {}
        self.ids: dict[str, str] = {}
        self.requests = self.steps = 0
        self.last: dict[str, int] = {}
        self.compared = False
        self.served: dict[str, dict[str, Any]] = {}
        self.reported: set[str] = set()
        self.readings: list[Reading] = []

    @invariant()
    def every_order_matches_the_model(self) -> None:
        """Compares after each step, unless the step's last request has done so already."""
        self.steps += 1
        if not self.compared:
            self._compare()
        self.compared = False

    def _count(self, name: str, status: int, code: str | None = None) -> None:
        self.requests += 1
        self.last[name] = self.requests
        self.reached[name, status, code] += 1

    def _pick(self, n: int, likely: Callable[[Order], object]) -> Order:
        """Returns an order: mostly one to which the rule applies, sometimes any."""
        orders = list(self.model.orders.values())
        applies = [order for order in orders if likely(order)]
        chosen = orders if n % 5 == 4 or not applies else applies
        return chosen[n // 5 % len(chosen)]

    def _post(self, rule_name: str, name: str, expected: Expected, path: str, body: Any) -> None:
        answer = self.service.request(self.merchant, "POST", path, body)
        self._count(rule_name, answer.status, answer.code)
        assert (answer.status, answer.code) == expected, f"{path} {body}: expected {expected}, got {answer}"
        assert name == answer.body.get("externalId", name)
        self._compare()

    def _read(self, name: str, *more: str) -> dict[str, Any]:
        answer = self.service.request(self.merchant, "GET", order_path(name, *more))
        assert answer.status == 200, answer
        return answer.body

    def _compare(self) -> None:
        """Asserts legal moves in the log (I7), reads the orders with new events, and compares all with the model.

        A refused request and an order that a step does not concern have no new events: the last reading must match.
        """
        ledger_access = self.service.ledger_access
        for order_id in ledger_access.follow(self.merchant.merchant_id, self.follower):
            self._check_order(self.follower.orders[order_id])
        assert not ledger_access.coverage.illegal, ledger_access.coverage.illegal
        for name, order in self.model.orders.items():
            served, expected = self.served[name], as_expected(order)
            assert served == expected, f"served {served}\nexpected {expected}"
        self.compared = True

    def _check_order(self, folded: Folded) -> None:
        """Reads an order and asserts that it follows from the log (I6), keeps its sums (I1 to I5) and its id (I11)."""
        name = folded.terms.external_id
        answer = self.service.request(self.merchant, "GET", order_path(name))
        assert answer.status == 200, answer
        shown: dict[str, Any] = answer.body
        self.latest[name] = shown
        version = self.follower.versions[folded.terms.order_id]
        self.readings.append(Reading(order_path(name), answer.content, version, self.follower.position))
        self.served[name] = as_served(shown)
        assert shown["id"] == str(folded.terms.order_id) == self.ids.setdefault(name, shown["id"])
        assert shown["status"] == folded.status == derive_status(folded)
        assert (shown["amountPaid"], shown["amountRefunded"]) == (folded.amount_paid, folded.amount_refunded)
        assert list(broken_amounts(shown)) == []
        for payment, details in zip(self.model.orders[name].payments, shown["payments"], strict=True):
            clabe = (details.get("speiDetails") or details.get("cieDetails") or {}).get("clabe")
            if clabe is not None:
                self.inbox.clabes[clabe] = self.model.orders[name], payment

    def _payment(self, order: Order, payment: Payment) -> dict[str, Any]:
        position = next(n for n, one in enumerate(order.payments) if one is payment)
        shown: dict[str, Any] = self.latest[order.name]["payments"][position]
        return shown

    def _id(self, order: Order, payment: Payment) -> str:
        return str(self._payment(order, payment)["id"])

    def teardown(self) -> None:
        """Asserts one order per external id (I11), and that every order still equals its last reading."""
        if sys.exception() is None:  # else the run is incomplete
            for order in self.follower.orders.values():
                self._check_order(order)
            self._compare()
            assert_read_again(self.service, self.merchant, self.readings, self.follower.times)
            listed = self.service.request(self.merchant, "GET", f"{API}/v2/payment-orders?limit=100").body["data"]
            assert {row["externalId"]: row["id"] for row in listed} == self.ids
            assert len(listed) == len(self.ids) == len(self.follower.orders)
            self.runs[self.steps] += 1


def as_served(order: dict[str, Any]) -> dict[str, Any]:
    """Returns the served fields that the model predicts."""
    names = ("status", "amount", "subtotalAmount", "surchargeAmount", "amountPaid", "amountRefunded", "amountPending")
    each = ("status", "amount", "authorizedAmount", "capturedAmount", "refundedAmount")
    only_where_true = ("nextAction", "lateDeposit")
    payments = [
        {name: payment[name] for name in each} | {name: payment.get(name) or None for name in only_where_true}
        for payment in order["payments"]
    ]
    return {name: order[name] for name in names} | {"payments": payments}


def as_expected(order: Order) -> dict[str, Any]:
    """Returns the model's prediction of the same fields: numbers on the order, decimal strings on payments."""
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
