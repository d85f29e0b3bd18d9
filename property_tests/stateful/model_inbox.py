"""The model of the inbox: a processor's message is kept once, and applied when its order allows it.

A message can arrive twice, early, or after its successor. One that no order can apply yet stays pending and is tried
again; it is never dropped, and never applied twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count

from property_tests.stateful.model import REFUNDABLE, DueMessage, Expected, Model
from property_tests.stateful.model_order import Order, Payment

DISPUTES = ("opened", "won", "lost")
BATCHES = {"listed": "PENDING_SETTLEMENT", "matched": "SETTLED", "refused": "CAPTURED"}
SETTLING = ("CAPTURED", "PARTIALLY_CAPTURED", "PENDING_SETTLEMENT", "SETTLED")


@dataclass(frozen=True, eq=False)
class SentMessage:
    """A message. `name` is the id of its dispute, batch or deposit. A deposit to a `clabe` can precede its order."""

    message_id: str
    kind: str
    name: str
    order: Order | None = None
    payment: Payment | None = None
    clabe: str | None = None
    amount: int = 0
    due_message: DueMessage | None = None


@dataclass
class Inbox:
    """One merchant's inbox. `clabes` maps every issued CLABE to its payment."""

    model: Model
    known: dict[str, SentMessage] = field(default_factory=dict)
    waiting: list[SentMessage] = field(default_factory=list)
    clabes: dict[str, tuple[Order, Payment]] = field(default_factory=dict)
    _own: count[int] = field(default_factory=count)

    def keep(self, sent: SentMessage) -> Expected:
        """POST /processor-messages/…: answered 202 if the message is new, and 200 if it was kept before."""
        if sent.message_id in self.known:
            return Expected(200)
        self.known[sent.message_id] = sent
        self.waiting.append(sent)
        return Expected(202)

    def deliver_due(self, due_message: DueMessage) -> None:
        """Applies a message that the sandbox sends when it is due, or keeps it pending if that is too early."""
        name = f"book/{next(self._own)}"
        kind = "refunded" if due_message.kind == "refund" else "opened"
        sent = SentMessage(
            name, kind, name, due_message.order, due_message.payment, amount=due_message.amount, due_message=due_message
        )
        if not self._take(sent):
            self.waiting.append(sent)

    def work(self) -> list[SentMessage]:
        """Applies the pending messages until none can be applied, and returns those that were applied.

        The oldest one that can be applied is next: each that was applied makes the older ones of its order due again.
        """
        taken: list[SentMessage] = []
        while (sent := next((each for each in self.waiting if self._take(each)), None)) is not None:
            self.waiting.remove(sent)
            taken.append(sent)
        return taken

    def _take(self, sent: SentMessage) -> bool:
        if sent.kind == "deposit":
            return self._deposit(sent)
        assert sent.payment is not None, "only money can be early for its order"
        if sent.kind in BATCHES:
            return self._batch(sent, sent.payment)
        if sent.kind in DISPUTES:
            return self._dispute(sent, sent.payment)
        return self._refunded(sent)

    def _deposit(self, sent: SentMessage) -> bool:
        if sent.clabe not in self.clabes:
            return False
        order, payment = self.clabes[sent.clabe]
        if sent.name not in payment.deposits:
            payment.deposits[sent.name] = sent.amount
            self.model.deposit_arrived(order, payment, sent.amount)
        return payment.deposits[sent.name] == sent.amount

    def _batch(self, sent: SentMessage, payment: Payment) -> bool:
        same, ended = payment.batch == sent.name, payment.batch_ended
        if sent.kind == "listed":
            if same:
                return True
            is_free = payment.batch is None or ended == "refused"
            if not is_free or not payment.captured or payment.status in {"PENDING_CAPTURE", "CAPTURING"}:
                return False
        elif not same or ended == sent.kind:
            return same
        elif sent.kind == "matched" and ended == "refused":
            return False
        payment.batch, payment.batch_ended = sent.name, None if sent.kind == "listed" else sent.kind
        if payment.status in SETTLING:
            payment.status = BATCHES[sent.kind]
        if payment.returns_to in SETTLING:
            payment.returns_to = BATCHES[sent.kind]
        return True

    def _dispute(self, sent: SentMessage, payment: Payment) -> bool:
        if sent.name in payment.decided:
            return sent.kind == "opened" or payment.decided[sent.name] == (sent.amount if sent.kind == "lost" else 0)
        arrived = payment.captured - payment.taken
        if payment.method != "card" and sent.kind != "won" and sent.amount > arrived:
            return False  # the bank takes back what has not arrived yet
        if payment.dispute == sent.name:
            if sent.kind == "opened":
                return True
            if sent.kind == "lost":
                payment.contested = sent.amount
        elif not self._opened(sent, payment):
            return False
        self.model.decided(payment, sent.kind.upper())
        return True

    def _opened(self, sent: SentMessage, payment: Payment) -> bool:
        if payment.status not in REFUNDABLE or not payment.captured or payment.refunding or payment.contesting:
            return False
        self.model.contest(payment, payment.refundable if sent.kind == "won" else sent.amount, sent.name)
        return True

    def _refunded(self, sent: SentMessage) -> bool:
        assert sent.due_message is not None, "a refund that the book knows"
        if sent.amount != sent.due_message.amount:
            return False
        if not sent.due_message.done:
            self.model.confirmed(sent.due_message)
        return True
