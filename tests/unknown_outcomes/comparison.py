"""The processor's own file against the ledger's log: what was taken there must stand here, to the last unit, once.

The rule a stranger would break: the two know each other by the idempotency key alone, and neither side's word is taken
for the other's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from uuid import UUID

from msgspec import Struct
from tests.chaos.evidence import MerchantEvidence
from tests.fake_processor.modes import Line, Mode

from ledger.orders.state import Order, OrderStatus, Payment

Key = tuple[UUID, str]


class Figures(Struct, frozen=True, kw_only=True):
    """What was compared. `captured` in minor units; `unknown` counts payments whose outcome was unknown for a while."""

    payments: int
    captured: Decimal
    calls: Mapping[Mode, int]
    unknown: int


class Verdict(Struct, frozen=True):
    """What is wrong, in words, and the figures."""

    violations: Sequence[str]
    figures: Figures


def compare(lines: Sequence[Line], evidence: Sequence[MerchantEvidence]) -> Verdict:
    """Hold the company's file against every order of every merchant."""
    payments = {
        (merchant.merchant_id, payment.requested.idempotency_key): (order, payment)
        for merchant in evidence
        for order in merchant.orders.values()
        for payment in order.payments
        if payment.requested is not None
    }
    violations = [
        *_charged_twice(lines),
        *_unknown_to_us(lines, payments),
        *_differing(lines, payments),
        *_open(payments),
        *_paid_twice(evidence),
    ]
    figures = Figures(
        payments=len(payments),
        captured=sum((payment.captured for _, payment in payments.values()), Decimal(0)),
        calls=Counter(line.mode for line in lines if line.mode is not None),
        unknown=sum(_was_unknown(merchant) for merchant in evidence),
    )
    return Verdict(violations, figures)


def _charged_twice(lines: Sequence[Line]) -> list[str]:
    applied = Counter((line.kind, line.merchant_id, line.key) for line in lines if line.applied)
    twice = [f"{kind} {key} took effect {n} times" for (kind, _, key), n in applied.items() if n > 1]
    sent = Counter((line.merchant_id, line.key) for line in lines if line.mode and line.kind == "AUTHORIZE")
    return twice + [f"{key} was sent {n} times" for (_, key), n in sent.items() if n > 1]


def _unknown_to_us(lines: Sequence[Line], payments: Mapping[Key, tuple[Order, Payment]]) -> list[str]:
    asked = {(line.merchant_id, line.key) for line in lines if line.kind == "AUTHORIZE"}
    return [f"{key} was asked for and stands in no order" for _, key in sorted(asked - payments.keys())]


def _differing(lines: Sequence[Line], payments: Mapping[Key, tuple[Order, Payment]]) -> list[str]:
    taken = {(line.merchant_id, line.key): line.captured for line in lines if line.kind == "AUTHORIZE" and line.applied}
    return [
        f"{key[1]}: the processor took {taken.get(key, 0)}, the ledger says {payment.captured}"
        for key, (_, payment) in payments.items()
        if payment.captured != taken.get(key, 0)
    ]


def _open(payments: Mapping[Key, tuple[Order, Payment]]) -> list[str]:
    return [
        f"{key} is open: {payment.status}, order {order.status}"
        for (_, key), (order, payment) in payments.items()
        if payment.intent is not None or order.status is OrderStatus.PROCESSING
    ]


def _paid_twice(evidence: Sequence[MerchantEvidence]) -> list[str]:
    return [
        f"{order.terms.external_id} was paid {order.amount_paid} of {order.amount}"
        for merchant in evidence
        for order in merchant.orders.values()
        if order.amount_paid > order.amount
    ]


def _was_unknown(merchant: MerchantEvidence) -> int:
    return sum(type(recorded.event).__name__ == "AuthorizationOutcomeUnknown" for recorded in merchant.log)
