"""The application behind the server of an installation, on a free port of the loopback."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import httpx
from tests.api.storefront import Storefront

from api.app import create_app
from ledger.service.http.http_server import Server
from ledger.settings import Settings
from ledger.wiring import open_ledger


class Served(Storefront):
    """A storefront with a guard that tests may look at."""

    server: Server
    port: int

    async def dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)


@asynccontextmanager
async def served(settings: Settings) -> AsyncIterator[Served]:
    """The application, served until the block ends."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = Server(create_app(settings), settings)
    running = asyncio.create_task(server.serve(sockets=[listener]))
    while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.01)
    port = listener.getsockname()[1]
    async with open_ledger(settings) as ledger, httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
        store = Served(client, ledger, settings)
        store.server, store.port = server, port
        try:
            yield store
        finally:
            server.should_exit = True
            await running


async def heard(reader: asyncio.StreamReader, hold_s: float) -> bytes:
    """Returns all bytes that the server sends until it hangs up or `hold_s` seconds have passed."""
    said = b""
    with suppress(TimeoutError, OSError):
        async with asyncio.timeout(hold_s):
            while piece := await reader.read(65536):
                said += piece
    return said
