"""The cursors of every list: the texts that clients hold, and the texts that are no cursors."""

from __future__ import annotations

import base64
import struct
from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID

import pytest
from msgspec.structs import replace

from ledger.domain.orders.statuses import OrderStatus
from projections.lists.cursor import CURSORS, PAST_CURSORS, Cursor, PastCursor, list_hash
from projections.lists.customers import CUSTOMER_CURSORS, CustomerCursor, CustomerQuery
from projections.lists.pages import OrderQuery
from projections.payment_methods import METHOD_CURSORS, MethodCursor
from projections.products import ProductQuery
from projections.subscriptions.invoices import INVOICE_CURSORS, InvoiceCursor, InvoiceQuery
from projections.subscriptions.plans import PlanQuery
from projections.subscriptions.subscriptions import SubscriptionQuery

AT = datetime(2026, 7, 1, 12, 30, 15, 123456, tzinfo=UTC)
ENTRY = UUID("01983a5c-0000-7000-8000-00000000002a")

HELD = [
    (CURSORS, Cursor(True, AT, ENTRY, 20), "AQAC-IqfS4YAAAAAAAAAABQBmDpcAABwAIAAAAAAAAAq"),
    (CUSTOMER_CURSORS, CustomerCursor(ENTRY, 20), "AAAAAAAAABQBmDpcAABwAIAAAAAAAAAq"),
    (METHOD_CURSORS, MethodCursor(False, AT, ENTRY, 20), "AAAC-IqfS4YAAAAAFAGYOlwAAHAAgAAAAAAAACo="),
    (INVOICE_CURSORS, InvoiceCursor(7, 20), "AAAABwAAABQ="),
]


@pytest.mark.parametrize(("codec", "cursor", "text"), HELD, ids=["created", "customers", "methods", "invoices"])
def test_a_cursor_that_a_client_holds_stays_readable(codec, cursor, text):
    assert codec.encode(cursor) == text
    assert codec.parse(text) == cursor


@pytest.mark.parametrize(("codec", "_cursor", "text"), HELD, ids=["created", "customers", "methods", "invoices"])
def test_a_text_that_the_service_did_not_issue_is_no_cursor_of_any_list(codec, _cursor, text):
    for wrong in ("", "x", "AAAA", "é", "\0", text[:-4], text + "AAAAAAAA", text.replace("A", "!", 1)):
        assert codec.parse(wrong) is None


def test_a_cursor_has_the_hash_of_its_list():
    cursor = PastCursor(True, AT, ENTRY, 20, AT, list_hash=b"abc")
    assert PAST_CURSORS.parse(PAST_CURSORS.encode(cursor)) == cursor
    assert CURSORS.parse(PAST_CURSORS.encode(cursor)) is None
    assert PAST_CURSORS.parse(CURSORS.encode(Cursor(True, AT, ENTRY, 20, list_hash=b"abc"))) is None


LISTS = [
    (OrderQuery(), "d20ad8"),
    (OrderQuery(statuses=(OrderStatus.PENDING, OrderStatus.COMPLETED), customer="c", created_from=AT), "c54a07"),
    (OrderQuery(statuses=(OrderStatus.PENDING,), amount_min=Decimal(1)), "48c82b"),
    (OrderQuery(statuses=(OrderStatus.PENDING,), amount_max=Decimal(1)), "2a54d4"),
    (OrderQuery(amount_max=Decimal(0)), "26c066"),
    (CustomerQuery(), "3b9446"),
    (CustomerQuery(search="x"), "7d932d"),
    (CustomerQuery(email="x"), "a3877b"),
    (ProductQuery(search="x"), "5e7d16"),
    (PlanQuery(), "cd820b"),
    (SubscriptionQuery(plan="p"), "3940bf"),
]


def test_the_hash_of_a_list_stays_and_is_of_its_filters_alone():
    """A client that holds a cursor reads on with it after an upgrade."""
    assert [list_hash(query).hex() for query, _ in LISTS] == [held for _, held in LISTS]
    assert len({held for _, held in LISTS}) == len(LISTS)
    of_parents = [list_hash(InvoiceQuery(), within=within).hex() for within in (None, ENTRY, UUID(int=1))]
    assert of_parents == ["d2b3c6", "d734b6", "c16ec1"]
    query, _ = LISTS[1]
    place = {"limit": 7, "offset": 3, "cursor": Cursor(True, AT, ENTRY, 20), "ascending": True, "as_of": AT}
    for same in (replace(query, **place), replace(query, statuses=query.statuses[::-1])):
        assert list_hash(same) == list_hash(query)


@pytest.mark.parametrize(
    ("codec", "packed"),
    [
        (CURSORS, struct.pack("!?qq16s", False, 0, 2**62 + 1, bytes(16))),
        (CURSORS, struct.pack("!?qq16s", False, 0, -1, bytes(16))),
        (CUSTOMER_CURSORS, struct.pack("!q16s", 2**62 + 1, bytes(16))),
        (METHOD_CURSORS, struct.pack("!?qI16s", False, 0, 2**32 - 1, bytes(16))),
        (INVOICE_CURSORS, struct.pack("!iI", 1, 2**32 - 1)),
    ],
)
def test_a_forged_cursor_behind_which_no_further_one_could_be_encoded_is_refused(codec, packed):
    assert codec.parse(base64.urlsafe_b64encode(packed).decode()) is None
