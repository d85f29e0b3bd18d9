"""Delivers an endpoint's events while its lease lasts.

Everything of a session happens in one task but the attempts and the rendering, which only hand in what they found. So a
delivery is in one place at a time: in the lines, under way, or among what is being written.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Final
from uuid import UUID

import structlog
from msgspec import Struct
from uuid_utils.compat import uuid7

from ledger.background.deliveries import health as pacing
from ledger.background.deliveries.alerts import alert
from ledger.background.deliveries.delivery import Delivery, DeliveryStatus, note_attempt
from ledger.background.deliveries.event_source import EventSource
from ledger.background.deliveries.lines import Lines
from ledger.background.deliveries.outcomes import DeliveryRow, Outcomes, OutcomeWriter
from ledger.background.deliveries.pages import FeedPages
from ledger.background.deliveries.rendered import Body, RenderedBodies, fresh_until
from ledger.background.deliveries.store import LEASE_S, Cursor, DeliveryStore, Place
from ledger.background.reactions.quarantine import UNREADABLE
from ledger.domain.public_events.kinds import KIND_OF, kinds_of
from ledger.domain.streams import WEBHOOK_ENDPOINTS
from ledger.domain.webhooks.state import WebhookEndpoint
from ledger.domain.webhooks.terms import DisabledReason, EndpointStatus, Payload
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.webhooks.disable import disable_endpoint
from ledger.postgres.faults import DatabaseUnavailable, Fault
from ledger.tasks import LATE_MAX_S
from ledger.telemetry.metrics import WEBHOOK_ATTEMPTS, WEBHOOKS_DISABLED
from ledger.webhooks.attempts import Attempt, Outcome

_log = structlog.get_logger()

_AHEAD_MAX: Final = 500
"""How many events behind the cursor are read."""
_RENDERED_FIRST: Final = 8
_RENDERED_MAX: Final = 256
"""Of how many events the bodies are rendered at once: of as many as a receiver takes while they are fresh."""
_UNWRITTEN_MAX: Final = 2 * pacing.AT_ONCE
"""How many attempts are under way or ended and unwritten: so many are made again if the worker is killed."""
_WRITTEN_TOGETHER: Final = _UNWRITTEN_MAX * 3 // 4
_WRITTEN_AFTER_S: Final = 0.02
"""How many outcomes are written without waiting for attempts that are under way, and how long fewer wait for them."""
_KEPT_MAX: Final = 2_000
"""How many deliveries that wait for a retry are kept in memory."""
_DUE_AT_ONCE: Final = 200
_TIMEOUT_S: Final = 15.0
_TIMEOUT_MOVING_S: Final = 2.0
_REST_MAX_S: Final = 1.0
_WRITE_CURSOR_S: Final = 1.0
"""How long a cursor waits that passes events without a delivery."""
_CLOCK_S: Final = 0.25
_LINGER_S: Final = 10.0
"""How long a session keeps a lease while there is nothing to send, if no other endpoint waits for its place."""
_TURN_S: Final = 5.0
"""How long a session lasts for which other endpoints wait, if it has begun an attempt or has none to begin."""
_PAUSE_KEPT: Final = timedelta(seconds=2)
_AGAIN_S: Final = 0.5
_STOP_S: Final = 3.0
"""How long attempts that are under way may take once the worker is being stopped."""
_UNREADABLE_AGAIN: Final = timedelta(seconds=60)
_COUNTERS: Final = {outcome: WEBHOOK_ATTEMPTS.labels(outcome) for outcome in Outcome}


class LeaseLost(Exception):
    """Another worker has the endpoint."""


class Room(Struct):
    """Whether endpoints wait because the worker has as many sessions as it may have."""

    is_scarce: bool = False


class Tools(Struct, frozen=True):
    """What the sessions of a worker share."""

    ledger: Ledger
    store: DeliveryStore
    writer: OutcomeWriter
    source: EventSource
    pages: FeedPages
    bodies: RenderedBodies
    room: Room


class SecretDestroyed(Exception):
    """The endpoint was deleted a moment ago."""


class SecretsLate(Exception):
    """The database took so long over the secrets that the body or the lease is too old for an attempt."""


class Session:
    """One lease on an endpoint, from its taking to its end."""

    def __init__(self, tools: Tools, cursor: Cursor, taken_s: float) -> None:
        self.lease = cursor.lease
        self._tools = tools
        self._cursor = cursor
        self._held_until_s = taken_s + LEASE_S
        self._is_lost = False
        self._woken = asyncio.Event()
        self._has_grown = False
        self._place: Place | None = None
        self.version = cursor.version
        """The version of the endpoint that was acted on."""
        self.is_changed = False
        """Whether the endpoint was changed since the session began."""

    def wake(self) -> None:
        """Lets the session look for new events: the merchant's log has grown."""
        self._has_grown = True
        self._woken.set()

    def show(self, place: Place) -> None:
        """Lets the session see what there is."""
        self._place = place
        self._woken.set()

    def renewed(self, at_s: float) -> None:
        """Notes that the lease was renewed at a monotonic time."""
        self._held_until_s = at_s + LEASE_S

    def lose(self) -> None:
        """Ends the session: another worker has the lease."""
        self._is_lost = True
        self._woken.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Delivers until there is nothing to do, the endpoint is changed, the lease is lost or `stop` is set.

        Return the lease then, also after a fault.
        """
        merchant_id, endpoint_id = self.lease.merchant_id, self.lease.endpoint_id
        endpoint, _ = await self._tools.ledger.journal.load(merchant_id, WEBHOOK_ENDPOINTS, endpoint_id)
        assert endpoint is not None, "a cursor belongs to an endpoint"
        if endpoint.is_deleted:
            await self._tools.store.skip(self.lease)
        elif endpoint.status is EndpointStatus.DISABLED:
            if not await self._alert(endpoint, stop):
                return  # the next worker does it
        elif not await self._deliver(endpoint, stop):
            return  # its log is being numbered, and nothing was done yet
        self.version = endpoint.version

    async def _alert(self, endpoint: WebhookEndpoint, stop: asyncio.Event) -> bool:
        """Writes to the merchant of an endpoint that was disabled. Returns False if `stop` ended it before."""
        writing = asyncio.create_task(alert(self._tools.ledger, self.lease.merchant_id, endpoint, self.version))
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait((writing, stopping), return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait((writing,), timeout=_STOP_S)
            if writing.done():
                writing.result()
            return writing.done()
        finally:
            writing.cancel()
            stopping.cancel()
            await asyncio.gather(writing, stopping, return_exceptions=True)

    async def _deliver(self, endpoint: WebhookEndpoint, stop: asyncio.Event) -> bool:
        """Delivers to an enabled endpoint. Returns False if its events have no numbers yet."""
        kinds = None if endpoint.terms.events is None else kinds_of(endpoint.terms.events)
        sequence, health = self._cursor.sequence, self._cursor.health
        if sequence is None or self._cursor.version != endpoint.version:
            sequence = await self._tools.store.begin(self._cursor, endpoint.from_version)
            if sequence is None:
                return False
            await self._tools.store.skip(self.lease, () if kinds is None else KIND_OF.keys() - kinds)
            # What the merchant has changed may be what was wrong: another address, or a receiver that works again.
            await self._tools.store.note_version(self.lease, endpoint.version)
            health = pacing.Health(last_success_at=health.last_success_at)
        delivering = _Delivering(self, self._tools, endpoint, kinds, sequence, health)
        with suppress(LeaseLost):
            await delivering.run(stop)
        return True

    @property
    def is_lost(self) -> bool:
        return self._is_lost

    def outlasts(self, seconds: float) -> bool:
        """Returns whether no other worker can have the endpoint for so long."""
        return not self._is_lost and time.monotonic() + seconds < self._held_until_s

    def take_growth(self) -> bool:
        """Returns whether the log has grown since the last call."""
        has_grown, self._has_grown = self._has_grown, False
        return has_grown

    def take_place(self) -> Place | None:
        """Returns what was shown since the last call."""
        place, self._place = self._place, None
        return place

    @property
    def woken(self) -> asyncio.Event:
        """Set when there may be something to do."""
        return self._woken


class _Delivering:
    """The deliveries to an enabled endpoint, as it was when the lease was taken."""

    def __init__(
        self,
        session: Session,
        tools: Tools,
        endpoint: WebhookEndpoint,
        kinds: frozenset[str] | None,
        sequence: int,
        health: pacing.Health,
    ) -> None:
        assert tools.ledger.webhooks is not None, "a worker has access to webhooks"
        self._session, self._lease, self._woken = session, session.lease, session.woken
        self._store, self._writer, self._source = tools.store, tools.writer, tools.source
        self._pages, self._rendered = tools.pages, tools.bodies
        self._room = tools.room
        self._ledger, self._clock, self._webhooks = tools.ledger, tools.ledger.clock, tools.ledger.webhooks
        self._endpoint, self._kinds = endpoint, kinds
        self._is_thin = endpoint.terms.payload is Payload.THIN
        self._health = health
        self._lines = Lines(endpoint.terms.ordering)
        self._window: deque[Delivery] = deque()  # the events behind the cursor, the recorded ones at its end left out
        self._read_to = self._written_to = sequence
        self._recorded_to: int | None = None  # the last event that a holder before has recorded
        self._has_waiting = True  # whether deliveries may wait in the database that are not here
        self._last_sequence = sequence
        self._has_grown = True  # as far as is known
        self._has_looked = False
        self._is_moving = self._has_due = False
        self._is_newer = False  # what follows is of a kind that a newer release has
        self._now = datetime.now(UTC)
        self._clock_s = self._wrote_s = -_REST_MAX_S  # long ago
        self._under_way: dict[asyncio.Task[Attempt], Delivery] = {}
        self._last_begun: datetime | None = None
        self._rendering: asyncio.Task[None] | None = None
        self._bodies: dict[Delivery, Body] = {}  # of deliveries that wait
        self._rendered_at_once = _RENDERED_FIRST
        self._unreadable: set[UUID] = set()
        self._gathered: dict[UUID, DeliveryRow] = {}
        self._gathered_s = 0.0  # since when
        self._being_written: dict[UUID, DeliveryRow] = {}
        self._writing: asyncio.Future[int | None] | None = None
        self._is_over = False
        self._disable: DisabledReason | None = None

    async def run(self, stop: asyncio.Event) -> None:
        """Delivers until there is nothing left to do. Raises LeaseLost."""
        try:
            try:
                await self._work(stop)
            except UNREADABLE:
                await self._finish(_TIMEOUT_S)
                raise
            await self._finish(_STOP_S if stop.is_set() else _TIMEOUT_S)
            if self._disable is not None and not self._session.is_changed:
                await self._disable_endpoint(self._disable)
        finally:
            await self._cancel()

    async def _disable_endpoint(self, reason: DisabledReason) -> None:
        """Disables the endpoint, whose outcomes are written. The next session writes to the merchant."""
        actor = Actor(merchant_id=self._lease.merchant_id, request_id="webhooks")
        seen = self._endpoint.version
        if await disable_endpoint(self._ledger, actor, self._endpoint.endpoint_id, reason, seen=seen):
            WEBHOOKS_DISABLED.labels(reason).inc()
            _log.warning(
                "webhook_endpoint_disabled",
                merchant_id=str(self._lease.merchant_id),
                endpoint_id=str(self._lease.endpoint_id),
                reason=reason.value,
            )
        self._session.is_changed = True

    async def _work(self, stop: asyncio.Event) -> None:
        """Delivers as long as there is something to do, and for a while after. Raises LeaseLost, one of UNREADABLE."""
        began_s = active_s = time.monotonic()
        while not stop.is_set() and not self._is_over:
            self._woken.clear()
            try:
                await self._step()
            except UNREADABLE:
                raise
            except Fault as fault:
                _log.warning("webhook_deliveries_wait", reason=type(fault).__name__)
                await asyncio.sleep(_AGAIN_S)
                continue
            now_s = time.monotonic()
            if self._is_busy:
                active_s = now_s
            elif self._is_paused or self._is_newer or now_s - active_s > _LINGER_S:
                return
            has_begun = self._last_begun is not None or not self._lines.is_ready
            if self._room.is_scarce and (active_s < now_s or (has_begun and now_s - began_s > _TURN_S)):
                return
            await self._rest()

    @property
    def _is_busy(self) -> bool:
        """Whether something is under way, or can be begun within a moment."""
        is_open = bool(self._under_way or self._rendering or self._writing or self._gathered)
        return is_open or (not self._is_paused and (self._lines.is_ready or self._has_more))

    @property
    def _has_more(self) -> bool:
        """Whether there are events that were not read."""
        return (self._has_grown or self._last_sequence > self._read_to) and not self._is_newer

    @property
    def _is_paused(self) -> bool:
        """Whether the endpoint fails, and is left alone for a while."""
        if self._under_way or self._writing or self._gathered:
            return False
        until = self._health.paused_until
        return until is not None and until - datetime.now(UTC) > _PAUSE_KEPT

    async def _step(self) -> None:
        """Takes in what has ended, looks for more, and begins what may begin. Raises LeaseLost, a Fault."""
        if self._session.is_lost:
            raise LeaseLost
        await self._read_clock()
        self._take_ended()
        self._take_rendered()
        self._take_written()
        self._lines.wake(self._now)
        if not self._is_paused:
            await self._look()
        self._write()  # before the attempts: the database writes while their messages are made
        self._begin_attempts()

    async def _read_clock(self) -> None:
        if time.monotonic() - self._clock_s > _CLOCK_S:
            self._clock_s = time.monotonic()
            await self._clock.refresh(self._lease.merchant_id)
        self._now = self._clock.now(self._lease.merchant_id)

    # What is to be delivered

    async def _look(self) -> None:
        """Reads events behind the cursor and deliveries that are due, if there may be any."""
        self._has_grown |= self._session.take_growth()
        place = self._session.take_place()
        if place is None and not self._has_looked:
            places = await self._store.places([self._lease], [self._now])
            if self._lease.holder not in places:
                raise LeaseLost
            place = places[self._lease.holder]
            if place is None:
                raise DatabaseUnavailable("the merchant's node is away")
        if place is not None:
            self._has_looked = True
            self._take_place(place)
        if self._has_due:
            self._has_due = False
            await self._read_due()
        if self._has_more and len(self._window) <= _AHEAD_MAX // 2:
            try:
                await self._read_ahead()
            except DatabaseUnavailable:
                raise
            except Fault as newer:  # a worker of a newer release reads it, once it has the lease
                self._is_newer = True
                _log.warning("webhook_deliveries_wait", reason=type(newer).__name__)

    def _take_place(self, place: Place) -> None:
        self._last_sequence = max(self._last_sequence, place.last_sequence)
        self._is_moving, self._has_due = place.is_moving, place.has_due
        if place.version != self._endpoint.version:
            self._end()

    async def _read_due(self) -> None:
        known = [*self._gathered, *self._being_written, *self._lines.ids]
        await self._read_waiting(await self._store.due_streams(self._lease, self._now, known, _DUE_AT_ONCE))

    async def _read_ahead(self) -> None:
        """Reads the next events of the feed. Those of the holder before that have a row are left out."""
        self._has_grown = False
        read = await self._pages.after(self._lease.merchant_id, self._read_to, _AHEAD_MAX // 2, self._kinds)
        # An event that follows a change is delivered by it. A page that others have read may be of before this version.
        if read.versions.get(self._lease.endpoint_id, 0) > self._endpoint.version:
            self._end()
            return
        page = read.page
        if self._recorded_to is None:
            self._recorded_to, self._has_waiting = await self._store.recorded_before(self._lease)
        doubtful = [event.sequence for event in page.events if event.sequence <= self._recorded_to]
        recorded = await self._store.recorded(self._lease, doubtful)
        fresh = [event for event in page.events if event.sequence not in recorded]
        if self._has_waiting:
            await self._read_waiting({event.stream_id for event in fresh})
        self._read_to = page.last_sequence
        self._has_grown |= page.has_more
        for event in fresh:
            delivery = Delivery(
                id=uuid7(),
                event_id=event.id,
                sequence=event.sequence,
                kind=event.kind.name,
                stream_id=event.stream_id,
                resource_id=event.resource_id,
                event=event,
            )
            self._window.append(delivery)
            self._lines.add(delivery, self._now)
            self._note_waiting(delivery)

    async def _read_waiting(self, streams: Sequence[UUID] | set[UUID]) -> None:
        """Reads the deliveries of streams that have not ended, without those that are here."""
        for delivery in await self._store.waiting(self._lease, streams):
            is_unwritten = delivery.id in self._gathered or delivery.id in self._being_written
            if not is_unwritten and delivery.id not in self._lines:
                self._lines.add(delivery, self._now)

    def _note_waiting(self, delivery: Delivery) -> None:
        """Records a new event that waits for an earlier one of its stream, so that the cursor can pass it."""
        wakes_at = self._lines.wakes_line_at(delivery.line)
        if wakes_at is not None and not delivery.is_recorded:
            delivery.noted_at = wakes_at
            self._gather(delivery)

    # Attempts

    def _begin_attempts(self) -> None:
        timeout_s = _TIMEOUT_MOVING_S if self._is_moving else _TIMEOUT_S
        is_missing = False
        while self._has_room and not self._is_over and self._session.outlasts(timeout_s + 1):
            real_now = datetime.now(UTC)
            if pacing.next_begin(self._health, self._last_begun, real_now) > real_now:
                return
            delivery = self._lines.take()
            if delivery is None:
                return
            if self._unreadable and delivery.id in self._unreadable:
                self._postpone(delivery)
                continue
            body = self._bodies.pop(delivery, None)
            if body is None or not body.is_fresh:
                self._lines.give_back(delivery)
                is_missing = True
                break
            self._begin(delivery, body, timeout_s)
            self._last_begun = real_now
        # More are rendered while some are left, so that the attempts do not wait for it.
        is_low = is_missing or len(self._bodies) < self._rendered_at_once * 3 // 8
        if is_low and self._rendering is None and self._lines.is_ready:
            self._render()

    @property
    def _has_room(self) -> bool:
        unwritten = len(self._under_way) + len(self._gathered) + len(self._being_written)
        at_once = pacing.at_once(self._health)
        return len(self._under_way) < at_once and unwritten < _UNWRITTEN_MAX

    def _begin(self, delivery: Delivery, body: Body, timeout_s: float) -> None:
        delivery.body = body.content
        task = asyncio.create_task(self._attempt(delivery, body, timeout_s), name="webhook-attempt")
        self._under_way[task] = delivery
        task.add_done_callback(lambda _: self._woken.set())

    async def _attempt(self, delivery: Delivery, body: Body, timeout_s: float) -> Attempt:
        merchant_id = self._lease.merchant_id
        ids = self._endpoint.secrets_at(datetime.now(UTC))
        opened = [await self._webhooks.secrets.open(merchant_id, each) for each in ids]
        secrets = [each for each in opened if each is not None]
        if not secrets:
            raise SecretDestroyed
        if not (body.is_fresh and self._session.outlasts(timeout_s + LATE_MAX_S)):
            raise SecretsLate
        return await self._webhooks.client.post(
            self._endpoint.terms.url, str(delivery.event_id), body.content, secrets, timeout_s=timeout_s
        )

    def _take_ended(self) -> None:
        for task in [task for task in self._under_way if task.done()]:
            delivery = self._under_way.pop(task)
            try:
                attempt = task.result()
            except Exception as fault:  # nothing was sent
                delivery.body = None  # so that it is rendered again
                self._lines.give_back(delivery)
                if isinstance(fault, SecretsLate):
                    continue
                if not isinstance(fault, SecretDestroyed):
                    raise
                self._is_over = True
                _log.warning("webhook_deliveries_wait", reason=type(fault).__name__)
                continue
            self._note(delivery, attempt)

    def _note(self, delivery: Delivery, attempt: Attempt) -> None:
        """Notes the outcome of an attempt, to be written."""
        _COUNTERS[attempt.outcome].inc()
        body = None if delivery.attempts or attempt.is_delivered else delivery.body
        note_attempt(delivery, attempt, self._now, random.uniform(-1, 1))
        self._health = pacing.after_attempt(
            self._health, is_delivered=attempt.is_delivered, now=self._now, real_now=datetime.now(UTC)
        )
        if attempt.response_status == HTTPStatus.GONE:
            self._disable = DisabledReason.GONE
        elif pacing.is_failing_for_days(self._health, self._now):
            self._disable = DisabledReason.FAILING
        self._is_over |= self._disable is not None
        delivery.noted_at = delivery.due_at
        delivery.body = None
        self._gather(delivery, body)
        if delivery.status is not DeliveryStatus.PENDING:
            self._lines.end(delivery, self._now)
            return
        self._lines.wait(delivery, self._now)
        for each in self._lines.of(delivery.line):
            self._note_waiting(each)
        if len(self._lines) > _KEPT_MAX:
            self._lines.drop_asleep(self._gathered.keys() | self._being_written.keys())
            self._has_waiting = True

    def _postpone(self, delivery: Delivery) -> None:
        """Lets a delivery wait whose event cannot be read now: a key is missing, or it is of a newer release."""
        self._unreadable.discard(delivery.id)
        delivery.due_at = delivery.noted_at = self._now + _UNREADABLE_AGAIN
        delivery.first_failed_at = delivery.first_failed_at or self._now
        self._gather(delivery)
        self._lines.wait(delivery, self._now)
        for each in self._lines.of(delivery.line):
            self._note_waiting(each)

    # Bodies

    def _render(self) -> None:
        """Begins to render the deliveries that may go next, and those that follow in their streams: they have the same
        states.
        """
        fresh = {delivery: body for delivery, body in self._bodies.items() if body.is_fresh}
        is_slow = len(self._bodies) - len(fresh) > self._rendered_at_once // 4
        at_once = self._rendered_at_once // 2 if is_slow else self._rendered_at_once * 2
        self._rendered_at_once = min(max(at_once, pacing.AT_ONCE), _RENDERED_MAX)
        self._bodies = fresh
        wanted: dict[Delivery, None] = {}  # in their order
        ready = self._lines.first_ready(max(self._rendered_at_once // 4, pacing.at_once(self._health)))
        for delivery in (*ready, *(each for each in self._window if not each.is_recorded)):
            if len(wanted) == self._rendered_at_once:
                break
            if delivery.body is None and delivery not in fresh and delivery.id not in self._unreadable:
                wanted[delivery] = None
        if wanted:
            self._rendering = asyncio.create_task(self._render_all(list(wanted)), name="webhook-bodies")
            self._rendering.add_done_callback(lambda _: self._woken.set())

    def _take_rendered(self) -> None:
        if self._rendering is not None and self._rendering.done():
            rendering, self._rendering = self._rendering, None
            rendering.result()

    async def _render_all(self, wanted: Sequence[Delivery]) -> None:
        """Gives deliveries their bodies: the stored bytes of those that were attempted before, else new ones."""
        read_s = time.monotonic()
        stored = await self._store.bodies(self._lease, [each.id for each in wanted if each.attempts or each.is_repeat])
        until_s = fresh_until(read_s)
        self._bodies.update({each: Body(stored[each.id], until_s) for each in wanted if each.id in stored})
        if stored:
            self._woken.set()  # before the others are rendered, which may take as long
        others = [each for each in wanted if each.id not in stored]
        nameless = [each.event_id for each in others if each.event is None]
        events = await self._source.named(self._lease.merchant_id, nameless) if nameless else {}
        for each in list(others):
            if each.event is None and each.event_id not in events:  # of a kind that a newer release has
                self._note_unreadable(each, "UnknownKind")
                others.remove(each)
                continue
            each.event = each.event or events[each.event_id]
            each.resource_id = each.event.resource_id
        try:
            await self._render_new(others)
        except UNREADABLE:
            for each in others:  # each by itself: another one's may be readable
                await self._render_alone(each)

    async def _render_alone(self, delivery: Delivery) -> None:
        try:
            await self._render_new([delivery])
        except UNREADABLE as fault:
            self._note_unreadable(delivery, type(fault).__name__)

    def _note_unreadable(self, delivery: Delivery, reason: str) -> None:
        _log.error("webhook_event_unreadable", event_id=str(delivery.event_id), reason=reason)
        self._unreadable.add(delivery.id)

    async def _render_new(self, deliveries: Sequence[Delivery]) -> None:
        if deliveries:
            events = [each.event for each in deliveries]
            bodies = await self._rendered.of(self._lease.merchant_id, events, is_thin=self._is_thin)
            found = zip(deliveries, bodies, strict=True)
            self._bodies.update((each, body) for each, body in found if body is not None)

    # Outcomes

    def _gather(self, delivery: Delivery, body: bytes | None = None) -> None:
        """Puts a delivery among what is written next. `body`: the bytes of an event whose first attempt failed."""
        if not self._gathered:
            self._gathered_s = time.monotonic()
        before = self._gathered.get(delivery.id)
        is_pending = delivery.status is DeliveryStatus.PENDING
        self._gathered[delivery.id] = DeliveryRow(
            id=delivery.id,
            event_id=delivery.event_id,
            sequence=delivery.sequence,
            kind=delivery.kind,
            stream_id=delivery.stream_id,
            resource_id=delivery.resource_id,
            is_repeat=delivery.is_repeat,
            status=delivery.status,
            next_attempt_at=delivery.noted_at if is_pending else None,
            first_failed_at=delivery.first_failed_at,
            attempts=delivery.attempts,
            body=body if before is None else body or before.body,
            has_answers=any(each.response_body for each in delivery.attempts),
            is_new=not delivery.is_recorded if before is None else before.is_new,
        )
        delivery.is_recorded = True

    def _write(self, *, at_once: bool = False) -> None:
        """Hands in what is gathered, if nothing of this session is being written, and more is not about to end."""
        if self._writing is not None or (self._gathers_for_s > 0 and not at_once):
            return
        while self._window and self._window[0].is_recorded:
            self._window.popleft()
        sequence = self._window[0].sequence - 1 if self._window else self._read_to
        is_late = sequence > self._written_to and (at_once or time.monotonic() - self._wrote_s > _WRITE_CURSOR_S)
        if not self._gathered and not is_late:
            return
        self._wrote_s = time.monotonic()
        self._being_written, self._gathered = self._gathered, {}
        rows = list(self._being_written.values())
        self._writing = self._writer.write(Outcomes(self._lease, sequence, self._health, rows))
        self._written_to = sequence
        self._writing.add_done_callback(lambda _: self._woken.set())

    @property
    def _gathers_for_s(self) -> float:
        """For how long what has ended waits for attempts that are under way, to be written with them."""
        if not self._gathered or not self._under_way or len(self._gathered) >= _WRITTEN_TOGETHER:
            return 0.0
        return self._gathered_s + _WRITTEN_AFTER_S - time.monotonic()

    def _take_written(self) -> None:
        if self._writing is None or not self._writing.done():
            return
        version, self._writing = self._writing.result(), None
        self._being_written = {}
        if version is None:
            raise LeaseLost
        if version != self._endpoint.version:
            self._end()

    def _end(self) -> None:
        """Ends the session soon: the next one has the endpoint as it is now."""
        self._is_over = self._session.is_changed = True

    async def _rest(self) -> None:
        """Waits until there may be something to do."""
        rest_s = _REST_MAX_S
        wakes_at = self._lines.wakes_at
        if wakes_at is not None:
            rest_s = min(rest_s, max(0.0, (wakes_at - self._now).total_seconds()))
        if self._writing is None and self._gathered:
            rest_s = min(rest_s, self._gathers_for_s)
        if self._lines.is_ready and self._has_room:
            real_now = datetime.now(UTC)
            begin_at = pacing.next_begin(self._health, self._last_begun, real_now)
            if begin_at > real_now:
                rest_s = min(rest_s, (begin_at - real_now).total_seconds())
        waking = asyncio.get_running_loop().call_later(max(rest_s, 0.001), self._woken.set)
        try:
            await self._woken.wait()
        finally:
            waking.cancel()

    async def _finish(self, within_s: float) -> None:
        """Lets what is under way end, and writes what is unwritten. Raises LeaseLost."""
        self._is_over = True
        until_s = time.monotonic() + within_s
        while (self._under_way or self._writing or self._gathered) and time.monotonic() < until_s:
            self._woken.clear()
            with suppress(*UNREADABLE, Fault):  # of what was not sent
                await self._read_clock()
                self._take_ended()
            self._take_written()
            self._write()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), 0.1)
        for delivery in self._lines.asleep():  # of those that were never attempted, the row may name an earlier time
            wakes_at = self._lines.wakes_line_at(delivery.line)
            if delivery.due_at is None and delivery.is_recorded and delivery.noted_at != wakes_at:
                delivery.noted_at = wakes_at
                self._gather(delivery)
        self._write(at_once=True)
        if self._writing is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(self._writing), within_s)
            self._take_written()

    async def _cancel(self) -> None:
        """Ends what is still under way: it is attempted again."""
        tasks: list[asyncio.Task[Attempt] | asyncio.Task[None]] = list(self._under_way)
        if self._rendering is not None:
            tasks.append(self._rendering)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.gather(*tasks, return_exceptions=True)
