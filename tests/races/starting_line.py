"""Many clients that send the same request at the same time, through several processes: real connections, real HTTP.

The rule a stranger would break: everybody waits with the last byte of the request until all the others have sent theirs.
Requests that follow each other prove nothing about a race.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from msgspec import Struct
from tests.chaos.wire import Wire


class Finish(Struct, frozen=True, kw_only=True):
    """How one of the requests was answered. `order` and `payment` are the answer's, None where it has none."""

    status: int
    code: str | None
    replayed: bool
    order_id: UUID | None
    order_status: str | None
    payment_id: UUID | None


class Runner(Struct, frozen=True, kw_only=True):
    """A request, and the port that it is sent to."""

    port: int
    method: str
    path: str
    api_key: str
    body: bytes


async def race(runners: Sequence[Runner]) -> list[Finish]:
    """Send all requests at once; their answers, in the same order. Raises NotSent or Lost."""
    wires = [Wire(timeout_s=30) for _ in runners]
    try:
        await asyncio.gather(*[wire.open(runner.port) for wire, runner in zip(wires, runners, strict=True)])
        ready = [
            await wire.begin(runner.method, runner.path, runner.api_key, runner.body)
            for wire, runner in zip(wires, runners, strict=True)
        ]
        await asyncio.sleep(0.05)  # the requests stand at the door, each without its last byte
        answers = await asyncio.gather(*[wire.finish(last) for wire, last in zip(wires, ready, strict=True)])
    finally:
        await asyncio.gather(*[wire.close() for wire in wires])
    return [_finish(answer.status, answer.headers.get("idempotent-replayed"), answer.body) for answer in answers]


def statuses(finishes: Sequence[Finish]) -> Counter[int]:
    """How many answers there are of each status."""
    return Counter(finish.status for finish in finishes)


def _finish(status: int, replayed: str | None, content: bytes) -> Finish:
    body: dict[str, Any] = json.loads(content)
    order = body.get("paymentOrder", body)
    payment = order.get("payment")
    return Finish(
        status=status,
        code=body.get("code"),
        replayed=replayed == "true",
        order_id=UUID(order["id"]) if "id" in order else None,
        order_status=order.get("status"),
        payment_id=UUID(payment["id"]) if payment else None,
    )
