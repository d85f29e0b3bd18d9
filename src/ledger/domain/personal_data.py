"""Which part of a value is about a person: paths of fields, and the value without them.

The rule a stranger would break: a personal field has a default, and that default is how the field looks once the person
is forgotten. Sealing, reading after an erasure and the fold all mean the same by it.
"""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import fields, replace

T = TypeVar("T", bound=Struct)


def split(value: T, paths: tuple[str, ...]) -> tuple[T, dict[str, Any]]:
    """The value with the fields at these paths at their defaults, and the members that stood there, by name.

    A path (`email`, `method.card.cardholder_name`) ends where nothing stands; of a deeper one the whole member is given.
    Where there is nothing to take away, the very same value comes back.
    """
    absent, taken = {}, {}
    for name, default, deeper in _plan(type(value), paths):
        member = getattr(value, name)
        left = _left(member, deeper) if deeper else default
        if left is not member:
            absent[name], taken[name] = left, member
    return (replace(value, **absent), taken) if absent else (value, taken)


def without(value: T, paths: tuple[str, ...]) -> T:
    """The value as it looks once the person is forgotten."""
    return split(value, paths)[0]


def _left(member: Any, deeper: tuple[str, ...]) -> Any:
    return None if member is None else split(member, deeper)[0]


@cache
def _plan(type_: type[Struct], paths: tuple[str, ...]) -> list[tuple[str, Any, tuple[str, ...]]]:
    """For each path its first member, that member's default, and what is left of the path."""
    defaults = {field.name: field.default for field in fields(type_)}
    parts = [path.partition(".") for path in paths]
    return [(name, defaults[name], (rest,) if rest else ()) for name, _, rest in parts]
