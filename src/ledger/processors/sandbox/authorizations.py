"""How the sandbox answers an authorisation: most are a line in the book, some are more than that.

The rule a stranger would break: whatever is more than a line is carried out by the teller, in one commit with its answer.
"""

from __future__ import annotations

from decimal import Decimal

from ledger.domain.money import ZERO, rounded
from ledger.domain.orders.processor_outcomes import Approved
from ledger.postgres.connection import Connection
from ledger.processors.contract import AuthorizationRequest
from ledger.processors.sandbox import authentications, charge_rows, charges
from ledger.processors.sandbox.authentications import StoredAnswer
from ledger.processors.sandbox.call_executor import CallResult
from ledger.processors.sandbox.charge_rows import ChargeCall
from ledger.processors.sandbox.charges import CallEffect
from ledger.processors.sandbox.test_cards import APPROVED, TestCard


def card_effect(request: AuthorizationRequest, script: TestCard, pages_url: str) -> CallEffect | None:
    """What is to be done for a card that asks for more than a line in the book, None for every other."""
    if script.declined_when_saved and request.saved_card:
        return _answering(StoredAnswer(declined=script.declined_when_saved))
    if script.authentication and request.authenticate:
        return authentications.open_session(request, script.authentication, pages_url)
    if script.disputed and request.capture:
        return _disputed(request)
    return None


def charge_call(request: AuthorizationRequest, script: TestCard) -> ChargeCall:
    """The line in the book for an authorisation."""
    number = request.card.number
    approved = _approved(request, script)
    return ChargeCall(
        merchant_id=request.merchant_id,
        idempotency_key=request.idempotency_key,
        amount=request.amount,
        currency=request.currency,
        capture=request.capture,
        card_bin=number[:6],
        card_last4=number[-4:],
        reference=approved.processor_reference,
        answer=script.declined or approved,
    )


def _approved(request: AuthorizationRequest, script: TestCard) -> Approved:
    granted = _half(request.amount) if script.grants_half else request.amount
    reference, code = charges.reference_and_code(request.merchant_id, request.idempotency_key)
    return Approved(
        authorized=granted,
        captured=granted if request.capture and script.captures else ZERO,
        processor_reference=reference,
        authorization_code=code,
    )


def _answering(stored: StoredAnswer) -> CallEffect:
    async def deal(_: Connection) -> CallResult:
        return CallResult(stored, accepted=stored.declined is None)

    return deal


def _disputed(request: AuthorizationRequest) -> CallEffect:
    """Grants, captures, and announces the dispute in the same commit."""
    call = charge_call(request, APPROVED)
    approved = call.answer
    assert isinstance(approved, Approved)

    async def effect(connection: Connection) -> CallResult:
        await charge_rows.insert(connection, call)
        await charges.dispute_later(connection, request, approved.processor_reference, approved.captured)
        return CallResult(StoredAnswer(approved=approved))

    return effect


def _half(amount: Decimal) -> Decimal:
    """Half of an amount in whole minor units; all of it where there is no such half."""
    half = rounded(amount / 2, Decimal(1))
    return half if ZERO < half < amount else amount
