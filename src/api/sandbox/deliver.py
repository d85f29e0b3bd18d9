"""A processor's message handed over, and the answer that tells what became of it.

The rule a stranger would break: 202 is no failure. The message is on disk and is tried again until an order takes it in.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final
from uuid import UUID

import msgspec

from api.dependencies import Dependencies
from api.http.request import ApiRequest
from api.http.response import ApiResponse
from api.orders.responses import order_json
from ledger.operations.orders.deposits import order_after_deposit
from ledger.processors.inbox import InboxEntry
from ledger.processors.messages import DepositReceived, Message

_PATIENCE_S: Final = 1.0
_PAUSE_S: Final = 0.1


async def deliver_and_respond(rooms: Dependencies, call: ApiRequest, message: Message) -> ApiResponse:
    """Hand a message over and answer with its order: 200 once that has taken it in, else 202. Raises a Fault."""
    receipt = await _delivered(rooms, message)
    order_id = receipt.message.order_id
    document = b"null"
    if receipt.handled_at is not None and order_id is not None:
        document = await _document(rooms, call, order_id, receipt.message)
    head = {"accepted": True, "processorMessageId": receipt.message.message_id, "waitsFor": receipt.waits_for}
    body = msgspec.json.encode(head)[:-1] + b',"paymentOrder":' + document + b"}"
    return ApiResponse(200 if receipt.handled_at is not None else 202, body)


async def _document(rooms: Dependencies, call: ApiRequest, order_id: UUID, message: Message) -> bytes:
    """The order as it stands; for a deposit, as that left it: the same deposit again gets the first answer."""
    merchant_id = call.principal.merchant_id
    if isinstance(message, DepositReceived):
        left = await order_after_deposit(rooms.ledger, merchant_id, order_id, message.processor_reference)
        if left is not None:
            return order_json(left, rooms, call)
    row = await rooms.reader.order(merchant_id, str(order_id))
    return b"null" if row is None else row.document(rooms.ledger.clock.now(merchant_id))


async def _delivered(rooms: Dependencies, message: Message) -> InboxEntry:
    """The receipt, after a while where the message has an order that is busy with something else."""
    assert rooms.mail is not None, "only the sandbox has these routes"
    receipt = await rooms.mail.deliver(message)
    until = time.monotonic() + _PATIENCE_S
    while receipt.handled_at is None and message.order_id is not None and time.monotonic() < until:
        await asyncio.sleep(_PAUSE_S)
        receipt = await rooms.mail.deliver(message)
    return receipt
