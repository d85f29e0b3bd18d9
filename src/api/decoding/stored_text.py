"""Refuses card numbers, security codes and control characters in any text that would be stored.

Search all fields of a body, never a list of fields, so that a new field is searched from its first day. The log cannot
be cleaned afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct, inspect

from api.decoding.field_errors import FieldErrors
from api.decoding.types import ALIAS_OF, SEARCHED
from api.errors import card_number_in, invalid, security_code_in
from ledger.processors.cvc_detection import contains_cvc, json_contains_cvc
from ledger.processors.pan_detection import contains_pan

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


def check_texts(sent: Struct, body: bytes, errors: FieldErrors) -> None:
    """Adds the error of every text of a decoded body that holds a card number, a security code or a control character.

    Prose may have line breaks and tabs. `sent` is what was decoded of `body`, or the part that is stored. Call this
    after the fields are checked: a field that is wrong already is not searched.
    """
    if not is_harmless(body):
        search_texts(sent, errors)


def check_stored_field(value: Any, field: str) -> None:
    """Raises ApiError (400) if `check_texts` would refuse the value of this field."""
    errors = FieldErrors({})
    search_texts(value, errors, field)
    errors.refuse()


def search_texts(value: Any, errors: FieldErrors, place: str = "") -> None:
    """Adds what `check_texts` adds, without the look at the whole body. `place` is the path of the value."""
    if isinstance(value, str):
        errors.check(_check_text, value, place)
    elif isinstance(value, Struct):
        for field, name in _searched_fields(type(value)):
            inner = getattr(value, field)
            if inner is not None and inner is not UNSET:
                search_texts(inner, errors, f"{place}.{name}" if place and "." not in name else name)
    elif isinstance(value, list | tuple):
        for at, entry in enumerate(value):
            search_texts(entry, errors, f"{place}[{at}]")
    elif isinstance(value, Raw) and bytes(value)[:1] == b"{" and not errors.has(place):  # other JSON values are numbers
        errors.check(_check_json, value, place)


@cache
def _searched_fields(struct: type[Struct]) -> tuple[tuple[str, str], ...]:
    """Returns the fields of a struct whose texts are searched, each with the name that errors call it by."""
    marked = [(field, _marks(inspect.type_info(field.type))) for field in msgspec.structs.fields(struct)]
    return tuple(
        (field.name, marks.get(ALIAS_OF, field.encode_name)) for field, marks in marked if marks.get(SEARCHED, True)
    )


def _marks(kind: inspect.Type) -> dict[str, Any]:
    """Returns the marks of a field's type, those of a union's parts included."""
    if isinstance(kind, inspect.Metadata):
        return _marks(kind.type) | (kind.extra or {})
    if isinstance(kind, inspect.UnionType):
        return {name: value for part in kind.types for name, value in _marks(part).items()}
    return {}


def check_card_data(text: str, field: str) -> None:
    """Raises ApiError (400) if the text holds a card number or a security code."""
    if contains_pan(text):
        raise card_number_in(field)
    if contains_cvc(text):
        raise security_code_in(field)


def is_harmless(body: bytes, typed_number: str | None = None) -> bool:
    """Returns True only if no text of the body can hold what is refused; False asks for the full search.

    `typed_number` is the card number in the field for it, if its CVC came with it: both are taken out of the body.
    """
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


def _check_text(text: str, place: str) -> None:
    controls = _CONTROLS_IN_PROSE if place.endswith("description") else _CONTROLS
    if controls.search(text):
        raise invalid(place, "must not contain control characters", "INVALID_FORMAT")
    check_card_data(text, place)


def _check_json(raw: Raw, place: str) -> None:
    content = msgspec.json.decode(raw)
    for text in _texts(content):
        if _CONTROLS_IN_PROSE.search(text):
            raise invalid(place, "must not contain control characters", "INVALID_FORMAT")
        if contains_pan(text):
            raise card_number_in(place)
    if contains_pan(msgspec.json.encode(content).decode()):
        raise card_number_in(place)
    if json_contains_cvc(content):
        raise security_code_in(place)


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
