"""The load generator for HTTP: connections that each send one request at a time, alone or in walks of several.

Never run it in the process under test: it would measure itself. An answer is decoded only if its step reads JSON.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, count, cycle, repeat
from typing import Any, Final, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from benchmarks.load.processes import Go, work
from benchmarks.measure.samples import Sample, sample

UNIQUE: Final = "{unique}"
"""Is replaced in paths and bodies by sixteen letters that no other walk of the plan has."""
ORDER: Final = "{order}"
"""Is replaced in paths and bodies by what the walk is about: the id of an order, or part of a body."""
OUT_OF_ORDERS: Final = "no order left"
FORM: Final = "application/x-www-form-urlencoded"

# Letters, because the service would search sixteen digits for a card number, which it rarely has to do.
_LETTERS: Final = bytes.maketrans(b"0123456789", b"ghijklmnop")
_UNIQUE, _ORDER = UNIQUE.encode(), ORDER.encode()
_END_OF_HEAD: Final = b"\r\n\r\n"
_GRACE_S: Final = 15.0


class Step(Struct, frozen=True, kw_only=True):
    """One request and the answer that it expects: a POST of `body`, or a GET if that is None, or by another `method`.

    `values` are what the answer's JSON must have, by dotted names; `text` is what the answer must contain. `saves` are
    values for later steps: a name in braces, and where the answer's JSON has the value. A path may be a whole address.
    """

    path: str
    name: str = ""
    method: str = ""
    body: str | None = None
    content_type: str = "application/json"
    expect: int = 200
    values: dict[str, str] = {}
    text: str = ""
    saves: dict[str, str] = {}


class LoadPlan(Struct, frozen=True, kw_only=True):
    """Walks of these steps on `connections`, for `seconds` after `warm_up_s`, or until each connection could end one.

    With `per_second`, walks are due at that rate, and one that no connection was free for counts from when it was due.
    Without it, each connection begins a walk when its last one has ended. With `orders`, each walk is about the next of
    them; an order serves `uses` walks, or any number with 0, and never two at once. `first` is the number that the
    first `UNIQUE` spells: plans on one server must not overlap.
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
    per_second: float = 0.0


class _Request:
    """A step, prepared so that a request costs three insertions into bytes."""

    def __init__(self, plan: LoadPlan, step: Step) -> None:
        names = {UNIQUE, ORDER, *chain.from_iterable(each.saves for each in plan.steps)}
        headers = {"Host": f"{plan.host}:{plan.port}", **plan.headers}
        if step.body is not None:
            headers["Content-Type"] = step.content_type
        self._step = step
        self._reads_answer = bool(step.values or step.text or step.saves)
        self._method = (step.method or ("GET" if step.body is None else "POST")).encode()
        self._path, self._body = _template(step.path, names), _template(step.body or "", names)
        self._headers = "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode()

    def encode(self, known: dict[bytes, bytes]) -> bytes:
        """Returns the request with the walk's own values."""
        path = self._path % known
        if b"://" in path:
            path = b"/" + path.split(b"/", 3)[3]
        if self._step.body is None:
            return b"%b %b HTTP/1.1\r\n%b\r\n" % (self._method, path, self._headers)
        body = self._body % known
        head = b"%b %b HTTP/1.1\r\n%bContent-Length: %d\r\n\r\n" % (self._method, path, self._headers, len(body))
        return head + body

    def check(self, status: int, body: bytes, known: dict[bytes, bytes]) -> str | None:
        """Saves what later steps use. Returns what is wrong with the answer, None if it is as expected."""
        step = self._step
        if status == step.expect and not self._reads_answer:
            return None
        answer = _json(body) if step.values or step.saves else {}
        found = {name: _value(answer, name) for name in step.values}
        if status == step.expect and found == step.values and step.text.encode() in body:
            known |= {name.encode(): str(_value(answer, place)).encode() for name, place in step.saves.items()}
            return None
        details: Iterable[Any] = found.values()
        if status != step.expect:
            details = [_value(_json(body), "code")] if step.name else []
        return " ".join(map(str, [step.name, status, *details])).strip()


class _Run:
    """What all connections share: the time, the numbers, and what was seen."""

    def __init__(self, plan: LoadPlan) -> None:
        self.plan = plan
        self.requests = [_Request(plan, step) for step in plan.steps]
        self.begins_at = time.perf_counter() + plan.warm_up_s
        self.ends_at = self.begins_at + plan.seconds
        self.ended_at: float | None = None
        self.latencies: list[float] = []
        self.others: Counter[str] = Counter()
        self.numbers = count(plan.first)
        self._due = count()
        self._first_at = time.perf_counter()
        self.walks = self.open = 0
        self.all_closed = asyncio.Event()

    def continues(self, now: float) -> bool:
        """Returns whether another walk begins. A sample that is shorter than a walk would be empty."""
        if self.ended_at is None and now > self.ends_at:
            seen = len(self.latencies) + self.others.total()
            if seen >= self.plan.connections or now > self.ends_at + _GRACE_S:
                self.ended_at = now
        return self.ended_at is None

    def next_at(self, now: float) -> float:
        """Returns when the next walk is due."""
        rate = self.plan.per_second
        return self._first_at + next(self._due) / rate if rate else now

    def count(self, began: float, wrong: str | None) -> None:
        """Counts a walk that has ended."""
        now = time.perf_counter()
        if wrong is not None:
            self.others[wrong] += 1
            return
        self.walks += 1
        if self.begins_at <= now and self.ended_at is None:
            self.latencies.append(now - began)

    def closed(self) -> None:
        self.open -= 1
        if self.open == 0:
            self.all_closed.set()


