"""A run: the former release takes requests, this one migrates the database and joins it, and both serve the same merchants.

The clocks of the two machines may be apart. In the end the former release stops, and this one renders stored orders again,
as docs/how-to/upgrade.md has it.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Final

import psycopg
from msgspec import Struct
from psycopg.conninfo import make_conninfo
from tests import postgres_server

from campaigns.chaos.checker import Figures, Violation, judge
from campaigns.chaos.clients import MIX, REFUNDS, Load
from campaigns.chaos.rounds import settle
from campaigns.chaos.service import RECOVERY_WINDOW_S, Service
from campaigns.chaos.witness import Witness
from campaigns.rolling_upgrade.former import former_commit, lay_out, migrations_since
from campaigns.unknown_outcomes.disturbances import moved_clock

_DATABASE: Final = "ledger"
_MERCHANTS: Final = 3
_ALONE: Final = 0.1
"""The share of the operations that the former release serves alone, and this one in the end."""
_LOOK_S: Final = 0.05
_DRAINED_S: Final = 1.0
_PATIENCE_S: Final = 3600.0
_OPEN: Final = "nothing is left open"
_SETTINGS: Final = {"LEDGER_PROCESSOR_TIMEOUT_S": "10", "LEDGER_NOT_FOUND_FINAL_S": "20"}
"""Calls may take longer than the clocks are apart: the recovery of a machine takes over what is late by its own clock."""


class Plan(Struct, frozen=True, kw_only=True):
    """The size of a run. The clocks of the two machines are `apart_s` seconds apart. `former` is a commit."""

    operations: int = 20_000
    clients: int = 24
    apart_s: float = 5.0
    seed: int = 1
    former: str | None = None


class Result(Struct, frozen=True, kw_only=True):
    """What was found. `migrations` are those that the former release does not have; `served` counts the requests of each."""

    former: str
    migrations: Sequence[str]
    figures: Figures
    served: Mapping[str, int]
    stuck: int
    violations: Sequence[Violation]
    seconds: float


async def run(plan: Plan, home: Path) -> Result:
    """Runs a plan. Its files are in `home`. Raises NoFormerRelease."""
    began = time.monotonic()
    commit = plan.former or former_commit()
    lay_out(commit, home / "former")
    migrations = migrations_since(home / "former")
    with ExitStack() as stack:
        server = stack.enter_context(postgres_server.running(home / "postgres"))
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f"create database {_DATABASE}")
        url = make_conninfo(server, dbname=_DATABASE)
        ahead, behind = moved_clock(plan.apart_s / 2), moved_clock(-plan.apart_s / 2)
        path = {"PYTHONPATH": str(home / "former" / "src")}
        former, this = (
            stack.enter_context(Service(workers=1, settings=settings, database_url=url, files=home / "files"))
            for settings in ({**behind, **path, **_SETTINGS}, {**ahead, **_SETTINGS})
        )
        former.start()
        witness = Witness(home / "record.jsonl")
        stack.callback(witness.close)
        upgrade = Upgrade(plan, former, this)
        wrong = await upgrade.run(witness)
        await settle(this)
        rendered = await asyncio.to_thread(this.run_command, "rebuild")
        if rendered.returncode:
            wrong.append(f"ledger rebuild: {rendered.stderr.strip()}")
        verdict = await judge(url, home / "record.jsonl", RECOVERY_WINDOW_S)
        found = [*(Violation("upgrade", what) for what in wrong), *verdict.violations]
        said = [Violation("log", line) for service in (former, this) for line in service.complaints()[-5:]]
    return Result(
        former=commit,
        migrations=migrations,
        figures=verdict.figures,
        served=upgrade.served,
        stuck=sum(violation.rule == _OPEN for violation in verdict.violations),
        violations=[*found, *(said if found else [])],
        seconds=time.monotonic() - began,
    )


class Upgrade:
    """The two releases behind a load balancer. `served` counts the requests that each was sent."""

    def __init__(self, plan: Plan, former: Service, this: Service) -> None:
        self._plan = plan
        self._machines = {"former": former, "this": this}
        self._random = Random(plan.seed)
        self._balanced = ["former"]
        self.served = Counter[str]()

    async def run(self, witness: Witness) -> list[str]:
        """Sends all operations, first to the former release, then to both, and last to this one; returns what is wrong."""
        merchants = [self._machines["former"].merchant(f"Upgrade {n}") for n in range(_MERCHANTS)]
        load = Load(
            witness,
            merchants,
            self._port,
            clients=self._plan.clients,
            seed=self._plan.seed,
            mix={**MIX, **REFUNDS},
        )
        load.start()
        try:
            await self._until(load, _ALONE)
            self._machines["this"].spawn()
            await asyncio.to_thread(self._machines["this"].wait_ready)
            self._balanced = ["former", "this"]
            await self._until(load, 1 - _ALONE)
            self._balanced = ["this"]
            await asyncio.sleep(_DRAINED_S)
            status = await asyncio.to_thread(self._machines["former"].stop)
            await self._until(load, 1)
        finally:
            await load.stop()
        faults = Counter(request.status for request in load.ended if request.status is None or request.status >= 500)
        wrong = [f"{n} requests were answered with {status or 'nothing'}" for status, n in faults.items()]
        if status != 0:
            wrong.append(f"the former release ended with {status}: {self._machines['former'].last_words()}")
        return wrong

    def _port(self) -> int:
        """Returns the port of one of the machines that take requests."""
        name = self._random.choice(self._balanced)
        self.served[name] += 1
        return self._machines[name].port

    async def _until(self, load: Load, share: float) -> None:
        """Returns once so many of the operations have ended. Raises TimeoutError."""
        async with asyncio.timeout(_PATIENCE_S):
            while len(load.ended) < share * self._plan.operations:  # noqa: ASYNC110 - no event
                await asyncio.sleep(_LOOK_S)
