"""A load generator for what takes several requests, or an order that waits for it: so many walks at once, every answer read.

The rule a stranger would break: a walk counts when each of its answers had the status and said what it was to say. A step
that was answered otherwise ends its walk, and stands among the errors by its name.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from itertools import count
from typing import Any, Final, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ledger.bench.load.processes import Go, work
from ledger.bench.load.requests import END_OF_HEADERS, LETTERS, UNIQUE, length
from ledger.bench.measure.samples import Sample, sample

ORDER: Final = "{order}"
"""Stands in a step's path for the id of the order that the walk is about."""
OUT_OF_ORDERS: Final = "no order left"

JSON: Final = "application/json"
FORM: Final = "application/x-www-form-urlencoded"

_GRACE_S: Final = 15.0


class Step(Struct, frozen=True, kw_only=True):
    """One POST and its one right answer.

    `says` are values that the answer's JSON must have, by dotted names; `shows` is a text that it must contain. `takes` are
    values that later steps use: the name in braces, then where the answer has it. A path may be a whole address.
    """

    name: str
    path: str
    body: str
    content_type: str = JSON
    expect: int = 200
    says: dict[str, str] = {}
    shows: str = ""
    takes: dict[str, str] = {}


class WalkPlan(Struct, frozen=True, kw_only=True):
    """Which walk, by `connections` at a time, for `seconds` after `warm_up_s`; on a slow machine until each could have one.

    With `orders`, each walk is about the next of them, each of which serves `uses` times and none two walks at once. Every
    walk has a `UNIQUE` of its own, from `first` on.
    """

    host: str
    port: int
    connections: int
    seconds: float
    steps: list[Step]
    headers: dict[str, str] = {}
    orders: list[str] = []
    uses: int = 1
    first: int = 0
    warm_up_s: float = 0.3


class _Line(asyncio.Protocol):
    """A kept-alive connection: one request, one answer."""

    def __init__(self) -> None:
        self._received = b""
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's own, which says so of nothing

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """The answer's status and body. Raises ConnectionError where the server hangs up."""
        if self._transport.is_closing():
            raise ConnectionResetError
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._answer

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, parted, body = self._received.partition(END_OF_HEADERS)
        if not parted or len(body) < length(head):
            return
        self._received = b""
        if self._answer is not None and not self._answer.done():
            self._answer.set_result((int(head[9:12]), body))

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(exc or ConnectionResetError())

    def close(self) -> None:
        self._transport.close()


class _Run:
    """What all connections share: the clock, the numbers, and what was seen."""

    def __init__(self, plan: WalkPlan) -> None:
        self.begins_at = time.perf_counter() + plan.warm_up_s
        self.ends_at = self.begins_at + plan.seconds
        self.latencies: list[float] = []
        self.others: Counter[str] = Counter()
        self.numbers = count(plan.first)
        self.ended = 0
        self.over_at: float | None = None
        self._enough = plan.connections

    def goes_on(self, now: float) -> bool:
        """Whether another walk begins: a sample shorter than a walk would have none in it."""
        seen = len(self.latencies) + self.others.total()
        if self.over_at is None and now > self.ends_at and (seen >= self._enough or now > self.ends_at + _GRACE_S):
            self.over_at = now
        return self.over_at is None


async def _connection(plan: WalkPlan, run: _Run, orders: list[str]) -> None:
    """Walk after walk on one connection, over orders that no other connection has."""
    _, line = await asyncio.get_running_loop().create_connection(_Line, plan.host, plan.port)
    turns = iter(orders * plan.uses)
    while run.goes_on(began := time.perf_counter()):
        order = next(turns, None)
        if plan.orders and order is None:
            run.others[OUT_OF_ORDERS] += 1
            break
        unique = (b"%016x" % next(run.numbers)).translate(LETTERS).decode()
        try:
            wrong = await _walk(plan, line, {UNIQUE: unique, ORDER: order or ""})
        except ConnectionError as lost:
            run.others[f"closed: {type(lost).__name__}"] += 1
            break
        now = time.perf_counter()
        if wrong is not None:
            run.others[wrong] += 1
            continue
        run.ended += 1
        if run.begins_at <= now and run.over_at is None:
            run.latencies.append(now - began)
    line.close()


async def _walk(plan: WalkPlan, line: _Line, known: dict[str, str]) -> str | None:
    """Every step in order; what was wrong with the one that was not answered as it should be."""
    for step in plan.steps:
        status, body = await line.ask(_request(plan, step, known))
        said = _json(body) if step.says or step.takes else {}
        found = {name: _value(said, name) for name in step.says}
        if status != step.expect or found != step.says or step.shows not in body.decode():
            told = (
                [str(value) for value in found.values()]
                if status == step.expect
                else [str(_value(_json(body), "code"))]
            )
            return " ".join([step.name, str(status), *told])
        known |= {name: str(_value(said, place)) for name, place in step.takes.items()}
    return None


def _request(plan: WalkPlan, step: Step, known: dict[str, str]) -> bytes:
    path, body = step.path, step.body
    for name, value in known.items():
        path, body = path.replace(name, value), body.replace(name, value)
    if "://" in path:
        path = "/" + path.split("/", 3)[3]
    sent = body.encode()
    headers = {
        "Host": f"{plan.host}:{plan.port}",
        **plan.headers,
        "Content-Type": step.content_type,
        "Content-Length": str(len(sent)),
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"POST {path} HTTP/1.1\r\n{lines}\r\n".encode() + sent


def _json(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError:
        return {}


def _value(said: Any, name: str) -> Any:
    for part in name.split("."):
        said = said.get(part) if isinstance(said, dict) else None
    return said


async def run(plan: WalkPlan, go: Go) -> Sample:
    """Do what the plan says. Raises OSError where the server does not take the connections."""
    go()
    state = _Run(plan)
    parts = [plan.orders[n :: plan.connections] for n in range(plan.connections)]
    walking = [
        asyncio.create_task(_connection(plan, state, part)) for part in parts if part or not plan.orders
    ]  # fewer orders than connections: the rest have nothing to do
    await asyncio.sleep(max(0.0, state.begins_at - time.perf_counter()))
    used = time.process_time()
    done, late = await asyncio.wait(walking, timeout=plan.seconds + 2 * _GRACE_S)
    used = time.process_time() - used
    for task in done:
        task.result()
    if late:
        state.others["no answer"] += len(late)
    seconds = (state.over_at or state.ends_at) - state.begins_at
    seen = sample(state.latencies, seconds, cpu_s=used, others=state.others)
    return replace(seen, ended=state.ended)


if __name__ == "__main__":
    work(WalkPlan, run)
