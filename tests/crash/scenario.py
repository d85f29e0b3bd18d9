"""Named crashes of a payment, run once: crash, recover, crash again, recover after a recovery that crashes, ask again.

All crashes share one database and one recovery, so that the recovery's windows pass once for all of them. Each has an
order of its own.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote
from uuid import UUID

import psycopg
from campaigns.chaos import bodies
from campaigns.chaos.clients import Merchant
from campaigns.chaos.evidence import MerchantEvidence, gather
from campaigns.chaos.installation import Installation
from campaigns.chaos.running import LEDGER, Running, new_merchant
from campaigns.chaos.service import RECOVERY_WINDOW_S
from campaigns.chaos.wire import Answer, Lost, Wire
from msgspec import Struct
from tests.crash.launcher import POINTS, WORKER_POINTS

AMOUNT = 10_000
_LAUNCHER = [*LEDGER[:2], "-m", "tests.crash.launcher"]
_SETTLED_PATIENCE_S = RECOVERY_WINDOW_S + 30
_DEATH_PATIENCE_S = 30.0
_AT_ONCE = 15
"""Each process has connections of its own, and a test's server has no more of them than another."""
ALIVE = 0
"""The exit status in `exits` of a process that was not killed."""


class Case(Struct, frozen=True, kw_only=True):
    """A request whose process is killed at `first`, and at `second` when it is repeated after the recovery.

    "keyed" is a create under an Idempotency-Key, another one for each attempt.
    """

    do: Literal["create", "charge", "keyed"]
    first: str
    second: str | None = None

    @property
    def name(self) -> str:
        return "/".join(filter(None, (self.do, self.first, self.second)))

    @property
    def points(self) -> Sequence[str]:
        return [point for point in (self.first, self.second) if point is not None]


KINDS: Sequence[Literal["create", "charge", "keyed"]] = ("create", "charge", "keyed")
CASES: Sequence[Case] = [
    *(Case(do=do, first=point) for do in KINDS for point in POINTS),
    # Only a payment that did not succeed can be tried again, and be killed again.
    *(
        Case(do=do, first=first, second=second)
        for do in KINDS
        for first in ("before-intent", "after-intent")
        for second in POINTS
    ),
]  # fmt: skip


SHORT: Sequence[Case] = [
    *(Case(do="create", first=point) for point in POINTS),
    Case(do="charge", first="during-call"),
    Case(do="charge", first="after-intent", second="after-answer"),
    Case(do="keyed", first="after-answer"),
    Case(do="keyed", first="before-intent", second="after-intent"),
]
"""Every point once, every kind of request, and requests that are killed twice: what runs at every change."""


class Reply(Struct, frozen=True, kw_only=True):
    """The parts of an answer that matter here. `order_id` is None where there was no order."""

    status: int
    order_id: UUID | None = None
    order_status: str | None = None
    payments: int = 0
    replayed: bool = False


class Seen(Struct, kw_only=True):
    """What clients saw in one case: after its last recovery, when they repeated the request, and when they paid."""

    ends: list[str] = []
    meanwhile: Reply | None = None
    settled: Reply
    repeated: Reply
    paid: Reply
    again: Reply


class CrashResult(Struct, frozen=True, kw_only=True):
    """The result of all cases. `exits` are the exit statuses of the processes that were killed, by case and point."""

    seen: Mapping[Case, Seen]
    exits: Mapping[str, int]
    evidence: MerchantEvidence


