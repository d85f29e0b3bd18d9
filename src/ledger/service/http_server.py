"""The HTTP server of one API process: uvicorn with connections that are watched, ended without cutting anybody off.

The rule a stranger would break: the order of the end. Nobody new is let in, whoever waits in the queue is, every answer
becomes its connection's last, and the application ends only when all of them are given.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, cast

import uvicorn

from ledger.service.connection_guard import ConnectionGuard, ConnectionLimits, connection_metrics
from ledger.service.listen_socket import drain_backlog
from ledger.settings import Settings
from ledger.telemetry import shared_metrics

GRACE_S: Final = 8
"""How long requests in flight may take after SIGTERM; with the database's own stop it has to fit into ten seconds."""

_BACKLOG: Final = 2048
_OTHER_DESCRIPTORS: Final = 128
"""What a process has open besides its clients: connections to the database, files, pipes."""


async def serve(app: Any, settings: Settings, listener: socket.socket, ready: Callable[[], None]) -> None:
    """Serve the application on the socket until SIGTERM; `ready` is called once it listens."""
    # uvicorn raises the signals that it caught once more when it is done; a clean stop ends with 0, not with a signal.
    signal.signal(signal.SIGTERM, lambda *_: None)
    server = Server(app, settings, ready)
    await server.serve(sockets=[listener])
    if not server.started:
        sys.exit(1)


class Server(uvicorn.Server):
    """uvicorn's server behind a guard of ours."""

    def __init__(self, app: Any, settings: Settings, ready: Callable[[], None] = lambda: None) -> None:
        self.guard = ConnectionGuard(_connection_limits(settings))
        self._ready = ready
        config = uvicorn.Config(
            app,
            http=cast(Any, self.guard.connection),  # uvicorn asks for a class, and calls it like any factory
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=_BACKLOG,
            timeout_graceful_shutdown=GRACE_S,
        )
        super().__init__(config)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, then say so."""
        await super().startup(sockets)
        if self.started and not self.should_exit:
            self.guard.start_sweeping()
            self._ready()

    async def main_loop(self) -> None:
        """Serve until told to stop."""
        with shared_metrics.current("api").publishing(partial(connection_metrics, self.guard)):
            await super().main_loop()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End as the module says."""
        queues = [each.dup() for each in sockets or ()]
        for server in self.servers:
            server.close()
        self.guard.drain()
        for queue in queues:
            await drain_backlog(queue, self._connection)
            queue.close()
        await super().shutdown(sockets)
        self.guard.stop_sweeping()

    def _connection(self) -> asyncio.Protocol:
        return self.guard.connection(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)


def _connection_limits(settings: Settings) -> ConnectionLimits:
    """The settings' patience with clients, with no more of them than the system lets a process have open."""
    return ConnectionLimits(
        head_s=settings.head_timeout_s,
        body_s=settings.body_timeout_s,
        body_rate=settings.body_rate_min,
        idle_s=settings.idle_timeout_s,
        connections_max=min(settings.connections_max, max(1, _descriptors_max() - _OTHER_DESCRIPTORS)),
    )


def _descriptors_max() -> int:
    """How many descriptors this process may have open, after asking for as many as it can get."""
    if sys.platform == "win32":
        return sys.maxsize
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # macOS has a lower limit than the one that it tells
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft
