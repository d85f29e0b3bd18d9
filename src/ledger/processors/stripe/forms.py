"""Stripe's form encoding of a request: `metadata[key]=value`, `expand[0]=latest_charge`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import urlencode

Value = str | int | bool | None | Sequence["Value"] | Mapping[str, "Value"]
Form = Mapping[str, Value]


def encoded(form: Form) -> str:
    """Returns a form as text. A value of None is left out; the same form always gives the same text."""
    return urlencode([pair for name, value in form.items() for pair in _pairs(name, value)])


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
