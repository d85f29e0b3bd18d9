"""What can happen to a charge after it was authorised: capture, void, release, refund, dispute.

Never store a total. Captured and refunded amounts are sums over the calls, read while the executor holds the lock on
the charge, so that another call about it has to wait.
"""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from hashlib import blake2b
from typing import Any, Final
from uuid import UUID

from msgspec import Struct

from ledger.domain.money import SCALE, shortest
from ledger.domain.orders.processor_outcomes import (
    Captured,
    CaptureRefused,
    Refunded,
    RefundPending,
    RefundRefused,
    Released,
    ReleaseRefused,
    Voided,
    VoidRefused,
)
from ledger.postgres.connection import Connection
from ledger.processors.contract import CaptureRequest, RefundRequest, ReleaseRequest, Request, VoidRequest
from ledger.processors.messages import DisputeOpened, RefundConfirmed, RefundFailed
from ledger.processors.sandbox import outbox
from ledger.processors.sandbox.books import NAME
from ledger.processors.sandbox.call_executor import (
    CallEffect,
    CallKind,
    CallResult,
    at,
    fetch_one,
    record,
    reference_for,
)
from ledger.processors.sandbox.test_cards import APPROVED, TEST_CARDS, Refunds, TestCard

LATER: Final = timedelta(seconds=2)
"""How long after a call, by the merchant's clock, the processor sends a message about it."""

# An authorised charge, with what later calls captured, refunded or voided.
_FIND: Final = """
select c.authorized, c.currency, c.card_bin, c.card_last4, c.captured + coalesce(m.captured, 0),
       coalesce(m.refunded, 0), coalesce(m.voided, false), m.released
  from sandbox_charge c,
       lateral (select sum(moved) filter (where kind = 'CAPTURE')::int8 as captured,
                       sum(moved) filter (where kind = 'REFUND')::int8 as refunded,
                       sum(moved) filter (where kind = 'RELEASE')::int8 as released,
                       bool_or(kind = 'VOID') as voided
                  from sandbox_call m
                 where m.merchant_id = c.merchant_id and m.reference = c.reference and m.accepted) m
 where c.merchant_id = %s and c.reference = %s and c.authorized > 0
"""

_CARDS: Final = {(number[:6], number[-4:]): behaviour for number, behaviour in TEST_CARDS.items()}
"""The test cards by their first six and last four digits: all that is kept of a card after its first call."""

_UNKNOWN: Final = "UNKNOWN_TRANSACTION"


class Charge(Struct, frozen=True, kw_only=True):
    """A charge with its present totals, in minor units of `currency`, and its card's behaviour.

    `released` is what was released of it after a capture; None while the rest is held.
    """

    authorized: Decimal
    captured: Decimal
    refunded: Decimal
    currency: str
    voided: bool
    released: Decimal | None
    card: TestCard


def capture(request: CaptureRequest) -> CallEffect:
    """Returns the effect that captures a part of a charge, or all of it."""

    async def effect(connection: Connection) -> CallResult:
        charge = await find(connection, request.merchant_id, request.processor_reference)
        if charge is None:
            return _reject(CaptureRefused(code=_UNKNOWN, message="There is no such authorisation."))
        if charge.voided:
            return _reject(CaptureRefused(code="VOIDED", message="The authorisation was voided."))
        if charge.released is not None:
            return _reject(CaptureRefused(code="RELEASED", message="The rest of the authorisation was released."))
        if charge.card.captures is False:
            return _reject(
                CaptureRefused(code="CAPTURE_REFUSED", message="The issuer refuses every capture of this card.")
            )
        if request.currency != charge.currency or charge.captured + request.amount > charge.authorized:
            return _reject(CaptureRefused(code="AMOUNT_TOO_LARGE", message="That is more than was authorised."))
        if charge.card.disputed:
            await dispute_later(connection, request, request.processor_reference, request.amount)
        reference = reference_for("cap", request)
        released = None
        if request.final:
            released = charge.authorized - charge.captured - request.amount
            key = (request.merchant_id, CallKind.RELEASE, request.idempotency_key)
            rest = CallResult(Released(amount=released, processor_reference=reference), moved=released)
            await record(connection, [(key, request.processor_reference, rest)])
        captured = Captured(amount=request.amount, processor_reference=reference, released=released)
        return CallResult(captured, moved=request.amount)

    return effect


def void(request: VoidRequest) -> CallEffect:
    """Returns the effect that releases an authorisation of which nothing is captured."""

    async def effect(connection: Connection) -> CallResult:
        charge = await find(connection, request.merchant_id, request.processor_reference)
        if charge is None:
            return _reject(VoidRefused(code=_UNKNOWN, message="There is no such authorisation."))
        if charge.captured:
            return _reject(VoidRefused(code="ALREADY_CAPTURED", message="The money was captured; it can be refunded."))
        if charge.card.voids is False:
            return _reject(VoidRefused(code="VOID_REFUSED", message="The issuer refuses every void of this card."))
        return CallResult(Voided(processor_reference=reference_for("void", request)))

    return effect


