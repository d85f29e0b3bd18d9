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

from ledger.service.buffered_transport import Gathered
from ledger.service.protocol_errors import HEAD_BYTES_MAX, own_answer, refusing
from ledger.telemetry.metrics import told
from ledger.telemetry.shared_metrics import Reading

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


class Patience(Struct, frozen=True, kw_only=True):
    """What a client may ask of a connection: seconds, bytes a second, connections per process."""

    head_s: float = 10.0
    body_s: float = 20.0
    body_rate: int = 500
    idle_s: float = 75.0
    connections_max: int = 2048


class Door:
    """All connections of a process. `connection` is the protocol factory that uvicorn is configured with.

    `now` is the monotonic clock as the last sweep read it: precise enough for deadlines of seconds, and free to read.
    `closed` counts the connections that were not left to their clients, by reason.
    """

    def __init__(self, patience: Patience) -> None:
        self.patience = patience
        self.now = time.monotonic()
        self.accepted = 0
        self.closed: Counter[str] = Counter()
        self.connections: set[Connection] = set()
        self.is_draining = False
        self._timer: asyncio.TimerHandle | None = None

    def connection(self, **parts: Any) -> Connection:
        """A connection that was just accepted. `parts` are uvicorn's."""
        return Connection(self, **parts)

    def open(self) -> None:
        """Begin to sweep, in the running event loop."""
        self.now = time.monotonic()
        for connection in [each for each in self.connections if each.since + DRAIN_IDLE_S <= self.now]:
            connection.look(self.now)
        pause = _DRAIN_SWEEP_S if self.is_draining else _SWEEP_S
        self._timer = asyncio.get_running_loop().call_later(pause, self.open)

    def close(self) -> None:
        """Sweep no more."""
        if self._timer is not None:
            self._timer.cancel()

    def drain(self) -> None:
        """Every answer from now on is the last of its connection, and what stays idle is closed soon."""
        self.is_draining = True
        self.close()
        self.open()
        for connection in self.connections:
            connection.drain()

    def admit(self, newcomer: Connection) -> None:
        """Take in a connection; where there is no room, close those first that have been of no use for the longest."""
        self.accepted += 1
        self.connections.add(newcomer)
        if self.is_draining:
            newcomer.drain()
        if len(self.connections) > self.patience.connections_max:
            waiting = [each for each in self.connections if each.is_waiting and each is not newcomer]
            waiting.sort(key=Connection.usefulness)
            for victim in waiting[: 1 + self.patience.connections_max // _ROOM_SHARE] or [newcomer]:
                victim.cut("crowded")


class Connection(HttpToolsProtocol):
    """uvicorn's connection, watched.

    `since` is when what it is at began: the connection itself, and by the door's clock a request that arrives or an answer
    that was given. `size` counts the bytes received since then.
    """

    transport: Gathered
    cycle: RequestResponseCycle | None  # type: ignore[assignment]  # None until a request's headers are there

    def __init__(self, door: Door, **parts: Any) -> None:
        super().__init__(**parts)
        self.since = time.monotonic()  # the door's clock stands still while the process is busy: nobody has waited yet
        self.size = 0
        self._door = door
        self._arriving = False  # a request has begun and not ended
        self._current: RequestResponseCycle | None = None  # the request that is answered now
        self._deaf = False  # what else arrives is not read any more
        self._taken = 0  # bytes of answers that the client had taken at the last look

    # ---------------------------------------------------------------- what uvicorn and the parser call

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(Gathered(transport))
        self._door.admit(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._door.connections.discard(self)
        if self._current is not None:  # uvicorn tells the request that came last, which may wait behind this one
            self._current.disconnected = True
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._deaf:
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
        self.since = self._door.now
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
            self.since = self._door.now
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            cycle, app = self.pipeline.pop()
            self._start_asgi_task(cycle, app)
        elif self._arriving and self.expect_100_continue:
            self._hang_up()  # the body may come or not: what the next bytes mean is not certain any more

    def shutdown(self) -> None:
        """Nothing to add when uvicorn ends: the door drains."""

    # ---------------------------------------------------------------- what the door asks and decides

    @property
    def is_waiting(self) -> bool:
        """Whether nobody but the client can get it any further."""
        return self._arriving or self.cycle is None or self.cycle.response_complete

    def usefulness(self) -> tuple[bool, float]:
        """Sorts connections: those that never got an answer first, and the longest quiet first among equals."""
        return self.cycle is not None and self.cycle.response_complete, self.since

    def look(self, now: float) -> None:
        """Decide whether the client has had its time. Called at every sweep, but not in a connection's first second."""
        elapsed = now - self.since
        if self.transport.get_write_buffer_size():
            taken = self.transport.taken  # what waits may be as much as before, and yet something else
            if taken > self._taken:
                self.since = now
            elif elapsed > self._door.patience.body_s:
                self.cut("unread")
            self._taken = taken
        elif self.transport.is_closing() or (self._deaf and self.is_waiting):
            if elapsed > LINGER_S:
                self.transport.abort()
        elif self._arriving:
            self._look_at_arrival(elapsed, now)
        elif self.is_waiting:
            patience = self._door.patience
            quiet_s = patience.head_s if self.cycle is None else patience.idle_s
            if elapsed > (DRAIN_IDLE_S if self._door.is_draining else quiet_s):
                self._door.closed["idle"] += 1
                self.transport.close()

    def _look_at_arrival(self, elapsed: float, now: float) -> None:
        patience = self._door.patience
        if self.flow.read_paused:
            self.since, self.size = now, 0  # we do not listen at the moment: that is not the client's fault
        elif self._awaits_head:
            if elapsed > (DRAIN_IDLE_S if self._door.is_draining else patience.head_s):
                self.refuse(408, "head_timeout")
        elif elapsed > patience.body_s or self.size < patience.body_rate * (elapsed - BODY_GRACE_S):
            self.refuse(408, "body_timeout")

    def refuse(self, status: int, reason: str) -> None:
        """Answer the request that is arriving ourselves and end the connection. Earlier ones are answered first, if any."""
        self._door.closed[reason] += 1
        cycle = self.cycle
        if cycle is None or cycle.response_complete:
            self._answer_and_hang_up(status)
        elif self._awaits_head or not self._arriving:
            self._listen_no_more()
        elif self.pipeline:  # what arrives is the last in it
            self._listen_no_more()
            self.pipeline[0] = (cycle, refusing(status))
        else:
            cycle.disconnected = True
            cycle.message_event.set()
            if cycle.response_started:
                self._hang_up()
            else:
                self._answer_and_hang_up(status)

    def cut(self, reason: str) -> None:
        """Close at once, whatever is on its way."""
        self._door.closed[reason] += 1
        self._door.connections.discard(self)
        self._deaf = True
        self.transport.abort()

    def drain(self) -> None:
        """Let the answer that is being made be the last, and one to a request that arrives within the next moment."""
        self.since = self._door.now
        if self.cycle is not None:
            self.cycle.keep_alive = False

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._current = cycle
        if self._door.is_draining:
            cycle.keep_alive = False
        super()._start_asgi_task(cycle, app)

    @property
    def _awaits_head(self) -> bool:
        """Whether a request has begun and its headers are not complete."""
        return self._arriving and (self.cycle is None or self.cycle.scope is not self.scope)

    def _listen_no_more(self) -> None:
        """Close after the answers to what has arrived so far."""
        self._deaf, self._arriving = True, False
        if self.cycle is not None:
            self.cycle.keep_alive = False

    def _answer_and_hang_up(self, status: int) -> None:
        self.transport.write(own_answer(status, self.server_state.default_headers))
        self._hang_up()

    def _hang_up(self) -> None:
        """Say that nothing more will come. The client may finish its sentence; the sweep closes what it leaves open."""
        self._deaf, self.since = True, self._door.now
        self.flow.resume_reading()
        if not self.transport.is_closing():
            self.transport.write_eof()


def door_figures(door: Door) -> Iterator[Reading]:
    """What the connections of clients count."""
    yield told("ledger_http_connections", len(door.connections))
    yield told("ledger_http_connections_total", door.accepted)
    for reason, n in door.closed.items():
        yield told("ledger_http_connections_ended_total", n, reason)
