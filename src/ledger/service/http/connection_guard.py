"""The connections of one API process: how long they may take, how many there may be, how much they may hold together.

Do nothing here per request but note the time: one sweep a second looks at all connections. A timer for each request
would cost more than finding its route.

uvicorn has no time-out for a request that arrives slowly, and its limit on concurrency answers 503 to all clients as
soon as one opens enough connections. `GuardedConnection` adds these to uvicorn's own protocol, and `BoundedProtocol`
what one connection may hold. tests/service/test_uvicorn.py lists what it relies on. docs/explanation/connections.md
lists what it leaves to a proxy.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from ledger.service.http.bounded_protocol import BoundedProtocol
from ledger.service.http.http_messages import error_response_bytes
from ledger.settings import Settings, errors_url
from ledger.telemetry.metrics import CONNECTIONS, CONNECTIONS_ACCEPTED, CONNECTIONS_ENDED

BODY_GRACE_S: Final = 5.0
"""How long the rate of a body is not judged: the first packets of an honest client may be late."""

LINGER_S: Final = 2.0
"""How long a refused client may go on sending: a connection that is closed on unread bytes loses its last answer."""

DRAIN_IDLE_S: Final = 1.0
"""How long the process, while it ends, waits for a client: for a request, for the rest of one, or until it reads."""

_DRAIN_LINGER_S: Final = 0.5

HELD_BYTES_MAX: Final = 64 << 20
"""How much all connections of a process may hold together: requests that arrive or wait, answers that are not read."""

_RECEIVED_UNCHECKED_MAX: Final = 1 << 20
"""After so many bytes from all clients, what they hold is counted: often enough, and at no cost for a request."""

_SWEEP_S: Final = 1.0
_DRAIN_SWEEP_S: Final = 0.1
_ROOM_SHARE: Final = 32
"""One in so many connections is closed when there are too many: finding a single one each time would cost more."""


class ConnectionGuard:
    """All connections of a process. `connection` is the protocol factory that uvicorn is configured with.

    `now` is the monotonic clock as the last sweep read it: precise enough for time-outs of seconds, and free to read.
    `closed` counts, by reason, the connections that the process has closed.
    """

    def __init__(self, settings: Settings, connections_max: int) -> None:
        self.settings = settings
        self.now = time.monotonic()
        self.accepted = 0
        self.closed: Counter[str] = Counter()
        self.connections: set[GuardedConnection] = set()
        self.is_draining = False
        self._connections_max = connections_max
        self._received = 0  # bytes since what is held was counted
        self._timer: asyncio.TimerHandle | None = None
        CONNECTIONS.set(0)

    def connection(self, **parts: Any) -> GuardedConnection:
        """Returns the protocol of a connection that was just accepted. `parts` are uvicorn's."""
        return GuardedConnection(self, **parts)

    def start_sweeping(self) -> None:
        """Sweeps now and then regularly, in the running event loop."""
        self.now = time.monotonic()
        young_s = _DRAIN_LINGER_S if self.is_draining else DRAIN_IDLE_S
        for connection in [each for each in self.connections if each.since + young_s <= self.now]:
            connection.sweep(self.now)
        self._limit_memory()
        pause = _DRAIN_SWEEP_S if self.is_draining else _SWEEP_S
        self._timer = asyncio.get_running_loop().call_later(pause, self.start_sweeping)

    def stop_sweeping(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def drain(self) -> None:
        """Makes every answer from now on the last of its connection, and closes idle connections soon."""
        self.is_draining = True
        self.stop_sweeping()
        self.start_sweeping()

    def count(self, reason: str) -> None:
        """Counts a connection that the process closes."""
        self.closed[reason] += 1
        CONNECTIONS_ENDED.labels(reason).inc()

    def add(self, newcomer: GuardedConnection) -> None:
        """Adds a connection; where there are too many, closes those first that have been idle the longest."""
        self.accepted += 1
        CONNECTIONS_ACCEPTED.inc()
        self.connections.add(newcomer)
        if len(self.connections) > self._connections_max:
            idle = [each for each in self.connections if each.awaits_client and each is not newcomer]
            idle.sort(key=GuardedConnection.eviction_key)
            for victim in idle[: 1 + self._connections_max // _ROOM_SHARE] or [newcomer]:
                victim.abort("crowded")
        CONNECTIONS.set(len(self.connections))

    def count_received(self, size: int) -> None:
        """Counts bytes that a client sent, and from time to time what all clients hold."""
        self._received += size
        if self._received > _RECEIVED_UNCHECKED_MAX:
            self._limit_memory()

    def _limit_memory(self) -> None:
        """Closes the connections that hold the most, until all others hold no more than they may together."""
        self._received = 0
        held = {each: each.held for each in self.connections}
        total = sum(held.values())
        if total > HELD_BYTES_MAX:
            for connection in sorted(held, key=held.__getitem__, reverse=True):
                connection.abort("memory")
                total -= held[connection]
                if total <= HELD_BYTES_MAX * 3 // 4:  # so that the next is not closed at once
                    break

    def remove(self, connection: GuardedConnection) -> None:
        self.connections.discard(connection)
        CONNECTIONS.set(len(self.connections))


class GuardedConnection(BoundedProtocol):
    """A bounded connection with time-outs.

    `since` is when its present phase began: the connection, and by the guard's clock a request that arrives or an
    answer that was given.
    """

    def __init__(self, guard: ConnectionGuard, **parts: Any) -> None:
        super().__init__(**parts)
        self.since = time.monotonic()  # the guard's clock does not move while the process is busy
        self._guard = guard
        self._refusal: int | None = None  # the status of the last request in the pipeline, where that is broken
        self._taken = 0  # bytes of answers that had left at the last sweep

    # ---------------------------------------------------------------- what uvicorn and the parser call

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._guard.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._guard.remove(self)
        if self._current is not None:  # uvicorn marks the request that came last, which may wait behind this one
            self._current.disconnected = True
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._guard.count_received(len(data))

    def eof_received(self) -> bool:  # type: ignore[override]  # asyncio asks for it, uvicorn answers None
        """Returns True, which keeps the connection open, where a request that arrived whole has no answer yet."""
        if self.cycle is None or self.cycle.response_complete:
            return False
        if not self._arriving or self._awaits_head:
            self._stop_reading()
        elif self.pipeline:  # the request that was cut off waits behind others
            self.refuse(400, "malformed")
        else:
            return False
        return True

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.since = self._guard.now

    def on_response_complete(self) -> None:
        """Does what uvicorn does, without its timer for idle connections: the sweep closes them."""
        self.transport.flush()
        self.server_state.total_requests += 1
        if not self._arriving:
            self.since = self._guard.now
        if self.transport.is_closing():
            return
        if waiting := self.next_waiting():
            cycle, app = waiting
            if self._refusal is None or self.pipeline:
                self._start_asgi_task(cycle, app)
            else:
                self._answer_and_close(self._refusal)
        elif self._arriving and self.expect_100_continue:
            self._close_write_side()  # the body may come or not, so the next bytes may be anything
        self._parse_rest()
        self.flow.resume_reading()

    def shutdown(self) -> None:
        """Lets the answer that is being made be the last, and one to a request that arrives within the next second."""
        self.since = self._guard.now
        if self.cycle is not None:
            self.cycle.keep_alive = False

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        if self._guard.is_draining:
            cycle.keep_alive = False
        super()._start_asgi_task(cycle, app)

    # ---------------------------------------------------------------- what the guard asks and decides

    @property
    def awaits_client(self) -> bool:
        """Whether only the client can make it go on."""
        return self._arriving or self.cycle is None or self.cycle.response_complete

    def eviction_key(self) -> tuple[bool, float]:
        """Sorts connections: those that never got an answer first, and among equals the one that is idle the
        longest.
        """
        return self.cycle is not None and self.cycle.response_complete, self.since

    def sweep(self, now: float) -> None:
        """Closes the connection where the client's time is over. Called at every sweep, but not in its first second."""
        settings, elapsed = self._guard.settings, now - self.since
        if self.transport.get_write_buffer_size():
            taken = self.transport.taken  # what waits may be as much as before, and yet be something else
            if taken > self._taken:
                self.since = now
            elif elapsed > (DRAIN_IDLE_S if self._guard.is_draining else settings.body_timeout_s):
                self.abort("unread")
            self._taken = taken
        elif self.transport.is_closing() or (self._stopped_reading and self.awaits_client):
            if elapsed > (_DRAIN_LINGER_S if self._guard.is_draining else LINGER_S):
                self.transport.abort()
        elif self._arriving:
            self._sweep_arriving(elapsed, now)
        elif self.awaits_client:
            quiet_s = settings.head_timeout_s if self.cycle is None else settings.idle_timeout_s
            if elapsed > (DRAIN_IDLE_S if self._guard.is_draining else quiet_s):
                self._guard.count("idle")
                self.transport.close()

    def _sweep_arriving(self, elapsed: float, now: float) -> None:
        settings = self._guard.settings
        if self.flow.read_paused:
            self.since = now  # this process does not read at the moment: the client is not slow
        elif self._guard.is_draining:
            if elapsed > DRAIN_IDLE_S:
                self.refuse(408, "head_timeout" if self._awaits_head else "body_timeout")
        elif self._awaits_head:
            if elapsed > settings.head_timeout_s:
                self.refuse(408, "head_timeout")
        elif elapsed > settings.body_timeout_s or self.size < settings.body_rate_min * (elapsed - BODY_GRACE_S):
            self.refuse(408, "body_timeout")

    def refuse(self, status: int, reason: str) -> None:
        """Answers the request that is arriving with an error and closes the connection, after the answers to earlier
        ones.
        """
        self._guard.count(reason)
        cycle = self.cycle
        if cycle is not None and cycle.response_complete and self._arriving and not self._awaits_head:
            self._close_write_side()  # it has its answer already
        elif cycle is None or cycle.response_complete:
            self._answer_and_close(status)
        elif self._awaits_head or not self._arriving:
            self._stop_reading()
        elif self.pipeline:  # the request that arrives is the last in it
            self._stop_reading()
            self._refusal = status
        else:
            cycle.disconnected = True
            cycle.message_event.set()
            if cycle.response_started:
                self._close_write_side()
            else:
                self._answer_and_close(status)

    def abort(self, reason: str) -> None:
        """Closes at once, whatever is on its way."""
        self._guard.count(reason)
        self._guard.remove(self)
        self._discard()
        self.transport.abort()

    def _answer_and_close(self, status: int) -> None:
        self.cycle = None
        self.transport.write(
            error_response_bytes(status, self.server_state.default_headers, errors_url(self._guard.settings))
        )
        self._close_write_side()

    def _close_write_side(self) -> None:
        """Ends what is sent. The client may send on for a while; the sweep closes a connection that it leaves open."""
        self._ignore_rest()
        self.since = self._guard.now
        self.flow.resume_reading()
        if not self.transport.is_closing():
            self.transport.write_eof()
