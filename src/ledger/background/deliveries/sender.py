"""Gives the endpoints that have something to send to sessions, as many at once as this worker takes.

A notification names merchants whose endpoints have something to send. Every two seconds the endpoints are looked at for
which time passes: a delivery may be due. Idle ones are looked at three times a minute, so that a lost notification
delays an event and loses none.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import partial
from typing import Final
from uuid import UUID

import structlog

from ledger.background.deliveries.event_source import EventSource
from ledger.background.deliveries.outcomes import OutcomeWriter
from ledger.background.deliveries.pages import FeedPages
from ledger.background.deliveries.rendered import RenderedBodies
from ledger.background.deliveries.retention import Erasures, delete_old
from ledger.background.deliveries.session import Room, Session, Tools
from ledger.background.deliveries.store import Cursor, DeliveryStore
from ledger.background.periodic import pause, run_periodically
from ledger.operations.context.ledger import Ledger
from ledger.postgres.faults import DatabaseUnavailable, Fault
from ledger.telemetry.logs import stack_locations

_log = structlog.get_logger()

_LOOK_EVERYWHERE_S: Final = 20.0
_LOOK_TIMED_S: Final = 2.0
_LOOK_AWAY_S: Final = 2.0
"""The pause between two looks at all endpoints while a node of Citus does not answer."""
_REST_S: Final = 0.02
_AGAIN_S: Final = 1.0
_RENEW_S: Final = 5.0
_LOOK_S: Final = 1.0
_SESSIONS_MAX: Final = 1_000
_SCARCE_REST_S: Final = 0.25
"""The pause between two looks at all endpoints while there is no room for more sessions."""
_AFTER_FAILURE_S: Final = 60.0
_FORGET_S: Final = 5.0
_DELETE_S: Final = 60.0


class DeliverySender:
    """One worker's share of the deliveries. `sessions` are those that run, by endpoint.

    Setting `stop` ends `run` after the attempts that are under way.
    """

    def __init__(self, url: str, ledger: Ledger, source: EventSource) -> None:
        self.store, self._writer = DeliveryStore(url), OutcomeWriter(url)
        self.bodies = RenderedBodies(source)
        self._clock = ledger.clock
        self._pages = FeedPages(source, self.store)
        self._room = Room()
        self._tools = Tools(ledger, self.store, self._writer, source, self._pages, self.bodies, self._room)
        self.sessions: dict[UUID, Session] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._failed: dict[UUID, tuple[float, UUID]] = {}  # until which time endpoints are left alone, their merchants
        self._unreturned: list[Session] = []  # which have ended, and whose leases could not be returned
        self._grown: set[UUID] = set()
        self._everywhere_at = self._timed_at = 0.0
        self._wake = asyncio.Event()

    def wake(self, merchants: Collection[UUID] | None) -> None:
        """Lets these merchants' endpoints be looked at now, or all: there are new numbers in their feeds."""
        self._pages.forget(merchants)
        if merchants is None:
            self._everywhere_at = 0.0
        else:
            self._grown.update(merchants)
        for session in self.sessions.values():
            if merchants is None or session.lease.merchant_id in merchants:
                session.wake()
        self._wake.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Delivers until `stop` is set."""
        writing = asyncio.create_task(self._writer.run(), name="webhook-outcomes")
        beside = [
            asyncio.create_task(run_periodically(work, stop, pause_s=pause_s, log_waiting=_log_waiting))
            for work, pause_s in (
                (self._renew, _RENEW_S),
                (self._look, _LOOK_S),
                (Erasures(self.store).forget, _FORGET_S),
                (partial(delete_old, self.store.client), _DELETE_S),
            )
        ]
        claiming = asyncio.create_task(self._claim_all(stop), name="webhook-claims")
        try:
            working = asyncio.gather(claiming, *beside)
            await asyncio.wait((working, writing), return_when=asyncio.FIRST_COMPLETED)
            if writing.done():  # which it never is while all is well: without it, nothing would go on
                working.cancel()
                writing.result()
            await working
            for session in self.sessions.values():
                session.wake()
            if self._tasks:
                await asyncio.wait(self._tasks)
        finally:
            for task in (writing, claiming, *beside, *self._tasks):
                task.cancel()
            await asyncio.gather(writing, claiming, *beside, *self._tasks, return_exceptions=True)
            await self._writer.stop()
            await self.store.stop()

    async def _claim_all(self, stop: asyncio.Event) -> None:
        stopping = asyncio.create_task(stop.wait())
        stopping.add_done_callback(lambda _: self._wake.set())
        try:
            while not stop.is_set():
                self._wake.clear()
                try:
                    await self._claim(stop)
                except Fault as fault:
                    _log_waiting(type(fault).__name__)
                    self._everywhere_at = 0.0  # whose logs had grown is forgotten
                    await pause(stop, _AGAIN_S)
                await pause(stop, _SCARCE_REST_S if self._room.is_scarce else _REST_S)
                with suppress(TimeoutError):
                    look_at = min(self._everywhere_at, self._timed_at)
                    await asyncio.wait_for(self._wake.wait(), max(0.0, look_at - time.monotonic()))
        finally:
            stopping.cancel()

    async def _claim(self, stop: asyncio.Event) -> None:
        """Begins sessions for endpoints with something to do: of the merchants whose logs have grown, and of those for
        which time passes, or of all.
        """
        while self._unreturned:
            session = self._unreturned[-1]
            await self.store.release(session.lease, session.version)
            self._unreturned.pop()
        now_s = time.monotonic()
        again = {endpoint: merchant for endpoint, (until, merchant) in self._failed.items() if until <= now_s}
        for endpoint_id in again:
            del self._failed[endpoint_id]
        grown, self._grown = self._grown.union(again.values()), set()
        merchants: Collection[UUID] | None = grown
        is_timed = now_s >= self._timed_at
        if now_s >= self._everywhere_at or self._room.is_scarce:
            merchants, self._everywhere_at, is_timed = None, now_s + _LOOK_EVERYWHERE_S, False
        if is_timed or merchants is None:
            self._timed_at = now_s + _LOOK_TIMED_S
        room = _SESSIONS_MAX - len(self.sessions)
        if not room:
            self._room.is_scarce = True
            return
        claimed = 0
        if merchants is None or merchants:
            found = await self.store.claim(room, {*self._failed, *self.sessions}, merchants)
            claimed += self._begin_all(found.cursors, now_s, stop)
            if not found.is_whole:  # whose logs had grown is forgotten
                self._everywhere_at = min(self._everywhere_at, now_s + _LOOK_AWAY_S)
        if is_timed and claimed < room:
            cursors = await self.store.claim_timed(room - claimed, {*self._failed, *self.sessions})
            claimed += self._begin_all(cursors, now_s, stop)
        if merchants is None or claimed == room:
            self._room.is_scarce = claimed == room

    def _begin_all(self, cursors: Sequence[Cursor], taken_s: float, stop: asyncio.Event) -> int:
        for cursor in cursors:
            self._begin(cursor, taken_s, stop)
        return len(cursors)

    def _begin(self, cursor: Cursor, taken_s: float, stop: asyncio.Event) -> None:
        session = Session(self._tools, cursor, taken_s)
        self.sessions[cursor.lease.endpoint_id] = session
        task = asyncio.create_task(self._run(session, stop), name="webhook-session")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, session: Session, stop: asyncio.Event) -> None:
        lease = session.lease
        try:
            await session.run(stop)
        except DatabaseUnavailable as fault:
            self._failed[lease.endpoint_id] = time.monotonic() + _AGAIN_S, lease.merchant_id
            _log_waiting(type(fault).__name__)
        except Exception as fault:  # noqa: BLE001 - an endpoint that fails must not delay the others
            self._failed[lease.endpoint_id] = time.monotonic() + _AFTER_FAILURE_S, lease.merchant_id
            _log.error(
                "webhook_deliveries_failed",
                endpoint_id=str(lease.endpoint_id),
                reason=type(fault).__name__,
                at=stack_locations(fault),
            )
        finally:
            try:
                await self.store.release(lease, session.version)
            except Fault:
                self._unreturned.append(session)
            del self.sessions[lease.endpoint_id]
            if session.is_changed or session.take_growth():  # since the session looked last
                self._grown.add(lease.merchant_id)
                self._wake.set()
            if self._room.is_scarce:
                self._wake.set()

    async def _renew(self) -> None:
        """Renews the leases of all sessions. Raises a Fault."""
        sessions = list(self.sessions.values())
        if not sessions:
            return
        began_s = time.monotonic()
        held = await self.store.renew([session.lease for session in sessions])
        for session in sessions:
            if session.lease.holder in held:
                session.renewed(began_s)
            else:
                session.lose()

    async def _look(self) -> None:
        """Shows all sessions what there is, and ends those whose lease another worker has. Raises a Fault."""
        sessions = list(self.sessions.values())
        if not sessions:
            return
        merchants = [session.lease.merchant_id for session in sessions]
        await asyncio.gather(*[self._clock.refresh(merchant_id) for merchant_id in set(merchants)])
        times = [self._clock.now(merchant_id) for merchant_id in merchants]
        places = await self.store.places([session.lease for session in sessions], times)
        for session in sessions:
            if session.lease.holder not in places:
                session.lose()
            elif (place := places[session.lease.holder]) is not None:
                session.show(place)


def _log_waiting(reason: str) -> None:
    _log.warning("webhook_deliveries_wait", reason=reason)
