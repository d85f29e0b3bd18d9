"""Connections of a guard, without a server and with one, for an application of a test."""

from __future__ import annotations

import asyncio
import socket

from uvicorn.server import ServerState

from ledger.service.http.connection import Connection
from ledger.service.http.connection_guard import ConnectionGuard
from ledger.settings import Settings


class Client:
    """A client of a connection that the running loop serves."""

    def __init__(self, app):
        self.app = app
        self.guard = ConnectionGuard(Settings(), connections_max=10)
        self.state = ServerState()

    def connection(self):
        return Connection(self.app, self.guard, self.state)

    async def dial(self):
        listener = socket.create_server(("127.0.0.1", 0))
        serving = await asyncio.get_running_loop().create_server(self.connection, sock=listener)
        self.socket = socket.create_connection(listener.getsockname())
        self.socket.settimeout(5)
        return serving
