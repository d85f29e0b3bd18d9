"""Compares the log with what a processor lists: pure functions over an order and one record or line.

A record and the log agree on a call's key, its amount and how it ended; a line of a payout on its batch, its stage and
the fee. A call that is still open agrees with everything: the recovery ends it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from msgspec import Struct

from ledger.domain.money import ZERO, plain
from ledger.domain.orders.decide.outcomes import Outcome
from ledger.domain.orders.payment import EntryAction, Intent, Payment
from ledger.domain.orders.processor_outcomes import (
    Approved,
    Captured,
    CaptureRefused,
    Declined,
    Refunded,
    RefundRefused,
    VoidRefused,
)
from ledger.domain.orders.refund import RefundStatus, returned_refund_id
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import PaymentStatus
from ledger.domain.orders.terms import MethodType
from ledger.processors.contract import ProcessorRecord
from ledger.processors.messages import SettlementLine, SettlementListed, SettlementMatched, SettlementRefused

_STAGES: Final[Mapping[type[SettlementLine], PaymentStatus]] = {
    SettlementListed: PaymentStatus.PENDING_SETTLEMENT,
    SettlementMatched: PaymentStatus.SETTLED,
    SettlementRefused: PaymentStatus.CAPTURED,
}
_STAGE_NAMES: Final = {
    PaymentStatus.PENDING_SETTLEMENT: "LISTED",
    PaymentStatus.SETTLED: "MATCHED",
    PaymentStatus.CAPTURED: "REFUSED",
}


class Missing(StrEnum):
    """Where a difference is missing."""

    IN_LEDGER = "ledger"
    AT_PROCESSOR = "processor"


class Kind(StrEnum):
    """What differs between the log and the processor."""

    MISSING = "missing"
    """One side has no such call or line."""
    AMOUNT = "amount"
    """Both have the call, with different amounts."""
    STATUS = "status"
    """Both have it, with different ends: a refund that failed and one that succeeded, a batch that was refused."""
    FEE = "fee"
    """Both have the line of a payout, with different fees."""
    BATCH = "batch"
    """The log has the payment in another payout than the processor."""


class Contrast(Struct, frozen=True):
    """How the log and a processor differ about one record or line, with what each of them has."""

    kind: Kind
    missing_in: Missing = Missing.IN_LEDGER
    in_ledger: str | None = None
    at_processor: str | None = None


class Difference(Struct, frozen=True, kw_only=True, rename="camel"):
    """An effect about which the two sides differ: captured or refunded money (minor units), a void, a payout's line.

    The amounts are those of the side that has the effect. `missing_in` is the side that lacks it, or the money that the
    other one has more. `repaired` is True if the ledger has recorded by now what the processor has.
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
    account: str = ""
    kind: Kind = Kind.MISSING
    in_ledger: str | None = None
    at_processor: str | None = None
    batch_id: str | None = None


class Unreachable(Struct, frozen=True, kw_only=True, rename="camel"):
    """An account whose records could not be read, so that it was not compared. `merchant_id` is None for a shared one.

    `unreachable` is the reason.
    """

    merchant_id: UUID | None
    account: str
    unreachable: str


class Unread(Struct, frozen=True, kw_only=True, rename="camel"):
    """An order whose events could not be read, so that it was not compared. `unread` is the reason."""

    merchant_id: UUID
    order_id: UUID
    unread: str


# ----------------------------------------------------------------------------- a record of the processor's, in the log


def contrast(order: Order, payment: Payment, record: ProcessorRecord) -> Contrast | None:
    """Returns how the log differs from a record, None if they agree or the call is still open."""
    if payment.intent is not None and payment.intent.idempotency_key == record.idempotency_key:
        return None
    if record.voided:
        released = payment.status is PaymentStatus.FAILED and payment.lapses_at is None
        agrees = released or payment.status in {PaymentStatus.CANCELLED, PaymentStatus.EXPIRED}
        return None if agrees else Contrast(Kind.MISSING, in_ledger=payment.status, at_processor="VOIDED")
    if record.captured:
        return _capture_contrast(payment, record)
    return _refund_contrast(order, payment, record)


