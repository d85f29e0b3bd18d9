"""The CLABE: a Mexican account number of 18 digits, the last of which checks the others.

The weights are 3, 7, 1. Reduce each product modulo ten before you add it.
"""

from __future__ import annotations

from itertools import cycle
from typing import Final

_WEIGHTS: Final = (3, 7, 1)


def check_digit(digits: str) -> str:
    """Returns the last digit for the first seventeen.

    >>> check_digit("03218000011835971")
    '9'
    """
    total = sum(int(digit) * weight % 10 for digit, weight in zip(digits, cycle(_WEIGHTS), strict=False))
    return str(-total % 10)


def is_clabe(text: str) -> bool:
    """Returns whether a text is eighteen digits with the right check digit."""
    return len(text) == 18 and text.isascii() and text.isdecimal() and check_digit(text[:17]) == text[17]
