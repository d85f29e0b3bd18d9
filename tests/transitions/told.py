"""A story: its steps, and the ways that they lead an order and its payments.

The rule a stranger would break: a way stands in a story because the story is there for it. Whatever else happens in it is
held against the tables all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from tests.transitions.steps import Step

DDR, CHR = "PAYER_AUTHENTICATION_DEVICE_DATA_REQUIRED", "PAYER_AUTHENTICATION_CHALLENGE_REQUIRED"

Edge = tuple[str | None, str]


class Story(NamedTuple):
    """`orders` and `payments` are ways: statuses one after the other, `-` for what does not exist yet."""

    name: str
    steps: Sequence[Step]
    orders: Sequence[str] = ()
    payments: Sequence[str] = ()
    settings: tuple[tuple[str, object], ...] = ()
    """The merchant's."""


def told(name: str, *steps: Step, order: str = "", payment: str = "", **settings: object) -> Story:
    """A story; several ways of one kind are told apart by `;`."""
    return Story(name, steps, _ways(order), _ways(payment), tuple(settings.items()))


def edges(ways: Iterable[str]) -> set[Edge]:
    """The moves along these ways."""
    statuses = [[None if word == "-" else word for word in way.split()] for way in ways]
    return {(before, after) for way in statuses for before, after in pairwise(way) if after is not None}


def _ways(text: str) -> Sequence[str]:
    return [" ".join(way.split()) for way in text.split(";") if way.strip()]
