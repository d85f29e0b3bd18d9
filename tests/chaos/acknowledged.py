"""The clients' record against the log: whatever anybody was told is there, and was true when they were told.

The rule a stranger would break: an operation of unknown outcome may have happened or not, and both are right. Anything
else that was answered is held to its answer, refusals and reads included.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from uuid import UUID

from msgspec import Struct, structs
from tests.chaos.evidence import MerchantEvidence
from tests.chaos.witness import Operation, Told

from ledger.domain.orders.state import Order
from ledger.journal.append import ClaimKind

_REFUSALS = {
    "create": {"IDEMPOTENCY_MISMATCH"},
    "charge": {"ORDER_NOT_PAYABLE", "ORDER_NOT_FOUND", "AMOUNT_EXCEEDS_PENDING"},
    "read": {"ORDER_NOT_FOUND"},
    "list": set[str](),
}
"""What each kind of request may be refused with in these tests; anything else is a finding. The whole rest of an order that
was granted half is refused with AMOUNT_EXCEEDS_PENDING while somebody else's card is being asked for it."""


class Record(Struct, frozen=True, kw_only=True, dict=True):
    """What the clients wrote down, and what the log says about it."""

    operations: Sequence[Operation]
    evidence: Mapping[UUID, MerchantEvidence]

    @cached_property
    def acknowledged(self) -> Sequence[tuple[Operation, Told]]:
        return [(o, o.told) for o in self.operations if o.outcome == "ok" and o.told is not None]

    @cached_property
    def unknown(self) -> Sequence[Operation]:
        return [o for o in self.operations if o.outcome == "info"]

    def lost(self) -> Iterator[str]:
        """Operations that were acknowledged and are not in the log as they were acknowledged."""
        for operation, told in self.acknowledged:
            for reason in self._missing(operation, told):
                yield f"{_words(operation)}: {reason}"
        yield from self._forgotten()
        yield from self._told_otherwise()

    def doubled(self) -> Iterator[str]:
        """Operations that took effect more than once: two orders for a name, one payment announced as new twice."""
        ids: dict[tuple[UUID, str], set[UUID]] = defaultdict(set)
        paid: dict[tuple[UUID, str, str], set[UUID]] = defaultdict(set)
        made: dict[UUID, Operation] = {}
        for operation, told in self.acknowledged:
            if operation.asked.external_id is not None and told.order_id is not None:
                ids[operation.asked.merchant_id, operation.asked.external_id].add(told.order_id)
                if operation.asked.payment is not None and told.payment_id is not None:
                    paid[operation.asked.merchant_id, operation.asked.external_id, operation.asked.payment].add(
                        told.payment_id
                    )
            new = told.order_id if told.payment_id is None else told.payment_id
            if operation.asked.do in {"create", "charge"} and not told.replayed and new is not None:
                if new in made:
                    yield f"{_words(operation)} and {_words(made[new])}: both were told that they made {new}"
                made[new] = operation
        for (_, name), orders in ids.items():
            if len(orders) > 1:
                yield f"{name!r} was answered with the orders {sorted(map(str, orders))}"
        for (_, name, payment), payments in paid.items():
            if len(payments) > 1:
                yield f"charge {payment!r} of {name!r} was answered with the payments {sorted(map(str, payments))}"

    def surprises(self) -> Iterator[str]:
        """Answers that nothing in these tests explains: an error that is unclassified is itself a finding."""
        for operation in self.operations:
            told = operation.told
            if told is not None and told.status >= 500 and told.status != 503:
                yield f"{_words(operation)}: {told.status} {told.code}"
            if operation.outcome == "fail" and told is not None and not self._is_explained(operation, told):
                yield f"{_words(operation)}: {told.status} {told.code}"

    def landed(self) -> int:
        """How many writes of unknown outcome did make the order that they asked for, or found it there."""
        return sum(self._order_called(o) is not None for o in self.unknown if o.asked.do in {"create", "charge"})

    def _missing(self, operation: Operation, told: Told) -> Iterator[str]:
        evidence = self.evidence.get(operation.asked.merchant_id)
        if evidence is None:
            yield "the merchant is not there"
            return
        for order_id in told.listed:
            if order_id not in evidence.histories:
                yield f"listed order {order_id} is not there"
        if told.order_id is None:
            return
        history = evidence.histories.get(told.order_id)
        if history is None:
            yield f"order {told.order_id} is not there"
            return
        terms = history[-1].terms
        if operation.asked.external_id != terms.external_id:
            yield f"order {told.order_id} is called {terms.external_id!r}"
        if operation.asked.amount is not None and operation.asked.amount != terms.amount:
            yield f"order {told.order_id} is over {terms.amount}"
        if not any(_stood(order, told) for order in history):
            yield f"order {told.order_id} never was {told.order_status} with {told.amount_paid} paid"

    def _forgotten(self) -> Iterator[str]:
        """Orders that were not found after somebody had been told that they exist."""
        known: dict[tuple[UUID, str], int] = {}
        for operation, told in self.acknowledged:
            if told.order_id is not None and operation.asked.external_id is not None and operation.ended is not None:
                key = operation.asked.merchant_id, operation.asked.external_id
                known[key] = min(known.get(key, operation.ended), operation.ended)
        for operation in self.operations:
            if operation.told is not None and operation.told.code == "ORDER_NOT_FOUND":
                name = operation.asked.external_id or ""
                if known.get((operation.asked.merchant_id, name), operation.began) < operation.began:
                    yield f"{_words(operation)}: not found, but it had been acknowledged"

    def _told_otherwise(self) -> Iterator[str]:
        """Requests under an idempotency key whose repetition was answered by anything but the first answer."""
        first: dict[tuple[UUID, str], tuple[int, Told]] = {}
        for operation, told in self.acknowledged:
            if operation.asked.key is None:
                continue
            number, before = first.setdefault((operation.asked.merchant_id, operation.asked.key), (operation.n, told))
            if structs.replace(told, replayed=before.replayed) != before:
                yield f"{_words(operation)}: {told}, but operation {number} under the same key was told {before}"

    def _is_explained(self, operation: Operation, told: Told) -> bool:
        if told.code not in _REFUSALS[operation.asked.do]:
            return False
        order = self._order_called(operation)
        return told.code != "IDEMPOTENCY_MISMATCH" or (
            order is not None and order.terms.amount != operation.asked.amount
        )

    def _order_called(self, operation: Operation) -> Order | None:
        evidence = self.evidence[operation.asked.merchant_id]
        order_id = evidence.claims.get((ClaimKind.ORDER_EXTERNAL_ID, operation.asked.external_id or ""))
        return None if order_id is None else evidence.orders.get(order_id)


def _stood(order: Order, told: Told) -> bool:
    """Whether the order, at this version, is the one that somebody was shown."""
    payments = {payment.payment_id: payment for payment in order.payments}
    shown = told.payment_id is None or (
        told.payment_id in payments and payments[told.payment_id].status == told.payment_status
    )
    return (
        shown
        and order.status == told.order_status
        and order.amount_paid == told.amount_paid
        and tuple(payments) == told.payment_ids
    )


def _words(operation: Operation) -> str:
    asked = operation.asked
    card = f" by a card that is {asked.card}" if asked.card else ""
    return f"operation {operation.n} ({asked.do} {asked.external_id!r}{card})"
