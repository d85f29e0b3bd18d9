"""SIGSTOP of API processes and the worker at random moments, many times in one load, and how long a merchant waits for it.

A stopped process goes on after a random time (SIGCONT), or its parent ends it. A merchant's wait is the time from one final
answer to its writes to the next, whichever process is asked; a client's wait is that of one program on one connection, which
the end of the stopped process resets: it may meet the next stopped process. An answer with 503 is not final.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from random import Random

import psycopg
from msgspec import Struct

from campaigns.chaos.clients import Ended
from campaigns.chaos.freeze import Connection, another_replaces
from campaigns.chaos.rounds import NOTICED, RECOVERED, UNKNOWN, Campaign, show
from campaigns.chaos.service import Service

PING_TIMEOUT_S = 10.0
TIMES = 200
_KILLS_A_MINUTE = 3
"""The fifth end of a child in a minute ends the service."""
_EXPLAINED = frozenset({None, 200, 201, 404, 409, 422, 503})
_WRITTEN = frozenset({200, 201, 422})


class Waits(Struct, frozen=True):
    """The longest waits in seconds, and how often there was no final answer."""

    merchant_s: float
    client_s: float
    unavailable: int
    unanswered: int


class Stops:
    """A strike of `times` stops. `ping_timeout_s` is the setting, which no merchant's wait may exceed."""

    def __init__(self, times: int, ping_timeout_s: float) -> None:
        self._times = times
        self._ping_timeout_s = ping_timeout_s
        self.stopped: Counter[str] = Counter()

    async def strike(self, service: Service, random: Random) -> float:
        """Stops one process after the other. Raises Unmet if a process that was not resumed is not replaced."""
        with service.database() as url:
            async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
                await self._stop_all(service, random, connection)
        return time.monotonic()

    async def _stop_all(self, service: Service, random: Random, connection: Connection) -> None:
        kills: list[float] = []
        for number in range(self._times):
            await asyncio.sleep(random.uniform(0.3, 0.8))  # a process that was replaced is ready
            kills = [each for each in kills if each > time.monotonic() - 60]
            roles = service.roles()
            pid = service.freeze(random)
            self.stopped[roles[pid]] += 1
            if random.random() < 0.5 and len(kills) < _KILLS_A_MINUTE:
                await another_replaces(service, pid, connection)
                kills.append(time.monotonic())
                self.stopped["ended"] += 1
            else:
                await asyncio.sleep(random.uniform(0, 0.3) * self._ping_timeout_s)
                service.thaw(pid)
            if (number + 1) % 20 == 0:
                show(f"  {number + 1} stops, {self.stopped['ended']} of them ended by the parent")

    def judge(self, around: Sequence[Ended]) -> list[str]:
        """Returns what is wrong: an unexplained answer, a merchant or a client that waited for longer than it may."""
        found, setting_s = waits(around), self._ping_timeout_s
        show(
            f"  {self.stopped.total() - self.stopped['ended']} stops ({self.stopped['api']} of API processes, "
            f"{self.stopped['worker']} of the worker; {self.stopped['ended']} ended by the parent), "
            f"{len(around):,} requests, {found.unavailable} times 503, {found.unanswered} without an answer"
        )
        show(
            f"  LEDGER_PING_TIMEOUT_S {setting_s:g} s; the longest wait of a merchant {found.merchant_s:.2f} s, "
            f"of one client {found.client_s:.2f} s"
        )
        odd = Counter(request.status for request in around if request.status not in _EXPLAINED)
        wrong = [f"{n} requests were answered with {status}" for status, n in odd.items()]
        # A client whose connection ends with one stopped process can meet the next stopped one.
        for name, longest_s, limit_s in (
            ("merchant", found.merchant_s, setting_s),
            ("client", found.client_s, 2 * setting_s),
        ):
            if longest_s > limit_s:
                wrong.append(f"a {name} waited {longest_s:.2f} s for a final answer, longer than {limit_s:g} s")
        return wrong


def waits(requests: Iterable[Ended]) -> Waits:
    """Returns the longest waits among requests that have ended."""
    ended = sorted(requests, key=lambda request: request.ended)
    writes = [request for request in ended if request.do in {"create", "again", "other amount", "charge"}]
    return Waits(
        merchant_s=_longest(writes, by=lambda each: each.merchant_id, is_final=lambda each: each.status in _WRITTEN),
        client_s=_longest(ended, by=lambda each: each.client, is_final=lambda each: each.status not in {None, 503}),
        unavailable=sum(request.status == 503 for request in ended),
        unanswered=sum(request.status is None for request in ended),
    )


def _longest(ended: Sequence[Ended], by: Callable[[Ended], Hashable], is_final: Callable[[Ended], bool]) -> float:
    """Returns the longest time from one final answer of a merchant or a client to its next: it asks all the time.

    If no final answer follows any more, the time until the last request of all has ended.
    """
    since: dict[Hashable, float] = {}
    longest = 0.0
    for request in ended:
        began = since.setdefault(by(request), request.began)
        if is_final(request):
            longest = max(longest, request.ended - began)
            since[by(request)] = request.ended
    return max([longest, *(ended[-1].ended - began for began in since.values())])


def stops(times: int, ping_timeout_s: float = PING_TIMEOUT_S) -> Campaign:
    """Returns the campaign of so many stops."""
    found = Stops(times, ping_timeout_s)
    return Campaign(
        name="stops",
        about=f"{times} times SIGSTOP of an API process or the worker, resumed or ended by the parent; no merchant waits longer "
        "than LEDGER_PING_TIMEOUT_S",
        strike=found.strike,
        expects=found.judge,
        make=lambda: Service(settings={"LEDGER_PING_TIMEOUT_S": str(ping_timeout_s)}),
        rounds=1,
        beyond=frozenset({NOTICED, UNKNOWN, RECOVERED}),
    )


STOPS = stops(TIMES)
