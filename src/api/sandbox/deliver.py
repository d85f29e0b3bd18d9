"""Delivers a processor's message and answers with the result.

202 is a success: the message is on disk, and a worker tries it again until an order records it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Annotated, Final, Literal
from uuid import UUID

from msgspec import Meta, Struct

from api.http.dependencies import Dependencies
from api.http.request import ApiRequest
from api.orders.responses import order_json
from api.response import ApiResponse, json_response, rendered
from api.sandbox.once import answer_once
from ledger.operations.orders.deposits import order_at_version, version_after
from ledger.processors.inbox_store import InboxEntry
from ledger.processors.messages import DepositReceived, Message
from projections.orders.documents import OrderDocument

_WAIT_S: Final = 1.0
_PAUSE_S: Final = 0.1


class Reported(Struct, rename="camel"):
    """The result of a message of the sandbox's processor."""

    accepted: Annotated[Literal[True], Meta(description="Always true: the message is stored on disk.")]
    processor_message_id: Annotated[str, Meta(description="The processor's own id of the message.")]
    waits_for: Annotated[str | None, Meta(description="Why no order has recorded the message yet; null where one has.")]
    payment_order: Annotated[OrderDocument | None, Meta(description="The order that has recorded the message.")]


class Delivered(Struct, frozen=True):
    """The result of a delivered message, without the order, which is read again at this version."""

    message_id: str
    handled: bool
    waits_for: str | None = None
    order_id: UUID | None = None
    order_version: int = 0


async def deliver_and_respond(
    deps: Dependencies, request: ApiRequest, body: bytes, report: Callable[[UUID], Awaitable[Message]]
) -> ApiResponse:
    """Delivers a message and answers with its order: 200 once the order has recorded the message, else 202.

    `report` makes the message from the id that it is given. The same Idempotency-Key gets the same answer. Raises the
    exceptions of `report`, a Fault.
    """

    async def act(seed: UUID) -> Delivered:
        return await _deliver(deps, await report(seed))

    delivered, headers = await answer_once(deps, request, body, Delivered, act)
    document = None
    if delivered.order_id is not None:
        order = await order_at_version(
            deps.ledger, request.principal.merchant_id, delivered.order_id, delivered.order_version
        )
        document = rendered(order_json(order, deps, request))
    content = Reported(
        accepted=True,
        processor_message_id=delivered.message_id,
        waits_for=delivered.waits_for,
        payment_order=document,
    )
    return json_response(200 if delivered.handled else 202, content, headers)


async def _deliver(deps: Dependencies, message: Message) -> Delivered:
    """Delivers a message and returns the version of its order: for a deposit, the version that the deposit made."""
    entry = await _delivered(deps, message)
    message_id, order_id = entry.message.message_id, entry.message.order_id
    if entry.handled_at is None or order_id is None:
        return Delivered(message_id, entry.handled_at is not None, entry.waits_for)
    deposit_id = entry.message.processor_reference if isinstance(entry.message, DepositReceived) else None
    version = await version_after(deps.ledger, entry.message.merchant_id, order_id, deposit_id)
    return Delivered(message_id, handled=True, order_id=order_id, order_version=version)


async def _delivered(deps: Dependencies, message: Message) -> InboxEntry:
    """Delivers a message, again for up to a second if its order is busy, and returns the inbox entry."""
    entry = await deps.delivery.deliver(message)
    until = time.monotonic() + _WAIT_S
    while entry.handled_at is None and message.order_id is not None and time.monotonic() < until:
        await asyncio.sleep(_PAUSE_S)
        entry = await deps.delivery.deliver(message)
    return entry
