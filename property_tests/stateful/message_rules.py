"""The rules of a processor's signed messages: repeated, reordered, and before their order exists.

A message that is answered 202 is only on disk. Its effect is checked after the worker's sweep; a message that no order
can apply yet stays pending, and the model knows how many are.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from property_tests.stateful.base_machine import numbers, part_of, throttled
from property_tests.stateful.external_rules import ExternalRules
from property_tests.stateful.model import Expected
from property_tests.stateful.model_inbox import DISPUTES, SentMessage
from property_tests.stateful.service import PROCESSOR_KEY

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
SEQUENCES = [
    ("opened", "won"),
    ("opened", "lost"),
    ("listed", "matched"),
    ("listed", "refused"),
    ("matched", "refused"),
    ("deposit", "deposit"),
]
ORDERS = ["forwards", "backwards", "backwards", "the end only"]
WAITING_MAX = 4
"""A bound, because every sweep of the worker tries all pending messages."""
SAID_AT = datetime(2026, 1, 31, tzinfo=UTC)


class MessageRules(ExternalRules):
    """The rules of messages that a processor sends by itself."""

    @rule(n=numbers, sequence=st.sampled_from(SEQUENCES), order=st.sampled_from(ORDERS), twice=st.booleans())
    @precondition(lambda self: self._payments() and len(self.inbox.waiting) < WAITING_MAX)
    @throttled("tell", 8)
    def tell(self, n: int, sequence: tuple[str, str], order: str, twice: bool) -> None:
        """Sends two consecutive messages in this or the reverse order, each perhaps twice."""
        sent = [message for kind in sequence for message in self._about(n, kind)]
        if order != "forwards":
            sent.reverse()
        self._count("tell", 200)
        for message in sent[: 1 if order == "the end only" else None]:
            self._send("message" if order == "forwards" else "message, reordered", message)
            if twice:
                self.service.other_process()
                self._send("message, again", message)
        self._work()

    def _about(self, n: int, kind: str) -> Iterator[SentMessage]:
        """Yields a message of this kind about one of the payments. It uses few names, so that later messages repeat
        them."""
        places = self._references() if kind == "deposit" else [p for p in self._payments() if p[1].captured]
        places = places or self._payments()
        order, payment = places[n // 4 % len(places)]
        if kind == "deposit":
            clabe = next((known for known, place in self.inbox.clabes.items() if place[1] is payment), None)
            if clabe is not None:
                amount = part_of(payment.gross, 1 + n % 3) or 1
                yield SentMessage(f"message/{self.requests}/{n}", kind, f"deposit/{n % 3}", clabe=clabe, amount=amount)
            return
        name = f"{'dispute' if kind in DISPUTES else 'batch'}/{n % 2}/{self._id(order, payment)}"
        amount = part_of(max(1, payment.captured), 1 + n % 2) or 1 if kind in {"opened", "lost"} else 0
        yield SentMessage(f"{name}/{kind}/{amount}", kind, name, order, payment, amount=amount)

    @rule(amount=st.sampled_from([10_000, 5_000, 7]))
    @throttled("message before its order", 8)
    @precondition(lambda self: not any(sent.clabe not in self.inbox.clabes for sent in self._early()))
    def deposit_too_early(self, amount: int) -> None:
        """Sends a deposit for the CLABE that the bank issues next: its order does not exist or has not requested it."""
        clabe = self.service.ledger_access.next_clabe()
        sent = SentMessage(f"early/{clabe}/{amount}", "deposit", f"early/{clabe}", clabe=clabe, amount=amount)
        self._send("message before its order", sent)
        self._work()

    def _early(self) -> list[SentMessage]:
        return [sent for sent in self.inbox.waiting if sent.kind == "deposit"]

    @rule(n=numbers, wrong=st.booleans())
    @precondition(lambda self: self._refunding())
    def confirm_refund(self, n: int, wrong: bool) -> None:
        """Confirms a refund before the sandbox's own message is due. A wrong amount confirms nothing."""
        due_message = self._refunding()[n % len(self._refunding())]
        payment_id = self._id(due_message.order, due_message.payment)
        refunds = self._read(due_message.order.name, "refunds")["data"]
        key = next(
            f"{refund['id']}:{payment_id}"
            for refund in refunds
            for part in refund["allocations"]
            if part["paymentId"] == payment_id and part["status"] == "PENDING"
        )
        amount = due_message.amount + wrong
        sent = SentMessage(
            f"refund/{key}/{amount}",
            "refunded",
            key,
            due_message.order,
            due_message.payment,
            amount=amount,
            due_message=due_message,
        )
        self._send("refund confirmed", sent)
        self._work()

    def _refunding(self) -> list[Any]:
        return [
            due_message for due_message in self.model.outbox if due_message.kind == "refund" and not due_message.done
        ]

    @rule()
    @precondition(lambda self: self.inbox.waiting)
    @throttled("worker", 15)
    def work(self) -> None:
        self._count("worker", 200)
        self._work()

    def _send(self, rule_name: str, sent: SentMessage) -> None:
        expected: Expected = self.inbox.keep(sent)
        signed = sign(messages.encode(self._message(sent)), [bytes.fromhex(PROCESSOR_KEY)], datetime.now(UTC))
        answer = self.service.post_message(signed.body, signed.timestamp, signed.signature)
        self._count(rule_name, answer.status, answer.code)
        assert (answer.status, answer.code) == expected, f"{sent}: expected {expected}, got {answer}"

    def _message(self, sent: SentMessage) -> Message:
        fields: dict[str, Any] = {
            "processor": "sandbox",
            "message_id": sent.message_id,
            "merchant_id": self.merchant.merchant_id,
            "occurred_at": SAID_AT,
            "processor_reference": sent.name,
        }
        if sent.clabe is not None:
            return DepositReceived(reference=sent.clabe, amount=Decimal(sent.amount), currency="MXN", **fields)
        assert sent.order is not None, "all others name their order"
        assert sent.payment is not None, "and its payment"
        fields |= {"order_id": UUID(self.ids[sent.order.name]), "payment_id": UUID(self._id(sent.order, sent.payment))}
        if sent.kind == "refunded":
            return RefundConfirmed(idempotency_key=sent.name, amount=Decimal(sent.amount), **fields)
        fields |= {"dispute_id" if sent.kind in DISPUTES else "batch_id": sent.name}
        if sent.kind in {"opened", "lost"}:
            fields |= {"amount": Decimal(sent.amount)}
        message: Message = KINDS[sent.kind](**fields)
        return message

    def _work(self) -> None:
        """Runs the worker's sweeps and compares: every applicable message is applied once, all others are pending."""
        taken: list[SentMessage] = self.inbox.work()
        waiting = self.service.ledger_access.work(self.merchant.merchant_id)
        self._compare()
        for sent in taken:
            early = " before its order" if sent.name.startswith("early") else ""
            self.reached[f"taken: {sent.kind}{early}", 200, None] += 1
        self._note_reported()
        assert waiting == len(self.inbox.waiting)
