"""Pages of a merchant's public events, and single ones, as they are answered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final
from uuid import UUID

from msgspec import Meta, Struct

from ledger.journal.append import KeyUnavailable, SealBroken
from ledger.journal.event_archive import ArchiveUnavailable
from ledger.postgres.connection import SharedClient
from ledger.postgres.faults import Fault
from projections.events.bodies import BodyRenderer, EventDocument, other_points, own_points
from projections.events.numbered import EventQuery, Found, NumberedEvent, find_named, find_one, find_page
from projections.events.states import StateReader

_RENDERED_AT_ONCE: Final = 128
"""Of how many events the states are held at once: a page may be of a thousand orders."""
_PAGE_BYTES: Final = 8 << 20
"""After how many bytes a page ends: a thousand events of one order with hundreds of payments would have gigabytes."""


_UNREADABLE: Final = (KeyUnavailable, SealBroken, ArchiveUnavailable)


class EventUnreadable(Fault):
    """A record that an event shows cannot be opened, or read from its file, because of `fault`. Other events can."""

    def __init__(self, event: NumberedEvent, fault: Exception) -> None:
        super().__init__(f"event {event.sequence}, {event.id}, cannot be read ({type(fault).__name__}): {fault}")
        self.sequence, self.id, self.fault = event.sequence, event.id, fault


class EventPage(Struct, rename="camel"):
    """A page of the merchant's events, oldest first."""

    data: Annotated[list[EventDocument], Meta(description="The events.")]
    last_sequence: Annotated[
        int, Meta(description="How far was looked: the `afterSequence` of the next request, also for an empty page.")
    ]
    has_more: Annotated[bool, Meta(description="Whether more can be read now.")]


class RenderedPage(Struct, frozen=True):
    """A page as JSON, whether it has events, and up to which number was looked."""

    body: bytes
    is_empty: bool
    last_sequence: int
    has_more: bool


class FeedReader:
    """Reads the feeds of all merchants, over one connection, at which requests take turns. Call `stop` at the end."""

    def __init__(self, url: str, states: StateReader, bodies: BodyRenderer) -> None:
        self._client = SharedClient(url, "ledger-feed")
        self._states, self._bodies = states, bodies

    async def stop(self) -> None:
        """Disconnects."""
        await self._client.stop()

    async def page(self, merchant_id: UUID, query: EventQuery) -> RenderedPage:
        """Returns the events after a number, up to one that cannot be read. Raises EventUnreadable if the next event is
        that one, and another Fault.
        """
        found, bodies = await self.read(merchant_id, query)
        return RenderedPage(page_body(bodies, found), not bodies, found.last_sequence, found.has_more)

    async def read(self, merchant_id: UUID, query: EventQuery) -> tuple[Found, list[bytes]]:
        """Returns the events of a page with their bodies. Raises like `page`."""
        found = await self.found(merchant_id, query)
        bodies = await self._readable(merchant_id, found.events, is_thin=query.is_thin)
        if len(bodies) < len(found.events):
            found = Found(found.events[: len(bodies)], found.events[len(bodies) - 1].sequence, has_more=True)
        return found, bodies

    async def found(self, merchant_id: UUID, query: EventQuery) -> Found:
        """Returns the events after a number without their bodies. Raises a Fault."""
        async with self._client.turn() as connection:
            return await find_page(connection, merchant_id, query)

    async def after(self, merchant_id: UUID, sequence: int, limit: int, kinds: frozenset[str] | None) -> Found:
        """Returns the next events of these kinds, or of all, after a number. Raises a Fault."""
        return await self.found(merchant_id, EventQuery(after=sequence, limit=limit, kinds=kinds))

    async def named(self, merchant_id: UUID, ids: Sequence[UUID]) -> dict[UUID, NumberedEvent]:
        """Returns the merchant's events with these ids, by their ids. Raises a Fault."""
        async with self._client.turn() as connection:
            return {event.id: event for event in await find_named(connection, merchant_id, ids)}

    async def one(self, merchant_id: UUID, event_id: UUID) -> bytes | None:
        """Returns the body of the event with this id, None if the merchant has none. Raises like `render`."""
        async with self._client.turn() as connection:
            event = await find_one(connection, merchant_id, event_id)
        return None if event is None else (await self.render(merchant_id, [event], is_thin=False))[0]

    async def _readable(self, merchant_id: UUID, events: Sequence[NumberedEvent], *, is_thin: bool) -> list[bytes]:
        """Returns the bodies of events up to the one that reaches the bytes of a page, and of those before one that
        cannot be read. Raises EventUnreadable if that is the first one, and another Fault.
        """
        try:
            return await self.render(merchant_id, events, is_thin=is_thin, bytes_max=_PAGE_BYTES)
        except _UNREADABLE as unread:
            fault = unread
        bodies: list[bytes] = []
        end = len(events)  # one before it cannot be read
        while end - len(bodies) > 1:
            middle = (len(bodies) + end) // 2
            try:
                some = events[len(bodies) : middle]
                bodies += await self.render(merchant_id, some, is_thin=is_thin)
            except _UNREADABLE as unread:
                end, fault = middle, unread
        if not bodies:
            raise EventUnreadable(events[0], fault)
        return bodies

    async def render(
        self, merchant_id: UUID, events: Sequence[NumberedEvent], *, is_thin: bool, bytes_max: int | None = None
    ) -> list[bytes]:
        """Returns the bodies of events: with `bytes_max`, only those up to the one that reaches so many bytes.

        Raises like `LogReader.opened`, and a Fault.
        """
        bodies: list[bytes] = []
        left = bytes_max
        for n in range(0, len(events), _RENDERED_AT_ONCE):
            some = await self._rendered(merchant_id, events[n : n + _RENDERED_AT_ONCE], is_thin=is_thin, bytes_max=left)
            bodies += some
            if left is not None:
                left -= sum(map(len, some))
                if left <= 0:
                    break
        return bodies

    async def _rendered(
        self, merchant_id: UUID, events: Sequence[NumberedEvent], *, is_thin: bool, bytes_max: int | None
    ) -> list[bytes]:
        async with self._client.turn() as connection:
            states = await self._states.states(connection, merchant_id, own_points(events, is_thin=is_thin))
            if not is_thin:
                states = {
                    **states,
                    **await self._states.states(connection, merchant_id, other_points(events, states)),
                }
        rendered: list[bytes] = []
        size = 0
        async with self._states.slices.work() as work:
            for event in events:
                rendered.append(self._bodies.render(merchant_id, event, states, is_thin=is_thin))
                size += len(rendered[-1])
                if bytes_max is not None and size >= bytes_max:
                    break
                await work.end_piece()
        return rendered


def page_body(bodies: Sequence[bytes], found: Found) -> bytes:
    """Returns the JSON of a page."""
    more = b"true" if found.has_more else b"false"
    return b'{"data":[%b],"lastSequence":%d,"hasMore":%b}' % (b",".join(bodies), found.last_sequence, more)
