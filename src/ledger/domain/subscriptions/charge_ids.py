"""Ids that follow from a subscription, an invoice and an attempt, so that an attempt is one payment order in every
process.

`OrderCreated.subscription_id` names the subscription that an order charges. Besides, the id of such an order is a UUID
of version 8, so that a reader of orders' later events skips all other orders without reading them.
"""

from __future__ import annotations

from datetime import datetime
from hashlib import sha256
from typing import Final
from uuid import UUID, uuid5

_VERSION: Final = 8
_ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def invoice_id(subscription_id: UUID, ordinal: int) -> UUID:
    """Returns the id of a subscription's n-th invoice."""
    return uuid5(subscription_id, f"invoice:{ordinal}")


def invoice_number(subscription_id: UUID, ordinal: int) -> str:
    """Returns the number of an invoice for people: ten Crockford characters of its subscription, and an ordinal."""
    bits = subscription_id.int & ((1 << 50) - 1)
    series = "".join(_ALPHABET[(bits >> shift) & 31] for shift in range(45, -1, -5))
    return f"{series}-{ordinal:04}"


def order_id(invoice: UUID, attempt: int, begun_at: datetime) -> UUID:
    """Returns the id of the payment order of an attempt: its time in front, as in the ids of other orders."""
    digest = int.from_bytes(sha256(invoice.bytes + attempt.to_bytes(4, "big")).digest()[:10], "big")
    milliseconds = int(begun_at.timestamp() * 1000) & ((1 << 48) - 1)
    number = milliseconds << 80 | digest & ~(0xF << 76) & ~(0x3 << 62) | _VERSION << 76 | 0x2 << 62
    return UUID(int=number)


def payment_id(order: UUID, nth: int = 0) -> UUID:
    """Returns the id of the payment that a subscription makes on its order; `nth` counts those that were not sent."""
    return uuid5(order, f"payment:{nth}" if nth else "payment")


def external_id(subscription_id: UUID, ordinal: int, attempt: int) -> str:
    """Returns the external id of the payment order of an attempt."""
    return f"{subscription_id}:{ordinal}:{attempt}"


def subscription_in(order_id: UUID, external_id: str) -> UUID | None:
    """Returns the subscription that an order charges by its ids, None for any other order.

    The orders of release 0.1.0 have it nowhere else.
    """
    if not may_be_charge(order_id):
        return None
    try:
        return UUID(external_id.partition(":")[0])
    except ValueError:
        return None


def may_be_charge(order_id: UUID) -> bool:
    """Returns whether an order with this id may charge a subscription; False is certain."""
    return order_id.version == _VERSION
