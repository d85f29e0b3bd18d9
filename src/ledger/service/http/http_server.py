"""The HTTP server of one API process: uvicorn with guarded connections, which ends without cutting off a request.

Keep the order of the end: newcomers are kept out, all connections in the queue are accepted, every answer becomes the
last of its connection, and the application ends when all of them are given.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, Final, cast

import uvicorn
from starlette.types import Message, Receive, Scope, Send
from uvicorn.server import ServerState

from ledger.asgi import ENDING
from ledger.service.descriptors import ask_for_descriptors
from ledger.service.http.acceptor import Acceptor
from ledger.service.http.connection import Connection
from ledger.service.http.connection_guard import ConnectionGuard
from ledger.settings import Settings

GRACE_S: Final = 8
"""How long requests in flight may take after SIGTERM; with the database's own stop it has to fit into ten seconds."""

_BACKLOG: Final = 2048
_OTHER_DESCRIPTORS: Final = 128
"""What a process has open besides its clients: connections to the database, files, pipes."""


async def serve(
    app: Any,
    settings: Settings,
    listener: socket.socket,
    ready: Callable[[], None],
    away: tuple[type[Exception], ...],
) -> None:
    """Serves the application on the socket until SIGTERM; `ready` is called once it listens.

    Raises what the application's start raises of the kinds in `away`, those for a database that does not answer.
    """
    # uvicorn raises the signals that it caught once more when it is done; a clean stop ends with 0, not with a signal.
    signal.signal(signal.SIGTERM, lambda *_: None)
    server = Server(app, settings, ready, away)
    try:
        await server.serve(sockets=[listener])
    except SystemExit:
        if server.start_fault is not None:
            raise server.start_fault from None
        raise
    if not server.started:
        sys.exit(1)


class Server(uvicorn.Server):
    """uvicorn's server with connections of our own and a guard for them."""

    def __init__(
        self,
        app: Any,
        settings: Settings,
        ready: Callable[[], None] = lambda: None,
        away: tuple[type[Exception], ...] = (),
    ) -> None:
        self.guard = ConnectionGuard(
            settings, min(settings.connections_max, max(1, ask_for_descriptors() - _OTHER_DESCRIPTORS))
        )
        self._app = app
        self._ready = ready
        self._away = away
        self.start_fault: Exception | None = None
        self._acceptors: list[Acceptor] = []
        self._ending = asyncio.Event()
        config = uvicorn.Config(
            self._live,
            interface="asgi3",
            http=cast(Any, self._connection),  # uvicorn asks for a class, and calls it like any factory
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=GRACE_S,
        )
        super().__init__(config)

    async def _live(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Starts and ends the application. A start that fails because the database is away has no traceback."""
        failed: Message | None = None
        scope[ENDING] = self._ending

        async def send_unless_failed(message: Message) -> None:
            nonlocal failed
            if message["type"] == "lifespan.startup.failed":
                failed = message
            else:
                await send(message)

        try:
            await self._app(scope, receive, send_unless_failed)
        except BaseException as fault:
            if failed is not None:
                if isinstance(fault, self._away):
                    self.start_fault, failed = fault, {**failed, "message": ""}
                await send(failed)
            raise

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listens, then reports that it is ready."""
        await super().startup([])  # a server of the event loop's own would accept one connection in each turn
        if self.started and not self.should_exit:
            protocol = partial(self._connection, server_state=self.server_state)
            self._acceptors = [Acceptor(listener, protocol) for listener in sockets or ()]
            for acceptor in self._acceptors:
                acceptor.start(_BACKLOG)
            self.guard.start_sweeping()
            self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Ends in the order that the module gives."""
        self._ending.set()
        self.guard.drain()
        for acceptor in self._acceptors:
            await acceptor.stop()
        await super().shutdown(sockets)
        self.guard.stop_sweeping()

    def _connection(self, *, server_state: ServerState, **_: object) -> Connection:
        """Returns the protocol of a connection that was just accepted."""
        return Connection(self._app, self.guard, server_state)
