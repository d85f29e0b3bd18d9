"""Compares the clients' record with the log: what a client was answered is in the log, and was true when it was answered.

An operation of unknown outcome may have happened or not; both are right. Every other operation is held to its answer,
refusals and reads included.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from uuid import UUID

from msgspec import Struct, structs

from campaigns.chaos.evidence import MerchantEvidence
from campaigns.chaos.witness import Operation, RecordedAnswer
from ledger.domain.orders.state import Order
from ledger.domain.streams import ClaimKind

_REFUSALS = {
    "create": {"IDEMPOTENCY_MISMATCH"},
    "charge": {"ORDER_NOT_PAYABLE", "ORDER_NOT_FOUND", "AMOUNT_EXCEEDS_PENDING"},
    "refund": {
        "ORDER_NOT_FOUND",
        "ORDER_NOT_REFUNDABLE",
        "INVALID_ORDER_STATE",
        "REFUND_IN_PROGRESS",
        "REFUND_AMOUNT_EXCEEDS_BALANCE",
    },
    "read": {"ORDER_NOT_FOUND"},
    "list": set[str](),
    "change-method": {"PAYMENT_METHOD_NOT_FOUND", "CONCURRENT_UPDATE"},
    "delete-method": {"PAYMENT_METHOD_NOT_FOUND", "CUSTOMER_NOT_FOUND", "CONCURRENT_UPDATE"},
    "list-methods": {"CUSTOMER_NOT_FOUND"},
    "change-customer": {"CUSTOMER_NOT_FOUND", "CONCURRENT_UPDATE"},
    "read-customer": {"CUSTOMER_NOT_FOUND"},
    "list-customers": set[str](),
    "erase-customer": {"CUSTOMER_NOT_FOUND", "CONCURRENT_UPDATE"},
}
_REFUSED_CARDS = {"PAYMENT_METHOD_NOT_FOUND", "CUSTOMER_NOT_FOUND", "CONCURRENT_UPDATE"}
"""The codes with which each kind of request may be refused in these tests; any other code is a finding. The whole rest of an
order that was half authorised is refused with AMOUNT_EXCEEDS_PENDING while another client's card is being charged for it."""


