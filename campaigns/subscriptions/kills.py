"""`python -m campaigns subscriptions-kills [--kills N] [--subscriptions N] [--seed S]`: kills the API and the worker during renewals.

Each round moves the clock of a merchant to its next renewals over HTTP, and sends SIGKILL to the API process and the
worker meanwhile. It exits 1 unless every period is billed once, and all paid invoices are what their orders captured.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from random import Random

import httpx
import structlog
from tests.sealing import MASTER_KEY
from tests.subscriptions.shop import Shop

from campaigns.chaos.service import Service
from campaigns.subscriptions.year import report, wrong_in
from ledger.domain.plans.terms import Interval
from ledger.operations.context.inputs import Actor
from ledger.settings import Settings
from ledger.wiring import open_ledger

PATIENCE_S = 120.0
_LATEST_KILL_S = 1.2


def kills(count: int, subscriptions: int, *, seed: int) -> list[str]:
    """Kills the API and the worker so many times during renewals, and returns what is wrong afterwards."""
    with Service(workers=1) as service:
        service.start()
        merchant = service.merchant("renewals")
        with service.database() as url:
            return asyncio.run(
                _rounds(
                    service, Actor(merchant_id=merchant.merchant_id), merchant.api_key, url, count, subscriptions, seed
                )
            )


async def _rounds(
    service: Service, actor: Actor, key: str, url: str, count: int, subscriptions: int, seed: int
) -> list[str]:
    random = Random(seed)
    settings = Settings(database_url=url, database_vault_url=url, master_key=MASTER_KEY)
    async with open_ledger(settings) as ledger, httpx.AsyncClient(timeout=60) as client:
        shop = Shop(ledger, actor, url)
        plan = await shop.plan("Weekly", interval=Interval.WEEK)
        now = await ledger.clock.refresh(actor.merchant_id)
        start = now + timedelta(days=1)
        made = [
            (await shop.subscribe(plan, customer=f"customer-{n}", start=start)).subscription_id
            for n in range(subscriptions)
        ]
        address, began = f"http://127.0.0.1:{service.port}/api/sandbox/clock", time.monotonic()
        for number in range(count):
            moving = asyncio.create_task(_move(client, address, key, start + timedelta(days=7 * number)))
            await asyncio.sleep(random.uniform(0.0, _LATEST_KILL_S))
            await asyncio.to_thread(_wait_for_both, service)
            service.kill_parts(random)
            await moving
        until = start + timedelta(days=7 * count)
        deadline = time.monotonic() + PATIENCE_S
        while True:
            until += timedelta(minutes=2)
            await _move(client, address, key, until)
            wrong, periods = await wrong_in(shop, made)
            open_charges = [one for one in made if (await shop.at(one)).charge is not None]
            if not (wrong or open_charges) or time.monotonic() > deadline:
                break
            await asyncio.sleep(0.5)
        report(
            f"{count} kills, {periods} periods of {subscriptions} subscriptions billed in "
            f"{time.monotonic() - began:.0f} s, {len(wrong)} wrong"
        )
        return [*wrong, *(f"{one} has a charge without an outcome" for one in open_charges)]


def _wait_for_both(service: Service) -> None:
    """Returns when the parent has replaced the processes that were killed last."""
    until = time.monotonic() + PATIENCE_S
    while not {"api", "worker"} <= set(service.roles().values()) and time.monotonic() < until:
        time.sleep(0.05)


async def _move(client: httpx.AsyncClient, address: str, key: str, to: datetime) -> None:
    """Moves the clock, again until the service answers that it has."""
    until = time.monotonic() + PATIENCE_S
    body, headers = {"advanceTo": to.isoformat()}, {"x-api-key": key}
    while time.monotonic() < until:
        try:
            answer = await client.post(address, json=body, headers=headers)
        except httpx.TransportError:
            await asyncio.sleep(0.1)
            continue
        if answer.status_code == 200 and answer.json()["more"]:
            continue
        if answer.status_code == 200 or (answer.status_code == 400 and "before" in answer.text):
            return
        await asyncio.sleep(0.2)
    raise TimeoutError(f"the clock does not move: {answer.status_code} {answer.text}")


def main(arguments: Sequence[str]) -> int:
    """Runs the kills on a service of its own, and returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m campaigns subscriptions-kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--subscriptions", type=int, default=20)
    parser.add_argument("--seed", type=int, default=int(time.time()) % 1_000_000)
    options = parser.parse_args(arguments)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    wrong = kills(options.kills, options.subscriptions, seed=options.seed)
    for what in wrong[:50]:
        report(f"WRONG {what}")
    return 1 if wrong else 0
