"""Accepts the connections that wait at a listening socket: all of them in one turn of the event loop.

The server of libuv, below uvloop, accepts one connection in each turn. A turn of a busy process answers the requests of
all connections that it has: of 256 clients that connected at once, the last waited for as long as the load lasted,
while the first were answered again and again (docs/decisions/0079).
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import structlog

_log = structlog.get_logger()

AT_ONCE: Final = 256
"""How many connections a turn accepts: less than ten milliseconds of work."""

_PAUSE_S: Final = 1.0
"""How long nothing is accepted after the system had no descriptor or memory for a connection."""

_EXHAUSTED: Final = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


class Acceptor:
    """The connections that arrive at a socket, each with a protocol of its own."""

    def __init__(self, listener: socket.socket, protocol: Callable[[], asyncio.Protocol]) -> None:
        self._listener = listener
        self._protocol = protocol
        self._loop = asyncio.get_running_loop()
        self._opening = set[asyncio.Task[object]]()
        self._resuming: asyncio.TimerHandle | None = None

    def start(self, backlog: int) -> None:
        """Listens, and accepts what arrives from the next turn on."""
        self._listener.setblocking(False)
        self._listener.listen(backlog)
        self._watch()

    async def stop(self) -> None:
        """Accepts the connections that wait, and no later ones. The socket stays open."""
        self._loop.remove_reader(self._listener)
        while self._accept():
            pass
        if self._resuming is not None:  # of a pause that has begun before, or just now
            self._resuming.cancel()
        await asyncio.gather(*self._opening, return_exceptions=True)

    def _watch(self) -> None:
        self._resuming = None
        self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> bool:
        """Accepts up to `AT_ONCE` connections. Returns whether more may wait."""
        for _ in range(AT_ONCE):
            try:
                connection, _ = self._listener.accept()
            except BlockingIOError:
                return False
            except ConnectionAbortedError:  # its client has left
                continue
            except OSError as fault:
                if fault.errno not in _EXHAUSTED:
                    raise
                self._pause(fault)
                return False
            self._open(connection)
        return True

    def _open(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        opening = self._loop.create_task(self._connect(connection))
        self._opening.add(opening)
        opening.add_done_callback(self._opening.discard)

    async def _connect(self, connection: socket.socket) -> None:
        with suppress(OSError):  # its client has left meanwhile
            await self._loop.connect_accepted_socket(self._protocol, connection)

    def _pause(self, fault: OSError) -> None:
        """Leaves the socket alone for a second. Its connections wait in the queue of the system."""
        _log.error("connections_not_accepted", reason=fault.strerror)
        self._loop.remove_reader(self._listener)
        self._resuming = self._loop.call_later(_PAUSE_S, self._watch)
