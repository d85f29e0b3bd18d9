"""Finds payment card numbers where none are allowed: in descriptions, names, ids, metadata and processors' texts.

Never return, log or raise a number that was found. Search for card numbers, not for digits: one thirteen-digit number
in ten passes Luhn's check, so timestamps, CLABEs, phone numbers and machine-made ids must not be taken for cards, or a
merchant's ids would be refused at random. Digits that are written like a card's count in all ranges in which cards
exist (`is_issued`), digits that may be an id only in those of payers' cards (`is_in_issued_range`).
`python -m campaigns card-numbers` counts the errors of both kinds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Final

from ledger.processors.bins import is_in_issued_range, is_issued
from ledger.processors.clabe import is_clabe

_SHORTEST, _LONGEST = 13, 19
_GAP: Final = r"[ \u00a0\u2007\u202f\-\u2010-\u2015\u2212]"

# Characters that a reader does not see: soft hyphens, joiners, marks of direction, variation selectors, keycaps.
_INVISIBLE: Final = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u20e3\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff]+"
)
_SPACES: Final = re.compile(r"[^\S ]+|  +")
_THIRTEEN_DIGITS: Final = re.compile(r"(?:\D*+\d){13}")

# UUIDs, hexadecimal ids, and phone numbers with their plus sign: digits in them mean something else. A hexadecimal id
# has letters between its digits, in one place if it has the length of a digest, else in two: what a person writes
# behind a card number may be such letters too, as in …cad1227. A phone number with its country has at most 13 digits
# in use, and cards of 13 digits are hardly issued any more.
_OTHER_NUMBERS: Final = re.compile(
    r"(?<![0-9A-Za-z])(?:"
    r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"
    r"|(?=[a-fA-F]*[0-9]+[a-fA-F]+[0-9])(?:[0-9a-fA-F]{16}|[0-9a-fA-F]{24}|[0-9a-fA-F]{32}"
    r"|[0-9a-fA-F]{40}|[0-9a-fA-F]{48}|[0-9a-fA-F]{56}|[0-9a-fA-F]{64}|[0-9a-fA-F]{96}|[0-9a-fA-F]{128})"
    r"|(?=[0-9]*[a-fA-F]+[0-9]+[a-fA-F]+[0-9])[0-9a-fA-F]{14,128}"
    rf"|\+[0-9](?:{_GAP}?[0-9]){{7,12}}(?!{_GAP}{{0,3}}[0-9])"
    r")(?![0-9A-Za-z])"
)
# Groups of one digit do not count here: lists of numbers have such groups.
_RUN: Final = re.compile(rf"\d{{2,}}(?:{_GAP}{{1,3}}\d{{2,}})*")
# The lengths of groups as they are printed on cards: of four digits up to the last one, and 4-6-rest.
_PRINTED_GROUPS: Final = re.compile(r"(?:4,){2,}[1-4],|4,6,[45],")
_SPACE: Final = re.compile(r"[ \u00a0\u2007\u202f]")
_PUNCTUATION: Final = ".,;:!?()[]\"'"
_GROUP: Final = re.compile(r"\d+")
_GAP_OF_LAST: Final = re.compile(rf"{_GAP}{{1,3}}(?=\d(?!\d))")  # 37 82 82 24 63 10 00 5: pairs, and one digit
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
# What all of them have in common. It begins with a digit, to which the search leaps.
_FOUR_BESIDE_FOUR: Final = re.compile(r"\d{4}(?<!\d{5})[\W_]{1,5}\d{4}")
# Single digits with the same sign between all of them, or with another one between groups of four: 4 2 4 2 - 4 2 4 2 …
_ALONE: Final = r"\d(?!\d)"
_THREE_MORE: Final = rf"(?:(?P=sign){_ALONE}){{3}}"
_DIGIT_BY_DIGIT: Final = re.compile(
    rf"\d(?<!\d\d)(?!\d)(?P<sign>{_GAP}|[ \u00a0]?\.[ \u00a0]?){_ALONE}(?:(?P=sign){_ALONE}){{2}}"
    rf"(?:(?:(?P=sign){_ALONE}){{9,}}"
    rf"|(?P<further>[\W_]{{1,5}}){_ALONE}{_THREE_MORE}(?:(?P=further){_ALONE}{_THREE_MORE}){{2}})"
)
# The value of a digit's byte, and the value that Luhn's sum has of a digit that is doubled.
_VALUES: Final = bytes(byte & 0xF for byte in range(256))
_DOUBLED: Final = bytes((0, 2, 4, 6, 8, 1, 3, 5, 7, 9)).ljust(256, b"\0")
_Ranges = Callable[[str], bool]
"""Returns whether a number lies in a range in which cards are issued."""


def contains_pan(text: str) -> bool:
    """Returns whether the text holds a valid card number: 13 to 19 digits, together or in groups, in any script's
    digits.

    >>> contains_pan("pagado con 4242 4242-4242 4242, gracias")
    True
    >>> contains_pan("1733412345678"), contains_pan("+52 55 1234 5678")
    (False, False)
    >>> contains_pan("4242.4242.4242.4242"), contains_pan("4242|4242|4242|4242"), contains_pan("4242424242.424242")
    (True, True, False)
    >>> contains_pan("4 2 4 2 4 2 4 2 4 2 4 2 4 2 4 2"), contains_pan("ba30303221964663")
    (True, False)
    """
    if len(text) < _SHORTEST or not _THIRTEEN_DIGITS.match(text):
        return False
    sent, text = text, _OTHER_NUMBERS.sub("x", _SPACES.sub(" ", visible(text)))
    if text is not sent and not _THIRTEEN_DIGITS.match(text):
        return False
    return (
        any(_run_contains_pan(text, found) for found in _RUN.finditer(text))
        or any(_contain_pan(_GROUP.findall(groups), lambda *_: is_issued) for groups in _printed(text))
        or any(_contain_pan([digits], lambda *_: is_in_issued_range) for digits in _digit_by_digit(text))
    )


def passes_luhn(number: str) -> bool:
    """Returns whether the check digit of a number of ASCII digits is right (ISO/IEC 7812-1).

    >>> passes_luhn("4242424242424242"), passes_luhn("4242424242424241")
    (True, False)
    """
    backwards = number.encode()[::-1].translate(_VALUES)
    return (sum(backwards[::2]) + sum(backwards[1::2].translate(_DOUBLED))) % 10 == 0


def visible(text: str) -> str:
    """Returns the text without the characters that a reader does not see."""
    return text if text.isascii() else _INVISIBLE.sub("", text)


def _is_fraction(text: str, start: int) -> bool:
    """Returns whether the digits from `start` are the decimals of a number: `0.4532015112830366`."""
    return start >= 2 and _POINT.match(text, start - 2) is not None


def _printed(text: str) -> Iterator[str]:
    """Yields the digits in groups as on a card, with dots or the like between them."""
    for pattern in _PRINTED if _FOUR_BESIDE_FOUR.search(text) else ():
        for found in pattern.finditer(text):
            four, whole, more, short = found.group("four", "whole", "more", "short")
            yield from (f"{four} {groups}" for groups in (short, whole, whole and more and whole + more) if groups)


def _digit_by_digit(text: str) -> Iterator[str]:
    """Yields the digits that are written one by one with the same sign between them."""
    for found in _DIGIT_BY_DIGIT.finditer(text):
        yield "".join(_GROUP.findall(found.group()))


def _run_contains_pan(text: str, run: re.Match[str]) -> bool:
    """Returns whether groups of digits in a text, with spaces and dashes between them, contain a card number."""
    if run.end() - run.start() < _SHORTEST:
        return False
    groups = list(_GROUP.finditer(text, run.start(), run.end()))
    if all(len(group.group()) == 2 for group in groups) and (gap := _GAP_OF_LAST.match(text, run.end())):
        groups += _GROUP.finditer(text, gap.end(), gap.end() + 1)
    return _contain_pan([group.group() for group in groups], lambda begin, end: _ranges_for(text, groups, begin, end))


def _ranges_for(text: str, groups: Sequence[re.Match[str]], begin: int, end: int) -> _Ranges:
    """Returns the ranges in which the digits of some groups of a run count as a card number."""
    first, last = groups[begin].start(), groups[end - 1].end()
    if end == begin + 1:
        if begin == 0 and _is_fraction(text, first):
            return _no_range
        return is_issued if _is_in_prose(text, first, last) else is_in_issued_range
    lengths = "".join(f"{len(group.group())}," for group in groups[begin:end])
    if _PRINTED_GROUPS.fullmatch(lengths) or _SPACE.search(text, first, last):
        return is_issued
    # Between other groups are dashes alone, as in an order number: 702-3612345-1234567.
    return is_in_issued_range if end - begin == len(groups) else _no_range


def _is_in_prose(text: str, first: int, last: int) -> bool:
    """Returns whether there is a space before or behind digits, and nothing on the other side that makes them an id."""
    before, behind = text[max(first - 1, 0) : first], text[last : last + 1]
    return (_is_space(before) or _is_space(behind)) and all(
        not side or _is_space(side) or side in _PUNCTUATION for side in (before, behind)
    )


def _is_space(sign: str) -> bool:
    return _SPACE.match(sign) is not None


def _no_range(_: str) -> bool:
    return False


def _contain_pan(groups: Sequence[str], ranges_for: Callable[[int, int], _Ranges]) -> bool:
    """Returns whether a card number begins where a group begins and ends where a group ends.

    `ranges_for` returns the ranges for the groups from the one up to the other place.
    """
    digits = "".join(groups)
    if len(digits) < _SHORTEST:
        return False
    if not digits.isascii():
        digits = "".join(str(int(digit)) for digit in digits)
    starts = [0, *accumulate(map(len, groups))]
    sums = _luhn_sums(digits)
    at = 0
    for end, last in enumerate(starts):
        while last - starts[at] > _LONGEST:
            at += 1
        begin = at
        while last - starts[begin] >= _SHORTEST:
            if _is_checked(starts[begin], last, sums):
                number = digits[starts[begin] : last]
                if ranges_for(begin, end)(number) and not is_clabe(number):
                    return True
            begin += 1
    return False


def _is_checked(first: int, last: int, sums: tuple[list[int], list[int]]) -> bool:
    prefix = sums[(last - 1) & 1]
    return (prefix[last] - prefix[first]) % 10 == 0


def _luhn_sums(digits: str) -> tuple[list[int], list[int]]:
    """Returns Luhn's sums from the start up to each digit, for check digits at even and at odd places.

    One subtraction then checks any substring, so that a long text of digits takes time in proportion to its length.
    """
    plain = digits.encode().translate(_VALUES)
    doubled = plain.translate(_DOUBLED)
    even, odd = bytearray(plain), bytearray(doubled)
    even[1::2], odd[1::2] = doubled[1::2], plain[1::2]
    return list(accumulate(even, initial=0)), list(accumulate(odd, initial=0))
