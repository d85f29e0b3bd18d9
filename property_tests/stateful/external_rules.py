"""Rules for what happens without the merchant: deposits, disputes, settlements, time, a killed process.

They also send what the sandbox's helpers refuse. What only a processor can send, and in the wrong order, is in
`message_rules`.
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from property_tests.stateful.base_machine import BaseMachine, numbers, part_of, throttled
from property_tests.stateful.model import DAY, HOUR, MINUTE
from property_tests.stateful.model_order import HELD, Order, Payment
from property_tests.stateful.service import API

KILL_EACH = 100
"""A process is killed once in so many restarts, because its start takes as long as a hundred steps. The other restarts
only switch to the other process."""
WAITS = {10: "PT10S", 20 * MINUTE: "PT20M", 73 * HOUR: "PT73H", 8 * DAY: "P8D", 181 * DAY: "P181D"}

OrderPayment = tuple[Order, Payment]


class ExternalRules(BaseMachine):
    """The rules of deposits, disputes, settlements, time and restarts."""

    @rule(n=numbers, share=st.sampled_from([None, None, None, 2, 3]))
    @precondition(lambda self: self._references())
    def deposit(self, n: int, share: int | None) -> None:
        references = self._references()
        order, payment = references[n % len(references)]
        amount = part_of(max(1, payment.gross - payment.captured), share) or payment.gross
        shown = self._payment(order, payment)
        details = shown.get("speiDetails") or shown["cieDetails"]
        where = {"clabe": details["clabe"]} if payment.method == "spei" else {"reference": details["reference"]}
        body = where | {"amount": amount, "messageId": f"message/{self.requests}"}
        expected = self.model.deposit(order, payment, amount)
        self._post("deposit", order.name, expected, f"{API}/sandbox/deposits", body)
        if n % 2 and expected.status == 200:
            self.service.other_process()
            self._post("deposit, again", order.name, expected, f"{API}/sandbox/deposits", body)

    def _references(self) -> list[OrderPayment]:
        return [(order, payment) for order, payment in self._payments() if payment.method != "card"]

    @rule(n=numbers, outcome=st.sampled_from(["OPENED", "WON", "LOST"]))
    @precondition(lambda self: self._held())
    def dispute(self, n: int, outcome: str) -> None:
        held = self._held()
        order, payment = held[n % len(held)]
        body = {"paymentId": self._id(order, payment), "outcome": outcome}
        self._post("dispute", order.name, self.model.dispute(payment, outcome), f"{API}/sandbox/disputes", body)

    @rule(n=numbers)
    @precondition(lambda self: self._lines())
    def settle(self, n: int) -> None:
        lines = self._lines()
        order, payment, stage = lines[n % len(lines)]
        body = {"paymentIds": [self._id(order, payment)], "stage": stage}
        self._post("settle", order.name, self.model.settle(payment, stage), f"{API}/sandbox/settlements", body)

    def _lines(self) -> list[tuple[Order, Payment, str]]:
        """Returns the payments with each stage of a settlement batch that their status allows."""
        stages = dict.fromkeys(("CAPTURED", "PARTIALLY_CAPTURED"), ("LISTED",))
        stages |= {"PENDING_SETTLEMENT": ("MATCHED", "REFUSED"), "SETTLED": ("REFUSED",)}
        return [(order, p, stage) for order, p in self._held() for stage in stages.get(p.status, ())]

    def _held(self) -> list[OrderPayment]:
        """Returns the payments with money that the sandbox's bank and acquirer know, as of the last clock advance."""
        reported = [(order, p) for order, p in self._payments() if self._id(order, p) in self.reported]
        return [
            (order, p) for order, p in reported if p.status == "DISPUTED" or (p.status in HELD and p.refundable > 0)
        ]

    def _payments(self) -> list[OrderPayment]:
        return [(order, payment) for order in self.model.orders.values() for payment in order.payments]

    @rule(seconds=st.sampled_from([10, 10, 10, 10, *WAITS]))
    @throttled("clock", 5)
    def advance(self, seconds: int) -> None:
        self.model.advance(seconds)
        answer = self.service.request(self.merchant, "POST", f"{API}/sandbox/clock", {"advanceBy": WAITS[seconds]})
        assert answer.status == 200, answer
        self._count("clock", 200)
        self._compare()
        self._note_reported()

    def _note_reported(self) -> None:
        """Records which payments the sandbox's bank and acquirer know now."""
        self.reported = {self._id(order, p) for order, p in self._payments() if p.method != "card" or p.authorized}

    @rule()
    @throttled("restart", 9)
    def restart(self) -> None:
        """Switches to the other process; once in `KILL_EACH` restarts it kills the current one."""
        self._count("restart", 200)
        if self.reached["restart", 200, None] % KILL_EACH == 0:
            self._count("kill", 200)
            self.service.kill()
        else:
            self.service.other_process()
