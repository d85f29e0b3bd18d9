"""Finds payment card numbers where none are allowed: in descriptions, names, ids, metadata and processors' texts.

Never return, log or raise a number that was found. Search for card numbers, not for digits: one thirteen-digit number
in ten passes Luhn's check, so timestamps, CLABEs, phone numbers and machine-made ids must not be taken for cards, or a
merchant's ids would be refused at random.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import accumulate, chain
from typing import Final

from ledger.processors.bins import is_issued
from ledger.processors.clabe import is_clabe

_SHORTEST, _LONGEST = 13, 19
_GAP: Final = r"[ \u00a0\u2007\u202f\-\u2010-\u2015\u2212]"

# Characters that a reader does not see: soft hyphens, joiners, marks of direction, variation selectors, keycaps.
_INVISIBLE: Final = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u20e3\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]+"
)
_SPACES: Final = re.compile(r"[^\S ]+|  +")

# UUIDs, hexadecimal ids in the lengths of digests, and phone numbers with their plus sign: digits in them mean
# something else. A hexadecimal id has letters between its digits; a phone number with its country has at most 13
# digits in use, and cards of 13 digits are hardly issued any more.
_OTHER_NUMBERS: Final = re.compile(
    r"(?<![0-9A-Za-z])(?:"
    r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"
    r"|(?=[a-fA-F]*[0-9]+[a-fA-F]+[0-9])(?:[0-9a-fA-F]{24}|[0-9a-fA-F]{32}|[0-9a-fA-F]{40}|[0-9a-fA-F]{48}"
    r"|[0-9a-fA-F]{56}|[0-9a-fA-F]{64}|[0-9a-fA-F]{96}|[0-9a-fA-F]{128})"
    rf"|\+[0-9](?:{_GAP}?[0-9]){{7,12}}(?!{_GAP}{{0,3}}[0-9])"
    r")(?![0-9A-Za-z])"
)
# Groups of one digit do not count: lists of numbers have such groups, card numbers do not.
_RUN: Final = re.compile(rf"\d{{2,}}(?:{_GAP}{{1,3}}\d{{2,}})*")
_GROUP: Final = re.compile(r"\d+")
_POINT: Final = re.compile(r"\d\.")


def _printed_pattern(first: str, further: str) -> re.Pattern[str]:
    """Returns a pattern for card numbers whose digit groups (4-4-4-… or 4-6-rest) are separated by signs other than
    space and dash.

    Decimals, IP addresses, dates and amounts with a sign at the thousands have other groups.
    """
    return re.compile(
        rf"(?<!\d)(?=(?P<four>\d{{4}})(?P<sign>{first})(?:"
        rf"(?P<whole>\d{{4}}{further}\d{{4}}{further}\d{{1,4}})(?!\d)(?:(?P<more>{further}\d{{1,3}})(?!\d))?"
        rf"|(?P<short>\d{{6}}{further}\d{{4,5}})(?!\d)))"
    )


_DOT: Final = "[ \u00a0]?[._/\u00b7\u2022\uff0e][ \u00a0]?"
_LIST: Final = "[ ,;:|=\\-]{1,3}"
_PRINTED: Final = (
    _printed_pattern(_DOT, _DOT),
    _printed_pattern(_LIST, _LIST),
    _printed_pattern(r"[\W_]{1,5}", "(?P=sign)"),  # any other signs, if they are the same between all groups
)


def contains_pan(text: str) -> bool:
    """Returns whether the text holds a valid card number: 13 to 19 digits, together or in groups, in any script's
    digits.

    >>> contains_pan("pagado con 4242 4242-4242 4242, gracias")
    True
    >>> contains_pan("1733412345678"), contains_pan("+52 55 1234 5678")
    (False, False)
    >>> contains_pan("4242.4242.4242.4242"), contains_pan("4242|4242|4242|4242"), contains_pan("4242424242.424242")
    (True, True, False)
    """
    if len(text) < _SHORTEST:
        return False
    text = _OTHER_NUMBERS.sub("x", _SPACES.sub(" ", visible(text)))
    runs = (_run_contains_pan(found.group(), _is_fraction(text, found.start())) for found in _RUN.finditer(text))
    return any(chain(runs, map(_run_contains_pan, _printed(text))))


def visible(text: str) -> str:
    """Returns the text without the characters that a reader does not see."""
    return text if text.isascii() else _INVISIBLE.sub("", text)


def _is_fraction(text: str, start: int) -> bool:
    """Returns whether the digits from `start` are the decimals of a number: `0.4532015112830366`."""
    return start >= 2 and _POINT.match(text, start - 2) is not None


def _printed(text: str) -> Iterator[str]:
    """Yields the digits in groups as on a card, with dots or the like between them."""
    for pattern in _PRINTED:
        for found in pattern.finditer(text):
            four, whole, more, short = found.group("four", "whole", "more", "short")
            yield from (f"{four} {groups}" for groups in (short, whole, whole and more and whole + more) if groups)


def _run_contains_pan(run: str, is_fraction: bool = False) -> bool:
    """Returns whether groups of digits contain a card number.

    With `is_fraction`, the first group alone is not taken for one.
    """
    groups = _GROUP.findall(run)
    digits = "".join(groups)
    if len(digits) < _SHORTEST:
        return False
    if not digits.isascii():
        digits = "".join(str(int(digit)) for digit in digits)
    starts = [0, *accumulate(map(len, groups))]
    sums = _luhn_sums(digits)
    at = 0
    for end in starts:  # a card number begins where a group begins and ends where a group ends
        while end - starts[at] > _LONGEST:
            at += 1
        begin = at
        while end - starts[begin] >= _SHORTEST:
            if _is_card_number(digits, starts[begin], end, sums) and not (is_fraction and end == starts[1]):
                return True
            begin += 1
    return False


def _is_card_number(digits: str, first: int, last: int, sums: tuple[list[int], list[int]]) -> bool:
    prefix = sums[(last - 1) & 1]
    if (prefix[last] - prefix[first]) % 10:
        return False
    number = digits[first:last]
    return is_issued(number) and not is_clabe(number)


def _luhn_sums(digits: str) -> tuple[list[int], list[int]]:
    """Returns Luhn's sums from the start up to each digit, for check digits at even and at odd places.

    One subtraction then checks any substring, so that a long text of digits takes time in proportion to its length.
    """
    even, odd = [0], [0]
    for place, digit in enumerate(map(int, digits)):
        doubled = digit * 2 if digit < 5 else digit * 2 - 9
        even.append(even[-1] + (doubled if place & 1 else digit))
        odd.append(odd[-1] + (digit if place & 1 else doubled))
    return even, odd
