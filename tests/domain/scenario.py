"""Given these events, when this command is decided, then these events follow: the form of the core's tests.

Every command is decided twice. The second time must give no events, or the same rejection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from pkgutil import walk_packages
from types import ModuleType
from typing import Any, get_args, get_type_hints

import pytest
from tests.domain.builders import resubmit

from ledger.domain.orders.commands import CancelPayment, CreateOrder, RecordOutcome
from ledger.domain.orders.decide.cancellation import decide_payment_cancellation
from ledger.domain.orders.decide.outcomes import decide_outcome
from ledger.domain.orders.decide.payments import decide_create, decide_resubmission
from ledger.domain.rejections import Rejected
from ledger.domain.streams import ORDERS, STREAM_OF, STREAMS

Decider = tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]
"""What decides a command, and what folds the events of its stream."""


def _create_or_resubmit(order: Any, command: Any) -> Any:
    return decide_create(None, command) if order is None else decide_resubmission(order, resubmit(command))


def _deciders() -> dict[type, Decider]:
    """Returns the decider of each command: the function that takes a stream's state and that command alone."""
    found: dict[type, Decider] = {}
    for package in sorted({stream.state.__module__.rpartition(".")[0] for stream in STREAMS}):
        for module in _modules(package):
            for name, function in vars(module).items():
                if not name.startswith("decide_") or function.__module__ != module.__name__:
                    continue
                types = [kind for parameter, kind in get_type_hints(function).items() if parameter != "return"]
                states = [kind for kind in _members(types[0]) if kind in STREAM_OF]
                if len(types) == 2 and states:
                    found |= dict.fromkeys(_members(types[1]), (function, STREAM_OF[states[0]].evolve))
    return found


def _members(kind: Any) -> tuple[type, ...]:
    """Returns the types of a union, or the one type."""
    return get_args(kind) or (kind,)


def _modules(package: str) -> Iterator[ModuleType]:
    """Returns the modules of a package and of the packages in it."""
    place = import_module(package)
    yield place
    for each in walk_packages(place.__path__, f"{package}."):
        yield import_module(each.name)


DECIDERS: dict[type, Decider] = {
    **_deciders(),
    # Several functions take these: the outermost counts.
    CreateOrder: (_create_or_resubmit, ORDERS.evolve),
    CancelPayment: (decide_payment_cancellation, ORDERS.evolve),
    **dict.fromkeys(get_args(RecordOutcome), (decide_outcome, ORDERS.evolve)),
}


def given(*events: Any) -> Given:
    return Given(events)


class Given:
    def __init__(self, events: tuple[Any, ...]) -> None:
        self._events = events

    def when(self, command: Any) -> When:
        return When(self._events, command)


class When:
    def __init__(self, events: tuple[Any, ...], command: Any) -> None:
        self._decide, self._evolve = DECIDERS[type(command)]
        self._command = command
        self._state: Any = None
        for event in events:
            self._state = self._evolve(self._state, event)

    def then(self, *expected: Any) -> Any:
        """Asserts that exactly these events follow, and returns the state after them."""
        events = self._decide(self._state, self._command)
        assert events == list(expected)
        return self._fold_and_repeat(events)

    def then_events(self) -> list[Any]:
        """Returns the events that follow, for tests that check a part of them."""
        events = self._decide(self._state, self._command)
        self._fold_and_repeat(events)
        return events

    def then_rejected(self, rejection: type[Rejected], **facts: Any) -> None:
        for _ in range(2):
            with pytest.raises(rejection) as refused:
                self._decide(self._state, self._command)
            assert refused.value.facts == facts

    def _fold_and_repeat(self, events: list[Any]) -> Any:
        state = self._state
        for event in events:
            state = self._evolve(state, event)
        assert self._decide(state, self._command) == []
        return state
