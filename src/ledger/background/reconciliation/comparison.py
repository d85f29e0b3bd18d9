"""Compares the log with a processor's record: pure functions over an order and a record."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from enum import StrEnum
from typing import Any
from uuid import UUID

from msgspec import Struct

from ledger.domain.money import ZERO
from ledger.domain.orders.payment import EntryAction, Intent, Payment
from ledger.domain.orders.refund import RefundStatus
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import PaymentStatus
from ledger.domain.orders.terms import MethodType
from ledger.processors.contract import ProcessorRecord


class Missing(StrEnum):
    """Where a difference is missing."""

    IN_LEDGER = "ledger"
    AT_PROCESSOR = "processor"


class Difference(Struct, frozen=True, kw_only=True, rename="camel"):
    """An effect that one side has and the other one lacks: captured or refunded money (minor units), or a void.

    `repaired` is True if the ledger has recorded it by now.
    """

    merchant_id: UUID
    idempotency_key: str
    missing_in: Missing
    captured: Decimal = ZERO
    refunded: Decimal = ZERO
    voided: bool = False
    order_id: UUID | None = None
    payment_id: UUID | None = None
    repaired: bool = False


def is_recorded(payment: Payment, order: Order, record: ProcessorRecord) -> bool:
    """Returns whether the log has an effect, or has its call still open."""
    key = record.idempotency_key
    if payment.intent is not None and payment.intent.idempotency_key == key:
        return True
    if record.voided:
        released = payment.status is PaymentStatus.FAILED and payment.lapses_at is None
        return released or payment.status is PaymentStatus.CANCELLED
    if record.captured:
        own = payment.requested is not None and payment.requested.idempotency_key == key
        return key in payment.capture_keys or (own and payment.captured >= record.captured)
    refund_id = _refund_id(key)
    refund = None if refund_id is None else order.refund(refund_id)
    part = None if refund is None else refund.part(payment.payment_id)
    return part is not None and part.status is not RefundStatus.FAILED


def records_of(order: Order, merchant_id: UUID, account: str, voids: dict[UUID, str]) -> list[ProcessorRecord]:
    """Returns the records that an account should have by the log: of captured keys, refunded parts and voids."""
    about: dict[str, Any] = {"merchant_id": merchant_id, "recorded_at": order.updated_at}
    records = list[ProcessorRecord]()
    for payment in order.payments:
        if payment.account == account:
            about["processor_reference"] = payment.processor_reference or ""
            captures = payment.capture_keys if payment.started.method.type is MethodType.CARD else ()
            records += [ProcessorRecord(idempotency_key=key, captured=payment.captured, **about) for key in captures]
            for refund in order.refunds:
                part = refund.part(payment.payment_id)
                if part is not None and part.status is RefundStatus.SUCCEEDED and not part.by_merchant:
                    key = f"{refund.refund_id}:{payment.payment_id}"
                    records.append(ProcessorRecord(idempotency_key=key, refunded=part.amount, **about))
            if payment.payment_id in voids:
                records.append(ProcessorRecord(idempotency_key=voids[payment.payment_id], voided=True, **about))
    return records


def payment_of(order: Order, key: str) -> Payment:
    return next(payment for payment in order.payments if key in (*payment.keys, *payment.capture_keys))


def possible_actions(record: ProcessorRecord) -> Sequence[EntryAction]:
    """Returns the calls that can have made a record: money is captured by its own call, or by an authorisation's."""
    if record.voided:
        return (EntryAction.CANCELLATION,)
    return (EntryAction.REFUND,) if record.refunded else (EntryAction.CAPTURE, EntryAction.AUTHORIZATION)


def intent_of(order: Order, payment: Payment, record: ProcessorRecord, action: EntryAction) -> Intent:
    """Returns the intent of the call that the record is about, as the log announced it."""
    key = record.idempotency_key
    return Intent(
        action=action,
        processor=payment.processor,
        idempotency_key=key,
        amount=record.captured or record.refunded,
        capture=bool(record.captured),
        deadline_at=order.updated_at,
        payment_id=payment.payment_id,
        refund_id=_refund_id(key) if record.refunded else None,
    )


def _refund_id(key: str) -> UUID | None:
    """Returns the refund that a refund's key names."""
    try:
        return UUID(key.partition(":")[0])
    except ValueError:
        return None


def difference_of(
    record: ProcessorRecord,
    order_id: UUID | None = None,
    payment_id: UUID | None = None,
    *,
    missing_in: Missing = Missing.IN_LEDGER,
    repaired: bool = False,
) -> Difference:
    return Difference(
        merchant_id=record.merchant_id,
        idempotency_key=record.idempotency_key,
        missing_in=missing_in,
        captured=record.captured,
        refunded=record.refunded,
        voided=record.voided,
        order_id=order_id,
        payment_id=payment_id,
        repaired=repaired,
    )
