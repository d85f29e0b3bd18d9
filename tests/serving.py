"""The application behind the server that an installation runs, on a free port of the loopback."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn

from api.app import create_app
from ledger.settings import Settings


@asynccontextmanager
async def served(settings: Settings, port: int = 0) -> AsyncIterator[str]:
    """The service's address while it runs."""
    listener = socket.create_server(("127.0.0.1", port))
    config = uvicorn.Config(create_app(settings), http="httptools", lifespan="on", log_config=None, access_log=False)
    server = uvicorn.Server(config)
    running = asyncio.create_task(server.serve(sockets=[listener]))
    while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.01)
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    await running
