"""Enumerated values in any case, and due dates without a time (contract N10, N21)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.api.bodies import NOW, by_card, drafted, encoded, line, order, paid_order, refusal_of

from api.orders.list import parse_order_query
from api.processor_accounts import fields
from api.sandbox import disputes, settlements
from ledger.domain.orders.statuses import OrderStatus


@pytest.mark.parametrize("kind", ["CARD", "Card", "card"])
def test_a_payment_method_is_read_in_any_case(kind: str):
    assert drafted(paid_order(paymentMethod=by_card(type=kind))) == drafted(paid_order())


def test_every_enumerated_value_of_an_order_is_read_in_any_case():
    tax = {"type": "IVA", "rate": 0.16, "factor": "Tasa"}
    usual = order(captureMethod="MANUAL", amount=150000, lineItems=[line(taxes=[tax])])
    shouted = usual | {
        "currency": "mxn",
        "captureMethod": "manual",
        "lineItems": [line(taxes=[{"type": "iva", "rate": 0.16, "factor": "TASA"}])],
    }
    assert drafted(shouted) == drafted(usual)


def test_values_of_the_sandbox_and_of_lists_are_read_in_any_case():
    assert settlements._decode.gather(b'{"stage":"listed"}')[0].stage == "LISTED"
    assert disputes._decode.gather(encoded({"paymentId": "0" * 32, "outcome": "won"}))[0].outcome == "WON"
    found = parse_order_query(b"status=completed&sortOrder=ASC", NOW)
    assert (found.statuses, found.ascending) == ((OrderStatus.COMPLETED,), True)


def test_values_in_a_list_are_read_in_any_case():
    limit = {"type": "Card", "currencies": ["mxn", "USD"]}
    sent, errors = fields._decode.gather(encoded({"processor": "sandbox", "methods": [limit]}))
    assert (len(errors), sent.methods[0].currencies) == (0, ["MXN", "USD"])
    for wrong in (["mxn", "eur"], ["mxn", 5], [["mxn"]], "mxn"):
        _, errors = fields._decode.gather(encoded({"processor": "sandbox", "methods": [limit | {"currencies": wrong}]}))
        assert len(errors) == 1


def test_another_value_is_refused_with_the_choices():
    refused = refusal_of(order(currency="eur"))
    assert refused.errors[0].message == "must be one of MXN, USD"


@pytest.mark.parametrize(
    ("sent", "due"),
    [
        ("2026-01-31", datetime(2026, 2, 1, 5, 59, 59, 999_999, UTC)),
        ("2026-01-31T12:00:00", datetime(2026, 1, 31, 18, tzinfo=UTC)),
        ("2026-01-31T12:00:00Z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
    ],
)
def test_a_due_date_is_a_day_or_a_moment(sent: str, due: datetime):
    assert drafted(order(dueDate=sent)).terms.due_date == due


@pytest.mark.parametrize("sent", ["2026-02-30", "31.01.2026", "tomorrow", "2026-1-3", ""])
def test_another_due_date_is_refused(sent: Any):
    (wrong,) = refusal_of(order(dueDate=sent)).errors
    assert (wrong.field, wrong.code) == ("dueDate", "INVALID_FORMAT")
