"""`python -m campaigns crowd [--seed S] [--seconds N] [--clients N]`: a crowd on two machines, one of which is killed.

Each client asks what a walk asks, about the six latest orders of all of them, through either machine. All of the second
machine, or its parts, are killed every few seconds. At the end everything that a walk is checked by has to hold, and no
key may be left without its answer. It exits 1 if there is a finding.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Final

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo
from tests import postgres_server

from campaigns.chaos.service import Service
from campaigns.crowd.member import Member
from campaigns.races.command import template_of
from campaigns.walker import invoices, subscriptions
from campaigns.walker.actions import ACTIONS, prepare
from campaigns.walker.command import findings, until_quiet, walked

_SETTINGS: Final = {
    "LEDGER_SANDBOX_DELAY_MS": "30",
    "LEDGER_PROCESSOR_TIMEOUT_S": "5",
    "LEDGER_NOT_FOUND_FINAL_S": "8",
}
_ACTIONS: Final = {act: weight for act, weight in ACTIONS.items() if act not in {subscriptions.tick, invoices.provider}}
"""What a walk does, without moves of the clock, whose lease a killed machine keeps, and without faults of its own."""
_CALM_S: Final = 8.0
"""How long before the end the last kill is."""
_INBOX_PATIENCE_S: Final = 60.0
"""How long the inbox may take: a message that a killed worker has claimed waits for thirty seconds."""

_UNHANDLED: Final = """
select count(*) from processor_message where merchant_id = %s and handled_at is null and next_try_at < 'infinity'
"""


async def crowd(one: Service, other: Service, seed: int, seconds: float, clients: int) -> list[str]:
    """Lets a crowd of so many clients work on two services that run, for so long. Returns what is wrong then."""
    merchant = await asyncio.to_thread(one.merchant, f"Crowd {seed}")
    ports = lambda: one.port, lambda: other.port
    first = Member(ports[:1], merchant, 1_000 * seed, None)
    await prepare(first)
    await first.move("PT1S")
    began = invoices.local_day(first)
    members = [Member(ports, merchant, 1_000 * seed + n, first) for n in range(1, clients + 1)]
    until = time.monotonic() + seconds
    await asyncio.gather(*[_work(each, until) for each in members], _kill(other, Random(seed), until - _CALM_S))
    with one.database() as url:
        await _until_handled(url, first)
        await invoices.settle(first)
        await invoices.read_months(first, began)
        await until_quiet(url, merchant.merchant_id)
        found = findings(await walked(url, first))
    _report(
        f"seed {seed}: {first.requests:,} requests, {sum(each.lost for each in members):,} answers lost, {len(found)} wrong"
    )
    return found


async def _work(member: Member, until: float) -> None:
    choices, weights = list(_ACTIONS), list(_ACTIONS.values())
    while time.monotonic() < until:
        await member.random.choices(choices, weights)[0](member)


async def _kill(service: Service, random: Random, until: float) -> None:
    """Kills a machine, or parts of it, every few seconds, and starts it again."""
    while time.monotonic() < until:
        await asyncio.sleep(random.uniform(3.0, 8.0))
        if random.random() < 0.5:
            service.kill_group()
            service.spawn()
            await asyncio.to_thread(service.wait_ready)
        else:
            with suppress(IndexError):  # what was killed last is not there again
                service.kill_parts(random)


async def _until_handled(url: str, first: Member) -> None:
    until = time.monotonic() + _INBOX_PATIENCE_S
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        while time.monotonic() < until:
            row = await (await connection.execute(_UNHANDLED, (first.merchant.merchant_id,))).fetchone()
            if row == (0,):
                return
            await asyncio.sleep(0.5)


def main(arguments: Sequence[str]) -> int:
    """Runs a crowd and returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m campaigns crowd", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="where the clients' choices come from (1)")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long they work (60)")
    parser.add_argument("--clients", type=int, default=6, help="how many they are (6)")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="ledger-crowd-", dir="/tmp") as place:
        home = Path(place)
        home.chmod(0o711)
        with postgres_server.running(home / "postgres") as server:
            url = new_database(server)
            with machine(url, home) as one, machine(url, home) as other:
                one.start()
                other.start()
                found = asyncio.run(crowd(one, other, options.seed, options.seconds, options.clients))
    for what in found[:50]:
        _report(f"WRONG {what}")
    return 1 if found else 0


def new_database(server: str) -> str:
    """Returns the connection string of a new, migrated database on a server."""
    template = template_of(server)
    name = f"crowd_{template}"
    with psycopg.connect(server, autocommit=True) as connection:
        clone = sql.SQL("create database {} template {}")
        connection.execute(clone.format(sql.Identifier(name), sql.Identifier(template)))
    return make_conninfo(server, dbname=name)


def machine(url: str, home: Path) -> Service:
    """Returns a service on a database, with the folder of documents that all machines share. It has not started."""
    return Service(workers=1, settings=_SETTINGS, database_url=url, files=home / "files")


def _report(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
