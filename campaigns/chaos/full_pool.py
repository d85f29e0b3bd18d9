"""Hundreds of lists at once, while the table of orders is locked: every connection for lists is taken, and so is every
place in the queue for them.

The service's own pool is full. Postgres has free connections, and requests that need no list are answered.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from random import Random
from statistics import median

import psycopg

from campaigns.chaos import bodies
from campaigns.chaos.held import HOLD_THE_ORDERS, SLACK_S, answered_in_time
from campaigns.chaos.rounds import RECOVERED, UNKNOWN, Campaign, Unmet, show
from campaigns.chaos.service import Service
from campaigns.chaos.wire import Wire

_LISTS = 500
"""More than two API processes have connections and places in the queue for."""
_HELD_S = 4.0
_REFUSED_MAX_S = 2.0
_AGAIN_PATIENCE_S = 5.0


async def _list(port: int, api_key: str) -> tuple[int, float]:
    """Returns the status of one list, and the seconds until its answer."""
    wire = Wire()
    await wire.open(port)
    began = time.monotonic()
    answer = await wire.ask("GET", f"{bodies.ORDERS}?limit=10", api_key)
    await wire.close()
    return answer.status, time.monotonic() - began


async def _crowd(service: Service, _random: Random) -> float:
    api_key = (await asyncio.to_thread(service.merchant, "Crowd")).api_key
    await _list(service.port, api_key)
    with service.database() as url, psycopg.connect(url) as holder:
        holder.execute(HOLD_THE_ORDERS)
        until = time.monotonic() + _HELD_S
        asked = await asyncio.gather(*[_list(service.port, api_key) for _ in range(_LISTS)])
        await asyncio.sleep(until - time.monotonic())
    healed = time.monotonic()
    statuses, took = Counter(status for status, _ in asked), sorted(seconds for _, seconds in asked)
    show(
        f"  {_LISTS} lists at once: {dict(statuses)}, answered in {median(took):.2f} s (p50), {took[-1]:.2f} s at most"
    )
    if statuses != {503: _LISTS}:
        raise Unmet(f"lists of a locked table were answered {dict(statuses)}")
    if took[-1] > _REFUSED_MAX_S + SLACK_S:
        raise Unmet(f"a list was refused after {took[-1]:.1f} s")
    while (await _list(service.port, api_key))[0] != 200:
        if time.monotonic() > healed + _AGAIN_PATIENCE_S:
            raise Unmet("lists do not come back")
        await asyncio.sleep(0.02)
    return healed


FULL_POOL = Campaign(
    name="full-pool",
    about=f"{_LISTS} lists at once while another session holds the table of orders for {_HELD_S:.0f} s",
    strike=_crowd,
    expects=answered_in_time,
    beyond=frozenset({RECOVERED, UNKNOWN}),
    back_max_s=5.0,
)
