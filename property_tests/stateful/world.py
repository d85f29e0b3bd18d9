"""What happens to a merchant's orders without the merchant: deposits, disputes, settlements, time, the death of a process.

The rule a stranger would break: what the sandbox's helpers refuse is asked for here as well; what only a processor can do,
and do in the wrong order, stands in `telling`.
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from property_tests.stateful.asking import Asking, now_and_then, numbers, part_of
from property_tests.stateful.oracle import DAY, HOUR, MINUTE
from property_tests.stateful.service import API
from property_tests.stateful.sums import HELD, Order, Payment

KILL_EACH = 100
"""Starting a process takes as long as a hundred steps. Mostly the requests only go on to the other one."""
WAITS = {10: "PT10S", 20 * MINUTE: "PT20M", 73 * HOUR: "PT73H", 8 * DAY: "P8D", 181 * DAY: "P181D"}

Place = tuple[Order, Payment]


class World(Asking):
    """The rules of what comes from outside."""

    @rule(n=numbers, share=st.sampled_from([None, None, None, 2, 3]))
    @precondition(lambda self: self._references())
    def deposit(self, n: int, share: int | None) -> None:
        references = self._references()
        order, payment = references[n % len(references)]
        amount = part_of(max(1, payment.gross - payment.captured), share) or payment.gross
        shown = self._payment(order, payment)
        details = shown.get("speiDetails") or shown["cieDetails"]
        where = {"clabe": details["clabe"]} if payment.method == "spei" else {"reference": details["reference"]}
        body = where | {"amount": amount, "messageId": f"message/{self.asked}"}
        expected = self.oracle.deposit(order, payment, amount)
        self._post("deposit", order.name, expected, f"{API}/sandbox/deposits", body)
        if n % 2 and expected.status == 200:
            self.service.other_process()
            self._post("deposit, again", order.name, expected, f"{API}/sandbox/deposits", body)

    def _references(self) -> list[Place]:
        return [(order, payment) for order, payment in self._payments() if payment.method != "card"]

    @rule(n=numbers, outcome=st.sampled_from(["OPENED", "WON", "LOST"]))
    @precondition(lambda self: self._held())
    def dispute(self, n: int, outcome: str) -> None:
        held = self._held()
        order, payment = held[n % len(held)]
        body = {"paymentId": self._id(order, payment), "outcome": outcome}
        self._post("dispute", order.name, self.oracle.dispute(payment, outcome), f"{API}/sandbox/disputes", body)

    @rule(n=numbers)
    @precondition(lambda self: self._lines())
    def settle(self, n: int) -> None:
        lines = self._lines()
        order, payment, stage = lines[n % len(lines)]
        body = {"paymentIds": [self._id(order, payment)], "stage": stage}
        self._post("settle", order.name, self.oracle.settle(payment, stage), f"{API}/sandbox/settlements", body)

    def _lines(self) -> list[tuple[Order, Payment, str]]:
        """Payments with what a batch of the sandbox can say of them."""
        stages = dict.fromkeys(("CAPTURED", "PARTIALLY_CAPTURED"), ("LISTED",))
        stages |= {"PENDING_SETTLEMENT": ("MATCHED", "REFUSED")}
        return [(order, p, stage) for order, p in self._held() for stage in stages.get(p.status, ())]

    def _held(self) -> list[Place]:
        """Payments with money that the bank and the acquirer have been told of: that takes a moment of the clock."""
        told = [(order, p) for order, p in self._payments() if self._id(order, p) in self.told]
        return [(order, p) for order, p in told if p.status == "DISPUTED" or (p.status in HELD and p.refundable > 0)]

    def _payments(self) -> list[Place]:
        return [(order, payment) for order in self.oracle.orders.values() for payment in order.payments]

    @rule(seconds=st.sampled_from([10, 10, 10, 10, *WAITS]))
    @now_and_then("clock", 5)
    def advance(self, seconds: int) -> None:
        self.oracle.advance(seconds)
        answer = self.service.ask(self.shop, "POST", f"{API}/sandbox/clock", {"advanceBy": WAITS[seconds]})
        assert answer.status == 200, answer
        self._count("clock", 200)
        self._compare()
        self._noted()

    def _noted(self) -> None:
        """The names of all payments that a processor knows of have been noted."""
        self.told = {self._id(order, p) for order, p in self._payments() if p.method != "card" or p.authorized}

    @rule()
    @now_and_then("restart", 9)
    def restart(self) -> None:
        """Mostly on to the other process; now and then one is killed where it stands."""
        self._count("restart", 200)
        if self.reached["restart", 200, None] % KILL_EACH == 0:
            self._count("kill", 200)
            self.service.kill()
        else:
            self.service.other_process()
