"""The connections of one API process: how long they may take, how much they may send, how many there may be.

The rule a stranger would break: nothing here happens per request. A connection notes what it is at in a few attributes,
and one sweep a second looks at all of them; a timer for each request would cost more than finding its route.

uvicorn has no deadline for a request that arrives slowly and no bound on what its parser holds, and its limit on
concurrency answers everybody with 503 as soon as somebody opens enough connections. `Connection` fills these gaps over
uvicorn's own protocol and overrides as little of it as that takes.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import httptools
from msgspec import Struct
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from ledger.service.buffered_transport import BufferedTransport
from ledger.service.protocol_errors import HEAD_BYTES_MAX, error_app, error_response_bytes
from ledger.telemetry.metrics import metric_sample
from ledger.telemetry.shared_metrics import MetricSample

BODY_GRACE_S: Final = 5.0
"""Before a body's rate is judged: the first packets of an honest client may be late."""

LINGER_S: Final = 2.0
"""How long a refused client may go on sending: a connection that is closed on unread bytes takes its last answer along."""

DRAIN_IDLE_S: Final = 1.0
"""How long an idle connection is kept open at the end: a request may be on its way in it."""

_SWEEP_S: Final = 1.0
_DRAIN_SWEEP_S: Final = 0.1
_ROOM_SHARE: Final = 32
"""One in so many connections is closed when there is no room left: looking for a single one each time would cost more."""


class ConnectionLimits(Struct, frozen=True, kw_only=True):
    """What a client may ask of a connection: seconds, bytes a second, connections per process."""

    head_s: float = 10.0
    body_s: float = 20.0
    body_rate: int = 500
    idle_s: float = 75.0
    connections_max: int = 2048


