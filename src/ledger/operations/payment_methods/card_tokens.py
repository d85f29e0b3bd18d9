"""The card of a payment by token: what its processor shows of it, read once before the payment is recorded."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Final
from uuid import UUID

import structlog
from msgspec.structs import replace

from ledger.domain.orders.terms import MethodType
from ledger.domain.rejections import CardTokenInvalid
from ledger.domain.streams import ORDERS
from ledger.operations.context.inputs import Actor, PaymentInput
from ledger.operations.context.ledger import Ledger
from ledger.operations.pipeline.accounts import count_failure, token_account
from ledger.operations.pipeline.unit_of_work import UnitOfWork
from ledger.processors.contract import ProcessorTimedOut, ProcessorUnavailable, TokenRequest

_log = structlog.get_logger()

_NOT_REACHED: Final = (ProcessorUnavailable, ProcessorTimedOut, TimeoutError)
_FIELD: Final = "paymentMethod.cardTokens[{}].{}"


async def with_card_of_token(
    ledger: Ledger, merchant_id: UUID, payment: PaymentInput, currency: str, amount: Decimal | None
) -> PaymentInput:
    """Returns a payment by tokens with the card of the one that is charged; any other payment as it is.

    It is the token of the first account that takes cards of this currency and amount, in minor units. A token that no
    card can be charged by becomes the payment's refusal: a repeated request shows the payment that it began, though its
    token is used up since. Raises ProcessorUnavailable if the processor does not answer, which counts as a payment that
    did not reach it (decision 0084), a Fault.
    """
    if not payment.card_tokens:
        return payment
    names = [each.account for each in payment.card_tokens]
    account = await token_account(ledger, merchant_id, names, currency, amount, payment.installments)
    if account is None:
        field = _FIELD.format(0, "account")
        problem = f"{field} is no connected account that takes tokens: see GET /v1/processor-accounts."
        return replace(payment, card_refusal=CardTokenInvalid(problem, field=field))
    place = names.index(account.name)
    token = payment.card_tokens[place].token
    request = TokenRequest(merchant_id=merchant_id, token=token, deadline_at=ledger.call_deadline())
    try:
        with ledger.timeouts.within((request.deadline_at - datetime.now(UTC)).total_seconds()):
            card = await account.processor.read_token(request)
    except Exception as fault:  # whatever it was, nothing is charged yet
        ids = {"processor": account.processor.capabilities.name, "account": account.name}
        _log.warning("card_token_not_read", reason=type(fault).__name__, **ids)
        if amount is not None and isinstance(fault, _NOT_REACHED):
            count_failure(ledger, merchant_id, account.name, MethodType.CARD)
        raise ProcessorUnavailable("the card of the token cannot be read") from fault
    if card is None:
        return replace(payment, card_refusal=token_invalid(_FIELD.format(place, "token")))
    return replace(
        payment,
        card=token,
        card_account=account.name,
        card_fingerprint=card.fingerprint,
        card_summary=card.summary,
    )


def token_field(payment: PaymentInput) -> str | None:
    """Returns the field of the token that is charged, None for a payment without one."""
    names = [each.account for each in payment.card_tokens]
    return _FIELD.format(names.index(payment.card_account), "token") if payment.card_account in names else None


def token_invalid(field: str) -> CardTokenInvalid:
    """Returns the rejection of a token by which no card can be charged."""
    problem = f"{field} is no token of a card that can be charged: let the payer enter the card again."
    return CardTokenInvalid(problem, field=field)


async def with_card_for_order(ledger: Ledger, actor: Actor, reference: str, payment: PaymentInput) -> PaymentInput:
    """Returns what `with_card_of_token` returns for a payment of an order. Raises OrderNotFound as well."""
    if not payment.card_tokens:
        return payment
    order = await UnitOfWork(ledger, actor).find(ORDERS, reference)
    amount = order.unpaid_subtotal if payment.amount is None else payment.amount
    return await with_card_of_token(ledger, actor.merchant_id, payment, order.terms.currency, amount)
