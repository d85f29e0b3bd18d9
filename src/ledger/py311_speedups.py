"""Two replacements for slow parts of Python 3.11: cached attributes without a lock, and faster enumeration members.

Use `lazy` only on Structs with `dict=True`, and only for values that follow from fields that never change. It is
`functools.cached_property` without the lock that Python 3.11 takes on every first access, at a quarter of the cost.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Generic, TypeVar, overload
from uuid import SafeUUID

T = TypeVar("T")


class lazy(Generic[T]):  # noqa: N801 - a decorator, named like `property`
    """An attribute that is computed on its first access and then kept in the instance's own dictionary.

    >>> class Circle:
    ...     @lazy
    ...     def area(self) -> int:
    ...         print("once")
    ...         return 3
    >>> circle = Circle()
    >>> circle.area + circle.area
    once
    6
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> lazy[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> lazy[T] | T:
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._compute(instance)
        return value


E = TypeVar("E", bound=type[Enum])


def fast_members(enumeration: E) -> E:
    """Returns the same enumeration, with its members in its own dictionary: an access finds them without a descriptor.

    >>> from enum import StrEnum
    >>> @fast_members
    ... class Light(StrEnum):
    ...     RED = "red"
    >>> Light.RED is Light("red") is Light["RED"]
    True
    """
    for name, member in enumeration.__members__.items():
        type.__setattr__(enumeration, name, member)  # the enumeration itself refuses to reassign its members
    return enumeration


fast_members(SafeUUID)  # uuid_utils reads a member for each UUID that it makes
