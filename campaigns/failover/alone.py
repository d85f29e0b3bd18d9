"""What is sent to a primary that goes on without its standbys: an order, an order by card, and a charge, by each route.

None of them may be acknowledged before another node is the primary.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Final
from uuid import uuid4

import psycopg
from msgspec import Struct

from campaigns.chaos.clients import Load, Merchant, amount_of
from campaigns.chaos.wire import Wire
from campaigns.chaos.witness import Asked
from campaigns.failover.cluster import Node

ANSWER_S: Final = 40.0
"""How long clients wait: longer than the service waits for its database, whose late answer is what may be wrong."""

_LOOK_S: Final = 0.1
_WAITING_S: Final = 5.0
_WAITING: Final = "select count(*) from pg_stat_activity where wait_event = 'SyncRep'"


class Route(Struct, frozen=True, kw_only=True):
    """A route to the primary: its clients, and the merchant whose requests they send."""

    name: str
    load: Load
    merchant: Merchant


class Probe(Struct, frozen=True, kw_only=True):
    """A request of one route: how it ended, and when by the monotonic clock."""

    asked: Asked
    outcome: str | None
    ended: float


class Probes:
    """The three requests by each route. `begin` creates the orders that are charged, while there is a standby."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._routes = routes
        self._name = f"alone/{uuid4().hex[:12]}"
        self._sent: list[asyncio.Task[Probe]] = []

    async def begin(self) -> list[str]:
        """Returns which orders could not be created."""
        done = await asyncio.gather(*[_send(route, self._order(route, "charged")) for route in self._routes])
        return [
            f"{probe.asked.external_id} was not created: {probe.outcome}" for probe in done if probe.outcome != "ok"
        ]

    async def send(self, node: Node) -> int:
        """Sends the requests, and returns how many backends of the primary then wait for a standby."""
        for route in self._routes:
            charge = Asked(
                do="charge",
                merchant_id=route.merchant.merchant_id,
                external_id=f"{self._name}/{route.name}/charged",
                card="approved",
            )
            for asked in (self._order(route, "created"), self._order(route, "paid", "approved"), charge):
                self._sent.append(asyncio.create_task(_send(route, asked)))
        return await _waiting(node)

    async def acknowledged_before(self, promoted: float) -> list[str]:
        """Returns what was acknowledged before another node was promoted. Waits until all requests have ended."""
        return [
            f"{probe.asked.do} {probe.asked.external_id!r} was acknowledged by a primary without its standbys"
            for probe in await asyncio.gather(*self._sent)
            if probe.outcome == "ok" and probe.ended < promoted
        ]

    def _order(self, route: Route, what: str, card: str | None = None) -> Asked:
        name = f"{self._name}/{route.name}/{what}"
        return Asked(
            do="create",
            merchant_id=route.merchant.merchant_id,
            external_id=name,
            amount=amount_of(name),
            card=card,
        )


async def _send(route: Route, asked: Asked) -> Probe:
    wire = Wire(ANSWER_S)
    outcome = await route.load.send(wire, asked, route.merchant.api_key, client=-1)
    await wire.close()
    return Probe(asked=asked, outcome=outcome, ended=time.monotonic())


async def _waiting(node: Node) -> int:
    """Returns how many backends of a node wait for a standby, as soon as one does; 0 if none does in time."""
    deadline = time.monotonic() + _WAITING_S
    async with await psycopg.AsyncConnection.connect(node.url, autocommit=True) as connection:
        while time.monotonic() < deadline:
            row = await (await connection.execute(_WAITING)).fetchone()
            if row is not None and row[0]:
                return int(row[0])
            await asyncio.sleep(_LOOK_S)
    return 0
