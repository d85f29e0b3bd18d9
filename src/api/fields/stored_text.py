"""Refuses card numbers and control characters in any text that would be stored.

Search all fields of the parsed input, never a list of fields, so that a new field is searched from its first day. The
log cannot be cleaned afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct

from api.fields.pan_detection import contains_pan
from api.http.errors import card_number_in, invalid
from ledger.processors.contract import Card

_CONTROLS: Final = re.compile("[\x00-\x1f\x7f-\x9f]")
_CONTROLS_IN_PROSE: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_C1_CONTROLS: Final = re.compile(b"\xc2[\x80-\x9f]")

# Every digit, and every byte of a character outside ASCII, becomes a 0; what may separate groups is removed. The
# shortest card number then is thirteen zeros in a row.
_DIGITS: Final = bytes(0x30 if 0x30 <= byte <= 0x39 or byte >= 0x80 else 0x78 for byte in range(256))
_GAPS: Final = b" -._/"
_THIRTEEN: Final = b"0" * 13

# Where the names of the parsed input differ from the interface's.
_SPELLINGS: Final = (
    ("terms.fiscal.", "customerFiscalData."),
    ("terms.", ""),
    ("payment.card_summary.", "paymentMethod.cardDetails."),
    ("payment.saved_method_id", "paymentMethod.paymentMethodId"),
    ("payment.", ""),
)


def check_stored_text(parsed: Struct, place: str, body: bytes, typed_number: str | None) -> None:
    """Raises ApiError (400) where a card number or a control character would be stored; prose may have line breaks and
    tabs.

    `place` is the field of an `OrderInput` that has the type of `parsed`, or "" for another input. `body` is what was
    parsed, and `typed_number` the card number in the field where it belongs: from the two, most bodies are known to be
    harmless at once.
    """
    if not _is_harmless(body, typed_number):
        _check(parsed, place)


def _is_harmless(body: bytes, typed_number: str | None) -> bool:
    """Returns True only where no text of the body can hold what is refused; False asks for the full search."""
    if b"\\" in body:
        body = _unescaped(body)
        if b"\\" in body:
            return False
    if b"\x7f" in body or (b"\xc2" in body and _C1_CONTROLS.search(body)):
        return False
    if typed_number is not None:
        body = body.replace(typed_number.encode(), b"x", 1)
    return _THIRTEEN not in body.translate(_DIGITS, _GAPS)


def _unescaped(body: bytes) -> bytes:
    """Returns the same JSON with only control characters escaped, and without quotes and backslashes inside texts."""
    try:
        plain = msgspec.json.encode(msgspec.json.decode(body))
    except msgspec.DecodeError:  # an ignored field may hold a number that Python cannot represent
        return body
    return plain.replace(b"\\\\", b"").replace(b'\\"', b"")


def _check(value: Any, place: str) -> None:
    if value is None or value is UNSET:
        return
    if isinstance(value, str):
        _check_text(value, place)
    elif isinstance(value, Raw):
        _check_json(value, place)
    elif isinstance(value, tuple):
        for at, entry in enumerate(value):
            _check(entry, f"{place}[{at}]")
    elif isinstance(value, Struct) and not isinstance(value, Card):  # a card's number is not stored
        for field in value.__struct_fields__:
            _check(getattr(value, field), f"{place}.{field}" if place else field)


def _check_text(text: str, place: str) -> None:
    controls = _CONTROLS_IN_PROSE if place.endswith("description") else _CONTROLS
    if controls.search(text):
        raise invalid(_published_name(place), "must not contain control characters", "INVALID_FORMAT")
    if contains_pan(text):
        raise card_number_in(_published_name(place))


def _check_json(raw: Raw, place: str) -> None:
    content = msgspec.json.decode(raw)
    for text in _texts(content):
        if _CONTROLS_IN_PROSE.search(text):
            raise invalid(_published_name(place), "must not contain control characters", "INVALID_FORMAT")
    if contains_pan(msgspec.json.encode(content).decode()):
        raise card_number_in(_published_name(place))


def _texts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, dict):
        for key, value in content.items():
            yield key
            yield from _texts(value)
    elif isinstance(content, list):
        for value in content:
            yield from _texts(value)


def _published_name(place: str) -> str:
    for ours, published in _SPELLINGS:
        if place.startswith(ours):
            place = published + place.removeprefix(ours)
            break
    return re.sub(r"_([a-z])", lambda letter: letter.group(1).upper(), place)
