"""Payments at Stripe by card tokens, through two servers that let requests fail, while the service is killed at random.

The cutting proxy ends connections in the middle of a request or of its answer. Behind it, another server fails as Stripe does:
it stores failures, delays requests, and turns them away. Behind both is Stripe World or our fake of Stripe.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import Final
from weakref import WeakKeyDictionary

import aiohttp
from aiohttp import web
from msgspec.structs import replace
from psycopg.conninfo import conninfo_to_dict

from campaigns.chaos import bodies
from campaigns.chaos.clients import Merchant, amount_of
from campaigns.chaos.evidence import gather
from campaigns.chaos.proxy import Wire, proxied
from campaigns.chaos.service import Service
from campaigns.fake_stripe.running import control, fake_stripe
from campaigns.stand_ins.environment import stripe_world
from campaigns.stand_ins.interference import Fault, decides, interfered
from campaigns.unknown_outcomes.campaign import Plan, Result, pay, settle
from campaigns.unknown_outcomes.comparison import Verdict
from campaigns.unknown_outcomes.stripe_lists import compare_lists, listed
from ledger.processors.stripe.charges import REFUNDS

ACCOUNT: Final = "mx"
RARELY: Final = 50
"""A campaign with so many payments for each fault meets that fault at least once."""

_NOT_FOUND_FINAL_S: Final = 8.0
_TIMEOUT_S: Final = 2.0
_SETTLE_S: Final = 120.0
_LATE_S: Final = 4.0
_CONNECT_TRIES: Final = 10
_CUT_SHARE: Final = 0.4
"""Which share of the faults the cutting proxy has: it meets every request, the other server those that can move money."""


class StandIn(StrEnum):
    """What stands in for Stripe."""

    WORLD = "world"
    FAKE = "fake"


class Cut(StrEnum):
    """Where the proxy ends the connection of a request."""

    REQUEST_LOST = "connection ended before the request"
    REQUEST_CUT = "connection ended within the request"
    ANSWER_LOST = "connection ended before the answer"
    ANSWER_CUT = "connection ended within the answer"


_BY_STRIPE: Final = (
    Fault.SILENT,
    Fault.LATE,
    Fault.ERROR_BEFORE,
    Fault.ERROR_AFTER,
    Fault.LIMITED,
    Fault.IN_USE,
)
_OF_REFUNDS: Final = tuple(fault for fault in _BY_STRIPE if fault is not Fault.ERROR_BEFORE)
"""A refund that Stripe failed at without an effect, and repeats so, is asked for again for a day: see decision 0078."""
FAULTS: Final[tuple[str, ...]] = (*Cut, *_BY_STRIPE)

_ACCOUNT_SHOWN: Final = {
    "id": "acct_world",
    "object": "account",
    "country": "MX",
    "charges_enabled": True,
    "capabilities": {"card_payments": "active"},
}
"""What Stripe World, which has no accounts, is to show of one."""


class Cuts:
    """Which connections through the proxy are cut, and where. `counts` has how often."""

    def __init__(self, random: Random, share: float) -> None:
        self.share = share
        self.counts = Counter[str]()
        self._random = random
        self._planned = WeakKeyDictionary[Wire, Cut]()

    def decide(self, wire: Wire, piece: bytes, from_client: bool) -> int | None:
        """Returns how many bytes of a piece still pass, None for all and no cut: see `campaigns.chaos.proxy`."""
        if not from_client:
            planned = self._planned.pop(wire, None)
            return None if planned is None else (0 if planned is Cut.ANSWER_LOST else len(piece) // 2)
        if not piece.startswith((b"POST ", b"GET ")) or self._random.random() >= self.share:
            return None
        cut = self._random.choice(list(Cut))
        self.counts[cut] += 1
        if cut is Cut.REQUEST_LOST:
            return 0
        if cut is Cut.REQUEST_CUT:
            return len(piece) // 2
        self._planned[wire] = cut
        return None


class Failures:
    """Which requests the other server lets fail: a share of those that can move money. Each fault comes before any
    comes again, so that a short campaign meets all of them.
    """

    def __init__(self, random: Random, share: float) -> None:
        self.share = share
        self._random = random
        self._next: dict[bool, list[Fault]] = {True: [], False: []}

    def decide(self, request: web.Request) -> Fault | None:
        if not decides(request) or self._random.random() >= self.share:
            return None
        faults = self._next[request.path == REFUNDS]
        if not faults:
            kinds = _OF_REFUNDS if request.path == REFUNDS else _BY_STRIPE
            faults.extend(self._random.sample(kinds, len(kinds)))
        return faults.pop()


class Tokens:
    """The cards of a campaign: each payment has a token of its own, made where no request fails."""

    def __init__(self, session: aiohttp.ClientSession, stand_in: StandIn, url: str) -> None:
        self._session = session
        self._stand_in = stand_in
        self._url = url

    async def body(self, name: str, card: str, *, manual: bool) -> bytes:
        """Returns a merchant's request to pay an order by a card that is approved or declined."""
        order = json.loads(bodies.create(name, amount_of(name), card))
        order["paymentMethod"] = {"type": "card", "cardTokens": [{"account": ACCOUNT, "token": await self._of(card)}]}
        order["virtualTerminal"] = True  # Stripe World takes no page to return to
        if manual:
            order["captureMethod"] = "MANUAL"
        return json.dumps(order).encode()

    async def _of(self, card: str) -> str:
        named = "visa" if card == "approved" else "visa_chargeDeclined"
        if self._stand_in is StandIn.FAKE:
            return f"pm_card_{named}"
        data = {"type": "card", "card[token]": f"tok_{named}"}
        async with self._session.post(f"{self._url}/v1/payment_methods", data=data) as answer:
            return str((await answer.json())["id"])


