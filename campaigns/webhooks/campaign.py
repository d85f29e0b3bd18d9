"""The load, the kills, and the wait until everything has arrived."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from http import HTTPStatus
from random import Random
from typing import Any, Final

from msgspec import Struct

from campaigns.chaos.clients import Load, Merchant
from campaigns.chaos.evidence import gather
from campaigns.chaos.rounds import settle
from campaigns.chaos.service import Service
from campaigns.chaos.wire import Lost, Wire
from campaigns.chaos.witness import Witness
from campaigns.webhooks import consumer
from campaigns.webhooks.comparison import Feed, violations
from campaigns.webhooks.receiver import Receiver, receiving

_PATIENCE_S: Final = 180.0
_BACK_S: Final = 60.0
_PAGE: Final = 1_000
_ROLES: Final = ("worker", "api", "postgres")


class Endpoint(Struct, frozen=True):
    """An endpoint of the campaign: its name is the last part of its URL."""

    name: str
    of_first: bool
    fields: dict[str, str] = {}

    @property
    def is_thin(self) -> bool:
        return self.fields.get("payload") == "THIN"


FAILING: Final = "failing"
ENDPOINTS: Final = (
    Endpoint("plain", of_first=True),
    Endpoint(FAILING, of_first=True),
    Endpoint("strict", of_first=True, fields={"ordering": "STRICT"}),
    Endpoint("thin", of_first=True, fields={"payload": "THIN"}),
    Endpoint("other", of_first=False),
)


class Plan(Struct, frozen=True, kw_only=True):
    """The size of a campaign. The consumer is killed `consumer_kills` times meanwhile."""

    kills: int = 60
    consumer_kills: int = 100
    clients: int = 12
    seed: int = 28


class Result(Struct, frozen=True, kw_only=True):
    """What a campaign found: messages that arrived, by endpoint, and events, by merchant."""

    violations: Sequence[str]
    arrived: Mapping[str, int]
    events: Sequence[int]
    refused: int
    repeated: int
    seconds: float


async def run(plan: Plan) -> Result:
    """Runs a plan on a service of its own."""
    began, random = time.monotonic(), Random(plan.seed)
    async with receiving(frozenset({FAILING}), random) as receiver:
        with Service() as service:
            await asyncio.to_thread(service.start)
            merchants = [service.merchant("First"), service.merchant("Other")]
            for endpoint in ENDPOINTS:
                await _create(service, merchants[not endpoint.of_first], endpoint, receiver)
            witness = Witness(service.home / "record.jsonl")
            try:
                follow = await _under_load(plan, service, merchants, witness, random)
            finally:
                witness.close()
            feeds, wrong_totals = await _at_rest(service, merchants, receiver, follow)
            found = [
                what
                for endpoint in ENDPOINTS
                for what in violations(
                    endpoint.name,
                    receiver.arrivals.get(endpoint.name, []),
                    feeds[not endpoint.of_first],
                    plan.kills,
                    is_thin=endpoint.is_thin,
                )
            ]
            found += wrong_totals
    arrivals = [each for some in receiver.arrivals.values() for each in some]
    refused = sum(not each.is_accepted for each in arrivals)
    distinct = sum(len({each.event_id for each in some}) for some in receiver.arrivals.values())
    return Result(
        violations=found,
        arrived={name: len(some) for name, some in receiver.arrivals.items()},
        events=[len(feed.events) for feed in feeds],
        refused=refused,
        repeated=len(arrivals) - distinct - refused,
        seconds=time.monotonic() - began,
    )


async def _under_load(
    plan: Plan, service: Service, merchants: Sequence[Merchant], witness: Witness, random: Random
) -> Callable[[], Mapping[str, Decimal]]:
    """Kills one part after the other while orders are made and paid. Returns what lets the killed consumer read to the
    end of the feed, and returns its totals.
    """
    load = Load(witness, merchants, lambda: service.port, clients=plan.clients, seed=plan.seed)
    address, key, database = f"http://127.0.0.1:{service.port}/api", merchants[0].api_key, service.home / "totals.db"
    load.start()
    following = asyncio.create_task(
        consumer.follow_and_kill(address, key, database, plan.consumer_kills, Random(plan.seed))
    )
    try:
        for n in range(plan.kills):
            await load.first_write_after(time.monotonic(), _BACK_S)
            await asyncio.sleep(random.uniform(0.1, 1.0))
            await _kill(service, _ROLES[n % len(_ROLES)], random)
        await load.first_write_after(time.monotonic(), _BACK_S)
        await following
    finally:
        following.cancel()
        await load.stop()
    await settle(service)
    return partial(consumer.totals, address, key, database)


async def _at_rest(
    service: Service, merchants: Sequence[Merchant], receiver: Receiver, follow: Callable[[], Mapping[str, Decimal]]
) -> tuple[Sequence[Feed], Sequence[str]]:
    """Returns the feeds once all of them has arrived and nothing has happened meanwhile, and what is wrong with the
    totals of the consumer. What was authorized is captured later, after a kill up to some minutes later.
    """
    deadline = time.monotonic() + _PATIENCE_S
    feeds = [Feed(await _events(service, merchant)) for merchant in merchants]
    while True:
        await _all_arrived(receiver, feeds)
        wrong_totals = await _wrong_totals(service, merchants[0], await asyncio.to_thread(follow))
        before, feeds = feeds, [Feed(await _events(service, merchant)) for merchant in merchants]
        if [feed.events.keys() for feed in before] == [feed.events.keys() for feed in feeds]:
            return feeds, wrong_totals
        if time.monotonic() > deadline:
            return feeds, [*wrong_totals, "the service did not come to rest"]


async def _kill(service: Service, role: str, random: Random) -> None:
    if role == "postgres":
        service.kill_postgres()
        return
    pids = sorted(pid for pid, its in service.roles().items() if its == role)
    if pids:  # the parent may be starting it
        os.kill(random.choice(pids), signal.SIGKILL)


async def _create(service: Service, merchant: Merchant, endpoint: Endpoint, receiver: Receiver) -> None:
    body = json.dumps({"url": receiver.url(endpoint.name), **endpoint.fields}).encode()
    await _ask(service, merchant, "POST", "/api/v1/webhook-endpoints", body, expect=201)


async def _events(service: Service, merchant: Merchant) -> list[Mapping[str, Any]]:
    """Returns all public events of a merchant, oldest first."""
    found: list[Mapping[str, Any]] = []
    has_more, after = True, 0
    while has_more:
        page = await _ask(service, merchant, "GET", f"/api/v1/events?afterSequence={after}&limit={_PAGE}")
        found += page["data"]
        has_more, after = page["hasMore"], page["lastSequence"]
    return found


async def _ask(
    service: Service, merchant: Merchant, method: str, path: str, body: bytes | None = None, expect: int = 200
) -> Any:
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        wire = Wire()
        await wire.open(service.port)
        try:
            answer = await wire.ask(method, path, merchant.api_key, body)
        except Lost:
            if method != "GET" or time.monotonic() > deadline:
                raise
            continue  # a read may be made again
        finally:
            await wire.close()
        if answer.status != HTTPStatus.SERVICE_UNAVAILABLE or time.monotonic() > deadline:
            break  # 503 right after a kill: it asks to try again
        await asyncio.sleep(0.5)
    assert answer.status == expect, (answer.status, answer.body)
    return json.loads(answer.body)


async def _all_arrived(receiver: Receiver, feeds: Sequence[Feed]) -> None:
    """Waits until every endpoint has accepted every event, as long as that may take."""
    deadline = time.monotonic() + _PATIENCE_S
    wanted = {endpoint.name: feeds[not endpoint.of_first].events.keys() for endpoint in ENDPOINTS}
    while time.monotonic() < deadline:
        if all(events <= receiver.accepted(name) for name, events in wanted.items()):
            return
        await asyncio.sleep(0.5)


async def _wrong_totals(service: Service, merchant: Merchant, totals: Mapping[str, Decimal]) -> list[str]:
    """Returns whether the consumer's totals differ from those of the log."""
    with service.database() as url:
        evidence = next(each for each in await gather(url) if each.merchant_id == merchant.merchant_id)
    held: dict[str, Decimal] = {}
    for order in evidence.orders.values():
        currency = order.terms.currency
        held[currency] = held.get(currency, Decimal(0)) + order.amount_paid - order.amount_refunded
    held = {currency: total for currency, total in held.items() if total}
    return [] if held == totals else [f"the consumer has {dict(totals)}, and the log {held}"]
