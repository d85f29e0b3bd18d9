"""What can be done with a charge in the sandbox's book after it was granted: capture, void, refund.

The rule a stranger would break: nothing is summed up in a row. What was taken and what went back is the sum of the calls
that did it, read while nobody else can make one about this charge.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from decimal import Decimal
from hashlib import blake2b
from typing import Final
from uuid import UUID

from msgspec import Struct

from ledger.domain.money import SCALE, shortest
from ledger.domain.orders.processor_outcomes import (
    Captured,
    CaptureRefused,
    Refunded,
    RefundPending,
    RefundRefused,
    Voided,
    VoidRefused,
)
from ledger.postgres.connection import Connection
from ledger.processors.contract import CaptureRequest, RefundRequest, Request, VoidRequest
from ledger.processors.messages import DisputeOpened, RefundConfirmed, RefundFailed
from ledger.processors.sandbox import outbox
from ledger.processors.sandbox.call_executor import CallResult, fetch_one
from ledger.processors.sandbox.outbox import reference_for
from ledger.processors.sandbox.test_cards import Refunds, TestCard, test_card

NAME: Final = "sandbox"
LATER: Final = timedelta(seconds=2)
"""How long after a call, by the merchant's clock, a message about it comes."""

# A granted charge, with everything that later calls moved.
_FIND: Final = """
select c.authorized, c.currency, c.card_bin, c.card_last4, c.captured + coalesce(m.captured, 0), coalesce(m.refunded, 0),
       coalesce(m.voided, false)
  from sandbox_charge c,
       lateral (select sum(moved) filter (where kind = 'CAPTURE')::int8 as captured,
                       sum(moved) filter (where kind = 'REFUND')::int8 as refunded,
                       bool_or(kind = 'VOID') as voided
                  from sandbox_call m
                 where m.merchant_id = c.merchant_id and m.reference = c.reference and m.accepted) m
 where c.merchant_id = %s and c.reference = %s and c.authorized > 0
"""

_UNKNOWN: Final = "UNKNOWN_TRANSACTION"

CallEffect = Callable[[Connection], Awaitable[CallResult]]


class Charge(Struct, frozen=True, kw_only=True):
    """A charge as it stands. Amounts in minor units."""

    authorized: Decimal
    captured: Decimal
    refunded: Decimal
    currency: str
    voided: bool
    script: TestCard


def capture(request: CaptureRequest) -> CallEffect:
    """Take a part of a charge, or all of it."""

    async def deal(connection: Connection) -> CallResult:
        charge = await find(connection, request.merchant_id, request.processor_reference)
        if charge is None:
            return _no(CaptureRefused(code=_UNKNOWN, message="There is no such authorisation."))
        if charge.voided:
            return _no(CaptureRefused(code="VOIDED", message="The authorisation was voided."))
        if charge.script.captures is False:
            return _no(CaptureRefused(code="CAPTURE_REFUSED", message="The issuer refuses every capture of this card."))
        if request.currency != charge.currency or charge.captured + request.amount > charge.authorized:
            return _no(CaptureRefused(code="AMOUNT_TOO_LARGE", message="That is more than was authorised."))
        if charge.script.disputed:
            await dispute_later(connection, request, request.processor_reference, request.amount)
        reference = reference_for("cap", request)
        return CallResult(Captured(amount=request.amount, processor_reference=reference), moved=request.amount)

    return deal


def void(request: VoidRequest) -> CallEffect:
    """Release what was granted, where nothing was captured of it yet."""

    async def deal(connection: Connection) -> CallResult:
        charge = await find(connection, request.merchant_id, request.processor_reference)
        if charge is None:
            return _no(VoidRefused(code=_UNKNOWN, message="There is no such authorisation."))
        if charge.captured:
            return _no(VoidRefused(code="ALREADY_CAPTURED", message="The money was captured; it can be refunded."))
        if charge.script.voids is False:
            return _no(VoidRefused(code="VOID_REFUSED", message="The issuer refuses every void of this card."))
        return CallResult(Voided(processor_reference=reference_for("void", request)))

    return deal


