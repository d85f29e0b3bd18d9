"""Compares the processor's own file with the ledger's log: the amounts must be equal, to the last unit, and occur once.

Match the two sides by the idempotency key alone, and never derive one side's amounts from the other's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from uuid import UUID

from msgspec import Struct

from campaigns.chaos.evidence import MerchantEvidence
from campaigns.fake_processor.modes import Line
from ledger.domain.orders.events import AuthorizationOutcomeUnknown, CallUnanswered
from ledger.domain.orders.payment import Payment
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import OrderStatus, PaymentStatus

Key = tuple[UUID, str]

_UNSETTLED = {OrderStatus.PROCESSING, OrderStatus.CANCELLATION_REQUESTED, OrderStatus.REFUND_PROCESSING}


class Totals(Struct, frozen=True, kw_only=True):
    """What was compared. `captured` and `refunded` in minor units.

    `unknown` counts the calls whose outcome was unknown for a while.
    """

    payments: int
    captured: Decimal
    refunded: Decimal
    voided: int
    calls: Mapping[str, int]
    unknown: int


class Verdict(Struct, frozen=True):
    """The violations, in words, and the totals."""

    violations: Sequence[str]
    totals: Totals


class LedgerPayment(Struct, frozen=True):
    """A payment in the ledger, with the keys of all calls that its events announced."""

    order: Order
    payment: Payment
    keys: frozenset[str]


def compare(lines: Sequence[Line], evidence: Sequence[MerchantEvidence]) -> Verdict:
    """Compares the processor's file with every order of every merchant."""
    payments = payments_by_key(evidence)
    violations = [
        *_charged_twice(lines),
        *_unannounced(lines, payments),
        *_differing(lines, payments),
        *still_open(payments),
        *paid_twice(evidence),
    ]
    totals = Totals(
        payments=len(payments),
        captured=sum((ours.payment.captured for ours in payments.values()), Decimal(0)),
        refunded=sum((ours.payment.refunded for ours in payments.values()), Decimal(0)),
        voided=sum(ours.payment.status is PaymentStatus.CANCELLED for ours in payments.values()),
        calls=Counter(line.mode for line in lines if line.mode is not None),
        unknown=sum(was_unknown(merchant) for merchant in evidence),
    )
    return Verdict(violations, totals)


def payments_by_key(evidence: Sequence[MerchantEvidence]) -> Mapping[Key, LedgerPayment]:
    """Returns every payment by its merchant and the key of its first call."""
    return {
        (merchant.merchant_id, payment.requested.idempotency_key): LedgerPayment(
            order, payment, keys[payment.payment_id]
        )
        for merchant in evidence
        for keys in [_keys(merchant)]
        for order in merchant.orders.values()
        for payment in order.payments
        if payment.requested is not None
    }


def _keys(merchant: MerchantEvidence) -> Mapping[UUID, frozenset[str]]:
    """Returns the keys of all announced calls, by payment."""
    keys: dict[UUID, set[str]] = {}
    for recorded in merchant.log:
        key = getattr(recorded.event, "idempotency_key", None)
        if key is not None:
            keys.setdefault(recorded.event.payment_id, set()).add(key)
    return {payment_id: frozenset(some) for payment_id, some in keys.items()}


_SENT_AGAIN = frozenset({"CAPTURE", "VOID", "REFUND", "PAYOUT", "PAY_OUT"})
"""Calls that the service sends again if they never arrived. Each takes effect once all the same."""


def _charged_twice(lines: Sequence[Line]) -> list[str]:
    applied = Counter((line.kind, line.merchant_id, line.key) for line in lines if line.applied)
    twice = [f"{kind} {key} took effect {n} times" for (kind, _, key), n in applied.items() if n > 1]
    once = [line for line in lines if line.mode and line.kind not in _SENT_AGAIN]
    sent = Counter((line.kind, line.merchant_id, line.key) for line in once)
    return twice + [f"{kind} {key} was sent {n} times" for (kind, _, key), n in sent.items() if n > 1]


def _unannounced(lines: Sequence[Line], payments: Mapping[Key, LedgerPayment]) -> list[str]:
    announced = {(merchant_id, key) for (merchant_id, _), ours in payments.items() for key in ours.keys}
    called = {(line.merchant_id, line.key) for line in lines}
    return [f"{key} was called and is in no order" for _, key in sorted(called - announced)]


def _differing(lines: Sequence[Line], payments: Mapping[Key, LedgerPayment]) -> list[str]:
    moved = {(line.merchant_id, line.key): line for line in lines if line.applied}
    wrong = []
    for (merchant_id, name), ours in payments.items():
        moves = [moved[merchant_id, key] for key in ours.keys if (merchant_id, key) in moved]
        wrong += _differences(name, ours.payment, moves)
    return wrong


def _differences(name: str, payment: Payment, moves: Sequence[Line]) -> list[str]:
    captured = sum((line.captured for line in moves), Decimal(0))
    refunded = sum((line.refunded for line in moves), Decimal(0))
    wrong = []
    if payment.captured != captured:
        wrong.append(f"{name}: the processor captured {captured}, the ledger has {payment.captured}")
    if payment.refunded != refunded:
        wrong.append(f"{name}: the processor refunded {refunded}, the ledger has {payment.refunded}")
    is_authorized = any(line.authorized for line in moves)
    if payment.status is PaymentStatus.CANCELLED and is_authorized and not any(line.kind == "VOID" for line in moves):
        wrong.append(f"{name}: it is cancelled, and the processor voided nothing")
    return wrong


def still_open(payments: Mapping[Key, LedgerPayment]) -> list[str]:
    """Returns each payment with a call that is open, or whose order is not settled."""
    return [
        f"{key} is open: {ours.payment.status}, order {ours.order.status}"
        for (_, key), ours in payments.items()
        if ours.payment.intent is not None or ours.order.status in _UNSETTLED
    ]


def paid_twice(evidence: Sequence[MerchantEvidence]) -> list[str]:
    """Returns each order that was paid more than its amount."""
    return [
        f"{order.terms.external_id} was paid {order.amount_paid} of {order.amount}"
        for merchant in evidence
        for order in merchant.orders.values()
        if order.amount_paid > order.amount
    ]


def was_unknown(merchant: MerchantEvidence) -> int:
    """Returns how many calls of a merchant were of unknown outcome for a while."""
    return sum(isinstance(recorded.event, AuthorizationOutcomeUnknown | CallUnanswered) for recorded in merchant.log)
