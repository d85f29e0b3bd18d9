"""SIGTERM under load, many times: how long the service takes to end, and how long the next start takes to answer.

The load goes on: every connection that could be opened is answered. Beside it, one client each keeps a connection open without a
request, has sent half a head, half a body, and reads no answer. Medians are compared with their limits, for a busy machine delays
single restarts.
"""

from __future__ import annotations

import asyncio
import socket
import time
from bisect import bisect
from collections import Counter
from collections.abc import Sequence
from random import Random
from statistics import median

from campaigns.chaos.clients import Ended
from campaigns.chaos.rounds import NOTICED, RECOVERED, UNKNOWN, Campaign, Unmet, show
from campaigns.chaos.service import Service

TIMES = 20
END_S = 3.0
"""How long the end may take at the median (issue: "exits in 3 s at the median")."""
ANSWER_S = 2.0
"""How long the next start may take until it answers, at the median."""
_RESTS_S = (0.5, 1.5)
_EXPLAINED = frozenset({200, 201, 404, 409, 422})


_SLOW = (b"", b"GET / HTTP/1.1\r\nhost: ", b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 999\r\n\r\n{", b"")
"""What slow clients have sent: nothing, half a head, half a body, and what follows below."""
_UNREAD = b"GET /docs/swagger-ui-bundle.js HTTP/1.1\r\nhost: a\r\n\r\n" * 20


class Restarts:
    """A strike of `times` restarts, with the seconds that each took to end and to answer again."""

    def __init__(self, times: int) -> None:
        self._times = times
        self.ends_s: list[float] = []
        self.readies_s: list[float] = []
        self.starts: list[float] = []

    async def strike(self, service: Service, random: Random) -> None:
        """Stops and starts the service again and again. Raises Unmet if an end is not clean."""
        for _ in range(self._times):
            slow = await asyncio.to_thread(_slow_clients, service.port)
            await asyncio.sleep(random.uniform(*_RESTS_S))
            began = time.monotonic()
            status = await asyncio.to_thread(service.stop)
            self.ends_s.append(time.monotonic() - began)
            for client in slow:
                client.close()
            if status != 0:
                raise Unmet(f"it ended with {status}: {service.last_words()}")
            self.starts.append(time.monotonic())
            service.spawn()
            await asyncio.to_thread(service.wait_ready)
            self.readies_s.append(time.monotonic() - self.starts[-1])

    def judge(self, around: Sequence[Ended]) -> list[str]:
        """Returns what is wrong: a request that was cut off, an end or a start that took too long at the median."""
        odd = Counter(request.status for request in around if request.status not in _EXPLAINED)
        wrong = [f"{n} requests were answered with {status or 'nothing'}" for status, n in odd.items()]
        writes = sorted(each.ended for each in around if each.do in {"create", "charge"} and each.status in {200, 201})
        answers_s = [writes[bisect(writes, start)] - start for start in self.starts]
        figures = (("end", self.ends_s, END_S), ("first write", answers_s, ANSWER_S), ("ready", self.readies_s, None))
        for name, taken, limit_s in figures:
            middle = median(taken)
            show(f"  {name}: median {middle:.2f} s, from {min(taken):.2f} to {max(taken):.2f} s, {len(taken)} times")
            if limit_s is not None and middle > limit_s:
                wrong.append(f"{name}: {middle:.2f} s at the median, more than {limit_s:g} s")
        for each in (self.ends_s, self.readies_s, self.starts):
            each.clear()  # the next round has requests of its own
        return wrong


def _slow_clients(port: int) -> list[socket.socket]:
    """Returns connections of clients that wait, send or read slowly."""
    clients = [socket.create_connection(("127.0.0.1", port)) for _ in _SLOW]
    for client, sent in zip(clients, _SLOW, strict=True):
        client.sendall(sent)
    clients[-1].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    clients[-1].sendall(_UNREAD)
    return clients


def restarts(times: int) -> Campaign:
    """Returns the campaign of so many restarts."""
    found = Restarts(times)
    return Campaign(
        name="restarts",
        about=f"{times} times SIGTERM under load and a new start; the median end within {END_S:g} s, the median answer "
        f"within {ANSWER_S:g} s of the start",
        strike=found.strike,
        expects=found.judge,
        rounds=1,
        beyond=frozenset({NOTICED, UNKNOWN, RECOVERED}),
    )


RESTARTS = restarts(TIMES)
