"""The money fields of an order (contract 4.3) and the worked examples of the surcharge (4.4)."""

from __future__ import annotations

from decimal import Decimal

import pytest
from msgspec.structs import replace
from tests.domain.builders import (
    SPEI,
    SPLIT_WITH_SURCHARGE,
    THREE_PERCENT,
    authorization_requested,
    authorized,
    authorized_and_captured,
    captured,
    captured_by_steps,
    created,
    declined,
    folded,
    late_capture,
    paid,
    scheduled,
    started,
)

from ledger.domain.orders.statuses import OrderStatus
from ledger.domain.orders.surcharge import NOTHING, SurchargeSplit, quote, split_capture, split_refund
from ledger.domain.orders.terms import MethodType, SurchargePolicy


def money(order):
    fields = ("surcharge_amount", "amount", "amount_paid", "amount_refunded", "amount_pending")
    return tuple(None if (value := getattr(order, field)) is None else int(value) for field in fields)


def refunded(order, place, amount):
    """Returns the order with `amount` more refunded on one payment, without the events of a refund."""
    payment = order.payments[place]
    after = replace(payment, refunded=payment.refunded + amount)
    return replace(order, payments=(*order.payments[:place], after, *order.payments[place + 1 :]))


def test_the_amount_of_a_split_order_follows_the_surcharge_of_its_parts():
    order = folded([SPLIT_WITH_SURCHARGE])
    assert money(order) == (0, 10000, 0, 0, 10000)
    order = folded([SPLIT_WITH_SURCHARGE, *paid(1, 4000, 120)])
    assert money(order) == (120, 10120, 4120, 0, 6000)
    order = folded([SPLIT_WITH_SURCHARGE, *paid(1, 4000, 120), *paid(2, 6000, 0, SPEI)])
    assert money(order) == (120, 10120, 10120, 0, 0)
    assert order.status is OrderStatus.COMPLETED
    order = refunded(order, 0, 1000)
    assert money(order) == (91, 10091, 10120, 1000, 971)
    assert order.status is OrderStatus.PARTIALLY_PAID
    order = refunded(order, 0, 3120)
    assert money(order) == (0, 10000, 10120, 4120, 4000)
    assert order.status is OrderStatus.PARTIALLY_PAID
    assert order.unpaid_subtotal == 4000


def test_an_order_of_one_tender_shows_the_surcharge_quote_of_its_latest_payment():
    attempt = (created(surcharge=THREE_PERCENT), started(1, 10000, 300), authorization_requested(1, 10300))
    assert money(folded(attempt[:1])) == (None, 10000, 0, 0, 10000)
    assert money(folded(attempt)) == (300, 10300, 0, 0, 10300)
    assert money(folded([*attempt, declined(1)])) == (300, 10300, 0, 0, 10300)
    assert money(folded([*attempt, declined(1), started(2, 10000, 0, SPEI)])) == (None, 10000, 0, 0, 10000)
    order = folded([*attempt, *authorized_and_captured(1, 10300)])
    assert money(order) == (300, 10300, 10300, 0, 0)
    assert money(refunded(order, 0, 10300)) == (300, 10300, 10300, 10300, 10300)


def test_a_captured_surcharge_is_fixed():
    order = folded(
        [
            created(surcharge=THREE_PERCENT),
            started(1, 10000, 300),
            declined(1),
            *paid(2, 10000, 0, SPEI),
            late_capture(1, 10300),
        ]
    )
    assert money(order) == (None, 10000, 20300, 0, 0)
    assert order.overpaid_amount == 10300
    order = folded(
        [
            created(surcharge=THREE_PERCENT),
            started(1, 10000, 0, SPEI),
            declined(1),
            *paid(2, 10000, 300),
            late_capture(1, 10000),
        ]
    )
    assert money(order) == (300, 10300, 20300, 0, 0)
    assert order.overpaid_amount == 10000


def test_an_overpaid_order_bears_its_surcharge_once():
    half = [
        created(surcharge=THREE_PERCENT),
        started(1, 10000, 300),
        authorization_requested(1, 10300),
        *authorized_and_captured(1, 5150),
    ]
    assert money(folded([*half, *paid(2, 5000, 150)])) == (300, 10300, 10300, 0, 0)
    assert money(folded([*half, *paid(2, 5000, 150), captured(1, 2575)])) == (300, 10300, 12875, 0, 0)
    late_half = [created(surcharge=THREE_PERCENT), started(1, 10000, 300), declined(1), started(2, 10000, 300)]
    order = folded([*late_half, authorization_requested(2, 10300), late_capture(1, 5150)])
    assert money(order) == (300, 10300, 5150, 0, 5150)
    assert money(
        folded(
            [*late_half, authorization_requested(2, 10300), late_capture(1, 5150), *authorized_and_captured(2, 10300)]
        )
    ) == (300, 10300, 15450, 0, 0)


def test_money_beyond_the_requested_amount_bears_no_surcharge():
    order = folded(
        [
            created(surcharge=THREE_PERCENT),
            started(1, 10000, 300),
            authorization_requested(1, 10300),
            *authorized_and_captured(1, 12360),
        ]
    )
    assert money(order) == (300, 10300, 12360, 0, 0)
    assert order.overpaid_amount == 2060


