"""The card of a payment by token: what its processor shows of it, read once before the payment is recorded."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final
from uuid import UUID

import structlog
from msgspec.structs import replace

from ledger.domain.rejections import CardTokenInvalid
from ledger.operations.context.inputs import PaymentInput
from ledger.operations.context.ledger import Ledger
from ledger.processors.contract import ProcessorUnavailable, TokenRequest

_log = structlog.get_logger()

_FIELD: Final = "paymentMethod.cardTokens[{}].{}"


async def with_card_of_token(ledger: Ledger, merchant_id: UUID, payment: PaymentInput) -> PaymentInput:
    """Returns a payment by tokens with the card of the one that is charged; any other payment as it is.

    A token that no card can be charged by becomes the payment's refusal: a repeated request shows the payment that it
    began, though its token is used up since. Raises ProcessorUnavailable if the processor does not answer.
    """
    if not payment.card_tokens:
        return payment
    processor = ledger.processor
    names = [each.account for each in payment.card_tokens]
    if processor is None or processor.capabilities.name not in names or not processor.capabilities.takes_card_tokens:
        field = _FIELD.format(0, "account")
        problem = f"{field} is no connected account that takes tokens: see GET /v1/processor-accounts."
        return replace(payment, card_refusal=CardTokenInvalid(problem, field=field))
    place = names.index(processor.capabilities.name)
    token = payment.card_tokens[place].token
    request = TokenRequest(merchant_id=merchant_id, token=token, deadline_at=ledger.call_deadline())
    try:
        with ledger.timeouts.within((request.deadline_at - datetime.now(UTC)).total_seconds()):
            card = await processor.read_token(request)
    except Exception as fault:  # whatever it was, nothing is charged yet
        _log.warning("card_token_not_read", processor=processor.capabilities.name, reason=type(fault).__name__)
        raise ProcessorUnavailable("the card of the token cannot be read") from fault
    if card is None:
        field = _FIELD.format(place, "token")
        problem = f"{field} is no token of a card that can be charged: let the payer enter the card again."
        return replace(payment, card_refusal=CardTokenInvalid(problem, field=field))
    return replace(payment, card=token, card_summary=card)
