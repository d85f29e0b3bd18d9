"""What a processor tells by itself: signed messages, doubled, backwards, and before the order that they are about.

The rule a stranger would break: a message that is 202 is on disk and no more. What becomes of it is seen after a worker's
turn; what no order can use then waits for a later turn, and the model knows how many wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from property_tests.stateful.asking import now_and_then, numbers, part_of
from property_tests.stateful.inbox import DISPUTES, Told
from property_tests.stateful.oracle import Expected
from property_tests.stateful.service import PROCESSOR_KEY
from property_tests.stateful.world import World

from ledger.processors import messages
from ledger.processors.messages import (
    DepositReceived,
    DisputeLost,
    DisputeOpened,
    DisputeWon,
    Message,
    RefundConfirmed,
    SettlementListed,
    SettlementMatched,
    SettlementRefused,
    sign,
)

KINDS: dict[str, Any] = {
    "opened": DisputeOpened,
    "won": DisputeWon,
    "lost": DisputeLost,
    "listed": SettlementListed,
    "matched": SettlementMatched,
    "refused": SettlementRefused,
}
STORIES = [("opened", "won"), ("opened", "lost"), ("listed", "matched"), ("listed", "refused"), ("deposit", "deposit")]
ORDERS = ["forwards", "backwards", "backwards", "the end only"]
WAITING_MAX = 4
"""Whatever waits is tried in each worker's turn."""
SAID_AT = datetime(2026, 1, 31, tzinfo=UTC)


class Telling(World):
    """The rules of messages that a processor sends."""

    @rule(n=numbers, story=st.sampled_from(STORIES), order=st.sampled_from(ORDERS), twice=st.booleans())
    @precondition(lambda self: self._payments() and len(self.inbox.waiting) < WAITING_MAX)
    @now_and_then("tell", 8)
    def tell(self, n: int, story: tuple[str, str], order: str, twice: bool) -> None:
        """Two messages of which the second follows the first, in this order or the other, each perhaps sent twice."""
        told = [message for kind in story for message in self._about(n, kind)]
        if order != "forwards":
            told.reverse()
        self._count("tell", 200)
        for message in told[: 1 if order == "the end only" else None]:
            self._tell("message" if order == "forwards" else "message, reordered", message)
            if twice:
                self.service.other_process()
                self._tell("message, again", message)
        self._work()

    def _about(self, n: int, kind: str) -> Iterator[Told]:
        """A message of this kind about one of the payments; few names, so that they are met again later."""
        places = self._references() if kind == "deposit" else [p for p in self._payments() if p[1].captured]
        places = places or self._payments()
        order, payment = places[n // 4 % len(places)]
        if kind == "deposit":
            clabe = next((known for known, place in self.inbox.clabes.items() if place[1] is payment), None)
            if clabe is not None:
                amount = part_of(payment.gross, 1 + n % 3) or 1
                yield Told(f"message/{self.asked}/{n}", kind, f"deposit/{n % 3}", clabe=clabe, amount=amount)
            return
        name = f"{'dispute' if kind in DISPUTES else 'batch'}/{n % 2}/{self._id(order, payment)}"
        amount = part_of(max(1, payment.captured), 1 + n % 2) or 1 if kind in {"opened", "lost"} else 0
        yield Told(f"{name}/{kind}/{amount}", kind, name, order, payment, amount=amount)

    @rule(amount=st.sampled_from([10_000, 5_000, 7]))
    @now_and_then("message before its order", 8)
    @precondition(lambda self: not any(told.clabe not in self.inbox.clabes for told in self._early()))
    def deposit_too_early(self, amount: int) -> None:
        """Money for the next CLABE that will be given out: its order does not exist, or has not asked for it."""
        clabe = self.service.backstage.next_clabe()
        told = Told(f"early/{clabe}/{amount}", "deposit", f"early/{clabe}", clabe=clabe, amount=amount)
        self._tell("message before its order", told)
        self._work()

    def _early(self) -> list[Told]:
        return [told for told in self.inbox.waiting if told.kind == "deposit"]

    @rule(n=numbers, wrong=st.booleans())
    @precondition(lambda self: self._refunding())
    def confirm_refund(self, n: int, wrong: bool) -> None:
        """The end of a refund, told before the processor's own book would tell it; a wrong amount confirms nothing."""
        said = self._refunding()[n % len(self._refunding())]
        payment_id = self._id(said.order, said.payment)
        refunds = self._read(said.order.name, "refunds")["data"]
        key = next(
            f"{refund['id']}:{payment_id}"
            for refund in refunds
            for part in refund["allocations"]
            if part["paymentId"] == payment_id and part["status"] == "PENDING"
        )
        amount = said.amount + wrong
        told = Told(f"refund/{key}/{amount}", "refunded", key, said.order, said.payment, amount=amount, said=said)
        self._tell("refund confirmed", told)
        self._work()

    def _refunding(self) -> list[Any]:
        return [said for said in self.oracle.outbox if said.kind == "refund" and not said.done]

    @rule()
    @precondition(lambda self: self.inbox.waiting)
    @now_and_then("worker", 15)
    def work(self) -> None:
        self._count("worker", 200)
        self._work()

    def _tell(self, rule_name: str, told: Told) -> None:
        expected: Expected = self.inbox.keep(told)
        signed = sign(messages.encode(self._message(told)), [bytes.fromhex(PROCESSOR_KEY)], datetime.now(UTC))
        answer = self.service.tell(signed.body, signed.timestamp, signed.signature)
        self._count(rule_name, answer.status, answer.code)
        assert (answer.status, answer.code) == expected, f"{told}: expected {expected}, got {answer}"

    def _message(self, told: Told) -> Message:
        said: dict[str, Any] = {
            "processor": "sandbox",
            "message_id": told.message_id,
            "merchant_id": self.shop.merchant_id,
            "occurred_at": SAID_AT,
            "processor_reference": told.name,
        }
        if told.clabe is not None:
            return DepositReceived(reference=told.clabe, amount=Decimal(told.amount), currency="MXN", **said)
        assert told.order is not None, "all others name their order"
        assert told.payment is not None, "and its payment"
        said |= {"order_id": UUID(self.ids[told.order.name]), "payment_id": UUID(self._id(told.order, told.payment))}
        if told.kind == "refunded":
            return RefundConfirmed(idempotency_key=told.name, amount=Decimal(told.amount), **said)
        said |= {"dispute_id" if told.kind in DISPUTES else "batch_id": told.name}
        if told.kind in {"opened", "lost"}:
            said |= {"amount": Decimal(told.amount)}
        message: Message = KINDS[told.kind](**said)
        return message

    def _work(self) -> None:
        """A worker's turn: what can be taken is, once, and all else still waits."""
        taken: list[Told] = self.inbox.work()
        waiting = self.service.backstage.work(self.shop.merchant_id)
        self._compare()
        for told in taken:
            early = " before its order" if told.name.startswith("early") else ""
            self.reached[f"taken: {told.kind}{early}", 200, None] += 1
        self._noted()
        assert waiting == len(self.inbox.waiting)