def unknown_record(record: ProcessorRecord) -> Contrast:
    """Returns that the log has no payment for a record."""
    return Contrast(Kind.MISSING, at_processor="VOIDED" if record.voided else plain(record.captured or record.refunded))


def _capture_contrast(payment: Payment, record: ProcessorRecord) -> Contrast | None:
    amounts, key = captured_by_key(payment), record.idempotency_key
    if key in amounts:
        return _amounts(amounts[key], record.captured)
    if record.is_unrequested and (_finds_money(payment) or payment.captured >= record.captured):
        return None  # the log has it, or will have it, under the key of a call that finds it captured
    own = is_own_key(payment, key)
    if key in payment.capture_keys or (own and payment.captured >= record.captured):
        return None  # it is one of several receipts of which the log has the sum
    return Contrast(Kind.MISSING, at_processor=plain(record.captured))


def _finds_money(payment: Payment) -> bool:
    """Returns whether a call finds what is captured of the payment: one is open, or will end the payer's session."""
    return payment.intent is not None or payment.status is PaymentStatus.REQUIRES_ACTION


def captured_by_key(payment: Payment) -> Mapping[str, Decimal]:
    """Returns what each call has captured; nothing if a receipt cannot be assigned to its call.

    Money that is reported late for the authorisation's own call has no key in the log.
    """
    own = () if payment.requested is None else (payment.requested.idempotency_key,)
    keys = payment.capture_keys or own
    totals = [inflow.captured for inflow in payment.inflows]
    if len(keys) != len(totals):
        return {}
    return {key: total - before for key, total, before in zip(keys, totals, [ZERO, *totals], strict=False)}


def _refund_contrast(order: Order, payment: Payment, record: ProcessorRecord) -> Contrast | None:
    refund_id = _refund_id(record.idempotency_key)
    refund = None if refund_id is None else order.refund(refund_id)
    part = None if refund is None else refund.part(payment.payment_id)
    if refund is None or part is None:
        return Contrast(Kind.MISSING, at_processor=plain(record.refunded))
    if record.returned is not None:
        returned = order.refund(returned_refund_id(refund.refund_id, payment.payment_id))
        if returned is None:
            return Contrast(Kind.STATUS, in_ledger=part.status, at_processor=RefundStatus.FAILED)
        return _amounts(returned.amount, record.returned)
    if part.status is RefundStatus.FAILED:
        return Contrast(Kind.STATUS, in_ledger=part.status, at_processor=_refund_status(record))
    if part.status is RefundStatus.PENDING and record.is_pending is False:
        return Contrast(Kind.STATUS, in_ledger=part.status, at_processor=_refund_status(record))
    if part.status is RefundStatus.SUCCEEDED and record.is_pending:
        return Contrast(Kind.STATUS, Missing.AT_PROCESSOR, part.status, _refund_status(record))
    return _amounts(part.amount, record.refunded)


def _refund_status(record: ProcessorRecord) -> str:
    return RefundStatus.PENDING if record.is_pending else RefundStatus.SUCCEEDED


def _amounts(in_ledger: Decimal, at_processor: Decimal) -> Contrast | None:
    if in_ledger == at_processor:
        return None
    missing_in = Missing.IN_LEDGER if in_ledger < at_processor else Missing.AT_PROCESSOR
    return Contrast(Kind.AMOUNT, missing_in, plain(in_ledger), plain(at_processor))


# ------------------------------------------------------------------------------- a line of a payout, in the log


