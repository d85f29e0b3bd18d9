"""A load generator for HTTP that costs less than what it measures: a fixed number of requests in flight, nothing parsed
that need not be.

The rule a stranger would break: it runs in a process of its own. In the process under test it would measure itself.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from itertools import count, cycle
from typing import Final, cast

from msgspec import Struct

from ledger.bench.load.processes import Go, work
from ledger.bench.measure.samples import Sample, sample

UNIQUE: Final = "{unique}"
"""Stands in a plan's body for sixteen letters that no other request of the plan has."""

# Letters, because sixteen digits look like a card number and would be measured as the rare body that has to be searched.
LETTERS: Final = bytes.maketrans(b"0123456789", b"ghijklmnop")
END_OF_HEADERS: Final = b"\r\n\r\n"
_GRACE_S: Final = 5.0


class LoadPlan(Struct, frozen=True, kw_only=True):
    """What to send: every path in turn, `connections` at a time, for `seconds` after `warm_up_s`.

    `first` is the number that the first `UNIQUE` spells; two plans on one server must not overlap.
    """

    host: str
    port: int
    connections: int
    seconds: float
    expect: int
    paths: list[str]
    method: str = "GET"
    headers: dict[str, str] = {}
    body: str | None = None
    first: int = 0
    warm_up_s: float = 0.3


class _Run:
    """What all connections share: the requests still to send, and what was seen."""

    def __init__(self, plan: LoadPlan) -> None:
        self.expected = b"HTTP/1.1 %d" % plan.expect
        self.begins_at = time.perf_counter() + plan.warm_up_s
        self.ends_at = self.begins_at + plan.seconds
        self.latencies: list[float] = []
        self.others: Counter[str] = Counter()
        self.open = plan.connections
        self.done = asyncio.get_running_loop().create_future()
        self._templates = cycle([_template(plan, path) for path in plan.paths])
        self._numbers = count(plan.first) if plan.body is not None and UNIQUE in plan.body else None

    def request(self) -> bytes:
        template = next(self._templates)
        return template if self._numbers is None else template % (b"%016x" % next(self._numbers)).translate(LETTERS)

    def closed(self) -> None:
        self.open -= 1
        if self.open == 0 and not self.done.done():
            self.done.set_result(None)


class _Connection(asyncio.Protocol):
    """One request after the other on one kept-alive connection."""

    def __init__(self, run: _Run) -> None:
        self._run = run
        self._sent_at = 0.0
        self._head = b""
        self._missing = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's own, which says so of nothing
        self._send()

    def data_received(self, data: bytes) -> None:
        if self._missing:
            self._missing -= len(data)
        else:
            head = self._head + data
            end = head.find(END_OF_HEADERS)
            if end < 0:
                self._head = head
                return
            self._head = head[:end]
            self._missing = length(self._head) - (len(head) - end - 4)
        if self._missing <= 0:
            self._answered()

    def _answered(self) -> None:
        run, now = self._run, time.perf_counter()
        if not self._head.startswith(run.expected):
            run.others[self._head[9:12].decode("latin-1")] += 1
        elif run.begins_at <= now <= run.ends_at:
            run.latencies.append(now - self._sent_at)
        self._head, self._missing = b"", 0
        if now > run.ends_at:
            self._transport.close()
        else:
            self._send()

    def _send(self) -> None:
        request = self._run.request()
        self._sent_at = time.perf_counter()
        self._transport.write(request)

    def connection_lost(self, exc: Exception | None) -> None:
        if time.perf_counter() <= self._run.ends_at:
            self._run.others["closed by the server" if exc is None else type(exc).__name__] += 1
        self._run.closed()


def _template(plan: LoadPlan, path: str) -> bytes:
    """A request as it goes over the line; with `%b` in place of `UNIQUE`, and every other `%` doubled, if it is in the body."""
    body = (plan.body or "").encode()
    numbered = UNIQUE.encode() in body
    length = len(body) + body.count(UNIQUE.encode()) * (16 - len(UNIQUE))
    headers = {"Host": f"{plan.host}:{plan.port}", **plan.headers}
    if plan.body is not None:
        headers |= {"Content-Type": "application/json", "Content-Length": str(length)}
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    request = f"{plan.method} {path} HTTP/1.1\r\n{lines}\r\n".encode() + body
    return request.replace(b"%", b"%%").replace(UNIQUE.encode(), b"%b") if numbered else request


def length(head: bytes) -> int:
    at = head.find(b"ontent-length: ")
    if at < 0:
        at = head.find(b"ontent-Length: ")
    if at < 0:
        return 0
    end = head.find(b"\r", at)
    return int(head[at + 15 : end if end >= 0 else None])


async def run(plan: LoadPlan, go: Go) -> Sample:
    """Send what the plan says. Raises OSError where the server does not take the connections."""
    go()
    loop = asyncio.get_running_loop()
    state = _Run(plan)
    for _ in range(plan.connections):
        await loop.create_connection(lambda: _Connection(state), plan.host, plan.port)
    await asyncio.sleep(max(0.0, state.begins_at - time.perf_counter()))
    used = time.process_time()
    await asyncio.sleep(max(0.0, state.ends_at - time.perf_counter()))
    used = time.process_time() - used
    try:
        await asyncio.wait_for(state.done, _GRACE_S)
    except TimeoutError:
        state.others["no answer"] += state.open
    return sample(state.latencies, plan.seconds, cpu_s=used, others=state.others)


if __name__ == "__main__":
    work(LoadPlan, run)