class Record(Struct, frozen=True, kw_only=True, dict=True):
    """What the clients recorded, and the log."""

    operations: Sequence[Operation]
    evidence: Mapping[UUID, MerchantEvidence]

    @cached_property
    def acknowledged(self) -> Sequence[tuple[Operation, RecordedAnswer]]:
        return [(o, o.answer) for o in self.operations if o.outcome == "ok" and o.answer is not None]

    @cached_property
    def unknown(self) -> Sequence[Operation]:
        return [o for o in self.operations if o.outcome == "info"]

    def lost(self) -> Iterator[str]:
        """Yields operations that were acknowledged and are not in the log as they were acknowledged."""
        for operation, answer in self.acknowledged:
            for reason in self._missing(operation, answer):
                yield f"{_words(operation)}: {reason}"
        yield from self._forgotten()
        yield from self._answered_otherwise()

    def doubled(self) -> Iterator[str]:
        """Yields operations that took effect more than once: two orders for a name, one payment answered as new twice."""
        ids: dict[tuple[UUID, str], set[UUID]] = defaultdict(set)
        paid: dict[tuple[UUID, str, str], set[UUID]] = defaultdict(set)
        made: dict[UUID, Operation] = {}
        for operation, answer in self.acknowledged:
            if operation.asked.external_id is not None and answer.order_id is not None:
                ids[operation.asked.merchant_id, operation.asked.external_id].add(answer.order_id)
                if operation.asked.payment is not None and answer.payment_id is not None:
                    paid[operation.asked.merchant_id, operation.asked.external_id, operation.asked.payment].add(
                        answer.payment_id
                    )
            new = answer.order_id if answer.payment_id is None else answer.payment_id
            if operation.asked.do in {"create", "charge"} and not answer.replayed and new is not None:
                if new in made:
                    yield f"{_words(operation)} and {_words(made[new])}: both were answered that they made {new}"
                made[new] = operation
        for (_, name), orders in ids.items():
            if len(orders) > 1:
                yield f"{name!r} was answered with the orders {sorted(map(str, orders))}"
        for (_, name, payment), payments in paid.items():
            if len(payments) > 1:
                yield f"charge {payment!r} of {name!r} was answered with the payments {sorted(map(str, payments))}"
        yield from self._refunded_twice()

    def _refunded_twice(self) -> Iterator[str]:
        """Yields refunds under one id of the merchant that were answered as several."""
        refunds: dict[tuple[UUID, str, str], set[UUID]] = defaultdict(set)
        for operation, answer in self.acknowledged:
            if operation.asked.refund is not None and answer.refund_id is not None:
                name = operation.asked.external_id or ""
                refunds[operation.asked.merchant_id, name, operation.asked.refund].add(answer.refund_id)
        for (_, name, refund), ids in refunds.items():
            if len(ids) > 1:
                yield f"refund {refund!r} of {name!r} was answered with the refunds {sorted(map(str, ids))}"

    def surprises(self) -> Iterator[str]:
        """Yields answers that nothing in these tests explains: an unclassified error is a finding."""
        for operation in self.operations:
            answer = operation.answer
            if answer is not None and answer.status >= 500 and answer.status != 503:
                yield f"{_words(operation)}: {answer.status} {answer.code}"
            if operation.outcome == "fail" and answer is not None and not self._is_explained(operation, answer):
                yield f"{_words(operation)}: {answer.status} {answer.code}"

    def landed(self) -> int:
        """Returns how many writes of unknown outcome made the order that they requested, or found it."""
        return sum(self._order_called(o) is not None for o in self.unknown if o.asked.do in {"create", "charge"})

    def _missing(self, operation: Operation, answer: RecordedAnswer) -> Iterator[str]:
        evidence = self.evidence.get(operation.asked.merchant_id)
        if evidence is None:
            yield "the merchant is not there"
            return
        for order_id in answer.listed:
            if order_id not in evidence.histories:
                yield f"listed order {order_id} is not there"
        if answer.order_id is None:
            return
        history = evidence.histories.get(answer.order_id)
        if history is None:
            yield f"order {answer.order_id} is not there"
            return
        terms = history[-1].terms
        if operation.asked.external_id != terms.external_id:
            yield f"order {answer.order_id} is called {terms.external_id!r}"
        if operation.asked.amount is not None and operation.asked.amount != terms.amount:
            yield f"order {answer.order_id} is over {terms.amount}"
        if not any(_matches(order, answer) for order in history):
            yield f"order {answer.order_id} never was {answer.order_status} with {answer.amount_paid} paid"

    def _forgotten(self) -> Iterator[str]:
        """Yields orders that were not found after a client had been answered that they exist."""
        known: dict[tuple[UUID, str], int] = {}
        for operation, answer in self.acknowledged:
            if answer.order_id is not None and operation.asked.external_id is not None and operation.ended is not None:
                key = operation.asked.merchant_id, operation.asked.external_id
                known[key] = min(known.get(key, operation.ended), operation.ended)
        for operation in self.operations:
            if operation.answer is not None and operation.answer.code == "ORDER_NOT_FOUND":
                name = operation.asked.external_id or ""
                if known.get((operation.asked.merchant_id, name), operation.began) < operation.began:
                    yield f"{_words(operation)}: not found, but it had been acknowledged"

    def _answered_otherwise(self) -> Iterator[str]:
        """Yields requests under an idempotency key whose repetition was answered with anything but the first answer."""
        first: dict[tuple[UUID, str], tuple[int, RecordedAnswer]] = {}
        for operation, answer in self.acknowledged:
            if operation.asked.key is None:
                continue
            number, before = first.setdefault((operation.asked.merchant_id, operation.asked.key), (operation.n, answer))
            if structs.replace(answer, replayed=before.replayed) != before:
                yield f"{_words(operation)}: {answer}, but operation {number} under the same key was answered {before}"

    def _is_explained(self, operation: Operation, answer: RecordedAnswer) -> bool:
        if operation.asked.customer is not None and answer.code in _REFUSED_CARDS:
            return True
        if answer.code not in _REFUSALS[operation.asked.do]:
            return False
        order = self._order_called(operation)
        return answer.code != "IDEMPOTENCY_MISMATCH" or (
            order is not None and order.terms.amount != operation.asked.amount
        )

    def _order_called(self, operation: Operation) -> Order | None:
        evidence = self.evidence[operation.asked.merchant_id]
        order_id = evidence.claims.get((ClaimKind.ORDER_EXTERNAL_ID, operation.asked.external_id or ""))
        return None if order_id is None else evidence.orders.get(order_id)


def _matches(order: Order, answer: RecordedAnswer) -> bool:
    """Returns whether the order, at this version, is the one in the answer."""
    payments = {payment.payment_id: payment for payment in order.payments}
    shown = answer.payment_id is None or (
        answer.payment_id in payments and payments[answer.payment_id].status == answer.payment_status
    )
    return (
        shown
        and (answer.refund_id is None or order.refund(answer.refund_id) is not None)
        and order.status == answer.order_status
        and order.amount_paid == answer.amount_paid
        and tuple(payments) == answer.payment_ids
    )


def _words(operation: Operation) -> str:
    asked = operation.asked
    card = f" by a card that is {asked.card}" if asked.card else ""
    return f"operation {operation.n} ({asked.do} {asked.external_id!r}{card})"
