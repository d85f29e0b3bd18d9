"""The fields of structs as rows of a table: name, accepted values, meaning.

Take limits and descriptions from the struct. Never treat a field by its name.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import msgspec
from docs.generation.markdown import code, codes
from msgspec import NODEFAULT, UNSET, inspect

from ledger.domain.orders.statuses import OrderStatus, PaymentStatus

_PLAIN = {
    inspect.StrType: "text",
    inspect.BoolType: "true or false",
    inspect.IntType: "whole number",
    inspect.DecimalType: "number",
    inspect.FloatType: "number",
    inspect.DateTimeType: "date-time",
    inspect.UUIDType: "UUID",
    inspect.NoneType: "null",
    inspect.DictType: "object",
}

_STATUSES = {OrderStatus: "statuses.md#payment-orders", PaymentStatus: "statuses.md#payments"}


class Row(NamedTuple):
    """A field as a row. `is_required` is true for a field without a default."""

    name: str
    kind: str
    is_required: bool
    default: str
    meaning: str


def fields(struct: type[msgspec.Struct]) -> list[Row]:
    """Returns the fields of a struct in its own order, under the names that are sent or stored."""
    info = inspect.type_info(struct)
    assert isinstance(info, inspect.StructType), f"{struct} is no Struct"
    return [
        Row(
            name=field.encode_name,
            kind=kind(field.type),
            is_required=field.required,
            default=_default(field.default),
            meaning=_description(field.type),
        )
        for field in info.fields
    ]


def needed(row: Row) -> str:
    """Returns the meaning of a field of a body, with whether it is required."""
    return f"Required. {row.meaning}" if row.is_required and not row.meaning.startswith("Required") else row.meaning


@cache
def parts(struct: type[msgspec.Struct]) -> tuple[type[msgspec.Struct], ...]:
    """Returns the structs inside this one, at any depth, in the order in which a reader meets them."""
    found: dict[type[msgspec.Struct], None] = {}
    _collect(inspect.type_info(struct), found)
    found.pop(struct)
    return tuple(found)


def anchor(struct: type) -> str:
    """Returns the anchor of a struct's description on its page."""
    return struct.__name__.removesuffix("Document").lower()


def title(struct: type) -> str:
    """Returns a struct's name on a page."""
    return struct.__name__.removesuffix("Document")


def kind(found: inspect.Type, schema: dict[str, Any] | None = None) -> str:
    """Returns the accepted values in words."""
    match found:
        case inspect.Metadata():
            return kind(found.type, {**(schema or {}), **(found.extra or {}), **(found.extra_json_schema or {})})
        case inspect.UnionType():
            words = dict.fromkeys(kind(option, schema) for option in found.types)
            return " or ".join(sorted(words, key=lambda word: word == "null"))
        case inspect.StructType():
            return f"[{title(found.cls)}](#{anchor(found.cls)})"
        case inspect.ListType() | inspect.VarTupleType():
            return f"list of {kind(found.item_type)}"
        case inspect.TupleType():
            return "list"
        case inspect.LiteralType():
            return codes(str(value).lower() if isinstance(value, bool) else str(value) for value in found.values)
        case inspect.EnumType():
            return _enum(found)
        case inspect.StrType():
            return _text(found, schema or {})
        case inspect.RawType():
            return _raw((schema or {}).get("type", "JSON"))
    return _PLAIN[type(found)]


def _enum(found: inspect.EnumType) -> str:
    """Returns the members, or a link to where they are explained."""
    if found.cls in _STATUSES:
        return f"[a status]({_STATUSES[found.cls]})"
    return codes(str(member.value) for member in found.cls)


def _text(found: inspect.StrType, schema: dict[str, Any]) -> str:
    if schema.get("format"):
        return {"date-time": "date-time", "uuid": "UUID", "email": "e-mail address"}.get(schema["format"], "text")
    bounds = (found.min_length, found.max_length)
    match bounds:
        case (None, None):
            return "text"
        case (None, most):
            return f"text, at most {most}"
        case (least, most) if least == most:
            return f"text, exactly {most}"
        case (least, most):
            return f"text, {least} to {most}"


def _raw(types: str | list[str]) -> str:
    return types if isinstance(types, str) else " or ".join(types)


def _description(found: inspect.Type) -> str:
    if isinstance(found, inspect.Metadata):
        text = (found.extra_json_schema or {}).get("description", "")
        return str(text) or _description(found.type)
    if isinstance(found, inspect.UnionType):
        return next((text for option in found.types if (text := _description(option))), "")
    return ""


def _default(value: Any) -> str:
    if value is NODEFAULT or value is UNSET or value is None:
        return ""
    if value == ():
        return "none"
    return code(str(value).lower() if isinstance(value, bool) else str(value))


def _collect(found: inspect.Type, into: dict[type[msgspec.Struct], None]) -> None:
    for inner in _inner(found):
        if isinstance(inner, inspect.StructType):
            if inner.cls in into:
                continue
            into[inner.cls] = None
            for field in inner.fields:
                _collect(field.type, into)


def _inner(found: inspect.Type) -> Iterator[inspect.Type]:
    match found:
        case inspect.Metadata():
            yield from _inner(found.type)
        case inspect.UnionType():
            for option in found.types:
                yield from _inner(option)
        case inspect.ListType() | inspect.VarTupleType():
            yield from _inner(found.item_type)
        case _:
            yield found
