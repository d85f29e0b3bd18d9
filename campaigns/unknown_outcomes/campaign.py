"""Payments with a processor that fails in every way, while the service is killed or its processes are disturbed at random.

Each client repeats its request until the answer is final, as a merchant's program does. Then the campaign waits for as
long as the recovery may take, and only then compares.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Protocol
from urllib.parse import quote

import psycopg
from msgspec import Struct
from psycopg.conninfo import conninfo_to_dict

from campaigns.chaos import bodies
from campaigns.chaos.clients import Merchant, amount_of
from campaigns.chaos.evidence import gather
from campaigns.chaos.proxy import proxied
from campaigns.chaos.running import environ
from campaigns.chaos.service import Service
from campaigns.chaos.wire import Lost, NotSent, Wire
from campaigns.fake_processor.modes import Mode
from campaigns.fake_processor.record import read
from campaigns.fake_processor.service import FakedService, fake_processor
from campaigns.unknown_outcomes.comparison import Verdict, compare
from campaigns.unknown_outcomes.disturbances import Disturbances, DisturbedService, disturb

_NOT_FOUND_FINAL_S = 8.0
_SETTLE_S = 60.0
_GIVE_UP_S = 300.0
_QUIET = 30  # checks in a row: what follows from an outcome becomes due a moment later

_NEXT_ACTIONS = (None, None, "capture", "cancel", "refund")
"""What a merchant does next with an order, if anything."""
_UNDER_WAY = {"PROCESSING", "CANCELLATION_REQUESTED", "REFUND_PROCESSING"}

# Citus reads no rows without a column.
_OPEN = """
select exists (select 1 from payment_order where call_deadline_at is not null)
    or exists (select 1 from due_time where due_at <= now()) or exists (select 1 from public_jobs.procrastinate_jobs)
"""


class BodyOf(Protocol):
    """Returns a merchant's request to pay the order of this name by a card that is approved or declined."""

    async def __call__(self, name: str, card: str, *, manual: bool) -> bytes: ...


class Plan(Struct, frozen=True, kw_only=True):
    """The size of a campaign.

    `kill_every_s` is the mean time between two kills, None for no kills. `trouble` is the share of calls that fail.
    """

    payments: int = 5000
    clients: int = 24
    seed: int = 1
    trouble: float = 0.3
    kill_every_s: float | None = 5.0
    disturbances: Disturbances | None = None


class Result(Struct, frozen=True):
    """The result: the verdict, how often the service was killed and disturbed, and how many seconds the campaign took."""

    verdict: Verdict
    kills: int
    seconds: float
    disturbances: Mapping[str, int] = {}


async def run(plan: Plan, home: Path) -> Result:
    """Runs a plan. Its files are in `home`."""
    began = time.monotonic()
    record = home / "processor.jsonl"
    options = ("--seed", str(plan.seed), "--trouble", str(plan.trouble))
    settings = {"LEDGER_NOT_FOUND_FINAL_S": str(_NOT_FOUND_FINAL_S)}
    async with AsyncExitStack() as stack:
        fake = stack.enter_context(fake_processor(record, home / "processor.log", environ({}), *options))
        if plan.disturbances is None:
            service = stack.enter_context(FakedService(fake.wait_port(), settings=settings))
        else:
            # A stopped process is to go on, so its parent waits for it.
            settings |= {"LEDGER_PING_TIMEOUT_S": "3600"}
            proxy = await stack.enter_async_context(proxied(f"host=127.0.0.1 port={fake.wait_port()}"))
            port = int(conninfo_to_dict(proxy.url)["port"] or 0)
            service = stack.enter_context(DisturbedService(proxy, port, can_fence=True, settings=settings))
        service.start()
        merchant = service.merchant("Unknown outcomes")
        kills, disturbances = await pay(service, merchant, plan)
        await settle(service, _SETTLE_S + (plan.disturbances.clock_max_s if plan.disturbances else 0))
        with service.database() as url:
            verdict = compare(read(record), await gather(url))
    missed = [f"no call was treated as {mode}" for mode in Mode if not verdict.totals.calls.get(mode)]
    if verdict.totals.payments < plan.payments:
        missed.append(f"only {verdict.totals.payments} of {plan.payments} payments were made")
    verdict = Verdict([*verdict.violations, *missed], verdict.totals)
    return Result(verdict, kills, time.monotonic() - began, disturbances)