def release(request: ReleaseRequest) -> CallEffect:
    """Returns the effect that releases what the captures of a charge have left."""

    async def effect(connection: Connection) -> CallResult:
        charge = await find(connection, request.merchant_id, request.processor_reference)
        if charge is None:
            return _reject(ReleaseRefused(code=_UNKNOWN, message="There is no such authorisation."))
        if not charge.captured:
            return _reject(ReleaseRefused(code="NOT_CAPTURED", message="Nothing was captured; it can be voided."))
        reference = reference_for("rel", request)
        if charge.released is not None:
            return CallResult(Released(amount=charge.released, processor_reference=reference))
        if charge.card.voids is False:
            return _reject(ReleaseRefused(code="RELEASE_REFUSED", message="The issuer releases nothing of this card."))
        rest = charge.authorized - charge.captured
        return CallResult(Released(amount=rest, processor_reference=reference), moved=rest)

    return effect


def refund(request: RefundRequest) -> CallEffect:
    """Returns the effect that refunds a part of a charge, or all of it: at once, or later with a message."""

    async def effect(connection: Connection) -> CallResult:
        charge = await find(connection, request.merchant_id, request.processor_reference)
        if charge is None:
            return _reject(RefundRefused(code=_UNKNOWN, message="There is no such payment."))
        if charge.card.refunds is Refunds.REFUSED:
            return _reject(
                RefundRefused(code="REFUND_REFUSED", message="The issuer refuses every refund to this card.")
            )
        if request.currency != charge.currency or charge.refunded + request.amount > charge.captured:
            return _reject(RefundRefused(code="AMOUNT_TOO_LARGE", message="That is more than is left of the payment."))
        reference = reference_for("ref", request)
        if charge.card.refunds is Refunds.AT_ONCE:
            return CallResult(Refunded(amount=request.amount, processor_reference=reference), moved=request.amount)
        await outbox.enqueue(connection, refund_confirmed(request, reference, request.amount))
        return CallResult(RefundPending(processor_reference=reference), moved=request.amount)

    return effect


async def find(connection: Connection, merchant_id: UUID, reference: str) -> Charge | None:
    """Returns the charge with this reference, None if it was never authorised."""
    row = await fetch_one(connection, _FIND, (merchant_id, reference))
    if row is None:
        return None
    authorized, currency, card_bin, card_last4, captured, refunded, voided, released = row
    return Charge(
        authorized=shortest(Decimal(authorized) / SCALE),
        captured=shortest(Decimal(captured) / SCALE),
        refunded=shortest(Decimal(refunded) / SCALE),
        currency=currency,
        voided=voided,
        released=None if released is None else shortest(Decimal(released) / SCALE),
        card=_CARDS.get((card_bin, card_last4), APPROVED),
    )


async def dispute_later(connection: Connection, request: Request, processor_reference: str, amount: Decimal) -> None:
    """Announces that the payer's bank takes captured money back."""
    opened = DisputeOpened(
        **_envelope(request, reference_for("dispute", request)),
        dispute_id=reference_for("dp", request),
        processor_reference=processor_reference,
        amount=amount,
        reason="FRAUDULENT",
    )
    await outbox.enqueue(connection, opened)


def refund_confirmed(request: Request, reference: str, amount: Decimal) -> RefundConfirmed:
    """Returns the message that a refund or payout succeeded."""
    return RefundConfirmed(
        **_envelope(request, f"{reference}_done"),
        idempotency_key=request.idempotency_key,
        processor_reference=reference,
        amount=amount,
    )


def refund_failed(request: Request, reference: str, code: str) -> RefundFailed:
    """Returns the message that a refund or payout failed."""
    return RefundFailed(
        **_envelope(request, f"{reference}_failed"),
        idempotency_key=request.idempotency_key,
        processor_reference=reference,
        code=code,
    )


def reference_and_code(merchant_id: UUID, idempotency_key: str) -> tuple[str, str]:
    """Returns a charge's reference and authorisation code, derived from its key: the same in every process."""
    digest = blake2b(idempotency_key.encode(), digest_size=10, key=merchant_id.bytes).digest()
    return f"sbx_{digest.hex()}", f"{int.from_bytes(digest[:4], 'big') % 10**6:06}"


def _envelope(request: Request, message_id: str) -> dict[str, Any]:
    """Returns the fields that every message about a call has."""
    return {
        "processor": NAME,
        "message_id": message_id,
        "merchant_id": request.merchant_id,
        "occurred_at": at(request) + LATER,
        "order_id": request.order_id,
        "payment_id": request.payment_id,
    }


def _reject(answer: Struct) -> CallResult:
    return CallResult(answer, accepted=False)
