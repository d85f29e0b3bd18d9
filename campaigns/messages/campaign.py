"""Two runs of the script at a running service: one with each message once and in order, one with messages as networks have
them. The orders must end in the same states.

In the second run every message is sent several times, up to two seconds late, so that they come in any order; Stripe answers
each call a second late, so that half of the messages come before the answer of their own call; and some messages never come.
`ledger messages fetch`, which the worker does every ten minutes, brings those.
"""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import psycopg
from msgspec import Struct

from campaigns.chaos.clients import Merchant
from campaigns.chaos.running import LEDGER, NotReady
from campaigns.chaos.service import Service
from campaigns.fake_stripe.running import control, fake_stripe
from campaigns.messages.script import KINDS, Placed, Shop

SETTINGS: Final = {"LEDGER_PROCESSOR_TIMEOUT_S": "10", "LEDGER_NOT_FOUND_FINAL_S": "30"}
_CALM: Final = {"copies": 1}
_REFUNDS_END_S: Final = 10
"""After how many seconds the fake ends a refund of a transfer."""
_PATIENCE_S: Final = 180.0
_QUIET: Final = 5
_RETRY_S: Final = 3.0

_WAITING: Final = "select message_id, body::json->>'type', waits_for from processor_message where handled_at is null"
_OPEN: Final = "select exists (select from payment_order where call_deadline_at is not null)"
_DUE: Final = "update processor_message set next_try_at = now() where handled_at is null and next_try_at < 'infinity'"


class Plan(Struct, frozen=True, kw_only=True):
    """The size of the campaign. `lost` is the share of messages that never come."""

    orders: int = 1000
    copies: int = 3
    lost: float = 0.1
    late_s: float = 2.0
    answer_s: float = 1.0
    seed: int = 1


class Result(Struct, frozen=True, kw_only=True):
    """The orders that ended otherwise than in the calm run, messages that still wait, and what was counted.

    `states` are those of the first order of each kind. `sent` counts deliveries, `lost` the messages that never came.
    """

    violations: Sequence[str]
    states: Mapping[str, str]
    sent: int
    lost: int
    fetched: int
    seconds: float


class Served(Service):
    """`ledger serve` at the fake of Stripe, whose own command line is used too."""

    def __init__(self, stripe_url: str) -> None:
        super().__init__(settings={**SETTINGS, "LEDGER_STRIPE_URL": stripe_url})

    def fetch(self) -> int:
        """Runs `ledger messages fetch`, and returns how many messages were missing."""
        command = [*LEDGER, "messages", "fetch", "--json"]
        done = subprocess.run(
            command, env=self._environ, cwd="/", capture_output=True, text=True, timeout=_PATIENCE_S, check=False
        )
        if done.returncode:
            raise NotReady(f"ledger messages fetch: {done.stderr.strip()}")
        return int(msgspec.json.decode(done.stdout)["fetched"])


async def run(plan: Plan, home: Path) -> Result:
    """Runs a plan. Its files are in `home`."""
    began = time.monotonic()
    accounts = ("--account", "calm", "--account", "stormy", "--seed", str(plan.seed))
    with fake_stripe(home / "record.jsonl", home / "fake.log", *accounts) as fake:
        [url] = fake.wait_ready()
        with Served(url) as service:
            service.start()
            calm, _ = await _run(service, url, "calm", plan)
            storm = {"copies": plan.copies, "never": plan.lost, "delay_s": [0.0, plan.late_s], "seed": plan.seed}
            control(url, "deliveries", storm)
            late = {"probability": 1.0, "seconds": plan.answer_s, "faults": ["slow_after"], "seed": plan.seed}
            control(url, "trouble", late)
            stormy, fetched = await _run(service, url, "stormy", plan)
            with service.database() as database:
                waiting = await _waiting(database)
        messages = control(url, "state", None, "GET")
    violations = [
        f"{placed.name} ({placed.kind}): {state} instead of {expected}"
        for (placed, expected), (_, state) in zip(calm, stormy, strict=True)
        if state != expected
    ]
    violations += [f"a message waits: {row}" for row in waiting]
    violations += [f"{messages['violations']} answers of the fake are outside Stripe's description"] * bool(
        messages["violations"]
    )
    states = {placed.kind: str(state["status"]) for placed, state in calm[: len(KINDS)]}
    sent, lost = messages["messages"]["sent"], messages["messages"]["lost"]
    seconds = time.monotonic() - began
    return Result(violations=violations, states=states, sent=sent, lost=lost, fetched=fetched, seconds=seconds)


async def _run(service: Served, url: str, account: str, plan: Plan) -> tuple[list[tuple[Placed, Any]], int]:
    """Carries the script out for one merchant; returns the orders with their states, and how many messages were fetched."""
    merchant: Merchant = await asyncio.to_thread(service.merchant, account)
    async with Shop(service.port, merchant, url, account) as shop:
        await shop.connect()
        orders = await shop.create_all(plan.orders)
        await shop.side_by_side(shop.happen, orders)
        fetched = await _settle(service, url)
        await shop.side_by_side(shop.go_back, orders)
        # Its clock is not moved: the fetching asks for what happened until now, and the fake would be ahead.
        await asyncio.sleep(_REFUNDS_END_S)
        fetched += await _settle(service, url)
        return list(zip(orders, await shop.side_by_side(shop.state, orders), strict=True)), fetched


async def _settle(service: Served, url: str) -> int:
    """Waits until all messages have come and are recorded, fetches those that have not, and waits again."""
    await _wait(service, url)
    fetched = await asyncio.to_thread(service.fetch)
    await _wait(service, url)
    return fetched


async def _wait(service: Served, url: str) -> None:
    """Waits until no message is on its way or waits, and no call is open; at most so long."""
    deadline, quiet, tried_at = time.monotonic() + _PATIENCE_S, 0, 0.0
    with service.database() as database:
        async with await psycopg.AsyncConnection.connect(database, autocommit=True) as connection:
            while time.monotonic() < deadline and quiet < _QUIET:
                on_their_way = (await asyncio.to_thread(control, url, "state", None, "GET"))["messages"]["waiting"]
                waiting = await (await connection.execute(_WAITING)).fetchone()
                is_open = await (await connection.execute(_OPEN)).fetchone()
                quiet = quiet + 1 if not on_their_way and waiting is None and is_open == (False,) else 0
                if waiting is not None and time.monotonic() - tried_at > _RETRY_S:
                    tried_at = time.monotonic()
                    await connection.execute(_DUE)  # their pauses grow to minutes
                await asyncio.sleep(0.2)


async def _waiting(database: str) -> list[tuple[Any, ...]]:
    async with await psycopg.AsyncConnection.connect(database, autocommit=True) as connection:
        return await (await connection.execute(_WAITING)).fetchall()
