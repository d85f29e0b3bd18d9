"""The left fold: a state and events to the state after them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

S = TypeVar("S")
E = TypeVar("E")


def fold(evolve: Callable[[S | None, E], S], state: S | None, events: Iterable[E]) -> S:
    """Returns the state after `events`, starting from `state`; None is a stream that does not exist yet."""
    for event in events:
        state = evolve(state, event)
    assert state is not None, "a stream begins with its creation"
    return state