def line_contrast(payment: Payment, line: SettlementLine) -> Contrast | None:
    """Returns how the log differs from a line as it is now at the processor, None if they agree."""
    batch, reached = payment.batch, _STAGES[type(line)]
    stage = _STAGE_NAMES[reached]
    if batch is None:
        return Contrast(Kind.MISSING, at_processor=stage)
    if batch.batch_id != line.batch_id:
        is_over = reached is PaymentStatus.CAPTURED  # the batch was refused, and another one has the payment
        return None if is_over else Contrast(Kind.BATCH, in_ledger=batch.batch_id, at_processor=line.batch_id)
    if batch.status is not reached:
        return Contrast(Kind.STATUS, in_ledger=_STAGE_NAMES[batch.status], at_processor=stage)
    if line.fee is not None and (line.fee, line.fee_tax, line.fee_currency) != (
        batch.fee,
        batch.fee_tax,
        batch.fee_currency,
    ):
        known = None if batch.fee is None else _fee(batch.fee, batch.fee_tax, batch.fee_currency)
        return Contrast(Kind.FEE, in_ledger=known, at_processor=_fee(line.fee, line.fee_tax, line.fee_currency))
    return None


def unknown_payment(line: SettlementLine) -> Contrast:
    """Returns that the log has no payment for a line."""
    return Contrast(Kind.MISSING, at_processor=_STAGE_NAMES[_STAGES[type(line)]])


def _fee(fee: Decimal, tax: Decimal | None, currency: str | None) -> str:
    """Returns a fee as an operator reads it: `36 (tax 5) MXN`."""
    taxed = "" if tax is None else f" (tax {plain(tax)})"
    return f"{plain(fee)}{taxed}{f' {currency}' if currency else ''}"


# ------------------------------------------------------------------------------- what the log has, at the processor


def records_of(order: Order, merchant_id: UUID, account: str, voids: Mapping[UUID, str]) -> list[ProcessorRecord]:
    """Returns the records that an account should have by the log: of captured keys, refunded parts and voids."""
    about: dict[str, Any] = {"merchant_id": merchant_id, "recorded_at": order.updated_at}
    records = list[ProcessorRecord]()
    for payment in order.payments:
        if payment.account == account:
            about["processor_reference"] = payment.processor_reference or ""
            captures = payment.capture_keys if payment.started.method.type is MethodType.CARD else ()
            amounts = captured_by_key(payment)
            records += [
                ProcessorRecord(idempotency_key=key, captured=amounts.get(key, payment.captured), **about)
                for key in captures
            ]
            for refund in order.refunds:
                part = refund.part(payment.payment_id)
                if part is not None and part.status is RefundStatus.SUCCEEDED and not part.by_merchant:
                    key = f"{refund.refund_id}:{payment.payment_id}"
                    records.append(ProcessorRecord(idempotency_key=key, refunded=part.amount, **about))
            if payment.payment_id in voids:
                records.append(ProcessorRecord(idempotency_key=voids[payment.payment_id], voided=True, **about))
    return records


def answer_contrast(record: ProcessorRecord, answer: Outcome | None) -> Contrast | None:
    """Returns how a processor's answer for a call differs from the log's own record of it, None if they agree.

    A refund that the processor still carries out may agree: a later message reports its end.
    """
    effect = "VOIDED" if record.voided else plain(record.captured or record.refunded)
    match answer:
        case None:
            return Contrast(Kind.MISSING, Missing.AT_PROCESSOR, effect)
        case Captured() | Refunded():
            return _amounts(record.captured or record.refunded, answer.amount)
        case Approved(captured=captured) if captured:
            return _amounts(record.captured, captured)
        case Approved():
            return Contrast(Kind.STATUS, Missing.AT_PROCESSOR, effect, "AUTHORIZED")
        case CaptureRefused() | RefundRefused() | VoidRefused() | Declined():
            return Contrast(Kind.STATUS, Missing.AT_PROCESSOR, effect, answer.code)
        case _:
            return None


# ------------------------------------------------------------------------------- calls and keys


def payment_of(order: Order, key: str) -> Payment:
    """Returns the payment of a record that the log has: of a call, or of a refund that no call has made."""
    return next(payment for payment in order.payments if key in _keys(order, payment))


def _keys(order: Order, payment: Payment) -> Sequence[str]:
    refunds = [f"{each.refund_id}:{payment.payment_id}" for each in order.refunds if each.part(payment.payment_id)]
    return (*payment.keys, *payment.capture_keys, *refunds)


