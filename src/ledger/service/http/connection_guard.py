"""The connections of one API process: how long they may take, how many there may be, how much they may hold together.

Do nothing here per request but note the time: one sweep a second looks at all connections. A timer for each request
would cost more than finding its route.

docs/explanation/connections.md lists what the guard leaves to a proxy.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Final, Protocol

from ledger.settings import Settings
from ledger.telemetry.metrics import CONNECTIONS, CONNECTIONS_ACCEPTED, CONNECTIONS_ENDED

BODY_GRACE_S: Final = 5.0
"""How long the rate of a body is not judged: the first packets of an honest client may be late."""

LINGER_S: Final = 2.0
"""How long a refused client may go on sending: a connection that is closed on unread bytes loses its last answer."""

DRAIN_IDLE_S: Final = 1.0
"""How long the process, while it ends, waits for a client: for a request, for the rest of one, or until it reads."""

DRAIN_LINGER_S: Final = 0.5
"""`LINGER_S` while the process ends."""

HELD_BYTES_MAX: Final = 64 << 20
"""How much all connections of a process may hold together: requests that arrive or wait, answers that are not read."""

_RECEIVED_UNCHECKED_MAX: Final = 1 << 20
"""After so many bytes from all clients, what they hold is counted: often enough, and at no cost for a request."""

_SWEEP_S: Final = 1.0
_DRAIN_SWEEP_S: Final = 0.1
_ROOM_SHARE: Final = 32
"""One in so many connections is closed when there are too many: finding a single one each time would cost more."""


class Guarded(Protocol):
    """What the guard asks of a connection: `connection.Connection` describes each."""

    since: float

    @property
    def held(self) -> int: ...

    @property
    def awaits_client(self) -> bool: ...

    def eviction_key(self) -> tuple[bool, float]: ...

    def sweep(self, now: float) -> None: ...

    def abort(self, reason: str) -> None: ...


class ConnectionGuard:
    """All connections of a process.

    `now` is the monotonic clock as the last sweep read it: precise enough for time-outs of seconds, and free to read.
    `closed` counts, by reason, the connections that the process has closed.
    """

    def __init__(self, settings: Settings, connections_max: int) -> None:
        self.settings = settings
        self.now = time.monotonic()
        self.accepted = 0
        self.closed: Counter[str] = Counter()
        self.connections: set[Guarded] = set()
        self.is_draining = False
        self._connections_max = connections_max
        self._received = 0  # bytes since what is held was counted
        self._timer: asyncio.TimerHandle | None = None
        CONNECTIONS.set(0)

    def start_sweeping(self) -> None:
        """Sweeps now and then regularly, in the running event loop."""
        self.now = time.monotonic()
        young_s = DRAIN_LINGER_S if self.is_draining else DRAIN_IDLE_S
        for connection in [each for each in self.connections if each.since + young_s <= self.now]:
            connection.sweep(self.now)
        self._limit_memory()
        pause = _DRAIN_SWEEP_S if self.is_draining else _SWEEP_S
        self._timer = asyncio.get_running_loop().call_later(pause, self.start_sweeping)

    def stop_sweeping(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def is_ending(self) -> bool:
        """Returns whether the process is to end, so that no request waits on."""
        return self.is_draining

    def drain(self) -> None:
        """Makes every answer from now on the last of its connection, and closes idle connections soon."""
        self.is_draining = True
        self.stop_sweeping()
        self.start_sweeping()

    def count(self, reason: str) -> None:
        """Counts a connection that the process closes."""
        self.closed[reason] += 1
        CONNECTIONS_ENDED.labels(reason).inc()

    def add(self, newcomer: Guarded) -> None:
        """Adds a connection; if there are too many, closes those first that have been idle the longest."""
        self.accepted += 1
        CONNECTIONS_ACCEPTED.inc()
        self.connections.add(newcomer)
        if len(self.connections) > self._connections_max:
            idle = [each for each in self.connections if each.awaits_client and each is not newcomer]
            idle.sort(key=lambda each: each.eviction_key())
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

    def remove(self, connection: Guarded) -> None:
        self.connections.discard(connection)
        CONNECTIONS.set(len(self.connections))