class ConnectionGuard:
    """All connections of a process. `connection` is the protocol factory that uvicorn is configured with.

    `now` is the monotonic clock as the last sweep read it: precise enough for deadlines of seconds, and free to read.
    `closed` counts the connections that were not left to their clients, by reason.
    """

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self.now = time.monotonic()
        self.accepted = 0
        self.closed: Counter[str] = Counter()
        self.connections: set[GuardedConnection] = set()
        self.is_draining = False
        self._timer: asyncio.TimerHandle | None = None

    def connection(self, **parts: Any) -> GuardedConnection:
        """A connection that was just accepted. `parts` are uvicorn's."""
        return GuardedConnection(self, **parts)

    def start_sweeping(self) -> None:
        """Begin to sweep, in the running event loop."""
        self.now = time.monotonic()
        for connection in [each for each in self.connections if each.since + DRAIN_IDLE_S <= self.now]:
            connection.sweep(self.now)
        pause = _DRAIN_SWEEP_S if self.is_draining else _SWEEP_S
        self._timer = asyncio.get_running_loop().call_later(pause, self.start_sweeping)

    def stop_sweeping(self) -> None:
        """Sweep no more."""
        if self._timer is not None:
            self._timer.cancel()

    def drain(self) -> None:
        """Every answer from now on is the last of its connection, and what stays idle is closed soon."""
        self.is_draining = True
        self.stop_sweeping()
        self.start_sweeping()
        for connection in self.connections:
            connection.drain()

    def admit(self, newcomer: GuardedConnection) -> None:
        """Take in a connection; where there is no room, close those first that have been of no use for the longest."""
        self.accepted += 1
        self.connections.add(newcomer)
        if self.is_draining:
            newcomer.drain()
        if len(self.connections) > self.limits.connections_max:
            waiting = [each for each in self.connections if each.is_waiting and each is not newcomer]
            waiting.sort(key=GuardedConnection.eviction_key)
            for victim in waiting[: 1 + self.limits.connections_max // _ROOM_SHARE] or [newcomer]:
                victim.abort("crowded")


class GuardedConnection(HttpToolsProtocol):
    """uvicorn's connection, watched.

    `since` is when what it is at began: the connection itself, and by the guard's clock a request that arrives or an answer
    that was given. `size` counts the bytes received since then.
    """

    transport: BufferedTransport
    cycle: RequestResponseCycle | None  # type: ignore[assignment]  # None until a request's headers are there

    def __init__(self, guard: ConnectionGuard, **parts: Any) -> None:
        super().__init__(**parts)
        self.since = time.monotonic()  # the guard's clock stands still while the process is busy: nobody has waited yet
        self.size = 0
        self._guard = guard
        self._arriving = False  # a request has begun and not ended
        self._current: RequestResponseCycle | None = None  # the request that is answered now
        self._stopped_reading = False  # what else arrives is not read any more
        self._taken = 0  # bytes of answers that the client had taken at the last look

    # ---------------------------------------------------------------- what uvicorn and the parser call

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(BufferedTransport(transport))
        self._guard.admit(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._guard.connections.discard(self)
        if self._current is not None:  # uvicorn tells the request that came last, which may wait behind this one
            self._current.disconnected = True
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._stopped_reading:
            return
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._listen_no_more()  # no other protocol is spoken here: the request is answered as what it is
        except httptools.HttpParserError:
            self.refuse(400, "malformed")
        else:
            self.size += len(data)
            if self.size > HEAD_BYTES_MAX and self._awaits_head:
                self.refuse(431, "head_too_large")

    def on_message_begin(self) -> None:
        HttpToolsProtocol.on_message_begin(self)
        self.since = self._guard.now
        self.size = 0
        self._arriving = True

    def on_message_complete(self) -> None:
        HttpToolsProtocol.on_message_complete(self)
        self._arriving = False

    def on_response_complete(self) -> None:
        """As uvicorn does it, without a timer for the idle time: the sweep sees to that."""
        self.transport.flush()
        self.server_state.total_requests += 1
        if not self._arriving:
            self.since = self._guard.now
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            cycle, app = self.pipeline.pop()
            self._start_asgi_task(cycle, app)
        elif self._arriving and self.expect_100_continue:
            self._close_write_side()  # the body may come or not: what the next bytes mean is not certain any more

    def shutdown(self) -> None:
        """Nothing to add when uvicorn ends: the guard drains."""

    # ---------------------------------------------------------------- what the guard asks and decides

    @property
    def is_waiting(self) -> bool:
        """Whether nobody but the client can get it any further."""
        return self._arriving or self.cycle is None or self.cycle.response_complete

    def eviction_key(self) -> tuple[bool, float]:
        """Sorts connections: those that never got an answer first, and the longest quiet first among equals."""
        return self.cycle is not None and self.cycle.response_complete, self.since

    def sweep(self, now: float) -> None:
        """Decide whether the client has had its time. Called at every sweep, but not in a connection's first second."""
        elapsed = now - self.since
        if self.transport.get_write_buffer_size():
            taken = self.transport.taken  # what waits may be as much as before, and yet something else
            if taken > self._taken:
                self.since = now
            elif elapsed > self._guard.limits.body_s:
                self.abort("unread")
            self._taken = taken
        elif self.transport.is_closing() or (self._stopped_reading and self.is_waiting):
            if elapsed > LINGER_S:
                self.transport.abort()
        elif self._arriving:
            self._look_at_arrival(elapsed, now)
        elif self.is_waiting:
            limits = self._guard.limits
            quiet_s = limits.head_s if self.cycle is None else limits.idle_s
            if elapsed > (DRAIN_IDLE_S if self._guard.is_draining else quiet_s):
                self._guard.closed["idle"] += 1
                self.transport.close()

    def _look_at_arrival(self, elapsed: float, now: float) -> None:
        limits = self._guard.limits
        if self.flow.read_paused:
            self.since, self.size = now, 0  # we do not listen at the moment: that is not the client's fault
        elif self._awaits_head:
            if elapsed > (DRAIN_IDLE_S if self._guard.is_draining else limits.head_s):
                self.refuse(408, "head_timeout")
        elif elapsed > limits.body_s or self.size < limits.body_rate * (elapsed - BODY_GRACE_S):
            self.refuse(408, "body_timeout")

    def refuse(self, status: int, reason: str) -> None:
        """Answer the request that is arriving ourselves and end the connection. Earlier ones are answered first, if any."""
        self._guard.closed[reason] += 1
        cycle = self.cycle
        if cycle is None or cycle.response_complete:
            self._answer_and_hang_up(status)
        elif self._awaits_head or not self._arriving:
            self._listen_no_more()
        elif self.pipeline:  # what arrives is the last in it
            self._listen_no_more()
            self.pipeline[0] = (cycle, error_app(status))
        else:
            cycle.disconnected = True
            cycle.message_event.set()
            if cycle.response_started:
                self._close_write_side()
            else:
                self._answer_and_hang_up(status)

    def abort(self, reason: str) -> None:
        """Close at once, whatever is on its way."""
        self._guard.closed[reason] += 1
        self._guard.connections.discard(self)
        self._stopped_reading = True
        self.transport.abort()

    def drain(self) -> None:
        """Let the answer that is being made be the last, and one to a request that arrives within the next moment."""
        self.since = self._guard.now
        if self.cycle is not None:
            self.cycle.keep_alive = False

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._current = cycle
        if self._guard.is_draining:
            cycle.keep_alive = False
        super()._start_asgi_task(cycle, app)

    @property
    def _awaits_head(self) -> bool:
        """Whether a request has begun and its headers are not complete."""
        return self._arriving and (self.cycle is None or self.cycle.scope is not self.scope)

    def _listen_no_more(self) -> None:
        """Close after the answers to what has arrived so far."""
        self._stopped_reading, self._arriving = True, False
        if self.cycle is not None:
            self.cycle.keep_alive = False

    def _answer_and_hang_up(self, status: int) -> None:
        self.transport.write(error_response_bytes(status, self.server_state.default_headers))
        self._close_write_side()

    def _close_write_side(self) -> None:
        """Say that nothing more will come. The client may finish its sentence; the sweep closes what it leaves open."""
        self._stopped_reading, self.since = True, self._guard.now
        self.flow.resume_reading()
        if not self.transport.is_closing():
            self.transport.write_eof()


def connection_metrics(guard: ConnectionGuard) -> Iterator[MetricSample]:
    """What the connections of clients count."""
    yield metric_sample("ledger_http_connections", len(guard.connections))
    yield metric_sample("ledger_http_connections_total", guard.accepted)
    for reason, n in guard.closed.items():
        yield metric_sample("ledger_http_connections_ended_total", n, reason)
