"""Races for one order's money, through several processes: refunds, parts, and a charge against a cancellation and a refund.

The rule a stranger would break: whoever is told to come again comes again, until every request has a final answer. A race
in which all but one give up at once proves nothing about the money.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from itertools import cycle
from typing import Any
from urllib.parse import quote

from msgspec import Struct
from tests.chaos import bodies
from tests.chaos.wire import Wire
from tests.invariants import broken_sums
from tests.races.starting_line import Finish, Runner, race

AMOUNT = 10_000
_AGAIN = {"REFUND_IN_PROGRESS", "CONCURRENT_UPDATE", "REQUEST_IN_PROGRESS"}
_TIMES = 40
ENDS = {"COMPLETED", "PARTIALLY_PAID", "REFUNDED", "CANCELLED"}
"""Where an order may stand once nobody asks for anything any more."""


class Course(Struct, frozen=True):
    """Where races are run: a port per process, and the merchant's key."""

    ports: Sequence[int]
    api_key: str

    def runner(self, turn: int, path: str, body: Any) -> Runner:
        """A request through the process whose turn it is."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        port = self.ports[turn % len(self.ports)]
        return Runner(port=port, method="POST", path=path, api_key=self.api_key, body=content)


Race = Callable[[Course, str], Awaitable[list[str]]]
"""One round with an order of this name: what is wrong afterwards."""


async def refunds(course: Course, name: str) -> list[str]:
    """Twenty refunds of 10 % and one more against 100 % captured: ten of them give money back."""
    await ask(course, bodies.ORDERS, bodies.create(name, AMOUNT, "approved"))
    path = f"{_path(name)}/refund"
    runners = [course.runner(turn, path, {"amount": AMOUNT // 10, "reason": f"refund {turn}"}) for turn in range(21)]
    finishes = await to_the_end(runners)
    return await _wrong(course, name, finishes, given_back=AMOUNT, done={200: 10, 422: 11})


async def parts(course: Course, name: str) -> list[str]:
    """Ten parts of 30 % on one order: three of them are paid."""
    await ask(course, bodies.ORDERS, _split(name))
    part = json.loads(bodies.charge("approved")) | {"amount": AMOUNT * 3 // 10}
    finishes = await to_the_end([course.runner(turn, f"{_path(name)}/payments", part) for turn in range(10)])
    return await _wrong(course, name, finishes, paid=AMOUNT * 9 // 10, done={201: 3, 422: 7})


async def ends(course: Course, name: str) -> list[str]:
    """A charge against a cancellation against a refund, on an order that is paid in part: always a legal end."""
    await ask(course, bodies.ORDERS, _split(name))
    first = json.loads(bodies.charge("approved")) | {"amount": AMOUNT * 3 // 10}
    await ask(course, f"{_path(name)}/payments", first)
    runners = [
        course.runner(0, f"{_path(name)}/charge", bodies.charge("approved")),
        course.runner(1, f"{_path(name)}/cancel", {"refundCaptured": True}),
        course.runner(2, f"{_path(name)}/refund", {"amount": AMOUNT // 10}),
    ]
    finishes = await race(runners)
    order = await shown(course, name)
    wrong = _odd(finishes) + list(broken_sums(order))
    held = order["amountPaid"] - order["amountRefunded"]
    if order["status"] not in ENDS:
        wrong.append(f"it ended {order['status']}")
    if order["status"] in {"CANCELLED", "REFUNDED"} and held != 0:
        wrong.append(f"it is {order['status']} and holds {held}")
    if held > AMOUNT:
        wrong.append(f"it holds {held}")
    return [f"{name}: {what}" for what in wrong]


RACES: dict[str, Race] = {"refunds": refunds, "parts": parts, "ends": ends}


async def to_the_end(runners: Sequence[Runner]) -> list[Finish]:
    """All at once; those that are told to come again at once again, until each has its answer."""
    done: list[Finish] = []
    for _ in range(_TIMES):
        finishes = await race(runners)
        done += [finish for finish in finishes if finish.code not in _AGAIN]
        runners = [runner for runner, finish in zip(runners, finishes, strict=True) if finish.code in _AGAIN]
        if not runners:
            break
    return done


async def ask(course: Course, path: str, body: Any) -> dict[str, Any]:
    """One request, with nobody beside it. Raises AssertionError where it is refused."""
    return await _asked(course.runner(0, path, body))


async def shown(course: Course, name: str) -> dict[str, Any]:
    """The order, once no call for it is under way any more."""
    waits = {"PROCESSING", "CANCELLATION_REQUESTED", "REFUND_PROCESSING"}
    for port in cycle(course.ports):
        runner = Runner(port=port, method="GET", path=_path(name), api_key=course.api_key, body=b"")
        order = await _asked(runner)
        if order["status"] not in waits:
            break
        await asyncio.sleep(0.05)
    return order


async def _asked(runner: Runner) -> dict[str, Any]:
    wire = Wire(timeout_s=30)
    await wire.open(runner.port)
    answer = await wire.ask(runner.method, runner.path, runner.api_key, runner.body or None)
    await wire.close()
    assert answer.status < 300, answer.body
    body: dict[str, Any] = json.loads(answer.body)
    return body


async def _wrong(
    course: Course,
    name: str,
    finishes: Sequence[Finish],
    *,
    done: dict[int, int],
    paid: int = AMOUNT,
    given_back: int = 0,
) -> list[str]:
    order = await shown(course, name)
    wrong = _odd(finishes) + list(broken_sums(order))
    if (order["amountPaid"], order["amountRefunded"]) != (paid, given_back):
        wrong.append(f"{order['amountPaid']} paid and {order['amountRefunded']} refunded")
    statuses = dict(Counter(finish.status for finish in finishes))
    if statuses != done:
        wrong.append(f"answered {statuses}")
    return [f"{name}: {what}" for what in wrong]


def _odd(finishes: Sequence[Finish]) -> list[str]:
    return [f"answered {finish.status} {finish.code}" for finish in finishes if finish.status >= 500]


def _split(name: str) -> bytes:
    return json.dumps(json.loads(bodies.create(name, AMOUNT)) | {"allowPartials": True}).encode()


def _path(name: str) -> str:
    return f"{bodies.ORDERS}/{quote(name, safe='')}"
