"""SIGSTOP of one API process at random moments under load: the other one serves every merchant, until the parent replaces it.

Never resume the stopped process: its parent ends it with SIGKILL, and what it had begun is left to the recovery.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any
from uuid import UUID

import psycopg

from campaigns.chaos.clients import Ended
from campaigns.chaos.rounds import NOTICED, RECOVERED, UNKNOWN, Campaign, Unmet
from campaigns.chaos.service import Service

_PING_TIMEOUT_S = 3.0
_REPLACED_S = 90.0
"""A process that is stopped before it is ready is ended a minute after its start."""
_STRIKES_MAX = 4
_EXPLAINED = frozenset({None, 200, 201, 404, 409, 422, 503})

Connection = psycopg.AsyncConnection[tuple[Any, ...]]

# The API processes and the workers that are connected: by a connection of each, which a worker opens at the end of its start.
_CONNECTED = """
select count(*) filter (where application_name = 'ledger-reads'),
       count(*) filter (where application_name = 'ledger-reconciliation')
  from pg_stat_activity
"""
_POSITIONS = "select merchant_id, position from merchant_head where position > 0"


async def _stop_one(service: Service, random: Random) -> float:
    """Stops an API process and returns when it was replaced. Raises Unmet if a merchant's log grows no more."""
    stopped = random.choice(service.api_processes())
    await asyncio.sleep(random.uniform(0, 0.05))
    os.kill(stopped, signal.SIGSTOP)
    with service.database() as url:
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            await _every_log_grows(connection)
            await another_replaces(service, stopped, connection)
    return time.monotonic()


async def another_replaces(service: Service, stopped: int, connection: Connection) -> None:
    """Returns once another process is connected in the place of the stopped one. Raises Unmet if none comes."""
    deadline = time.monotonic() + _REPLACED_S
    while stopped in service.roles() or await (await connection.execute(_CONNECTED)).fetchone() != (2, 1):
        if time.monotonic() > deadline:
            raise Unmet(f"the stopped process {stopped} was not replaced: {service.last_words()}")
        await asyncio.sleep(0.02)


async def _every_log_grows(connection: Connection) -> None:
    """Returns once every merchant has a commit that is later than the first look. Raises Unmet if one has none."""
    before: dict[UUID, int] = dict(await (await connection.execute(_POSITIONS)).fetchall())
    deadline = time.monotonic() + _REPLACED_S
    while True:
        now: dict[UUID, int] = dict(await (await connection.execute(_POSITIONS)).fetchall())
        waiting = [merchant for merchant, position in before.items() if now[merchant] == position]
        if not waiting:
            return
        if time.monotonic() > deadline:
            raise Unmet(f"{len(waiting)} merchants get no commit beside a stopped process")
        await asyncio.sleep(0.01)


def _the_other_one_goes_on(around: Sequence[Ended]) -> list[str]:
    """Returns unexplained answers, and no write at all: the other process writes while the one is stopped."""
    odd = Counter(request.status for request in around if request.status not in _EXPLAINED)
    wrong = [f"{n} requests were answered with {status}" for status, n in odd.items()]
    if not any(request.do in {"create", "charge"} and request.status in {200, 201} for request in around):
        wrong.append("no write went through beside a stopped process")
    return wrong


async def _restart_in_time(service: Service, number: int) -> None:
    """Five ends of children in a minute end the service: it is stopped and started before the fifth."""
    if number and number % _STRIKES_MAX == 0:
        status = service.stop()
        assert status == 0, f"a clean stop ended with {status}: {service.last_words()}"
        service.spawn()
        await asyncio.to_thread(service.wait_ready)


FREEZE = Campaign(
    name="freeze",
    about="SIGSTOP of one API process; the other one serves every merchant, and the parent replaces the stopped one",
    strike=_stop_one,
    expects=_the_other_one_goes_on,
    before=_restart_in_time,
    make=lambda: Service(settings={"LEDGER_PING_TIMEOUT_S": str(_PING_TIMEOUT_S)}),
    beyond=frozenset({NOTICED, UNKNOWN, RECOVERED}),
)