async def run_at_stripe(plan: Plan, stand_in: StandIn, home: Path) -> Result:
    """Runs a plan. Its files are in `home`. Raises CannotStart."""
    began, random = time.monotonic(), Random(plan.seed)
    cuts = Cuts(random, plan.trouble * _CUT_SHARE)
    failures = Failures(random, plan.trouble)
    shown = {"/v1/account": _ACCOUNT_SHOWN} if stand_in is StandIn.WORLD else {}
    async with AsyncExitStack() as stack:
        url, key = stack.enter_context(_running(stand_in, home))
        between = await stack.enter_async_context(interfered(url, late_s=_LATE_S, shown=shown))
        proxy = await stack.enter_async_context(proxied(f"host=127.0.0.1 port={between.url.rsplit(':', 1)[1]}"))
        session = await stack.enter_async_context(_asking(key))
        port = conninfo_to_dict(proxy.url)["port"]
        settings = {
            "LEDGER_STRIPE_URL": f"http://127.0.0.1:{port}",
            "LEDGER_NOT_FOUND_FINAL_S": str(_NOT_FOUND_FINAL_S),
            "LEDGER_PROCESSOR_TIMEOUT_S": str(_TIMEOUT_S),
        }
        service = stack.enter_context(Service(settings=settings))
        service.start()
        merchant = service.merchant("Unknown outcomes at Stripe")
        await _connect(service, merchant, key)
        proxy.decide, between.decide = cuts.decide, failures.decide
        kills, _ = await pay(service, merchant, plan, Tokens(session, stand_in, url).body)
        cuts.share = failures.share = 0.0
        await settle(service, _SETTLE_S)
        lists = await listed(session, url)
        with service.database() as database:
            verdict = compare_lists(lists, await gather(database))
        counts = Counter[str]([*cuts.counts.elements(), *between.faults.elements()])
        violations = [*verdict.violations, *_missed(plan, verdict, counts), *_outside(stand_in, url)]
    totals = replace(verdict.totals, calls=counts)
    return Result(Verdict(violations, totals), kills, time.monotonic() - began)


def _missed(plan: Plan, verdict: Verdict, counts: Counter[str]) -> Iterator[str]:
    """Yields what the campaign was to do and has not done."""
    least = plan.payments // RARELY
    for fault in FAULTS:
        if counts[fault] < least:
            yield f"{fault}: {counts[fault]} times, not {least}"
    if not all((verdict.totals.captured, verdict.totals.refunded, verdict.totals.voided)):
        yield "nothing was captured, refunded or voided"
    if verdict.totals.payments < plan.payments:
        yield f"only {verdict.totals.payments} of {plan.payments} payments were made"


def _outside(stand_in: StandIn, url: str) -> Iterator[str]:
    """Yields what our fake has found outside Stripe's description."""
    found = control(url, "state", None, "GET")["violations"] if stand_in is StandIn.FAKE else 0
    if found:
        yield f"{found} requests or answers are outside Stripe's description"


@contextmanager
def _running(stand_in: StandIn, home: Path) -> Iterator[tuple[str, str]]:
    """Runs what stands in for Stripe, and yields its address and a key of an account. Raises CannotStart."""
    if stand_in is StandIn.FAKE:
        with fake_stripe(home / "stripe.jsonl", home / "stripe.log") as running:
            yield running.wait_ready()[0], "sk_test_fake"
    else:
        with stripe_world(home / "stripe.log") as running:
            yield f"{running.wait_ready()[0]}/worlds/unknown", "sk_test_any"


@asynccontextmanager
async def _asking(key: str) -> AsyncIterator[aiohttp.ClientSession]:
    """Yields a session that asks the stand-in itself, where nothing fails."""
    connector = aiohttp.TCPConnector(force_close=True)  # the stand-in closes idle connections
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {key}"}, connector=connector) as session:
        yield session


async def _connect(service: Service, merchant: Merchant, key: str) -> None:
    """Connects the merchant's account. The first check of an account loads the adapter, which can take too long."""
    url = f"http://127.0.0.1:{service.port}/api/v1/processor-accounts/{ACCOUNT}"
    headers = {"x-api-key": merchant.api_key}
    body = {"processor": "stripe", "secretKey": key}
    async with aiohttp.ClientSession() as session:
        for _ in range(_CONNECT_TRIES):
            async with session.put(url, json=body, headers=headers) as answer:
                if answer.status != 503:
                    break
        assert answer.status == 201, await answer.text()
