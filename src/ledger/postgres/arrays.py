"""Packs columns of values as Postgres binary arrays, for one `unnest`.

Pass values in wire form (see `ledger.journal.inline.Row`): they are not checked. Packing takes one to two microseconds
for each command; psycopg's own adaptation of the same lists takes longer than the insert.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

from psycopg.abc import AdaptContext
from psycopg.adapt import Dumper
from psycopg.pq import Format

_HEADER: Final = struct.Struct("!iiiii")  # dimensions, has nulls, element type, length, lower bound
_INT4: Final = struct.Struct("!i")
_NULL: Final = _INT4.pack(-1)
_UUID_LENGTH: Final = _INT4.pack(16)
_LENGTHS: Final = [_INT4.pack(n) for n in range(4096)]
_FIXED: dict[tuple[str, int], struct.Struct] = {}


class Array(bytes):
    """A packed array. Each element type has a subclass, by which psycopg chooses the dumper."""

    __slots__ = ()


def _array_type(name: str, oid: int) -> tuple[type[Array], type[Dumper]]:
    packed = type(f"{name}Array", (Array,), {"__slots__": ()})

    def dump(_: Dumper, obj: Any) -> Any:
        return obj

    dumper = type(f"{name}ArrayDumper", (Dumper,), {"format": Format.BINARY, "oid": oid, "dump": dump})
    return packed, dumper


def _fixed(code: str, width: int, element: int, array: type[Array]) -> Callable[[Sequence[Any]], Array]:
    def pack(values: Sequence[Any]) -> Array:
        count = len(values)
        if None in values:
            one = struct.Struct(f"!i{code}")
            body = b"".join([_NULL if value is None else one.pack(width, value) for value in values])
            return array(_HEADER.pack(1, 1, element, count, 1) + body)
        layout = _FIXED.get((code, count))
        if layout is None:
            layout = _FIXED[code, count] = struct.Struct("!" + f"i{code}" * count)
        flat = [width] * (2 * count)
        flat[1::2] = values
        return array(_HEADER.pack(1, 0, element, count, 1) + layout.pack(*flat))

    return pack


def _variable(element: int, array: type[Array]) -> Callable[[Sequence[bytes | None]], Array]:
    def pack(values: Sequence[bytes | None]) -> Array:
        nulls = 0
        parts = [b""]
        for value in values:
            if value is None:
                nulls = 1
                parts.append(_NULL)
                continue
            size = len(value)
            parts.append(_LENGTHS[size] if size < 4096 else _INT4.pack(size))
            parts.append(value)
        parts[0] = _HEADER.pack(1, nulls, element, len(values), 1)
        return array(b"".join(parts))

    return pack


def _uuids(array: type[Array]) -> Callable[[Sequence[bytes | None]], Array]:
    variable = _variable(2950, array)

    def pack(values: Sequence[bytes | None]) -> Array:
        if None in values:
            return variable(values)
        header = _HEADER.pack(1, 0, 2950, len(values), 1)
        body = _UUID_LENGTH.join(values)  # type: ignore[arg-type]  # none is None here
        return array(header + _UUID_LENGTH + body) if values else array(header)

    return pack


_ARRAYS: Final = {
    name: _array_type(name, oid)
    for name, oid in {
        "bool": 1000, "bytea": 1001, "int4": 1007, "text": 1009, "int8": 1016, "date": 1182, "timestamptz": 1185,
        "uuid": 2951,
    }.items()
}  # fmt: skip

ENCODE_ARRAY: Final[dict[str, Callable[[Sequence[Any]], Array]]] = {
    "bool": _fixed("?", 1, 16, _ARRAYS["bool"][0]),
    "bytea": _variable(17, _ARRAYS["bytea"][0]),
    "int4": _fixed("i", 4, 23, _ARRAYS["int4"][0]),
    "text": _variable(25, _ARRAYS["text"][0]),
    "int8": _fixed("q", 8, 20, _ARRAYS["int8"][0]),
    "date": _fixed("i", 4, 1082, _ARRAYS["date"][0]),
    "timestamptz": _fixed("q", 8, 1184, _ARRAYS["timestamptz"][0]),
    "uuid": _uuids(_ARRAYS["uuid"][0]),
}
"""Packs a column, by the name of its Postgres type."""


def joined(name: str, parts: Sequence[Array]) -> Array:
    """Returns packed columns of a Postgres type without nulls as one: many values are packed in several steps."""
    array = _ARRAYS[name][0]
    if not parts:
        return array(ENCODE_ARRAY[name]([]))
    dimensions, nulls, element, _, bound = _HEADER.unpack_from(parts[0])
    count = sum(_HEADER.unpack_from(part)[3] for part in parts)
    header = _HEADER.pack(dimensions, nulls, element, count, bound)
    return array(b"".join((header, *(memoryview(part)[_HEADER.size :] for part in parts))))


def register(context: AdaptContext) -> None:
    """Lets a connection send packed arrays."""
    assert context.adapters is not None
    for packed, dumper in _ARRAYS.values():
        context.adapters.register_dumper(packed, dumper)