class CrashScenario:
    """Runs cases on an installation. `log` receives the output of the processes."""

    def __init__(self, installation: Installation, log: Path, cases: Sequence[Case]) -> None:
        self._installation = installation
        self._log = log
        self._cases = cases
        self._merchant: Merchant = new_merchant("Crash", installation.environment)
        self._exits: dict[str, int] = {}
        self._ends: dict[Case, list[str]] = {case: [] for case in cases}
        self._port = 0

    async def run(self) -> CrashResult:
        """Runs the cases."""
        with self._run([*LEDGER, "api", "--port", "0"]) as api:
            self._port = api.wait_port()
            await asyncio.gather(*[self._ask_create(case, None) for case in self._cases if case.do == "charge"])
            await self._crash(self._cases, 0)
            meanwhile = await self._recover_while_asked()
            await self._crash([case for case in self._cases if case.second is not None], 1)
            await self._kill_recoveries()
            with self._run([*LEDGER, "worker"]) as worker:
                worker.wait_ready()
                await self._settled()
            replies = await asyncio.gather(*[self._ask_again(case) for case in self._cases])
        (evidence,) = await gather(self._installation.url)
        seen = {
            case: Seen(
                ends=self._ends[case],
                meanwhile=meanwhile.get(case),
                settled=settled,
                repeated=repeated,
                paid=paid,
                again=again,
            )
            for case, (settled, repeated, paid, again) in zip(self._cases, replies, strict=True)
        }
        return CrashResult(seen=seen, exits=self._exits, evidence=evidence)

    def _run(self, command: Sequence[str]) -> Running:
        return Running(command, self._installation.environment, self._log)

    async def _crash(self, cases: Sequence[Case], attempt: int) -> None:
        """Sends each case's request to a process that is killed by it."""
        for first in range(0, len(cases), _AT_ONCE):
            some = cases[first : first + _AT_ONCE]
            with self._run([*_LAUNCHER, "api", *(case.points[attempt] for case in some)]) as launcher:
                ports = list(map(int, launcher.wait_ready()))
                for case, port in zip(some, ports, strict=True):
                    end = await self._ask_and_lose(case, attempt, port)
                    self._ends[case].append(end)
                    is_alive = end.startswith("answered")
                    self._exits[f"{case.name} {attempt}"] = ALIVE if is_alive else await exit_of(launcher)

    async def _recover_while_asked(self) -> Mapping[Case, Reply]:
        """Lets a worker recover what the first crashes left open, while clients repeat the requests of single
        crashes.
        """
        asked = [case for case in self._cases if case.second is None]
        asking = asyncio.gather(*[self._ask_create(case, "approved") for case in asked])
        await asyncio.sleep(0.3)  # they arrive before the recovery runs
        with self._run([*LEDGER, "worker"]) as worker:
            await asyncio.to_thread(worker.wait_ready)
            replies = await asking
            await self._settled()
        return dict(zip(asked, replies, strict=True))

    async def _kill_recoveries(self) -> None:
        """Runs recoveries that are killed at their first outcome: before it is committed, and after."""
        for point in WORKER_POINTS:
            with self._run([*_LAUNCHER, "worker", point]) as worker:
                worker.wait_ready()
                self._exits[f"recovery/{point}"] = await exit_of(worker)

    async def _ask_and_lose(self, case: Case, attempt: int, port: int) -> str:
        wire = Wire()
        await wire.open(port)
        try:
            answer = await wire.ask(*self._request(case, attempt))
        except Lost as lost:
            return str(lost)
        finally:
            await wire.close()
        return f"answered {answer.status}"

    async def _ask_again(self, case: Case) -> tuple[Reply, Reply, Reply, Reply]:
        settled = await self._ask("GET", f"{bodies.ORDERS}/{quote(case.name, safe='')}", self._merchant.api_key)
        repeated = await self._ask(*self._request(case, len(case.points) - 1))
        paid = await self._ask_create(case, "approved")
        again = await self._ask_create(case, "approved")
        return settled, repeated, paid, again

    async def _ask_create(self, case: Case, card: str | None) -> Reply:
        return await self._ask("POST", bodies.ORDERS, self._merchant.api_key, bodies.create(case.name, AMOUNT, card))

    def _request(self, case: Case, attempt: int) -> tuple[str, str, str, bytes, str | None]:
        key = f"{case.name} attempt {attempt}" if case.do == "keyed" else None
        if case.do != "charge":
            return "POST", bodies.ORDERS, self._merchant.api_key, bodies.create(case.name, AMOUNT, "approved"), key
        path = f"{bodies.ORDERS}/{quote(case.name, safe='')}/charge"
        return "POST", path, self._merchant.api_key, bodies.charge("approved", f"attempt {attempt}"), key

    async def _ask(
        self, method: str, path: str, api_key: str, body: bytes | None = None, key: str | None = None
    ) -> Reply:
        wire = Wire(timeout_s=15)
        await wire.open(self._port)
        try:
            return _reply(await wire.ask(method, path, api_key, body, key))
        finally:
            await wire.close()

    async def _settled(self) -> None:
        """Waits until no call is open. Raises AssertionError where that takes longer than the recovery's windows
        allow.
        """
        began = time.monotonic()
        query = "select count(*) from payment_order where call_deadline_at is not null"
        async with await psycopg.AsyncConnection.connect(self._installation.url, autocommit=True) as connection:
            while (row := await (await connection.execute(query)).fetchone()) != (0,):
                assert time.monotonic() < began + _SETTLED_PATIENCE_S, f"{row} calls are still open"
                await asyncio.sleep(0.05)


async def exit_of(launcher: Running) -> int:
    """Returns the exit status of the launcher's next process that ends; ALIVE where none does."""
    try:
        async with asyncio.timeout(_DEATH_PATIENCE_S):
            line = await asyncio.to_thread(launcher.line)
    except TimeoutError:
        return ALIVE
    return int(line.split()[-1]) if line.startswith("died") else ALIVE


def _reply(answer: Answer) -> Reply:
    body: dict[str, Any] = json.loads(answer.body)
    if answer.status >= 400 and "paymentOrder" not in body:
        return Reply(status=answer.status)
    order = body.get("paymentOrder", body)
    return Reply(
        status=answer.status,
        order_id=UUID(order["id"]),
        order_status=order["status"],
        payments=len(order["payments"]),
        replayed="idempotent-replayed" in answer.headers,
    )
