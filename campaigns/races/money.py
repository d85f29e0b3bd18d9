"""Races for one order's money, through several processes: refunds, parts, and a charge against a cancellation and a
refund.

A request that is answered "try again" is sent again, until every request has a final answer. A race in which all
requests but one give up at once proves nothing about the money.
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

from campaigns.chaos import bodies
from campaigns.chaos.wire import Wire
from campaigns.races.simultaneous import RaceAnswer, RaceRequest, race
from ledger.audit.invariants.answers import broken_amounts

AMOUNT = 10_000
_AGAIN = {"REFUND_IN_PROGRESS", "CONCURRENT_UPDATE", "REQUEST_IN_PROGRESS"}
_TIMES = 40
ENDS = {"COMPLETED", "PARTIALLY_PAID", "REFUNDED", "CANCELLED"}
"""The statuses that an order may have once all requests are answered."""


class RaceService(Struct, frozen=True):
    """The processes in which races are run: a port per process, and the merchant's key."""

    ports: Sequence[int]
    api_key: str

    def request(self, turn: int, path: str, body: Any) -> RaceRequest:
        """Returns a request through the process whose turn it is."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        port = self.ports[turn % len(self.ports)]
        return RaceRequest(port=port, method="POST", path=path, api_key=self.api_key, body=content)


Race = Callable[[RaceService, str], Awaitable[list[str]]]
"""Runs one round with an order of this name, and returns what is wrong afterwards."""


async def refunds(service: RaceService, name: str) -> list[str]:
    """Twenty-one refunds of 10 % against 100 % captured: ten of them succeed."""
    await ask(service, bodies.ORDERS, bodies.create(name, AMOUNT, "approved"))
    path = f"{_path(name)}/refund"
    requests = [service.request(turn, path, {"amount": AMOUNT // 10, "reason": f"refund {turn}"}) for turn in range(21)]
    answers = await until_answered(requests)
    return await _wrong(service, name, answers, given_back=AMOUNT, done={200: 10, 422: 11})


async def parts(service: RaceService, name: str) -> list[str]:
    """Ten parts of 30 % on one order: three of them are paid."""
    await ask(service, bodies.ORDERS, _split(name))
    part = json.loads(bodies.charge("approved")) | {"amount": AMOUNT * 3 // 10}
    answers = await until_answered([service.request(turn, f"{_path(name)}/payments", part) for turn in range(10)])
    return await _wrong(service, name, answers, paid=AMOUNT * 9 // 10, done={201: 3, 422: 7})


async def ends(service: RaceService, name: str) -> list[str]:
    """A charge against a cancellation against a refund, on an order that is paid in part: always a legal end."""
    await ask(service, bodies.ORDERS, _split(name))
    first = json.loads(bodies.charge("approved")) | {"amount": AMOUNT * 3 // 10}
    await ask(service, f"{_path(name)}/payments", first)
    requests = [
        service.request(0, f"{_path(name)}/charge", bodies.charge("approved")),
        service.request(1, f"{_path(name)}/cancel", {"refundCaptured": True}),
        service.request(2, f"{_path(name)}/refund", {"amount": AMOUNT // 10}),
    ]
    answers = await race(requests)
    order = await shown(service, name)
    wrong = _odd(answers) + list(broken_amounts(order))
    held = order["amountPaid"] - order["amountRefunded"]
    if order["status"] not in ENDS:
        wrong.append(f"it ended {order['status']}")
    if order["status"] in {"CANCELLED", "REFUNDED"} and held != 0:
        wrong.append(f"it is {order['status']} and holds {held}")
    if held > AMOUNT:
        wrong.append(f"it holds {held}")
    return [f"{name}: {what}" for what in wrong]


RACES: dict[str, Race] = {"refunds": refunds, "parts": parts, "ends": ends}


async def until_answered(requests: Sequence[RaceRequest]) -> list[RaceAnswer]:
    """Sends all requests at once, and those that are answered "try again" once more, until each has its answer."""
    done: list[RaceAnswer] = []
    for _ in range(_TIMES):
        answers = await race(requests)
        done += [answer for answer in answers if answer.code not in _AGAIN]
        requests = [request for request, answer in zip(requests, answers, strict=True) if answer.code in _AGAIN]
        if not requests:
            break
    return done


async def ask(service: RaceService, path: str, body: Any) -> dict[str, Any]:
    """Sends one request alone. Raises AssertionError if it is refused."""
    return await _asked(service.request(0, path, body))


async def shown(service: RaceService, name: str) -> dict[str, Any]:
    """Returns the order once no processor call for it is under way."""
    waits = {"PROCESSING", "CANCELLATION_REQUESTED", "REFUND_PROCESSING"}
    for port in cycle(service.ports):
        request = RaceRequest(port=port, method="GET", path=_path(name), api_key=service.api_key, body=b"")
        order = await _asked(request)
        if order["status"] not in waits:
            break
        await asyncio.sleep(0.05)
    return order


async def _asked(request: RaceRequest) -> dict[str, Any]:
    wire = Wire(timeout_s=30)
    await wire.open(request.port)
    answer = await wire.ask(request.method, request.path, request.api_key, request.body or None)
    await wire.close()
    assert answer.status < 300, answer.body
    body: dict[str, Any] = json.loads(answer.body)
    return body


async def _wrong(
    service: RaceService,
    name: str,
    answers: Sequence[RaceAnswer],
    *,
    done: dict[int, int],
    paid: int = AMOUNT,
    given_back: int = 0,
) -> list[str]:
    order = await shown(service, name)
    wrong = _odd(answers) + list(broken_amounts(order))
    if (order["amountPaid"], order["amountRefunded"]) != (paid, given_back):
        wrong.append(f"{order['amountPaid']} paid and {order['amountRefunded']} refunded")
    statuses = dict(Counter(answer.status for answer in answers))
    if statuses != done:
        wrong.append(f"answered {statuses}")
    return [f"{name}: {what}" for what in wrong]


def _odd(answers: Sequence[RaceAnswer]) -> list[str]:
    return [f"answered {answer.status} {answer.code}" for answer in answers if answer.status >= 500]


def _split(name: str) -> bytes:
    return json.dumps(json.loads(bodies.create(name, AMOUNT)) | {"allowPartials": True}).encode()


def _path(name: str) -> str:
    return f"{bodies.ORDERS}/{quote(name, safe='')}"
