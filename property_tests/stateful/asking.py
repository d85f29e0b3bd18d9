"""How every rule asks and compares: the oracle speaks first, then the service, and then the log and the order are read.

The rule a stranger would break: after each request, I7 holds of every event that it has appended, I1 to I6 and I11 of every
order that it has appended one to, as that is served then; and every order is the oracle's. At a merchant's end all is read.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition
from property_tests.stateful.inbox import Inbox
from property_tests.stateful.oracle import Expected, Oracle
from property_tests.stateful.reach import Follower
from property_tests.stateful.service import API, Service, order_path
from property_tests.stateful.sums import Order, Payment
from tests.invariants import broken_sums

from ledger.domain.orders.state import Order as Folded
from ledger.domain.orders.state import derive_status

numbers = st.integers(0, 999)
shares = st.sampled_from([None, None, 1, 2, 3, 0, 9])
"""Which part of what is left: all, a half, a third; 0 stands for an amount of nothing, 9 for more than there is."""


def part_of(whole: int, share: int | None) -> int | None:
    match share:
        case None | 0:
            return share
        case 9:
            return whole + 1
        case _:
            return max(1, whole // share)


def now_and_then(name: str, gap: int, meant: Callable[[Order], bool] = lambda _: False) -> Any:
    """A rule that may run while an order is there that it is meant for, and otherwise only every `gap` requests."""

    def may_run(machine: Asking) -> bool:
        often = machine.asked - machine.last.get(name, 0) < gap
        return not often or any(map(meant, machine.oracle.orders.values()))

    return precondition(may_run)


class Asking(RuleBasedStateMachine):
    """A merchant's connection to the service. `service`, `reached` and `runs` belong to the whole session.

    `runs` counts, by their length, the lives that came to their end.
    """

    service: ClassVar[Service]
    reached: ClassVar[Counter[tuple[str, int, str | None]]]
    runs: ClassVar[Counter[int]]

    def begin(self, rate: int | None) -> None:
        """A new merchant, with this surcharge."""
        self.shop = self.service.backstage.shop(rate)
        self.oracle = Oracle(rate)
        self.inbox = Inbox(self.oracle)
        self.oracle.tell = self.inbox.fetched
        self.follower = Follower(self.service.backstage.reach)
        self.seen: dict[str, dict[str, Any]] = {}
        self.ids: dict[str, str] = {}
        self.asked = self.steps = 0
        self.last: dict[str, int] = {}
        self.compared = False
        self.served: dict[str, dict[str, Any]] = {}
        self.told: set[str] = set()

    @invariant()
    def every_order_is_what_the_model_says(self) -> None:
        """After each step, where the step's last request was not followed by it anyway."""
        self.steps += 1
        if not self.compared:
            self._compare()
        self.compared = False

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
        assert name == answer.body.get("externalId", name)
        self._compare()

    def _read(self, name: str, *more: str) -> dict[str, Any]:
        answer = self.service.ask(self.shop, "GET", order_path(name, *more))
        assert answer.status == 200, answer
        return answer.body

    def _compare(self) -> None:
        """The log has only legal moves (I7); what it has something new about is read; all orders are the oracle's.

        What was refused, or is not what a step was about, has no events: then it was read before, and has to fit still.
        """
        backstage = self.service.backstage
        for order_id in backstage.follow(self.shop.merchant_id, self.follower):
            self._look(self.follower.orders[order_id])
        assert not backstage.reach.illegal
        for name, order in self.oracle.orders.items():
            served, expected = self.served[name], as_expected(order)
            assert served == expected, f"served {served}\nexpected {expected}"
        self.compared = True

    def _look(self, folded: Folded) -> None:
        """Read an order as it is served: it follows from the log (I6), keeps its sums (I1 to I5) and its id (I11)."""
        name = folded.terms.external_id
        shown = self.seen[name] = self._read(name)
        self.served[name] = as_served(shown)
        assert shown["id"] == str(folded.terms.order_id) == self.ids.setdefault(name, shown["id"])
        assert shown["status"] == folded.status == derive_status(folded)
        assert (shown["amountPaid"], shown["amountRefunded"]) == (folded.amount_paid, folded.amount_refunded)
        assert list(broken_sums(shown)) == []
        for payment, details in zip(self.oracle.orders[name].payments, shown["payments"], strict=True):
            clabe = (details.get("speiDetails") or details.get("cieDetails") or {}).get("clabe")
            if clabe is not None:
                self.inbox.clabes[clabe] = self.oracle.orders[name], payment

    def _payment(self, order: Order, payment: Payment) -> dict[str, Any]:
        position = next(n for n, one in enumerate(order.payments) if one is payment)
        shown: dict[str, Any] = self.seen[order.name]["payments"][position]
        return shown

    def _id(self, order: Order, payment: Payment) -> str:
        return str(self._payment(order, payment)["id"])

    def teardown(self) -> None:
        """Nothing was made twice under one name (I11), and all that is there is what it was when it was read last."""
        if sys.exception() is None:  # else the life did not come to its end
            for order in self.follower.orders.values():
                self._look(order)
            self._compare()
            listed = self.service.ask(self.shop, "GET", f"{API}/v2/payment-orders?limit=100").body["data"]
            assert {row["externalId"]: row["id"] for row in listed} == self.ids
            assert len(listed) == len(self.ids) == len(self.follower.orders)
            self.runs[self.steps] += 1


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
