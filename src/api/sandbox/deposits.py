"""Money that a payer sends to a reference, as the sandbox's bank reports it.

The rule a stranger would break: nothing is written to the order here. The bank takes the money in and reports it, the report
goes through the inbox, and the answer tells whether an order has taken it in.
"""

from __future__ import annotations

from typing import Final
from uuid import uuid4

from api.dependencies import Dependencies
from api.fields.pan_detection import contains_pan
from api.fields.values import positive_amount, printable
from api.http.decoding import BodyDecoder, bad_input_as_400
from api.http.errors import card_number_in, conflicting, invalid
from api.http.request import ApiRequest
from api.http.response import ApiResponse
from api.sandbox.deliver import deliver_and_respond
from api.sandbox.processor import sandbox_processor
from api.sandbox.schemas import SendDeposit
from ledger.domain.orders.decide.guards import require_multiple
from ledger.domain.rejections import AmountMismatch
from ledger.operations.pipeline.unit_of_work import load_order
from ledger.processors.sandbox.references import Deposit, WrongAmount

_decode: Final = BodyDecoder(SendDeposit)
_OWN: Final = "sbx_"
"""How the ids begin that the bank gives its other messages: a deposit under one of them would be taken for that message."""


async def send(rooms: Dependencies, call: ApiRequest) -> ApiResponse:
    """POST {base}/sandbox/deposits: 200 once an order has taken the money in, 202 where none knows the reference."""
    body = await call.body(rooms.body_limit)
    with bad_input_as_400():
        request = _decode(body)
        deposit = Deposit(
            merchant_id=call.principal.merchant_id,
            message_id=_message_id(request),
            sent_to=_sent_to(request),
            amount=positive_amount(request.amount, "amount"),
            at=rooms.ledger.clock.now(call.principal.merchant_id),
        )
    await _insist_on_step(rooms, deposit)
    try:
        message = await sandbox_processor(rooms).deposit(deposit)
    except WrongAmount as wrong:
        raise AmountMismatch("The store takes exactly the amount asked for.", expectedAmount=wrong.expected) from None
    return await deliver_and_respond(rooms, call, message)


async def _insist_on_step(rooms: Dependencies, deposit: Deposit) -> None:
    """No bank moves a part of a minor unit that the order does not know (section 8.6). Raises InvalidField on `amount`."""
    order_id = await sandbox_processor(rooms).order_of(deposit.merchant_id, deposit.sent_to)
    if order_id is not None:
        order = await load_order(rooms.ledger, deposit.merchant_id, order_id)
        require_multiple(order, deposit.amount)


def _sent_to(request: SendDeposit) -> str:
    if request.clabe is not None and request.reference is not None and request.clabe != request.reference:
        raise conflicting("clabe", "reference", "came with different values, and money is sent to one of the two")
    sent_to = request.clabe or request.reference
    if sent_to is None:
        raise invalid("clabe", "is required where reference is absent", "REQUIRED")
    if not (sent_to.isascii() and sent_to.isdigit()):
        raise invalid("clabe" if request.clabe else "reference", "must consist of digits", "INVALID_FORMAT")
    return sent_to


def _message_id(request: SendDeposit) -> str:
    """The network's own id of the deposit: the one that was sent, or a new one."""
    given = printable(request.message_id, "messageId")
    if given is not None and given.startswith(_OWN):
        raise invalid("messageId", f"must not begin with {_OWN}", "INVALID_FORMAT")
    if given is not None and contains_pan(given):
        raise card_number_in("messageId")
    return given or f"{_OWN}msg_{uuid4().hex}"
