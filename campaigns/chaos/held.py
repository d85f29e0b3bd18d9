"""Other database sessions: one that locks a merchant's head, or the tables, and as many as Postgres accepts.

The service has its own time-outs: a request that waits for a lock is refused within three seconds.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from random import Random

import psycopg

from campaigns.chaos.clients import Ended
from campaigns.chaos.rounds import RECOVERED, UNKNOWN, Campaign
from campaigns.chaos.service import Service

_HELD_S = 5.0
_ANSWERED_MAX_S = 3.0
_EXPLAINED = frozenset({200, 201, 404, 409, 422, 503})
SLACK_S = 0.5
"""What a busy machine may add."""

_HOLD_A_HEAD = """
select 1 from merchant_head where merchant_id = (
  select merchant_id from merchant_head where position > 0 order by merchant_id limit 1) for update
"""
HOLD_THE_ORDERS = "lock table payment_order in access exclusive mode"
_END_OURS = "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'ledger-%'"


async def _hold_a_head(service: Service, _random: Random) -> float:
    with service.database() as url, psycopg.connect(url) as holder:
        holder.execute(_HOLD_A_HEAD)
        await asyncio.sleep(_HELD_S)
    return time.monotonic()


async def _hold_the_orders(service: Service, _random: Random) -> float:
    with service.database() as url, psycopg.connect(url) as holder:
        holder.execute(HOLD_THE_ORDERS)
        await asyncio.sleep(_HELD_S)
    return time.monotonic()


async def _take_every_connection(service: Service, _random: Random) -> float:
    """Takes every connection of Postgres, then ends the service's: it cannot reconnect before others disconnect."""
    with service.database() as url, _everything_taken(url) as held:
        assert len(held) > 20, "there was hardly any room to take"
        await asyncio.sleep(1)
        held[0].execute(_END_OURS)
        while True:
            try:
                held.append(psycopg.connect(url, autocommit=True))
            except psycopg.OperationalError:
                break
        await asyncio.sleep(2)
    return time.monotonic()


@contextmanager
def _everything_taken(url: str) -> Iterator[list[psycopg.Connection]]:
    with ExitStack() as stack:
        held: list[psycopg.Connection] = []
        stack.callback(_close, held)
        while True:
            try:
                held.append(psycopg.connect(url, autocommit=True))
            except psycopg.OperationalError:
                break
        yield held


def _close(held: list[psycopg.Connection]) -> None:
    for connection in held:
        connection.close()


def answered_in_time(around: Sequence[Ended]) -> list[str]:
    """Returns the requests without an answer, and refusals that came late. (A repeated request waits for the first, N29.)"""
    odd = Counter(request.status for request in around if request.status not in _EXPLAINED)
    wrong = [f"{n} requests were answered with {status or 'nothing'}" for status, n in odd.items()]
    refused = [request for request in around if request.status == 503]
    slowest = max(refused, key=lambda request: request.ended - request.began, default=None)
    if slowest is not None and (took := slowest.ended - slowest.began) > _ANSWERED_MAX_S + SLACK_S:
        wrong.append(f"a {slowest.do} was refused after {took:.1f} s")
    return wrong


def _others_go_on(around: Sequence[Ended]) -> list[str]:
    """Returns refusals of other merchants than the locked one: the others wait once, as long as the first batch waits."""
    written = sum(request.do in {"create", "charge"} and request.status in {200, 201, 422} for request in around)
    refused = sum(request.status == 503 for request in around)
    wrong = answered_in_time(around)
    if not refused:
        wrong.append("no request was refused")
    if written < 50:
        wrong.append(f"only {written} writes went through beside {refused} refusals")
    return wrong


HELD_HEAD = Campaign(
    name="held-head",
    about=f"another session holds one merchant's head for {_HELD_S:.0f} s; the others go on",
    strike=_hold_a_head,
    expects=_others_go_on,
    beyond=frozenset({RECOVERED}),
    back_max_s=5.0,
)
HELD_TABLE = Campaign(
    name="held-table",
    about=f"another session holds the table of orders for {_HELD_S:.0f} s",
    strike=_hold_the_orders,
    expects=answered_in_time,
    beyond=frozenset({RECOVERED}),
    back_max_s=5.0,
)
NO_CONNECTIONS = Campaign(
    name="no-connections",
    about="other sessions take every connection that Postgres has, and the service's own are ended",
    strike=_take_every_connection,
    expects=answered_in_time,
    beyond=frozenset({RECOVERED, UNKNOWN}),
    back_max_s=5.0,
)