def refund(request: RefundRequest) -> CallEffect:
    """Give money of a charge back: at once, or later with a message."""

    async def deal(connection: Connection) -> CallResult:
        charge = await find(connection, request.merchant_id, request.processor_reference)
        if charge is None:
            return _no(RefundRefused(code=_UNKNOWN, message="There is no such payment."))
        if charge.script.refunds is Refunds.REFUSED:
            return _no(RefundRefused(code="REFUND_REFUSED", message="The issuer refuses every refund to this card."))
        if request.currency != charge.currency or charge.refunded + request.amount > charge.captured:
            return _no(RefundRefused(code="AMOUNT_TOO_LARGE", message="That is more than is left of the payment."))
        reference = reference_for("ref", request)
        if charge.script.refunds is Refunds.AT_ONCE:
            return CallResult(Refunded(amount=request.amount, processor_reference=reference), moved=request.amount)
        await outbox.enqueue(connection, refund_confirmed(request, reference, request.amount))
        return CallResult(RefundPending(processor_reference=reference), moved=request.amount)

    return deal


async def find(connection: Connection, merchant_id: UUID, reference: str) -> Charge | None:
    """The charge with this reference, where it was granted."""
    row = await fetch_one(connection, _FIND, (merchant_id, reference))
    if row is None:
        return None
    authorized, currency, card_bin, card_last4, captured, refunded, voided = row
    return Charge(
        authorized=shortest(Decimal(authorized) / SCALE),
        captured=shortest(Decimal(captured) / SCALE),
        refunded=shortest(Decimal(refunded) / SCALE),
        currency=currency,
        voided=voided,
        script=test_card(card_bin, card_last4),
    )


async def dispute_later(connection: Connection, request: Request, processor_reference: str, amount: Decimal) -> None:
    """The payer's bank will take captured money back."""
    opened = DisputeOpened(
        processor=NAME,
        message_id=reference_for("dispute", request),
        merchant_id=request.merchant_id,
        occurred_at=outbox.at(request) + LATER,
        order_id=request.order_id,
        payment_id=request.payment_id,
        dispute_id=reference_for("dp", request),
        processor_reference=processor_reference,
        amount=amount,
        reason="FRAUDULENT",
    )
    await outbox.enqueue(connection, opened)


def refund_confirmed(request: Request, reference: str, amount: Decimal) -> RefundConfirmed:
    """The message that a refund or payout was carried out."""
    return RefundConfirmed(
        processor=NAME,
        message_id=f"{reference}_done",
        merchant_id=request.merchant_id,
        occurred_at=outbox.at(request) + LATER,
        order_id=request.order_id,
        payment_id=request.payment_id,
        idempotency_key=request.idempotency_key,
        processor_reference=reference,
        amount=amount,
    )


def refund_failed(request: Request, reference: str, code: str) -> RefundFailed:
    """The message that a refund or payout came to nothing."""
    return RefundFailed(
        processor=NAME,
        message_id=f"{reference}_failed",
        merchant_id=request.merchant_id,
        occurred_at=outbox.at(request) + LATER,
        order_id=request.order_id,
        payment_id=request.payment_id,
        idempotency_key=request.idempotency_key,
        processor_reference=reference,
        code=code,
    )


def reference_and_code(merchant_id: UUID, idempotency_key: str) -> tuple[str, str]:
    """A charge's reference and authorisation code, drawn from its key: two processes that book the same call mean the same."""
    digest = blake2b(idempotency_key.encode(), digest_size=10, key=merchant_id.bytes).digest()
    return f"sbx_{digest.hex()}", f"{int.from_bytes(digest[:4], 'big') % 10**6:06}"


def _no(answer: Struct) -> CallResult:
    return CallResult(answer, accepted=False)
