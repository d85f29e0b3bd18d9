"""Refuses card numbers, security codes and control characters in any text that would be stored.

Search all fields of the parsed input, never a list of fields, so that a new field is searched from its first day. The
log cannot be cleaned afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct

from api.decoding.field_errors import FieldErrors
from api.decoding.types import METADATA_BYTES_MAX
from api.errors import card_number_in, invalid, security_code_in
from ledger.processors.contract import Card
from ledger.processors.cvc_detection import contains_cvc, json_contains_cvc
from ledger.processors.pan_detection import contains_pan
from ledger.processors.saved_card import SecurityCode

_CONTROLS: Final = re.compile("[\x00-\x1f\x7f-\x9f]")
_CONTROLS_IN_PROSE: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_C1_CONTROLS: Final = re.compile(b"\xc2[\x80-\x9f]")

# Every digit, and every byte of a character outside ASCII, becomes a 0; letters become small ones; all other signs are
# removed. The shortest card number then is thirteen zeros in a row, and a security code is three behind its name.
_SQUEEZED: Final = bytes(0x30 if byte >= 0x80 or chr(byte).isdigit() else ord(chr(byte).lower()) for byte in range(256))
_SIGNS: Final = bytes(byte for byte in range(128) if not chr(byte).isalnum())
_THIRTEEN: Final = b"0" * 13
_TYPED_CVC: Final = b"cvc000"
# A part of each name of security codes. All begin with one letter, for which the search leaps: a tenth of the time.
_CVC_NAME: Final = re.compile(
    rb"c(?:v[cvnd]|av(?:0|code)|sc|id(?:0|code|number|value|data)|urity|ardverif|(?:o|00)d(?:igo)?(?:de)?(?:segur|verif))"
)

# Where the names of the parsed input differ from the interface's.
_SPELLINGS: Final = (
    ("terms.fiscal.", "customerFiscalData."),
    ("terms.", ""),
    ("payment.card_summary.", "paymentMethod.cardDetails."),
    ("payment.saved_method_id", "paymentMethod.paymentMethodId"),
    ("payment.", ""),
    ("transaction_id", "authenticationTransactionId"),
)
# Aliases of the interface, whose texts are stored under the canonical name.
_ALIASES: Final = (
    ("external_merchant_reference", "externalId"),
    ("fiscal_data", "customerFiscalData"),
    ("fiscal_config", "customerFiscalData"),
    ("items[", "lineItems["),
    ("customer_id", "customer.id"),
    ("customer.customer_id", "customer.id"),
    ("payment_method.options.card.", "paymentMethod.cardDetails."),
)
_NEVER_STORED: Final = frozenset({"number", "cvc", "clabe"})


def check_stored_text(parsed: Struct, place: str, body: bytes, typed_number: str | None) -> None:
    """Raises ApiError (400) where a card number, a security code or a control character would be stored; prose may
    have line breaks and tabs.

    `place` is the field of an `OrderInput` that has the type of `parsed`, or "" for another input. `body` is what was
    parsed, and `typed_number` the card number in the field where it belongs, where its CVC came with it: from the two,
    most bodies are known to be harmless at once.
    """
    if not is_harmless(body, typed_number):
        _check(parsed, place)


def check_stored_field(value: Any, field: str) -> None:
    """Raises ApiError (400) like `check_stored_text`, for the value of one field."""
    _check(value, field)


def check_each_text(sent: Any, errors: FieldErrors, place: str = "") -> None:
    """Adds the error of every text of a decoded body that `check_stored_text` would refuse. `place` is the field that
    has the value `sent`, with the names of structs.
    """
    if isinstance(sent, str):
        if _CONTROLS.search(sent) or contains_pan(sent) or contains_cvc(sent):
            errors.check(_check, sent, _canonical(place))
    elif isinstance(sent, Struct):
        for field in sent.__struct_fields__:
            value = getattr(sent, field)
            if value is not None and value is not UNSET and field not in _NEVER_STORED:
                check_each_text(value, errors, f"{place}.{field}" if place else field)
    elif isinstance(sent, list):
        for at, entry in enumerate(sent):
            check_each_text(entry, errors, f"{place}[{at}]")
    elif isinstance(sent, Raw) and bytes(sent)[:1] == b"{" and not _is_too_long(sent):  # another JSON value is a number
        errors.check(_check, sent, _canonical(place))


def _is_too_long(metadata: Raw) -> bool:
    """Returns whether metadata is refused for its length, whatever it holds: a search of it would take long."""
    text = bytes(metadata)
    return len(text) > METADATA_BYTES_MAX and len(msgspec.json.format(text, indent=-1)) > METADATA_BYTES_MAX


def _canonical(place: str) -> str:
    for alias, name in _ALIASES:
        if place.startswith(alias):
            return name + place.removeprefix(alias)
    return place


def check_card_data(text: str, field: str) -> None:
    """Raises ApiError (400) where the text holds a card number or a security code."""
    if contains_pan(text):
        raise card_number_in(field)
    if contains_cvc(text):
        raise security_code_in(field)


def is_harmless(body: bytes, typed_number: str | None = None) -> bool:
    """Returns True only where no text of the body can hold what is refused; False asks for the full search."""
    if b"\\" in body:
        body = _unescaped(body)
        if b"\\" in body:
            return False
    if b"\x7f" in body or (b"\xc2" in body and _C1_CONTROLS.search(body)):
        return False
    if typed_number is not None:
        body = body.replace(typed_number.encode(), b"x", 1)
    squeezed = body.translate(_SQUEEZED, _SIGNS)
    if typed_number is not None:
        squeezed = squeezed.replace(_TYPED_CVC, b"x", 1)
    return _THIRTEEN not in squeezed and _CVC_NAME.search(squeezed) is None


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
    elif isinstance(value, Struct) and not isinstance(value, Card | SecurityCode):  # neither is stored
        for field in value.__struct_fields__:
            _check(getattr(value, field), f"{place}.{field}" if place else field)


def _check_text(text: str, place: str) -> None:
    controls = _CONTROLS_IN_PROSE if place.endswith("description") else _CONTROLS
    if controls.search(text):
        raise invalid(_published_name(place), "must not contain control characters", "INVALID_FORMAT")
    check_card_data(text, _published_name(place))


def _check_json(raw: Raw, place: str) -> None:
    content = msgspec.json.decode(raw)
    for text in _texts(content):
        if _CONTROLS_IN_PROSE.search(text):
            raise invalid(_published_name(place), "must not contain control characters", "INVALID_FORMAT")
        if contains_pan(text):
            raise card_number_in(_published_name(place))
    if contains_pan(msgspec.json.encode(content).decode()):
        raise card_number_in(_published_name(place))
    if json_contains_cvc(content):
        raise security_code_in(_published_name(place))


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
