"""What arrived at an endpoint against what the feed has: the rules of delivery, one function each."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any
from uuid import UUID

from campaigns.webhooks.receiver import Arrival

UNDER_WAY = 8
"""How many attempts of an endpoint are under way at once."""
_SHOWN = 5


class Feed:
    """A merchant's public events, oldest first, as the feed answers them."""

    def __init__(self, events: Sequence[Mapping[str, Any]]) -> None:
        self.events = {UUID(each["id"]): each for each in events}
        erased = [each["resource"]["id"] for each in events if each["type"] == "customer.deleted"]
        self._of_erased = {
            self.stream_of(event_id)
            for event_id, event in self.events.items()
            if any(customer_id in json.dumps(event) for customer_id in erased)
        }

    def stream_of(self, event_id: UUID) -> str:
        """Returns what the events that go one after the other have in common: the path of an order, which has its
        payments and documents below it, or that of another resource.
        """
        path: str = self.events[event_id]["resource"]["url"]
        return path.partition("/payments/")[0]

    def shows_an_erased_customer(self, event_id: UUID) -> bool:
        """Returns whether an event's `data` may have arrived with a person who was erased afterwards."""
        return event_id in self.events and self.stream_of(event_id) in self._of_erased


def violations(endpoint: str, arrivals: Sequence[Arrival], feed: Feed, kills: int, *, is_thin: bool) -> Iterator[str]:
    """Yields what is wrong with what arrived at an endpoint, the first few findings of each rule.

    `kills` is how often attempts could be cut off.
    """
    for rule in (_lost, _foreign, _changed, _disordered):
        yield from (f"{endpoint}: {what}" for what in islice(rule(arrivals, feed), _SHOWN))
    yield from (f"{endpoint}: {what}" for what in islice(_unlike_the_feed(arrivals, feed, is_thin=is_thin), _SHOWN))
    repeated = len(arrivals) - len({each.event_id for each in arrivals}) - sum(not a.is_accepted for a in arrivals)
    if repeated > kills * UNDER_WAY:
        yield f"{endpoint}: {repeated} messages came again after {kills} kills"


def _lost(arrivals: Sequence[Arrival], feed: Feed) -> Iterator[str]:
    accepted = {each.event_id for each in arrivals if each.is_accepted}
    for event_id, event in feed.events.items():
        if event_id not in accepted:
            yield f"{event['type']} {event['sequence']} never arrived"


def _foreign(arrivals: Sequence[Arrival], feed: Feed) -> Iterator[str]:
    for arrival in arrivals:
        if arrival.event_id not in feed.events:
            yield f"{arrival.event_id} is no event of the merchant"


def _changed(arrivals: Sequence[Arrival], feed: Feed) -> Iterator[str]:
    first: dict[UUID, bytes] = {}
    for arrival in arrivals:
        is_other = first.setdefault(arrival.event_id, arrival.body) != arrival.body
        if is_other and not feed.shows_an_erased_customer(arrival.event_id):
            yield f"{arrival.event_id} came with other bytes"


def _disordered(arrivals: Sequence[Arrival], feed: Feed) -> Iterator[str]:
    """Yields events that came before an earlier one of their stream was accepted."""
    waiting: dict[str, list[UUID]] = {}
    for event_id in feed.events:
        waiting.setdefault(feed.stream_of(event_id), []).append(event_id)
    seen: set[UUID] = set()
    for arrival in arrivals:
        if arrival.event_id in seen or arrival.event_id not in feed.events:
            continue  # a repetition may come at any time
        ahead = waiting[feed.stream_of(arrival.event_id)]
        if ahead[0] != arrival.event_id:
            yield f"{feed.events[arrival.event_id]['sequence']} came before {feed.events[ahead[0]]['sequence']}"
        if arrival.is_accepted:
            seen.add(arrival.event_id)
            ahead.remove(arrival.event_id)


def _unlike_the_feed(arrivals: Sequence[Arrival], feed: Feed, *, is_thin: bool) -> Iterator[str]:
    for arrival in arrivals:
        event = feed.events.get(arrival.event_id)
        if event is not None:
            came, shown = json.loads(arrival.body), dict(event)
            if is_thin:
                del shown["data"]
            elif feed.shows_an_erased_customer(arrival.event_id):
                came["data"] = shown["data"]
            if came != shown:
                where = ", ".join(_differences(came, shown))
                yield f"{event['type']} {event['sequence']} is not as the feed has it: {where}"


def _differences(came: Any, shown: Any, path: str = "") -> Iterator[str]:
    """Yields the path of each member that differs, with what came and what the feed shows."""
    if isinstance(came, dict) and isinstance(shown, dict):
        for name in came.keys() | shown.keys():
            yield from _differences(came.get(name), shown.get(name), f"{path}.{name}" if path else name)
    elif came != shown:
        yield f"{path} {came!r} for {shown!r}"
