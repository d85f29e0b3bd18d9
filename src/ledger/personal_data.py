"""Personal data inside a value: paths that name its personal fields, and the value without them.

Give every personal field a default: the default is the field's value after its person is erased. Sealing, reading after
an erasure and the fold all use that default.
"""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import fields, replace

T = TypeVar("T", bound=Struct)


def split(value: T, paths: tuple[str, ...]) -> tuple[T, dict[str, Any]]:
    """Returns the value with the fields at `paths` set to their defaults, and the original members by their names.

    A path is the name of a field (`email`) or leads into a member (`method.card.cardholder_name`); for the latter the
    whole first member (`method`) is returned by name. A path through a member that is None changes nothing. Returns the
    same object if all fields have their defaults already.
    """
    changed, removed = {}, {}
    for name, default, rest in _first_members(type(value), paths):
        member = getattr(value, name)
        remaining = _without_rest(member, rest) if rest else default
        if remaining is not member:
            changed[name], removed[name] = remaining, member
    return (replace(value, **changed), removed) if changed else (value, removed)


def without(value: T, paths: tuple[str, ...]) -> T:
    """Returns the value as it is after its person was erased: the fields at `paths` have their defaults."""
    return split(value, paths)[0]


def _without_rest(member: Any, rest: tuple[str, ...]) -> Any:
    return None if member is None else split(member, rest)[0]


@cache
def _first_members(type_: type[Struct], paths: tuple[str, ...]) -> list[tuple[str, Any, tuple[str, ...]]]:
    """Returns for each path the name of its first member, that member's default, and the rest of the path."""
    defaults = {field.name: field.default for field in fields(type_)}
    parts = [path.partition(".") for path in paths]
    return [(name, defaults[name], (rest,) if rest else ()) for name, _, rest in parts]
