"""The form of an order number: `PO` and ten Crockford characters, from a place in the installation's permutation.

The caller brings the place, so that a decision made twice has the same number.
"""

from __future__ import annotations

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