async def by_number(name: str, card: str, *, manual: bool) -> bytes:
    """Returns a merchant's request to pay an order by a card's number."""
    body = bodies.create(name, amount_of(name), card)
    return json.dumps({**json.loads(body), "captureMethod": "MANUAL"}).encode() if manual else body


async def pay(
    service: Service, merchant: Merchant, plan: Plan, body_of: BodyOf = by_number
) -> tuple[int, Mapping[str, int]]:
    """Makes all payments, and returns how often the service was killed and disturbed meanwhile."""
    random = Random(plan.seed)
    names = [f"unknown/{plan.seed}/{n}" for n in range(plan.payments)]
    remaining = iter(names)

    async def client() -> None:
        wire = Wire()
        for name in remaining:
            card = "declined" if random.random() < 0.1 else "approved"
            action = random.choice(_NEXT_ACTIONS)
            body = await body_of(name, card, manual=action in {"capture", "cancel"})
            await _until_answered(service, wire, merchant, name, body)
            if action is not None:
                await _until_done(service, wire, merchant, name, action)
        await wire.close()

    paying = asyncio.gather(*[client() for _ in range(plan.clients)])
    disturbing = None
    if plan.disturbances is not None:
        assert isinstance(service, DisturbedService), "the campaign makes one"
        disturbing = asyncio.create_task(disturb(service, plan.disturbances, plan.seed + 1, paying))
    kills = 0
    while plan.kill_every_s is not None:
        done, _ = await asyncio.wait([paying], timeout=random.uniform(0.3, 1.7) * plan.kill_every_s)
        if done:
            break
        service.kill_group()
        service.spawn()
        await asyncio.to_thread(service.wait_ready)
        kills += 1
    await paying
    return kills, {} if disturbing is None else await disturbing


async def _until_answered(service: Service, wire: Wire, merchant: Merchant, name: str, body: bytes) -> None:
    deadline = time.monotonic() + _GIVE_UP_S
    while time.monotonic() < deadline:
        try:
            await wire.open(service.port)
            answer = await wire.ask("POST", bodies.ORDERS, merchant.api_key, body)
        except (NotSent, Lost):
            await asyncio.sleep(0.1)
            continue
        if answer.status in {200, 201, 422}:
            return
        if answer.status not in {409, 503} or json.loads(answer.body)["code"] == "DUPLICATE_EXTERNAL_ID":
            raise AssertionError(f"{name}: {answer.status} {answer.body!r}")
        await asyncio.sleep(0.1)
    raise AssertionError(f"{name} was not answered within {_GIVE_UP_S} s")


async def _until_done(service: Service, wire: Wire, merchant: Merchant, name: str, action: str) -> None:
    """Repeats the action after the payment until its answer is final, or until the payment has failed."""
    path = f"{bodies.ORDERS}/{quote(name, safe='')}/{action}"
    body = json.dumps(_action_body(name, action)).encode()
    deadline = time.monotonic() + _GIVE_UP_S
    while time.monotonic() < deadline:
        try:
            await wire.open(service.port)
            answer = await wire.ask("POST", path, merchant.api_key, body)
        except (NotSent, Lost):
            await asyncio.sleep(0.1)
            continue
        if answer.status in {200, 201, 422}:
            return
        current_status = json.loads(answer.body).get("currentStatus", "PROCESSING")
        if answer.status == 409 and current_status not in _UNDER_WAY:
            return
        if answer.status not in {409, 503}:
            raise AssertionError(f"{name} {action}: {answer.status} {answer.body!r}")
        await asyncio.sleep(0.3)
    raise AssertionError(f"{action} of {name} was not answered within {_GIVE_UP_S} s")


def _action_body(name: str, action: str) -> dict[str, object]:
    if action == "refund":
        return {"amount": max(1, amount_of(name) // 3), "externalId": f"{name}/refund", "reason": "Taza rota"}
    return {}


async def settle(service: Service, patience_s: float) -> None:
    """Waits until no call is open and nothing is due, for at most so long: a call that is open then is a violation."""
    deadline, quiet = time.monotonic() + patience_s, 0
    with service.database() as url:
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            while time.monotonic() < deadline:
                row = await (await connection.execute(_OPEN)).fetchone()
                quiet = quiet + 1 if row == (False,) else 0
                if quiet > _QUIET:
                    return
                await asyncio.sleep(0.1)
