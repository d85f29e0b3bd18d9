"""The fold of an order: the status, history, failure and intent after each event."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from inspect import unwrap
from itertools import chain
from typing import get_args, get_type_hints

import pytest
from msgspec.structs import replace
from tests.domain.builders import (
    DEADLINE,
    NOON,
    abandoned,
    authorization_requested,
    authorized,
    authorized_and_captured,
    capture_requested,
    captured,
    captured_by_steps,
    created,
    declined,
    folded,
    late_capture,
    paid,
    scheduled,
    started,
    unanswered,
)
from tests.domain.evolve_rows import ACTION_STEPS

from ledger.domain.orders.events import (
    AbandonedBecause,
    GlobalInvoiceEvent,
    OrderEvent,
    PayerForgotten,
    ReminderEvent,
)
from ledger.domain.orders.evolve import after_capture, card, disputes, pending, unanswered_calls, whole_order
from ledger.domain.orders.evolve.order import EVOLVE, evolve
from ledger.domain.orders.invoices.mail_events import MailEvent
from ledger.domain.orders.payment import EntryAction
from ledger.domain.orders.statuses import OrderStatus, PaymentStatus
from ledger.domain.streams import ORDERS

IN_FLIGHT = (created(), started(1, 10000), authorization_requested(1, 10000))
LATER = NOON.replace(hour=13)

STEPS = [
    (created(), (), None, OrderStatus.PENDING),
    (started(1, 10000), IN_FLIGHT[:1], PaymentStatus.CREATED, OrderStatus.PROCESSING),
    (authorization_requested(1, 10000), IN_FLIGHT[:2], PaymentStatus.PENDING_AUTHORIZATION, OrderStatus.PROCESSING),
    (authorized(1, 10000), IN_FLIGHT, PaymentStatus.AUTHORIZED, OrderStatus.AUTHORIZED),
    (authorized(1, 9999), IN_FLIGHT, PaymentStatus.PARTIALLY_AUTHORIZED, OrderStatus.PARTIALLY_AUTHORIZED),
    (scheduled(1, 10000), (*IN_FLIGHT, authorized(1, 10000)), PaymentStatus.PENDING_CAPTURE, OrderStatus.AUTHORIZED),
    (scheduled(1, 1), (*IN_FLIGHT, authorized(1, 1)), PaymentStatus.PENDING_CAPTURE, OrderStatus.PARTIALLY_AUTHORIZED),
    (capture_requested(1, 10000), (*IN_FLIGHT, authorized(1, 10000)), PaymentStatus.CAPTURING, OrderStatus.AUTHORIZED),
    (
        captured(1, 10000),
        (*IN_FLIGHT, *captured_by_steps(1, 10000)[:3]),
        PaymentStatus.CAPTURED,
        OrderStatus.COMPLETED,
    ),
    (
        captured(1, 9999),
        (*IN_FLIGHT, *captured_by_steps(1, 9999)[:3]),
        PaymentStatus.PARTIALLY_CAPTURED,
        OrderStatus.PARTIALLY_PAID,
    ),
    (declined(1), IN_FLIGHT, PaymentStatus.FAILED, OrderStatus.FAILED),
    (unanswered(1), IN_FLIGHT, PaymentStatus.PENDING_AUTHORIZATION, OrderStatus.PROCESSING),
    (abandoned(1), IN_FLIGHT, PaymentStatus.FAILED, OrderStatus.FAILED),
    (late_capture(1, 10000), (*IN_FLIGHT, declined(1)), PaymentStatus.FAILED, OrderStatus.COMPLETED),
    (PayerForgotten(at=NOON), IN_FLIGHT, PaymentStatus.PENDING_AUTHORIZATION, OrderStatus.PROCESSING),
]


@pytest.mark.parametrize(
    ("event", "history", "payment", "order"), [*STEPS, *ACTION_STEPS], ids=lambda value: type(value).__name__
)
def test_an_event_moves_the_payment_and_with_it_the_order(event, history, payment, order):
    after = evolve(folded(history) if history else None, replace(event, at=LATER))
    assert after.status is order
    assert [p.status for p in after.payments] == ([] if payment is None else [payment])
    unchanged = isinstance(
        event, ReminderEvent | MailEvent | GlobalInvoiceEvent
    )  # it changes nothing that a merchant reads
    assert after.updated_at == (folded(history).updated_at if unchanged else LATER)


def test_every_event_is_folded():
    folded = {*EVOLVE, *ORDERS.first}
    assert {kind.__name__ for kind in folded ^ set(get_args(OrderEvent))} == set()
    assert {type(event) for event, *_ in (*STEPS, *ACTION_STEPS)} == folded


def test_an_event_is_folded_by_the_function_that_takes_it():
    for kind, fold in EVOLVE.items():
        taken = get_type_hints(unwrap(fold))["event"]
        assert kind in (get_args(taken) or (taken,)), kind.__name__


def test_no_two_modules_fold_the_same_event():
    tables = [module.EVOLVE for module in (after_capture, card, disputes, pending, unanswered_calls, whole_order)]
    assert [kind.__name__ for kind, times in Counter(chain(*tables)).items() if times > 1] == []


def lines(*history):
    return [(entry.action.value, entry.status.value, entry.amount) for entry in folded(history).payments[0].entries]


def test_the_history_of_a_payment_has_one_entry_for_each_step():
    full = Decimal(10000)
    assert lines(*IN_FLIGHT) == [("CREATION", "SUCCESS", full), ("AUTHORIZATION", "PENDING", full)]
    assert lines(*IN_FLIGHT, *captured_by_steps(1, 10000)[:2])[-2:] == [
        ("AUTHORIZATION", "SUCCESS", full),
        ("CAPTURE", "PENDING", full),
    ]
    assert lines(*IN_FLIGHT, *authorized_and_captured(1, 10000)) == [
        ("CREATION", "SUCCESS", full),
        ("AUTHORIZATION", "SUCCESS", full),
        ("CAPTURE", "SUCCESS", full),
    ]
    assert lines(*IN_FLIGHT, declined(1))[-1] == ("AUTHORIZATION", "FAILED", full)


def test_an_unknown_step_is_completed_in_its_place():
    unknown = (*IN_FLIGHT, unanswered(1))
    assert lines(*unknown)[-1] == ("AUTHORIZATION", "UNKNOWN", Decimal(10000))
    assert lines(*unknown, authorized(1, 5000))[1:] == [("AUTHORIZATION", "SUCCESS", Decimal(5000))]
    entry = folded([*unknown, replace(authorized(1, 5000), at=LATER)]).payments[0].entries[-1]
    assert entry.at == NOON


def test_a_failed_step_has_a_reason():
    entry = folded([*IN_FLIGHT, declined(1)]).payments[0].entries[-1]
    assert entry.reason == "The card has insufficient funds."
    entry = folded([*IN_FLIGHT, replace(declined(1), message=None)]).payments[0].entries[-1]
    assert entry.reason == "INSUFFICIENT_FUNDS"
    for because in AbandonedBecause:
        order = folded([*IN_FLIGHT, abandoned(1, because)])
        assert order.payments[0].entries[-1].reason == order.payments[0].failure.message
        assert order.payments[0].failure.code == "PROCESSOR_TIMEOUT"
        assert order.payments[0].failure.refused_by is None


def test_an_intent_is_open_from_its_request_to_its_outcome():
    order = folded(IN_FLIGHT)
    intent = order.open_intent
    assert (intent.processor, intent.idempotency_key, intent.amount) == ("sandbox", "key-1", 10000)
    assert (intent.action, intent.capture, intent.deadline_at) == (EntryAction.AUTHORIZATION, True, DEADLINE)
    assert folded([*IN_FLIGHT, unanswered(1)]).open_intent == replace(intent, unknown=True)
    for outcome in (authorized(1, 10000), declined(1), abandoned(1)):
        assert folded([*IN_FLIGHT, outcome]).open_intent is None


def test_a_requested_capture_is_an_open_intent():
    intent = folded([*IN_FLIGHT, *captured_by_steps(1, 10000)[:3]]).open_intent
    assert (intent.action, intent.processor, intent.amount) == (EntryAction.CAPTURE, "sandbox", 10000)


def test_the_open_intent_is_the_one_with_the_earliest_deadline():
    second = replace(authorization_requested(2, 10000), deadline_at=DEADLINE.replace(second=1))
    assert folded([*IN_FLIGHT, started(2, 10000), second]).open_intent.idempotency_key == "key-2"


def test_only_money_reopens_a_closed_order():
    closed = replace(folded(IN_FLIGHT), closed=True)
    assert evolve(closed, unanswered(1)).closed
    assert evolve(closed, captured(1, 10000)).closed is False


def test_an_event_leaves_the_other_payments_unchanged():
    order = folded([created(allow_partials=True), *paid(1, 4000), started(2, 6000), authorization_requested(2, 6000)])
    after = evolve(order, declined(2))
    assert after.payments[0] is order.payments[0]
    assert after.payment_by_external_id("unknown") is None
    assert after.payment(order.payments[1].payment_id).status is PaymentStatus.FAILED
