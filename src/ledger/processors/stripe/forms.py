"""Stripe's form encoding of a request: `metadata[key]=value`, `expand[0]=latest_charge`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final
from urllib.parse import quote_plus

Value = str | int | bool | None | Sequence["Value"] | Mapping[str, "Value"]
Form = Mapping[str, Value]

_UNRESERVED: Final = re.compile(r"[A-Za-z0-9_.~-]*")


def encoded(form: Form) -> str:
    """Returns a form as text. A value of None is left out; the same form always gives the same text."""
    pairs = [
        f"{_encoded_name(each)}={_encoded(text)}" for name, value in form.items() for each, text in _pairs(name, value)
    ]
    return "&".join(pairs)


def _encoded(text: str) -> str:
    """Returns a text as a form writes it. Most values are ids and numbers, which a form writes as they are."""
    return text if _UNRESERVED.fullmatch(text) else quote_plus(text)


@lru_cache(1024)
def _encoded_name(name: str) -> str:
    """Returns the name of a field as a form writes it. There are few names, and no personal data in them."""
    return quote_plus(name)


def _pairs(name: str, value: Value) -> Iterator[tuple[str, str]]:
    match value:
        case None:
            return
        case bool():
            yield name, "true" if value else "false"
        case str() | int():
            yield name, str(value)
        case Mapping():
            for key, part in value.items():
                yield from _pairs(f"{name}[{key}]", part)
        case _:
            for index, part in enumerate(value):
                yield from _pairs(f"{name}[{index}]", part)
