"""What the model expects of messages that a processor sends by itself: kept once, taken when the order is there for them.

The rule a stranger would break: a message may come twice, early, or behind the one that should follow it. What nobody can
use yet waits and is tried again; it is never dropped, and nothing is done twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count

from property_tests.stateful.oracle import Expected, Oracle, Said
from property_tests.stateful.sums import HELD, Order, Payment

DISPUTES = ("opened", "won", "lost")
BATCHES = {"listed": "PENDING_SETTLEMENT", "matched": "SETTLED", "refused": "CAPTURED"}


@dataclass(frozen=True, eq=False)
class Told:
    """A message. `name` is its dispute's, batch's or deposit's; money that comes to a `clabe` may be early for its order."""

    message_id: str
    kind: str
    name: str
    order: Order | None = None
    payment: Payment | None = None
    clabe: str | None = None
    amount: int = 0
    said: Said | None = None


@dataclass
class Inbox:
    """One merchant's inbox. `clabes` says whose a CLABE is, once it was given out."""

    oracle: Oracle
    known: dict[str, Told] = field(default_factory=dict)
    waiting: list[Told] = field(default_factory=list)
    clabes: dict[str, tuple[Order, Payment]] = field(default_factory=dict)
    _own: count[int] = field(default_factory=count)

    def keep(self, told: Told) -> Expected:
        """POST /processor-messages/…: on disk with 202, and with 200 where it was there before."""
        if told.message_id in self.known:
            return Expected(200)
        self.known[told.message_id] = told
        self.waiting.append(told)
        return Expected(202)

    def fetched(self, said: Said) -> None:
        """What the sandbox's own book tells when it is due is tried at once, and waits where that is too early."""
        name = f"book/{next(self._own)}"
        kind = "refunded" if said.kind == "refund" else "opened"
        told = Told(name, kind, name, said.order, said.payment, amount=said.amount, said=said)
        if not self._take(told):
            self.waiting.append(told)

    def work(self) -> list[Told]:
        """A worker's turn: everything that waits is tried, in the order in which it came, until nothing more can be taken."""
        taken: list[Told] = []
        while done := [told for told in list(self.waiting) if self._take(told)]:
            self.waiting = [told for told in self.waiting if told not in done]
            taken += done
        return taken

    def _take(self, told: Told) -> bool:
        if told.kind == "deposit":
            return self._deposit(told)
        assert told.payment is not None, "only money can be early for its order"
        if told.kind in BATCHES:
            return self._batch(told, told.payment)
        if told.kind in DISPUTES:
            return self._dispute(told, told.payment)
        return self._refunded(told)

    def _deposit(self, told: Told) -> bool:
        if told.clabe not in self.clabes:
            return False
        order, payment = self.clabes[told.clabe]
        if told.name not in payment.deposits:
            payment.deposits[told.name] = told.amount
            self.oracle.arrived(order, payment, told.amount)
        return payment.deposits[told.name] == told.amount

    def _batch(self, told: Told, payment: Payment) -> bool:
        same = payment.batch == told.name
        listed = same and payment.status == "PENDING_SETTLEMENT"
        if told.kind == "listed" and same:
            return True
        if (told.kind != "listed" and listed) or (
            told.kind == "listed" and payment.status in {"CAPTURED", "PARTIALLY_CAPTURED"}
        ):
            payment.batch, payment.batch_ended = told.name, None if told.kind == "listed" else told.kind
            payment.status = BATCHES[told.kind]
            return True
        return same and payment.batch_ended == told.kind

    def _dispute(self, told: Told, payment: Payment) -> bool:
        if told.name in payment.decided:
            return told.kind == "opened" or payment.decided[told.name] == (told.amount if told.kind == "lost" else 0)
        if payment.dispute == told.name:
            if told.kind == "opened":
                return True
            if told.kind == "lost":
                if told.amount > payment.refundable:
                    return False
                payment.contested = told.amount
        elif not self._opened(told, payment):
            return False
        self.oracle.decided(payment, told.kind.upper())
        return True

    def _opened(self, told: Told, payment: Payment) -> bool:
        amount = payment.refundable if told.kind == "won" else told.amount
        if payment.status not in HELD or not 0 < amount <= payment.refundable:
            return False
        self.oracle.contest(payment, amount, told.name)
        return True

    def _refunded(self, told: Told) -> bool:
        assert told.said is not None, "a refund that the book knows"
        if told.amount != told.said.amount:
            return False
        if not told.said.done:
            self.oracle.confirmed(told.said)
        return True
