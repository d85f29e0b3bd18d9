"""Many clients that send requests at the same time, through several processes: real connections, real HTTP.

Each client holds back the last byte of its request until all the others have sent theirs: requests that follow each
other prove nothing about a race.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from msgspec import Struct

from campaigns.chaos.wire import Wire


class RaceAnswer(Struct, frozen=True, kw_only=True):
    """The answer to one request. `order_id` and `payment_id` are None if the answer has none."""

    status: int
    code: str | None
    replayed: bool
    order_id: UUID | None
    order_status: str | None
    payment_id: UUID | None


class RaceRequest(Struct, frozen=True, kw_only=True):
    """A request, and the port that it is sent to."""

    port: int
    method: str
    path: str
    api_key: str
    body: bytes


async def race(requests: Sequence[RaceRequest]) -> list[RaceAnswer]:
    """Sends all requests at once and returns their answers, in the same order. Raises NotSent or Lost."""
    wires = [Wire(timeout_s=30) for _ in requests]
    try:
        await asyncio.gather(*[wire.open(request.port) for wire, request in zip(wires, requests, strict=True)])
        ready = [
            await wire.begin(request.method, request.path, request.api_key, request.body)
            for wire, request in zip(wires, requests, strict=True)
        ]
        await asyncio.sleep(0.05)  # every request is at the server, without its last byte
        answers = await asyncio.gather(*[wire.finish(last) for wire, last in zip(wires, ready, strict=True)])
    finally:
        await asyncio.gather(*[wire.close() for wire in wires])
    return [_finish(answer.status, answer.headers.get("idempotent-replayed"), answer.body) for answer in answers]


def statuses(answers: Sequence[RaceAnswer]) -> Counter[int]:
    """Returns how many answers have each status."""
    return Counter(answer.status for answer in answers)


def _finish(status: int, replayed: str | None, content: bytes) -> RaceAnswer:
    body: dict[str, Any] = json.loads(content)
    order = body.get("paymentOrder", body)
    payment = order.get("payment")
    return RaceAnswer(
        status=status,
        code=body.get("code"),
        replayed=replayed == "true",
        order_id=UUID(order["id"]) if "id" in order else None,
        order_status=order.get("status"),
        payment_id=UUID(payment["id"]) if payment else None,
    )
