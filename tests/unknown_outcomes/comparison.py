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

from ledger.domain.orders.events import AuthorizationOutcomeUnknown, CallUnanswered
from ledger.domain.orders.payment import Payment
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import OrderStatus, PaymentStatus

Key = tuple[UUID, str]

_UNSETTLED = {OrderStatus.PROCESSING, OrderStatus.CANCELLATION_REQUESTED, OrderStatus.REFUND_PROCESSING}


class Figures(Struct, frozen=True, kw_only=True):
    """What was compared. `captured` and `refunded` in minor units; `unknown` counts calls whose outcome was unknown for a while."""

    payments: int
    captured: Decimal
    refunded: Decimal
    voided: int
    calls: Mapping[Mode, int]
    unknown: int


class Verdict(Struct, frozen=True):
    """What is wrong, in words, and the figures."""

    violations: Sequence[str]
    figures: Figures


class Held(Struct, frozen=True):
    """A payment as the ledger has it, with the keys of all calls that its events announced."""

    order: Order
    payment: Payment
    keys: frozenset[str]


def compare(lines: Sequence[Line], evidence: Sequence[MerchantEvidence]) -> Verdict:
    """Hold the company's file against every order of every merchant."""
    payments = {
        (merchant.merchant_id, payment.requested.idempotency_key): Held(order, payment, keys[payment.payment_id])
        for merchant in evidence
        for keys in [_keys(merchant)]
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
        captured=sum((held.payment.captured for held in payments.values()), Decimal(0)),
        refunded=sum((held.payment.refunded for held in payments.values()), Decimal(0)),
        voided=sum(held.payment.status is PaymentStatus.CANCELLED for held in payments.values()),
        calls=Counter(line.mode for line in lines if line.mode is not None),
        unknown=sum(_was_unknown(merchant) for merchant in evidence),
    )
    return Verdict(violations, figures)


def _keys(merchant: MerchantEvidence) -> Mapping[UUID, frozenset[str]]:
    """The keys of every call that was announced, by payment."""
    keys: dict[UUID, set[str]] = {}
    for recorded in merchant.log:
        key = getattr(recorded.event, "idempotency_key", None)
        if key is not None:
            keys.setdefault(recorded.event.payment_id, set()).add(key)
    return {payment_id: frozenset(some) for payment_id, some in keys.items()}


def _charged_twice(lines: Sequence[Line]) -> list[str]:
    applied = Counter((line.kind, line.merchant_id, line.key) for line in lines if line.applied)
    twice = [f"{kind} {key} took effect {n} times" for (kind, _, key), n in applied.items() if n > 1]
    sent = Counter((line.kind, line.merchant_id, line.key) for line in lines if line.mode)
    return twice + [f"{kind} {key} was sent {n} times" for (kind, _, key), n in sent.items() if n > 1]


def _unknown_to_us(lines: Sequence[Line], payments: Mapping[Key, Held]) -> list[str]:
    known = {(merchant_id, key) for (merchant_id, _), held in payments.items() for key in held.keys}
    asked = {(line.merchant_id, line.key) for line in lines}
    return [f"{key} was asked for and stands in no order" for _, key in sorted(asked - known)]


def _differing(lines: Sequence[Line], payments: Mapping[Key, Held]) -> list[str]:
    moved = {(line.merchant_id, line.key): line for line in lines if line.applied}
    wrong = []
    for (merchant_id, name), held in payments.items():
        said = [moved[merchant_id, key] for key in held.keys if (merchant_id, key) in moved]
        wrong += _differences(name, held.payment, said)
    return wrong


def _differences(name: str, payment: Payment, said: Sequence[Line]) -> list[str]:
    taken = sum((line.captured for line in said), Decimal(0))
    given_back = sum((line.refunded for line in said), Decimal(0))
    wrong = []
    if payment.captured != taken:
        wrong.append(f"{name}: the processor took {taken}, the ledger says {payment.captured}")
    if payment.refunded != given_back:
        wrong.append(f"{name}: the processor gave back {given_back}, the ledger says {payment.refunded}")
    is_granted = any(line.authorized for line in said)
    if payment.status is PaymentStatus.CANCELLED and is_granted and not any(line.kind == "VOID" for line in said):
        wrong.append(f"{name}: it is cancelled, and the processor voided nothing")
    return wrong


def _open(payments: Mapping[Key, Held]) -> list[str]:
    return [
        f"{key} is open: {held.payment.status}, order {held.order.status}"
        for (_, key), held in payments.items()
        if held.payment.intent is not None or held.order.status in _UNSETTLED
    ]


def _paid_twice(evidence: Sequence[MerchantEvidence]) -> list[str]:
    return [
        f"{order.terms.external_id} was paid {order.amount_paid} of {order.amount}"
        for merchant in evidence
        for order in merchant.orders.values()
        if order.amount_paid > order.amount
    ]


def _was_unknown(merchant: MerchantEvidence) -> int:
    return sum(isinstance(recorded.event, AuthorizationOutcomeUnknown | CallUnanswered) for recorded in merchant.log)
