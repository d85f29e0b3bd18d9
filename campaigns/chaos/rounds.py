"""Rounds of one fault: load, strike at a random moment, measure until writes succeed again, wait for recovery, check.

Keep the load running through the fault and after it. A service that gets no requests until it is well shows nothing about how
it recovers.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from random import Random
from statistics import median

import psycopg
from msgspec import Struct

from campaigns.chaos.checker import Figures, Verdict, Violation, judge
from campaigns.chaos.clients import Ended, Load
from campaigns.chaos.service import RECOVERY_WINDOW_S, Service
from campaigns.chaos.witness import Witness

BACK_PATIENCE_S = 30.0
_MERCHANTS = 3
_RESTS_S = 0.4
_MARGIN_S = 4.0
"""What the recovery may take beyond its window: its sweeps, its back-off, a busy machine."""

Strike = Callable[[Service, Random], Awaitable[float | None]]
"""Does the harm and, if the campaign includes it, undoes it or restarts the service. Returns when the harm ended, by the
monotonic clock, if the time until the next write is measured from then."""

Expectation = Callable[[Sequence[Ended]], Sequence[str]]
"""Returns what is wrong with how requests ended after a strike."""


class Unmet(Exception):
    """A strike itself has found something wrong. The message names it."""


def show(text: str) -> None:
    """Prints a line for the person who runs the programme."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


async def nothing(_service: Service, _number: int) -> None:
    """Most campaigns need nothing between two rounds."""


NOTICED = "a strike that no client noticed"
UNKNOWN = "no request of unknown outcome"
RECOVERED = "nothing left for the recovery"


class Campaign(Struct, frozen=True, kw_only=True):
    """A fault, and how it is run. `expects` checks the answers after each strike, `before` runs ahead of each round.

    `make` creates the service; `beyond` names the figures that this fault need not change to prove something. A write has to
    succeed within `back_max_s` after the harm has ended; `rounds` is the default number of strikes.
    """

    name: str
    about: str
    strike: Strike
    expects: Expectation
    before: Callable[[Service, int], Awaitable[None]] = nothing
    make: Callable[[], Service] = Service
    beyond: frozenset[str] = frozenset()
    back_max_s: float = BACK_PATIENCE_S
    rounds: int = 10


class Round(Struct, frozen=True, kw_only=True):
    """One strike: how many requests were under way, how they ended, and when the first new write was acknowledged."""

    caught: int
    unanswered: int
    unavailable: int
    back_s: float | None
    settled_s: float


class Result(Struct, frozen=True, kw_only=True):
    """The result of a campaign. `figures` are those of the last check, which cover every round."""

    name: str
    seed: int
    rounds: Sequence[Round]
    figures: Figures
    violations: Sequence[Violation]

    @property
    def back_p50_s(self) -> float | None:
        back = [each.back_s for each in self.rounds if each.back_s is not None]
        return median(back) if back else None

    @property
    def back_max_s(self) -> float | None:
        return max((each.back_s for each in self.rounds if each.back_s is not None), default=None)


async def run(campaign: Campaign, *, rounds: int, seed: int, clients: int = 24) -> Result:
    """Runs a campaign on a service of its own. Ends early at the first round with a violation."""
    random = Random(seed)
    with campaign.make() as service:
        service.start()
        merchants = [service.merchant(f"Chaos {n}") for n in range(_MERCHANTS)]
        record = service.home / "record.jsonl"
        witness = Witness(record)
        done: list[Round] = []
        violations: list[Violation] = []
        try:
            while len(done) < rounds and not violations:
                await campaign.before(service, len(done))
                load = Load(witness, merchants, lambda: service.port, clients=clients, seed=seed * 1000 + len(done))
                one, wrong = await _round(campaign, service, load, random)
                done.append(one)
                verdict = await _judge(service, record)
                violations = [*(Violation(campaign.name, what) for what in wrong), *verdict.violations]
        finally:
            witness.close()
        if violations:
            violations += [Violation("the service's log", line) for line in service.complaints()[-5:]]
        else:
            missed = [what for what in _unreached(done, verdict.figures) if what not in campaign.beyond]
            violations += [Violation("reach", what) for what in missed]
        return Result(name=campaign.name, seed=seed, rounds=done, figures=verdict.figures, violations=violations)


async def _round(campaign: Campaign, service: Service, load: Load, random: Random) -> tuple[Round, list[str]]:
    wrong: list[str] = []
    load.start()
    try:
        await load.first_write_after(time.monotonic(), BACK_PATIENCE_S)
        await asyncio.sleep(random.uniform(0.2, 1.0))
        struck, caught = time.monotonic(), load.in_flight
        ended: float | None = None
        try:
            ended = await campaign.strike(service, random)
        except Unmet as unmet:
            wrong.append(str(unmet))
        try:
            back_s = await load.first_write_after(struck if ended is None else ended, campaign.back_max_s)
        except TimeoutError:
            back_s = None
            wrong.append(f"no write was acknowledged within {campaign.back_max_s} s; it line: {service.last_words()}")
        await asyncio.sleep(_RESTS_S)
    finally:
        await load.stop()
    around = [request for request in load.ended if request.ended >= struck]
    wrong += campaign.expects(around)
    settled_s = await settle(service)
    return Round(
        caught=caught,
        unanswered=sum(request.status is None for request in around),
        unavailable=sum(request.status == 503 for request in around),
        back_s=back_s,
        settled_s=settled_s,
    ), wrong


async def settle(service: Service) -> float:
    """Waits until no call to the processor is open, as long as the recovery may take; returns the seconds it took."""
    began = time.monotonic()
    with service.database() as url:
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            while time.monotonic() < began + RECOVERY_WINDOW_S + _MARGIN_S:
                query = "select 1 from payment_order where call_deadline_at is not null limit 1"
                if await (await connection.execute(query)).fetchone() is None:
                    break
                await asyncio.sleep(0.05)
    return time.monotonic() - began


async def _judge(service: Service, record: Path) -> Verdict:
    with service.database() as url:
        return await judge(url, record, RECOVERY_WINDOW_S)


def _unreached(rounds: Sequence[Round], figures: Figures) -> list[str]:
    """Returns what a campaign should have caused and did not."""
    missed = []
    if not all(each.caught for each in rounds):
        missed.append(f"{sum(not each.caught for each in rounds)} strikes hit a service without requests")
    if not all(each.unanswered or each.unavailable for each in rounds):
        missed.append(NOTICED)
    for name, n in (
        ("no acknowledgement", figures.acknowledged),
        (UNKNOWN, figures.unknown),
        ("no repeated request", figures.replayed),
        ("no decline", figures.declined),
        (RECOVERED, figures.recovered),
    ):
        if not n:
            missed.append(name)
    return missed
