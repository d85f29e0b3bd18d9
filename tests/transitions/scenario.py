"""A scenario: its steps, and the paths of statuses on which they lead an order and its payments.

A path belongs to the scenario that exists for it. All other moves of a scenario are checked against the tables as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from tests.transitions.context import Edge
from tests.transitions.steps import Step

DDR, CHR = "PAYER_AUTHENTICATION_DEVICE_DATA_REQUIRED", "PAYER_AUTHENTICATION_CHALLENGE_REQUIRED"


class Scenario(NamedTuple):
    """A scenario. `orders` and `payments` are paths: consecutive statuses, `-` before creation. `settings` are the
    merchant's."""

    name: str
    steps: Sequence[Step]
    orders: Sequence[str] = ()
    payments: Sequence[str] = ()
    settings: tuple[tuple[str, object], ...] = ()


def scenario(name: str, *steps: Step, order: str = "", payment: str = "", **settings: object) -> Scenario:
    """Returns a scenario. `order` and `payment` are paths; `;` separates several."""
    return Scenario(name, steps, _paths(order), _paths(payment), tuple(settings.items()))


def edges(paths: Iterable[str]) -> set[Edge]:
    """Returns the moves along these paths."""
    statuses = [[None if word == "-" else word for word in path.split()] for path in paths]
    return {(before, after) for path in statuses for before, after in pairwise(path) if after is not None}


def _paths(text: str) -> Sequence[str]:
    return [" ".join(path.split()) for path in text.split(";") if path.strip()]
