"""The metrics of orders and payments: what has happened and how much money has moved, counted after each commit.

The process that commits counts, from the state that it has just written: the worker and the API alike, each event
once. What is committed while a process is killed is missing: a counter shows rates, the log amounts. Every label has a
bounded set of values; never label with a text of a processor.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import Any, Final
from uuid import UUID

import structlog

from ledger.domain.money import ZERO
from ledger.domain.orders import events
from ledger.domain.orders.declines import DECLINES as KNOWN_DECLINES
from ledger.domain.orders.payment import Payment
from ledger.domain.orders.state import Order
from ledger.journal.append import Change
from ledger.telemetry.metrics import (
    CAPTURED,
    CHARGED_BACK,
    CONTRADICTIONS,
    DECLINES,
    ORDERS_CREATED,
    PAYMENT_EVENTS,
    REFUNDED,
    CounterCache,
)

_log = structlog.get_logger()

OTHER: Final = "other"
"""The label of a decline code that the contract does not have."""

NO_PROCESSOR: Final = "none"
"""The processor of a payment that ended, or began, without an announced call."""

_COUNTED: Final = frozenset(
    {
        events.PaymentStarted,
        events.PayerActionRequired,
        events.PayerAuthenticationFailed,
        events.PaymentAuthorized,
        events.PaymentCaptured,
        events.PaymentDeclined,
        events.PaymentCancelled,
        events.PaymentExpired,
        events.PaymentRefunded,
        events.RefundRefused,
        events.CaptureRefused,
        events.DepositReceived,
        events.LateCaptureReported,
        events.LateAuthorizationReported,
        events.LateRefundReported,
        events.RefundReversed,
        events.AuthorizationOutcomeUnknown,
        events.AuthorizationAbandoned,
        events.DisputeOpened,
        events.DisputeLost,
        events.DisputeWon,
    }
)
_TOPICS: Final = {kind: topic.partition(".")[0] for topic, kind in events.TOPICS.items() if kind in _COUNTED}
_CONTRADICTIONS: Final = frozenset(
    {
        events.LateAuthorizationReported,
        events.LateCaptureReported,
        events.LateRefundReported,
        events.RefundReopened,
        events.RefundReversed,
    }
)
"""What the ledger records if a processor reports an effect of a call that the ledger had settled otherwise."""

_MOVES_MONEY: Final = frozenset(
    {
        events.PaymentCaptured,
        events.DepositReceived,
        events.LateCaptureReported,
        events.PaymentRefunded,
        events.RefundReopened,
        events.LateRefundReported,
        events.DisputeLost,
    }
)

_Labels = tuple[str, str, str]  # method, currency, processor
_NO_LABELS: Final[_Labels] = ("", "", "")

_orders: Final = CounterCache(ORDERS_CREATED)
_payments: Final = CounterCache(PAYMENT_EVENTS)
_declines: Final = CounterCache(DECLINES)
_captured: Final = CounterCache(CAPTURED)
_refunded: Final = CounterCache(REFUNDED)
_charged_back: Final = CounterCache(CHARGED_BACK)


def count(merchant_id: UUID, change: Change) -> None:
    """Counts what a committed change of an order has appended, and the money that its payments have moved by it."""
    order: Order = change.after
    moved, payment_id, labels = False, None, _NO_LABELS
    for event in change.events:
        kind = type(event)
        if kind in _CONTRADICTIONS:
            _report_contradiction(merchant_id, order, event)
        if kind is events.OrderCreated:
            _orders[order.terms.currency,].inc(1)
            continue
        moved = moved or kind in _MOVES_MONEY
        if kind not in _COUNTED:
            continue
        if (about := event.payment_id) is not payment_id:  # type: ignore[attr-defined]
            payment_id, labels = about, _labels(order, order.payment(about))
        _payments[_TOPICS[kind], *labels].inc(1)
        if isinstance(event, events.PaymentDeclined):
            code = event.code if event.code in KNOWN_DECLINES else OTHER
            _declines[code, event.refused_by.value, *labels].inc(1)
    if moved:
        _count_money(change.before, order)


def _report_contradiction(merchant_id: UUID, order: Order, event: Any) -> None:
    kind = type(event).__name__
    CONTRADICTIONS.labels(kind).inc()
    ids = {"merchant_id": str(merchant_id), "order_id": str(order.terms.order_id)}
    _log.error("processor_contradicts_ledger", kind=kind, payment_id=str(event.payment_id), **ids)


def _count_money(before: Order | None, order: Order) -> None:
    """Counts the differences: what a commit has added to the totals that the state keeps of each payment.

    Payments are only ever added, behind the others.
    """
    earlier = () if before is None else before.payments
    for previous, payment in zip_longest(earlier, order.payments):
        if payment is previous:
            continue
        captured, refunded, charged_back = _totals(previous)
        added = (
            (_captured, payment.captured - captured),
            (_refunded, payment.refunded - payment.charged_back - (refunded - charged_back)),
            (_charged_back, payment.charged_back - charged_back),
        )
        labels = _labels(order, payment)
        for counters, amount in added:
            if amount > ZERO:
                counters[labels].inc(float(amount))


def _totals(payment: Payment | None) -> tuple[Any, Any, Any]:
    return (ZERO, ZERO, ZERO) if payment is None else (payment.captured, payment.refunded, payment.charged_back)


def _labels(order: Order, payment: Payment) -> _Labels:
    return payment.started.method.type, order.terms.currency, payment.processor or NO_PROCESSOR
