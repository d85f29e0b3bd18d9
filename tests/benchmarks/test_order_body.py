"""The order that is measured is a real one, and the limit inserts the event that it makes."""

from __future__ import annotations

import json

import msgspec
from benchmarks.load import commits, order_body

from ledger.journal.codec import CODEC


def test_the_lines_add_up_to_the_amount():
    assert (
        sum(line["quantity"] * line["unitPrice"] for line in order_body.BODY["lineItems"]) == order_body.BODY["amount"]
    )


def test_it_has_the_size_of_real_orders():
    assert len(order_body.body("pedido-2026-000184").encode()) >= 1500
    assert len(order_body.body("pedido-2026-000184", "card").encode()) >= 1500


def test_the_event_holds_what_the_body_says():
    event = CODEC.decode("order-created.v1", commits.event_bytes("order"))
    assert event.amount == order_body.BODY["amount"]
    assert [line.description for line in event.line_items] == [x["description"] for x in order_body.BODY["lineItems"]]
    assert event.billing_address.city == "Guadalajara"
    assert json.loads(msgspec.json.encode(event.metadata)) == order_body.BODY["metadata"]


def test_the_lean_event_has_three_hundred_bytes():
    assert len(commits.event_bytes("lean")) == 300
