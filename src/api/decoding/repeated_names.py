"""Finds names that a JSON object has twice.

A parser keeps one of the two values without a word (RFC 8259, section 4): one program may check the first one and
another one charge the last. Such a body is refused, and only then searched for the names. That a name is repeated shows
in the number of strings: an object that was decoded and encoded again has its repeated names once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

import msgspec
from msgspec import Raw

from api.decoding.field_errors import FieldErrors
from api.decoding.types import TEXT_MAX
from api.errors import ApiError, invalid
from ledger.processors.cvc_detection import contains_cvc
from ledger.processors.pan_detection import contains_pan

_NAMED_MAX: Final = 20
_PLAIN: Final = re.compile(r"[\w@$-]{1,80}")
_UNSHOWN: Final = "..."

_decode: Final = msgspec.json.Decoder().decode
_encode: Final = msgspec.json.Encoder().encode


def refuse_repeated_names(body: bytes, errors: FieldErrors) -> None:
    """Adds the error of each name that an object of the body has twice, at any depth. The body is valid JSON."""
    if has_repeated_name(body):
        for error in errors_of_repeated_names(body):
            errors.add_of_body(error)


def errors_of_repeated_names(body: bytes) -> list[ApiError]:
    """Returns the 400 about each name that an object of valid JSON has twice, at most twenty, in the body's order."""
    paths = _paths(json.loads(body.decode(), object_pairs_hook=_Members, parse_int=str, parse_float=str))
    return [
        invalid(_shown(path), "appears twice: send it once", "DUPLICATE_FIELD") for path in islice(paths, _NAMED_MAX)
    ]


def has_repeated_name(body: bytes) -> bool:
    """Returns whether an object of valid JSON has a name twice, also if it is escaped differently."""
    try:
        once = _encode(_decode(body))
    except msgspec.DecodeError:  # a number or a text in it is beyond what Python represents
        return bool(errors_of_repeated_names(body))
    if once == body:  # compact JSON is the same again
        return False
    if b"\\" in body:
        return _quotes(body) != _quotes(once)
    return body.count(b'"') != once.count(b'"')


def refuse_own_repeated_names(body: bytes, errors: FieldErrors) -> None:
    """Adds what `refuse_repeated_names` adds of the names that the body itself has, whatever their values have."""
    members = msgspec.json.decode(body, type=dict[str, Raw])
    if _quotes(body) != sum(2 + _quotes(bytes(value)) for value in members.values()):
        for error in errors_of_repeated_names(body):
            if error.errors[0].field in members:
                errors.add_of_body(error)


class _Members(list[tuple[str, Any]]):
    """The members of an object as they were sent, the repeated ones too."""


def _paths(value: Any, place: str = "") -> Iterator[str]:
    if isinstance(value, _Members):
        seen: dict[str, int] = {}
        for name, inner in value:
            shown = name if _PLAIN.fullmatch(name) else _UNSHOWN
            path = f"{place}.{shown}" if place else shown
            seen[name] = seen.get(name, 0) + 1
            if seen[name] == 2:
                yield path
            yield from _paths(inner, path)
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from _paths(inner, f"{place}[{at}]")


def _shown(path: str) -> str:
    """Returns a path as an answer may repeat it: a merchant chooses the names in metadata."""
    is_harmless = len(path) <= TEXT_MAX and path.isprintable() and not (contains_pan(path) or contains_cvc(path))
    return path if is_harmless else _UNSHOWN


def _quotes(text: bytes) -> int:
    """Returns the number of quotes around strings: two of each name and of each text."""
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    return text.count(b'"')
