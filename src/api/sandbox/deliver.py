"""Hands a processor's message over and answers with what became of it.

202 is a success: the message is on disk, and a worker tries it again until an order takes it in.
"""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Final, Literal
from uuid import UUID

from msgspec import Meta, Struct

from api.dependencies import Dependencies
from api.http.request import ApiRequest
from api.http.response import ApiResponse, json_response, rendered
from api.orders.responses import order_json
from ledger.operations.orders.deposits import order_after_deposit
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


async def deliver_and_respond(deps: Dependencies, request: ApiRequest, message: Message) -> ApiResponse:
    """Hands a message over and answers with its order: 200 once that has taken the message in, else 202. Raises a
    Fault.
    """
    entry = await _delivered(deps, message)
    order_id = entry.message.order_id
    document = None
    if entry.handled_at is not None and order_id is not None:
        document = await _document(deps, request, order_id, entry.message)
    content = Reported(
        accepted=True,
        processor_message_id=entry.message.message_id,
        waits_for=entry.waits_for,
        payment_order=None if document is None else rendered(document),
    )
    return json_response(202 if entry.handled_at is None else 200, content)


async def _document(deps: Dependencies, request: ApiRequest, order_id: UUID, message: Message) -> bytes | None:
    """Returns the order as it is now; for a deposit, as that left it, so that the same deposit again gets the first
    answer.
    """
    merchant_id = request.principal.merchant_id
    if isinstance(message, DepositReceived):
        after = await order_after_deposit(deps.ledger, merchant_id, order_id, message.processor_reference)
        if after is not None:
            return order_json(after, deps, request)
    row = await deps.queries.order(merchant_id, str(order_id))
    return None if row is None else row.document(deps.ledger.clock.now(merchant_id))


async def _delivered(deps: Dependencies, message: Message) -> InboxEntry:
    """Delivers a message, again for up to a second where its order is busy, and returns the inbox entry."""
    entry = await deps.delivery.deliver(message)
    until = time.monotonic() + _WAIT_S
    while entry.handled_at is None and message.order_id is not None and time.monotonic() < until:
        await asyncio.sleep(_PAUSE_S)
        entry = await deps.delivery.deliver(message)
    return entry
