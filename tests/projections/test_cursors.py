"""The cursors of every list: the texts that clients hold, and the texts that are no cursors."""

from __future__ import annotations

import base64
import struct
from datetime import UTC, datetime
from uuid import UUID

import pytest

from projections.lists.cursor import CURSORS, Cursor
from projections.lists.customers import CUSTOMER_CURSORS, CustomerCursor
from projections.payment_methods import METHOD_CURSORS, MethodCursor
from projections.subscriptions.invoices import INVOICE_CURSORS, InvoiceCursor

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
    for wrong in ("", "x", "AAAA", "é", "\0", text[:-4], text + "AAAA", text.replace("A", "!", 1)):
        assert codec.parse(wrong) is None


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
