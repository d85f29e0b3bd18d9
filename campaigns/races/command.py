"""`python -m campaigns races [--rounds N]`: runs each race for money through two processes, that often.

It exits 1 when anything is wrong in any round, in the log or in the processor's rows.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo
from tests import postgres_server

from campaigns.races.money import RACES, RaceService
from campaigns.races.running import two_processes, wrong_in
from ledger.postgres.migrate import migrate


def main(arguments: Sequence[str]) -> int:
    """Runs the races and returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m campaigns races", description=__doc__)
    parser.add_argument("--rounds", type=int, default=500)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="ledger-races-", dir="/tmp") as place:
        home = Path(place)
        home.chmod(0o711)
        with postgres_server.running(home / "postgres") as url:
            template = template_of(url)
            with two_processes(url, template, home / "log") as (installation, service):
                wrong = [what for name in RACES for what in asyncio.run(_rounds(service, name, options.rounds))]
                wrong += asyncio.run(wrong_in(installation))
    for what in wrong[:50]:
        _print(f"WRONG {what}")
    return 1 if wrong else 0


async def _rounds(service: RaceService, name: str, rounds: int) -> list[str]:
    began = time.monotonic()
    wrong = [what for number in range(rounds) for what in await RACES[name](service, f"{name}/{number}")]
    _print(f"{name}: {rounds} rounds, {len(wrong)} wrong, {time.monotonic() - began:.0f} s")
    return wrong


def template_of(url: str) -> str:
    """Returns the name of a new migrated database on a server, which others are cloned from."""
    name = f"template_{uuid4().hex}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
    migrate(make_conninfo(url, dbname=name))
    return name


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
