"""The receivers of two merchants, in the process of the campaign: each message that arrives is recorded."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Final
from uuid import UUID

from aiohttp import web
from msgspec import Struct

FAILS: Final = 0.05
"""In how many of its messages a failing receiver refuses the first attempt."""


class Arrival(Struct, frozen=True):
    """A message as it arrived at an endpoint, and whether it was accepted."""

    event_id: UUID
    body: bytes
    is_accepted: bool


class Receiver:
    """Accepts every message, except that the endpoints named in `failing` refuse some first attempts."""

    def __init__(self, failing: frozenset[str], random: Random) -> None:
        self.arrivals: dict[str, list[Arrival]] = {}
        self.port = 0
        self._failing, self._random = failing, random

    def url(self, endpoint: str) -> str:
        return f"http://127.0.0.1:{self.port}/{endpoint}"

    def accepted(self, endpoint: str) -> set[UUID]:
        return {each.event_id for each in self.arrivals.get(endpoint, []) if each.is_accepted}

    async def receive(self, request: web.Request) -> web.Response:
        """Records a message and answers it."""
        endpoint, body = request.match_info["endpoint"], await request.read()
        event_id, earlier = UUID(request.headers["webhook-id"]), self.arrivals.setdefault(endpoint, [])
        is_first = all(each.event_id != event_id for each in earlier)
        refuses = is_first and endpoint in self._failing and self._random.random() < FAILS
        earlier.append(Arrival(event_id, body, not refuses))
        return web.Response(status=503 if refuses else 204)


@asynccontextmanager
async def receiving(failing: frozenset[str], random: Random) -> AsyncIterator[Receiver]:
    """Yields a receiver that serves on a free port of the loopback."""
    receiver = Receiver(failing, random)
    app = web.Application()
    app.add_routes([web.post("/{endpoint}", receiver.receive)])
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        receiver.port = runner.addresses[0][1]
        yield receiver
    finally:
        await runner.cleanup()
