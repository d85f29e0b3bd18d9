"""Ids and numbers that people see: how they are written.

Never draw a random number or read a sequence here. The caller brings the id or the ordinal, so that a decision made
twice is the same decision.
"""

from __future__ import annotations

import uuid
from typing import Final

_CROCKFORD: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS: Final = [high + low for high in _CROCKFORD for low in _CROCKFORD]
_NUMBER_BITS: Final = 50
_MULTIPLIER: Final = 0x2B5_9D3C_6A7F1  # odd, so that multiplying is a bijection on 50 bits
_MASK: Final = (1 << _NUMBER_BITS) - 1
_KEYED: Final = 1 << 49
"""Numbers without a key were made of ordinals below this one, keyed numbers are made of what is from here on."""


def order_number(place: int) -> str:
    """Returns `PO` and ten Crockford characters for an order's place in the installation's permutation (contract N20).

    Places are below 2^48. Different places give different numbers, and none that an earlier release made without a key:
    the two are images of disjoint ranges under one bijection.
    """
    return _spelled(_KEYED | place)


def _spelled(number: int) -> str:
    """Returns the text of a number below 2^50, after a bijection. It must never change: numbers would repeat."""
    scattered = (number * _MULTIPLIER) & _MASK
    scattered ^= scattered >> 25
    scattered = (scattered * _MULTIPLIER) & _MASK
    return "PO" + "".join([_PAIRS[(scattered >> shift) & 1023] for shift in (40, 30, 20, 10, 0)])


def entry_id(payment_id: uuid.UUID, ordinal: int) -> uuid.UUID:
    """Returns the id of the n-th history entry (`PaymentEvent`) of a payment: the same in every replay."""
    return uuid.uuid5(payment_id, str(ordinal))


def parse_uuid(text: str) -> uuid.UUID | None:
    """Returns the UUID of a 36-character text, else None: `{id}` in a path may be an external id too."""
    if len(text) != 36:
        return None
    try:
        return uuid.UUID(text)
    except ValueError:
        return None