class _Connection(asyncio.Protocol):
    """A kept-alive connection: walk after walk, one request at a time, about orders that no other connection has."""

    def __init__(self, run: _Run, orders: Sequence[str]) -> None:
        uses = run.plan.uses
        self._run = run
        self._orders = chain.from_iterable(repeat(orders, uses)) if uses else cycle(orders)
        self._known: dict[bytes, bytes] | None = None  # the values of the walk that is under way
        self._step = self._missing = 0
        self._began = 0.0
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's own, which does not derive from asyncio's
        self._begin_when_due()

    def data_received(self, data: bytes) -> None:
        self._received += data
        if len(self._received) < self._missing:
            return
        head, ended, body = self._received.partition(_END_OF_HEAD)
        if not ended:
            return
        self._missing = len(head) + 4 + _content_length(head)
        if len(self._received) >= self._missing:
            self._received, self._missing = b"", 0
            self._answered(int(head[9:12]), body)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._known is not None:
            self._run.others[f"closed: {type(exc or ConnectionResetError()).__name__}"] += 1
        self._run.closed()

    def _begin_when_due(self) -> None:
        """Begins the next walk, at once if it is due."""
        self._known, now = None, time.perf_counter()
        due_at = self._run.next_at(now)
        if due_at > now:
            asyncio.get_running_loop().call_later(due_at - now, self._begin, None)
        else:
            self._begin(due_at)

    def _begin(self, due_at: float | None) -> None:
        """Begins a walk that is late since `due_at`; None for one that is not, since a timer is late by itself."""
        run, now = self._run, time.perf_counter()
        self._began = now if due_at is None else due_at
        if self._transport.is_closing():
            run.others["closed before the next walk was due"] += 1
            return
        order = next(self._orders, None)
        if run.plan.orders and order is None and run.continues(now):
            run.others[OUT_OF_ORDERS] += 1
            self._transport.close()
        elif run.continues(now):
            unique = (b"%016x" % next(run.numbers)).translate(_LETTERS)
            self._known, self._step = {_UNIQUE: unique, _ORDER: (order or "").encode()}, 0
            self._transport.write(run.requests[0].encode(self._known))
        else:
            self._transport.close()

    def _answered(self, status: int, body: bytes) -> None:
        run, known = self._run, self._known
        assert known is not None, "an answer belongs to a walk"
        wrong = run.requests[self._step].check(status, body, known)
        self._step += 1
        if wrong is None and self._step < len(run.requests):
            self._transport.write(run.requests[self._step].encode(known))
        else:
            run.count(self._began, wrong)
            self._begin_when_due()


def _template(text: str, names: Iterable[str]) -> bytes:
    """Returns the text as a template for `%` with a dictionary of these names."""
    template = text.encode().replace(b"%", b"%%")
    for name in names:
        template = template.replace(name.encode(), b"%%(%b)b" % name.encode())
    return template


def _content_length(head: bytes) -> int:
    at = max(head.find(b"\r\ncontent-length: "), head.find(b"\r\nContent-Length: "))
    return 0 if at < 0 else int(head[at + 18 :].partition(b"\r")[0])


def _json(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError:
        return {}


def _value(answer: Any, name: str) -> Any:
    for part in name.split("."):
        answer = answer.get(part) if isinstance(answer, dict) else None
    return answer


async def run(plan: LoadPlan, go: Go) -> Sample:
    """Does what the plan describes. Raises OSError if the server refuses a connection."""
    go()
    loop = asyncio.get_running_loop()
    state = _Run(plan)
    shares = [plan.orders[n :: plan.connections] for n in range(plan.connections)]
    shares = [share for share in shares if share or not plan.orders]
    state.open = len(shares)
    for share in shares:
        await loop.create_connection(partial(_Connection, state, share), plan.host, plan.port)
    await asyncio.sleep(max(0.0, state.begins_at - time.perf_counter()))
    used = time.process_time()
    with suppress(TimeoutError):  # without orders that are left, the end comes sooner
        await asyncio.wait_for(state.all_closed.wait(), max(0.0, state.ends_at - time.perf_counter()))
    used = time.process_time() - used
    try:
        await asyncio.wait_for(state.all_closed.wait(), 2 * _GRACE_S)
    except TimeoutError:
        state.others["no answer"] += state.open
    seconds = (state.ended_at or state.ends_at) - state.begins_at
    return replace(sample(state.latencies, seconds, cpu_s=used, others=state.others), ended=state.walks)


if __name__ == "__main__":
    work(LoadPlan, run)
