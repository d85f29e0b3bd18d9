"""How the sandbox answers an authorisation: most need only a charge record, some have further effects.

The call executor carries out the further effects, in one commit with the answer.
"""

from __future__ import annotations

from decimal import Decimal

from ledger.domain.money import ZERO, rounded
from ledger.domain.orders.processor_outcomes import Approved
from ledger.postgres.connection import Connection
from ledger.processors.contract import AuthorizationRequest
from ledger.processors.sandbox import authentications, charge_rows, charges
from ledger.processors.sandbox.authentications import StoredAnswer
from ledger.processors.sandbox.call_executor import CallEffect, CallResult
from ledger.processors.sandbox.charge_rows import ChargeCall
from ledger.processors.sandbox.test_cards import APPROVED, TestCard, number_of, without_plan


def card_effect(request: AuthorizationRequest, card: TestCard, pages_url: str) -> CallEffect | None:
    """Returns the effect of a call that needs more than a charge record, None for every other call."""
    no_plan = None if request.installments is None else without_plan(request.card, request.installments)
    if no_plan is not None and not card.declined:
        return _answering(StoredAnswer(declined=no_plan))
    if card.declined_when_saved and request.saved_card:
        return _answering(StoredAnswer(declined=card.declined_when_saved))
    if card.authentication and request.authenticate:
        return authentications.open_session(request, card.authentication, pages_url)
    if request.amount == ZERO:
        return _answering(
            StoredAnswer(approved=None if card.declined else _approved(request, card), declined=card.declined)
        )
    if card.disputed and request.capture:
        return _disputed(request)
    return None


def charge_call(request: AuthorizationRequest, card: TestCard) -> ChargeCall:
    """Returns the charge record of an authorisation."""
    number = number_of(request.card)
    approved = _approved(request, card)
    return ChargeCall(
        merchant_id=request.merchant_id,
        idempotency_key=request.idempotency_key,
        amount=request.amount,
        currency=request.currency,
        capture=request.capture,
        card_bin=number[:6],
        card_last4=number[-4:],
        reference=approved.processor_reference,
        answer=card.declined or approved,
    )


def _approved(request: AuthorizationRequest, card: TestCard) -> Approved:
    granted = _half(request.amount) if card.grants_half else request.amount
    reference, code = charges.reference_and_code(request.merchant_id, request.idempotency_key)
    return Approved(
        authorized=granted,
        captured=granted if request.capture and card.captures else ZERO,
        processor_reference=reference,
        authorization_code=code,
    )


def _answering(stored: StoredAnswer) -> CallEffect:
    async def effect(_: Connection) -> CallResult:
        return CallResult(stored, accepted=stored.declined is None)

    return effect


def _disputed(request: AuthorizationRequest) -> CallEffect:
    """Grants, captures, and announces the dispute in the same commit."""
    call, approved = charge_call(request, APPROVED), _approved(request, APPROVED)

    async def effect(connection: Connection) -> CallResult:
        await charge_rows.insert(connection, call)
        await charges.dispute_later(connection, request, approved.processor_reference, approved.captured)
        return CallResult(StoredAnswer(approved=approved))

    return effect


def _half(amount: Decimal) -> Decimal:
    """Returns half of an amount in whole minor units, or all of it if that half is zero or all of it."""
    half = rounded(amount / 2, Decimal(1))
    return half if ZERO < half < amount else amount
