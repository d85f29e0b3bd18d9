"""Attackers of every kind, beside ordinary clients that must not notice them.

Compare latency and memory with those of an equally long time before, under the same load without attackers: a service that
works fills its caches.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Sequence
from random import Random

from campaigns.chaos import bodies
from campaigns.chaos.attackers import SLOW_HEADS
from campaigns.chaos.clients import Ended, Merchant
from campaigns.chaos.rounds import NOTICED, RECOVERED, UNKNOWN, Campaign, Unmet, show
from campaigns.chaos.running import Running, environ
from campaigns.chaos.service import Service
from campaigns.chaos.wire import Wire
from ledger.service.http.connection_guard import LINGER_S

SECONDS = 60.0
_GROWTH_MAX = 20 << 20
_SLOWER_MAX = 3.0
_ALWAYS_FAST_ENOUGH_S = 0.05
_RECEIVED = {"slow head: 408", "slow body: 408", "100 MB by length: 413", "100 MB in chunks: 413", "10 MB header: 431",
         "1,000 headers: 431", "two lengths: 400"}  # fmt: skip
"""How some connections must end. Besides, useless connections are closed if no room is left."""
_EXPLAINED = frozenset({200, 201, 404, 409, 422})


class Attacked(Service):
    """A service with a merchant for the attackers, who do what needs a key."""

    def __init__(self) -> None:
        super().__init__(settings={"LEDGER_CONNECTIONS_MAX": "400"})
        self._attacker: Merchant | None = None

    def attackers_key(self) -> str:
        if self._attacker is None:
            self._attacker = self.merchant("Attacker")
        return self._attacker.api_key

    def attack(self, seconds: float) -> Running:
        """Runs the attackers for so long; returns how their attacks ended."""
        program = [sys.executable, "-P", "-m", "campaigns.chaos.attackers"]
        arguments = [*program, str(self.port), self.attackers_key(), str(seconds)]
        return Running(arguments, environ({}), self.home / "attackers.log")


async def _p99_of_reads(service: Attacked, seconds: float) -> float:
    """Returns the 99th percentile of an ordinary client's latency, in seconds."""
    wire, took = Wire(), list[float]()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        began = time.monotonic()
        await wire.open(service.port)
        answer = await wire.ask("GET", f"{bodies.ORDERS}/none", service.attackers_key())
        assert answer.status == 404
        took.append(time.monotonic() - began)
        await asyncio.sleep(0.01)
    await wire.close()
    return sorted(took)[len(took) * 99 // 100]


async def _resident(service: Service) -> int:
    """Returns the memory of the API processes, in bytes."""
    wire = Wire()
    await wire.open(service.port)
    text = (await wire.ask("GET", "/metrics", "")).body.decode()
    await wire.close()
    sizes = re.findall(r'^ledger_process_resident_bytes\{process="api-\d+"\} (\S+)$', text, re.MULTILINE)
    return sum(int(float(size)) for size in sizes)


async def _prepare(service: Service, _number: int) -> None:
    assert isinstance(service, Attacked), "the campaign makes one"
    service.attackers_key()


async def _strike(service: Service, _random: Random) -> float:
    assert isinstance(service, Attacked), "the campaign makes one"
    at_first = await _resident(service)
    usual_s = await _p99_of_reads(service, SECONDS)
    before = await _resident(service)
    usual_growth = before - at_first
    with service.attack(SECONDS) as attackers:
        attackers.wait_ready()
        under_attack_s = await _p99_of_reads(service, SECONDS)
        endings = json.loads(await asyncio.to_thread(attackers.line))
    await asyncio.sleep(LINGER_S + 1)
    growth = await _resident(service) - before
    show(f"  without attackers: p99 {usual_s * 1e3:.0f} ms, memory {usual_growth / (1 << 20):+.1f} MB")
    show(f"  with attackers: p99 {under_attack_s * 1e3:.0f} ms, memory {growth / (1 << 20):+.1f} MB")
    show(f"  {', '.join(f'{ending} {n}' for ending, n in sorted(endings.items()))}")
    if missing := _RECEIVED - endings.keys():
        raise Unmet(f"no attacker received: {', '.join(sorted(missing))}")
    if growth - max(usual_growth, 0) > _GROWTH_MAX:
        raise Unmet(f"the API processes have grown by {growth >> 20} MB, without attackers by {usual_growth >> 20} MB")
    if under_attack_s > max(_SLOWER_MAX * usual_s, _ALWAYS_FAST_ENOUGH_S):
        raise Unmet("honest clients wait too long")
    return time.monotonic()


def _nobody_notices(around: Sequence[Ended]) -> list[str]:
    odd = Counter(request.status for request in around if request.status not in _EXPLAINED)
    return [f"{n} requests were answered with {status or 'nothing'} under attack" for status, n in odd.items()]


HOSTILE_CLIENTS = Campaign(
    name="hostile-clients",
    about=f"{SLOW_HEADS} slow heads, slow bodies, 100 MB bodies, 10 MB headers and more, for {SECONDS:.0f} s",
    strike=_strike,
    expects=_nobody_notices,
    before=_prepare,
    make=Attacked,
    rounds=1,
    beyond=frozenset({NOTICED, UNKNOWN, RECOVERED}),
)