def test_the_rest_of_a_partial_approval_completes_the_surcharge_quote():
    half = [
        created(surcharge=THREE_PERCENT),
        started(1, 10000, 300),
        authorization_requested(1, 10300),
        *authorized_and_captured(1, 5150),
    ]
    assert money(folded(half)) == (300, 10300, 5150, 0, 5150)
    assert folded(half).unpaid_subtotal == 5000
    assert money(folded([*half, started(2, 5000, 150)])) == (300, 10300, 5150, 0, 5150)
    assert money(folded([*half, started(2, 5000, 0, SPEI)])) == (150, 10150, 5150, 0, 5000)
    order = folded([*half, *paid(2, 5000, 150)])
    assert money(order) == (300, 10300, 10300, 0, 0)
    assert order.status is OrderStatus.COMPLETED


def test_an_order_without_a_policy_has_no_surcharge():
    assert money(folded([created(), *paid(1, 10000)])) == (None, 10000, 10000, 0, 0)


def test_an_overpaid_order_is_complete_and_shows_the_rest():
    order = folded(
        [created(), started(1, 10000, 0, SPEI), authorization_requested(1, 10000), *authorized_and_captured(1, 12000)]
    )
    assert (order.status, order.amount_pending, order.overpaid_amount) == (OrderStatus.COMPLETED, 0, 2000)


def test_a_capture_in_two_steps_counts_both():
    steps = [
        created(),
        started(1, 10000),
        authorization_requested(1, 10000),
        *authorized_and_captured(1, 4000, 10000),
        scheduled(1, 6000),
    ]
    assert folded(steps).amount_paid == 4000
    assert folded([*steps, *captured_by_steps(1, 6000)[2:]]).amount_paid == 10000


def test_an_authorisation_reserves_its_part_of_the_subtotal():
    history = [SPLIT_WITH_SURCHARGE, started(1, 4000, 120), authorization_requested(1, 4120)]
    assert folded(history).reserved == 4000
    assert folded([*history, authorized(1, 2060)]).reserved == 2000
    assert folded([*history, *authorized_and_captured(1, 4120)]).reserved == 0
    assert folded([*history, declined(1)]).reserved == 0
    assert folded([SPLIT_WITH_SURCHARGE, started(1, 4000, 0, SPEI)]).reserved == 0


@pytest.mark.parametrize(
    ("subtotal", "surcharge", "quantum", "refunds", "parts"),
    [
        (4000, 120, "1", [1000, 3120], [(971, 29), (3029, 91)]),
        (333, 12, "1", [100, 100, 145], [(97, 3), (96, 4), (140, 5)]),
        ("150.75", "5.28", "0.01", ["78.01", "78.02"], [("75.37", "2.64"), ("75.38", "2.64")]),
    ],
)
def test_any_series_of_refunds_ends_at_the_subtotal_and_the_surcharge(subtotal, surcharge, quantum, refunds, parts):
    whole = SurchargeSplit(Decimal(subtotal), Decimal(surcharge))
    given_back, before, seen = Decimal(0), NOTHING, []
    for refund in map(Decimal, refunds):
        given_back += refund
        after = split_refund(given_back, whole, Decimal(quantum))
        seen.append((after.subtotal - before.subtotal, after.surcharge - before.surcharge))
        before = after
    assert seen == [tuple(map(Decimal, each)) for each in parts]
    assert before == whole


def test_a_partial_capture_is_divided_by_the_same_rule():
    asked_for = SurchargeSplit(Decimal(333), Decimal(12))
    assert split_capture(Decimal(172), asked_for, Decimal(1)) == SurchargeSplit(Decimal(166), Decimal(6))
    assert split_capture(Decimal(345), asked_for, Decimal(1)) == asked_for
    assert split_capture(Decimal(400), asked_for, Decimal(1)) == SurchargeSplit(Decimal(388), Decimal(12))
    assert split_capture(Decimal(0), asked_for, Decimal(1)) == NOTHING


def test_a_capture_off_the_quantum_never_has_a_negative_surcharge():
    assert split_capture(Decimal("166.5"), SurchargeSplit(Decimal(333), Decimal(0)), Decimal(1)).surcharge == 0
    assert split_capture(Decimal("0.6"), SurchargeSplit(Decimal(100), Decimal(1)), Decimal(1)).surcharge == 0


def test_a_surcharge_applies_to_the_methods_of_its_policy_only():
    policy = SurchargePolicy(rate=Decimal("3.5"), methods=(MethodType.CARD,))
    assert quote(policy, MethodType.CARD, Decimal(333), Decimal(1)) == 12
    assert quote(policy, MethodType.SPEI, Decimal(333), Decimal(1)) == 0
    assert quote(None, MethodType.CARD, Decimal(333), Decimal(1)) == 0


def test_the_largest_amounts_are_divided_exactly():
    whole = SurchargeSplit(Decimal("999999999999.9999"), Decimal("499999999999.9998"))
    assert split_refund(whole.subtotal + whole.surcharge, whole, Decimal("0.0001")) == whole
