"""Which delivery of an endpoint may go when: those of one stream go one after another.

An event waits for an earlier one of its stream until that was accepted, and for at most a minute after its first
attempt failed; in the ordering STRICT until it was accepted or FAILED. Two of one stream are never under way at once.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from itertools import count
from typing import Final
from uuid import UUID

from msgspec import Struct

from ledger.background.deliveries.delivery import Delivery
from ledger.domain.webhooks.terms import Ordering

WAIT_MAX: Final = timedelta(seconds=60)
"""How long after an event's first failed attempt the next one of its stream goes before it."""

Line = bytes
"""What `Delivery.line` has."""


class Turn(Struct, frozen=True):
    """Which delivery of a line may go now; without one, from when on (None: once its line changes)."""

    delivery: Delivery | None
    at: datetime | None = None


def next_of(line: Sequence[Delivery], now: datetime, ordering: Ordering) -> Turn:
    """Returns the turn of a line, whose deliveries are in the order of their numbers, and none of them under way."""
    at: datetime | None = None
    for each in line:
        if each.due_at is None or each.due_at <= now:
            return Turn(each)
        at = each.due_at if at is None else min(at, each.due_at)
        if ordering is Ordering.STRICT:
            return Turn(None, at)
        passed_at = (each.first_failed_at or now) + WAIT_MAX
        if now < passed_at:
            return Turn(None, min(at, passed_at))
    return Turn(None, at)


class Lines:
    """The deliveries of one endpoint that have not ended, by their streams."""

    def __init__(self, ordering: Ordering) -> None:
        self._ordering = ordering
        self._lines: dict[Line, list[Delivery]] = {}
        self._taken: set[Line] = set()  # whose next delivery may go, or is under way
        self._ready: list[tuple[tuple[bool, int], int, Delivery]] = []
        self._wakings: list[tuple[datetime, int, Line]] = []
        self._asleep: dict[Line, datetime] = {}  # from when on one of the line may go
        self._count = count()  # so that no two entries are compared further
        self._ids: set[UUID] = set()

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, delivery_id: UUID) -> bool:
        return delivery_id in self._ids

    @property
    def ids(self) -> AbstractSet[UUID]:
        """The ids of the deliveries."""
        return self._ids

    @property
    def is_ready(self) -> bool:
        """Whether a delivery may go now, as far as was looked."""
        return bool(self._ready)

    @property
    def wakes_at(self) -> datetime | None:
        """The earliest time at which a line that waits may go on."""
        while self._wakings and self._asleep.get(self._wakings[0][2]) != self._wakings[0][0]:
            heapq.heappop(self._wakings)  # the line has changed since
        return self._wakings[0][0] if self._wakings else None

    def add(self, delivery: Delivery, now: datetime) -> None:
        """Takes over a delivery. Add those of one stream in the order of their numbers, as far as they are known."""
        line = self._lines.setdefault(delivery.line, [])
        place = len(line)
        while place and line[place - 1].sequence > delivery.sequence:
            place -= 1
        line.insert(place, delivery)
        self._ids.add(delivery.id)
        self._look(delivery.line, now)

    def take(self) -> Delivery | None:
        """Returns the first delivery that may go, which is under way from then on, or None."""
        return heapq.heappop(self._ready)[2] if self._ready else None

    def first_ready(self, limit: int) -> list[Delivery]:
        """Returns the next deliveries that may go, without taking them."""
        return [each for *_, each in heapq.nsmallest(limit, self._ready)]

    def give_back(self, delivery: Delivery) -> None:
        """Puts a delivery that was taken back at its place: it was not attempted."""
        heapq.heappush(self._ready, (delivery.rank, next(self._count), delivery))

    def end(self, delivery: Delivery, now: datetime) -> None:
        """Removes a delivery that was under way and has ended."""
        line = self._lines[delivery.line]
        line.remove(delivery)
        self._ids.discard(delivery.id)
        if not line:
            del self._lines[delivery.line]
        self._taken.discard(delivery.line)
        self._look(delivery.line, now)

    def wait(self, delivery: Delivery, now: datetime) -> None:
        """Lets a delivery that was under way wait until its `due_at`."""
        self._taken.discard(delivery.line)
        self._look(delivery.line, now)

    def wakes_line_at(self, line: Line) -> datetime | None:
        """Returns from when on one of a line may go that waits for a retry; None if it does not wait."""
        return self._asleep.get(line)

    def of(self, line: Line) -> Sequence[Delivery]:
        """Returns the deliveries of a line in their order."""
        return self._lines.get(line, ())

    def asleep(self) -> Iterator[Delivery]:
        """Yields the deliveries that wait for the retry of an earlier one of their stream, or for their own."""
        for key in self._asleep:
            yield from self._lines[key]

    def drop_asleep(self, unwritten: AbstractSet[UUID]) -> None:
        """Forgets the lines that wait: their deliveries are read from the database again when they are due.

        A line with one that is `unwritten` stays: it would not be found when the next event of its stream is read.
        """
        for key in list(self._asleep):
            ids = [each.id for each in self._lines[key]]
            if unwritten.isdisjoint(ids):
                self._ids.difference_update(ids)
                del self._lines[key], self._asleep[key]
        self._wakings = [each for each in self._wakings if each[2] in self._asleep]
        heapq.heapify(self._wakings)

    def wake(self, now: datetime) -> None:
        """Lets the lines go on whose time has come."""
        while self._wakings and self._wakings[0][0] <= now:
            at, _, key = heapq.heappop(self._wakings)
            if self._asleep.get(key) == at:
                self._look(key, now)

    def _look(self, key: Line, now: datetime) -> None:
        """Finds out whether a line may go on now, or when."""
        if key in self._taken:
            return
        self._asleep.pop(key, None)
        if key not in self._lines:
            return
        turn = next_of(self._lines[key], now, self._ordering)
        if turn.delivery is not None:
            self._taken.add(key)
            self.give_back(turn.delivery)
        elif turn.at is not None:
            self._asleep[key] = turn.at
            heapq.heappush(self._wakings, (turn.at, next(self._count), key))
