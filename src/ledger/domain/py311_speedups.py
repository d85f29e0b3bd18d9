"""An attribute of a frozen state that is computed when it is first asked for.

The rule a stranger would break: only on Structs with `dict=True`, and only for what follows from fields that never change.
It is `functools.cached_property` without the lock that Python 3.11's takes on every first look: a quarter of the price.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class lazy(Generic[T]):  # noqa: N801 - a decorator, named like `property`
    """Computes once per instance, then lets the instance's own dictionary answer.

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
    """The same enumeration, with its members in its own dictionary.

    >>> from enum import StrEnum
    >>> @at_hand
    ... class Light(StrEnum):
    ...     RED = "red"
    >>> Light.RED is Light("red") is Light["RED"]
    True
    """
    for name, member in enumeration.__members__.items():
        type.__setattr__(enumeration, name, member)  # the enumeration itself refuses to reassign its members
    return enumeration
