"""Finds payment card numbers where none are allowed: in descriptions, names, ids and metadata.

Never return, log or raise a number that was found. Search for card numbers, not for digits: one thirteen-digit number
in ten passes Luhn's check, so timestamps, CLABEs, phone numbers and machine-made ids must not be taken for cards, or a
merchant's ids would be refused at random.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import accumulate, chain
from typing import Final

_SHORTEST, _LONGEST = 13, 19
_GAP: Final = r"[ \u00a0\u2007\u202f\-\u2010-\u2015\u2212]"

# UUIDs, long hexadecimal ids and phone numbers with their plus sign: digits in them mean something else.
_OTHER_NUMBERS: Final = re.compile(
    r"(?<![0-9A-Za-z])(?:"
    r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"
    r"|(?=[0-9]*[a-fA-F])[0-9a-fA-F]{24,}"
    rf"|\+[0-9](?:{_GAP}?[0-9]){{7,14}}(?!{_GAP}{{0,3}}[0-9])"
    r")(?![0-9A-Za-z])"
)
# Groups of one digit do not count: card numbers are not written like that, and lists of numbers are.
_RUN: Final = re.compile(rf"\d{{2,}}(?:{_GAP}{{1,3}}\d{{2,}})*")
_GROUP: Final = re.compile(r"\d+")
# Between dots, slashes and underscores, only groups as they are printed on cards count: four digits, four, four and so
# on, or four, six and the rest. Decimals, IP addresses, dates and amounts with a dot at the thousands are written
# otherwise.
_DOT: Final = "[ \u00a0]?[._/\u00b7\u2022\uff0e][ \u00a0]?"
_PRINTED: Final = re.compile(
    rf"(?<!\d)(?=(\d{{4}}{_DOT}\d{{4}}{_DOT}\d{{4}}{_DOT}\d{{1,4}})(?!\d)"
    rf"(?:(?P<more>{_DOT}\d{{1,3}})(?!\d))?|(?P<short>\d{{4}}{_DOT}\d{{6}}{_DOT}\d{{4,5}})(?!\d))"
)

# Lengths and first digits in which cards are issued (ISO/IEC 7812): Visa, Mastercard, American Express, Diners, JCB,
# Discover, UnionPay, Maestro, Carnet. No card begins with 0, 1, 7, 8 or 9, nor with 20 or 21.
_ISSUED: Final = re.compile(
    r"4[0-9]{12}(?:[0-9]{3}|[0-9]{6})?|3[47][0-9]{13}|3[0689][0-9]{12}|2[2-8][0-9]{14}|[356][0-9]{15}|[56][0-9]{16,18}"
)


def contains_pan(text: str) -> bool:
    """Returns whether the text holds a valid card number: 13 to 19 digits, together or in groups, in any script's
    digits.

    >>> contains_pan("pagado con 4242 4242-4242 4242, gracias") True >>> contains_pan("1733412345678"),
    contains_pan("+52 55 1234 5678") (False, False) >>> contains_pan("4242.4242.4242.4242"),
    contains_pan("4242424242.424242") (True, False)
    """
    if len(text) < _SHORTEST:
        return False
    text = _OTHER_NUMBERS.sub("x", text)
    return any(map(_run_contains_pan, chain((run.group() for run in _RUN.finditer(text)), _printed(text))))


def _printed(text: str) -> Iterator[str]:
    """Yields the digits in groups as on a card, with dots or the like between them."""
    for found in _PRINTED.finditer(text):
        whole, more, short = found.groups()
        yield from (groups for groups in (short, whole, whole and more and whole + more) if groups)


def _run_contains_pan(run: str) -> bool:
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
            if _is_card_number(digits, starts[begin], end, sums):
                return True
            begin += 1
    return False


def _is_card_number(digits: str, first: int, last: int, sums: tuple[list[int], list[int]]) -> bool:
    prefix = sums[(last - 1) & 1]
    if (prefix[last] - prefix[first]) % 10 or not _ISSUED.fullmatch(digits, first, last):
        return False
    return not (last - first == 18 and _is_clabe(digits[first:last]))


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


def _is_clabe(digits: str) -> bool:
    """Returns whether eighteen digits are a Mexican bank account: the last is the control digit (weights 3, 7, 1)."""
    weighted = sum(int(digit) * weight % 10 for digit, weight in zip(digits[:17], (3, 7, 1) * 6, strict=False))
    return int(digits[17]) == -weighted % 10
