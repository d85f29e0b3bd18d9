"""What an audit says of an event that cannot be read or folded: the reason, and no value of the event."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pytest
from tests.domain.builders import created, paid

from ledger.audit.faults import reason_of
from ledger.domain.fold import fold
from ledger.domain.streams import CUSTOMERS, ORDERS
from ledger.journal.codec import CODEC

DECLINED = (
    b'{"orderId":"018f0000-0000-7000-8000-000000000001","paymentId":"018f0000-0000-7000-8000-000000000001",'
    b'"at":"2026-01-31T12:00:00Z","code":"X","message":null,"refusedBy":"Ana Lopez"}'
)


@pytest.mark.parametrize(
    ("compute", "reason"),
    [
        (lambda: CODEC.decode("order-created.v9", b"{}"), "this release does not know its topic"),
        (
            lambda: CODEC.decode("payment-captured.v1", b"{}"),
            "it has not the members of its topic: Object missing required field `paymentId`",
        ),
        (
            lambda: CODEC.decode("payment-declined.v1", DECLINED),
            "it has not the members of its topic: Invalid enum value - at `$.refusedBy`",
        ),
        (
            lambda: CODEC.decode("payment-captured.v1", b"\xff"),
            "it is no JSON: JSON is malformed: invalid character (byte 0)",
        ),
        (
            lambda: fold(ORDERS.evolve, None, paid(1, 100)),
            "it contradicts the events before it, for a stream begins with its creation",
        ),
        (
            lambda: fold(ORDERS.evolve, None, [created(), paid(1, 100)[-1]]),
            "it contradicts the events before it, for the payment is not this order's",
        ),
        (lambda: Decimal("sNaN") + 1, "an amount in it is no number to calculate with"),
        (lambda: float(10**400), "a time or a number in it is too large to calculate with"),
        (lambda: CUSTOMERS.evolve(uuid4(), "Ana"), "AssertionError in assert_never of typing.py, line"),
        (lambda: ORDERS.evolve(uuid4(), "Ana"), "KeyError in evolve of order.py, line"),
    ],
)
def test_the_reason_is_in_words(compute: Callable[[], Any], reason: str) -> None:
    with pytest.raises(Exception) as raised:
        compute()
    assert reason_of(raised.value).startswith(reason)