def possible_actions(payment: Payment, record: ProcessorRecord) -> Sequence[EntryAction]:
    """Returns the calls that can have made a record, the likeliest first.

    Money is captured by its own call, or by the one that authorised the payment or ended its authentication. Ask for an
    authorisation by its own key alone: a processor may make what it looks up (`stripe.cards`).
    """
    if record.voided:
        return (EntryAction.CANCELLATION,)
    if record.refunded:
        return (EntryAction.REFUND,)
    if is_own_key(payment, record.idempotency_key):
        return (EntryAction.AUTHORIZATION, EntryAction.CAPTURE)
    return (EntryAction.CAPTURE,) if payment.session is None else (EntryAction.CAPTURE, EntryAction.AUTHENTICATION)


def is_own_key(payment: Payment, key: str) -> bool:
    """Returns whether a key is that of the payment's authorisation."""
    return payment.requested is not None and payment.requested.idempotency_key == key


def listed_under(order: Order, record: ProcessorRecord) -> Sequence[str]:
    """Returns the keys under which a processor may list a record of the log.

    What the end of an authentication captured is in the log under that call's key; the processor may have it under the
    authorisation's, which asked for it. What a failed refund gave back is listed under that refund.
    """
    payment = payment_of(order, record.idempotency_key)
    if record.refunded:
        own, payment_id = _refund_id(record.idempotency_key), payment.payment_id
        failed = [each.refund_id for each in order.refunds if returned_refund_id(each.refund_id, payment_id) == own]
        return (record.idempotency_key, *(f"{refund_id}:{payment_id}" for refund_id in failed))
    if not record.captured or payment.session is None or payment.requested is None:
        return (record.idempotency_key,)
    return (record.idempotency_key, payment.requested.idempotency_key)


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
    record: ProcessorRecord, account: str, found: Contrast, place: tuple[UUID, UUID] | None, *, repaired: bool = False
) -> Difference:
    """Returns the difference about a record. `place` is the order and the payment, None if no payment is named."""
    order_id, payment_id = place or (None, None)
    return Difference(
        merchant_id=record.merchant_id,
        idempotency_key=record.idempotency_key,
        missing_in=found.missing_in,
        captured=record.captured,
        refunded=record.refunded,
        voided=record.voided,
        order_id=order_id,
        payment_id=payment_id,
        repaired=repaired,
        account=account,
        kind=found.kind,
        in_ledger=found.in_ledger,
        at_processor=found.at_processor,
    )


def line_difference(
    line: SettlementLine, account: str, found: Contrast, place: tuple[UUID, UUID] | None, *, repaired: bool = False
) -> Difference:
    """Returns the difference about a line of a payout, whose key is the processor's name of the payment."""
    order_id, payment_id = place or (None, None)
    return Difference(
        merchant_id=line.merchant_id,
        idempotency_key=line.processor_reference,
        missing_in=found.missing_in,
        order_id=order_id,
        payment_id=payment_id,
        repaired=repaired,
        account=account,
        kind=found.kind,
        in_ledger=found.in_ledger,
        at_processor=found.at_processor,
        batch_id=line.batch_id,
    )


def unknown_line(merchant_id: UUID, account: str, payment: Payment, place: tuple[UUID, UUID]) -> Difference:
    """Returns the difference about a batch that the log has for a payment, and that the processor does not have."""
    assert payment.batch is not None, "the log has a batch"
    assert payment.processor_reference is not None, "a payment without a reference is asked for by none"
    return Difference(
        merchant_id=merchant_id,
        idempotency_key=payment.processor_reference,
        missing_in=Missing.AT_PROCESSOR,
        order_id=place[0],
        payment_id=place[1],
        account=account,
        in_ledger=_STAGE_NAMES[payment.batch.status],
        batch_id=payment.batch.batch_id,
    )


def reports_of(line: SettlementLine) -> Sequence[SettlementLine]:
    """Returns what the processor has reported of a line in turn: that the batch lists the payment, then its end."""
    if isinstance(line, SettlementListed):
        return [line]
    fields = {name: getattr(line, name) for name in line.__struct_fields__}
    return [SettlementListed(**fields), line]
