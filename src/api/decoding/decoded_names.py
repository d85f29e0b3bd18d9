"""Finds out at little cost that no name comes twice in a body whose struct is at hand, as is so in most bodies.

A compact body that is encoded again from its struct has the same length if no name is repeated, and is shorter if one
is. The second decoding by `repeated_names` takes three times as long.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from operator import attrgetter
from typing import Any, Final

import msgspec
from msgspec import NODEFAULT, UNSET, Raw, UnsetType, inspect

from api.decoding.repeated_names import has_repeated_name

_NEVER_GROWING: Final = (
    inspect.StrType,
    inspect.BoolType,
    inspect.NoneType,
    inspect.IntType,
    inspect.LiteralType,
    inspect.EnumType,
    inspect.RawType,
)

_PLACE: Final = re.compile(r"(?:\.(?P<list>\w+)\[])?\.(?P<name>\w+)")

_SPACED: Final = b'": '
_encode: Final = msgspec.json.Encoder().encode


class DecodedNames:
    """The names in bodies of one struct. It compares only bodies of structs that omit defaults when they are encoded.

    Raw values may be objects in a field of the body and of the entries of its lists.
    """

    def __init__(self, schema: Any) -> None:
        kind = inspect.type_info(schema)
        places = [_PLACE.fullmatch(place) for place in _places_of_objects(kind)]
        self._is_comparable = _never_grows(kind) and None not in places
        self._own = [found["name"] for found in places if found and not found["list"]]
        self._of_entries = [(found["list"], attrgetter(found["name"])) for found in places if found and found["list"]]

    def are_single(self, body: bytes, sent: Any) -> bool:
        """Returns True only if no name comes twice; False asks for the full search. `sent` is the decoded body.

        No value is encoded longer than it was sent, and no member that was not sent: the lengths are equal only if each
        member was sent once. Raw values are encoded as they were sent, and searched if they may be objects. One in the
        field of a number is not: it is refused for being no number.
        """
        if not self._is_comparable:
            return False
        once = _encode(sent)
        if len(once) != len(body):
            if b"\\" in body or _SPACED not in body:  # the difference is not made by spaces alone
                return False
            if len(_compact(once)) != len(_compact(body)):
                return False
        return not any(has_repeated_name(bytes(raw)) for raw in self._objects(sent) if raw is not UNSET)

    def _objects(self, sent: Any) -> list[Raw | UnsetType]:
        found = [getattr(sent, name) for name in self._own]
        for field, raw_of in self._of_entries:
            found += map(raw_of, getattr(sent, field) or ())
        return found


def _compact(body: bytes) -> bytes:
    return msgspec.json.format(body, indent=-1)


def _never_grows(kind: inspect.Type) -> bool:
    """Returns whether msgspec encodes no value of a type with more bytes than it can be sent with.

    A float, a time and a UUID have shorter forms, and a struct may state a default or its tag.
    """
    match kind:
        case inspect.Metadata(type=inner) | inspect.ListType(item_type=inner):
            return _never_grows(inner)
        case inspect.UnionType(types=types):
            return all(map(_never_grows, types))
        case inspect.StructType(cls=struct, fields=fields, tag=tag):
            return (
                tag is None
                and (struct.__struct_config__.omit_defaults or all(field.required for field in fields))
                and all(field.default_factory is NODEFAULT and _never_grows(field.type) for field in fields)
            )
        case _:
            return isinstance(kind, _NEVER_GROWING)


def _places_of_objects(kind: inspect.Type) -> Iterator[str]:
    """Yields the paths of raw values that may be objects: `.metadata`, `.line_items[].metadata`."""
    match kind:
        case inspect.Metadata(type=inspect.RawType(), extra_json_schema={"type": "number"}):
            return
        case inspect.Metadata(type=inner):
            yield from _places_of_objects(inner)
        case inspect.RawType():
            yield ""
        case inspect.UnionType(types=types):
            for option in types:
                yield from _places_of_objects(option)
        case inspect.ListType(item_type=inner):
            yield from (f"[]{place}" for place in _places_of_objects(inner))
        case inspect.StructType(fields=fields):
            for field in fields:
                yield from (f".{field.name}{place}" for place in _places_of_objects(field.type))
        case _:
            return
