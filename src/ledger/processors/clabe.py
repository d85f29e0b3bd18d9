"""The CLABE: a Mexican account number of 18 digits, the last of which checks the others.

The rule a stranger would break: the weights are 3, 7, 1 and each product counts modulo ten before it is added.
"""

from __future__ import annotations

from itertools import cycle
from typing import Final

_WEIGHTS: Final = (3, 7, 1)


def check_digit(digits: str) -> str:
    """The last digit for the first seventeen.

    >>> check_digit("03218000011835971")
    '9'
    """
    total = sum(int(digit) * weight % 10 for digit, weight in zip(digits, cycle(_WEIGHTS), strict=False))
    return str(-total % 10)


def is_clabe(text: str) -> bool:
    """Whether a text is eighteen digits with the right last one."""
    return len(text) == 18 and text.isascii() and text.isdecimal() and check_digit(text[:17]) == text[17]
