"""The answer that an idempotency key has already received, and the record of a rejection (contract N30, section 8.14).

Refuse the same key with another request before anything of it happens, and never guess the answer of a request that is
neither answered nor refused.
"""

from __future__ import annotations

import hmac
import json
from decimal import Decimal
from typing import Final

import msgspec
from msgspec import Raw

from ledger.domain.fold import fold
from ledger.domain.idempotency.events import RequestRefused
from ledger.domain.idempotency.state import IdempotencyRecord
from ledger.domain.orders.evolve.order import evolve
from ledger.domain.orders.state import Order
from ledger.domain.rejections import IdempotencyKeyReused, Rejected, RequestInProgress, rejection_of
from ledger.operations.context.results import OrderResult, RequestTarget
from ledger.operations.pipeline.unit_of_work import Plan, UnitOfWork

_encode: Final = msgspec.json.Encoder(decimal_format="number").encode


async def completed_before(uow: UnitOfWork) -> Raw | None:
    """Returns the result that the key has already, for a request that is not about one order; None for a new request.

    Raises IdempotencyKeyReused, a Fault of the journal.
    """
    record = await _record_of(uow)
    if record is None:
        return None
    assert record.result is not None, "the fingerprint contains the operation, which keeps its result"
    return record.result


async def _record_of(uow: UnitOfWork) -> IdempotencyRecord | None:
    """Returns the record of the request. Raises IdempotencyKeyReused for the record of another one."""
    record = await uow.load_record()
    assert uow.key is not None, "only a request with a key has a record"
    if record is not None and not hmac.compare_digest(record.fingerprint, uow.key.fingerprint):
        raise IdempotencyKeyReused("This Idempotency-Key was used for another request: use another key.")
    return record


async def find_record(uow: UnitOfWork) -> IdempotencyRecord | None:
    """Returns the record of an accepted request under the key; None where the request is new, or nothing of it was
    sent.

    Raises the recorded rejection, IdempotencyKeyReused, a Fault of the journal.
    """
    record = await _record_of(uow)
    if record is None:
        return None
    if record.refusal is not None:
        raise _refused_before(record.refusal)
    return None if record.released else record


async def answered_before(uow: UnitOfWork) -> OrderResult | None:
    """Returns the answer that the key has already; None where the request is new, or where nothing of it was sent.

    Raises like `find_record`; RequestInProgress.
    """
    record = await find_record(uow)
    if record is None:
        return None
    assert record.stream_id is not None, "an accepted request is about an order"
    target = RequestTarget(payment_id=record.payment_id, refund_id=record.refund_id)
    if record.answer is not None:
        events = await uow.ledger.journal.reader.stream(uow.merchant_id, record.stream_id)
        order = fold(evolve, None, events[: record.answer.stream_version])
    else:
        order = await uow.order(record.stream_id)
        if target.payment_id is not None and order.payment(target.payment_id).was_not_sent:
            return None  # written before releases were recorded
        if has_open_call(order, target):
            raise RequestInProgress(
                "A request with this Idempotency-Key is being carried out: send the request again after a second."
            )
        await uow.record_answer(Plan(changes=[uow.change_order(record.stream_id, [])], target=target), replayed=False)
    customer = await uow.ledger.customers.by_id(uow.merchant_id, order.terms.customer_id)
    assert customer is not None, "an order's customer is never deleted"
    return OrderResult(
        order=order,
        customer=customer.customer,
        payment_id=target.payment_id,
        refund_id=target.refund_id,
        created=uow.creates if record.answer is None else record.answer.created,
        replayed=record.answer is not None and record.answer.replayed,
        repeated=True,
    )


async def record_rejection(uow: UnitOfWork, rejection: Rejected) -> None:
    """Records a rejection if it will not change. Raises RequestInProgress where the request was sent twice at once, and
    the other one has changed what this one met.
    """
    if await uow.was_overtaken():
        raise RequestInProgress(
            "A request with this Idempotency-Key is being carried out: send the request again after a second."
        ) from rejection
    if rejection.lasting:
        await record_refusal(uow, rejection)


async def record_refusal(uow: UnitOfWork, rejection: Rejected) -> None:
    """Records a rejection that will not change, so that the key receives it again."""
    assert uow.key is not None, "only a request with a key has a record"
    await uow.record_refusal(
        RequestRefused(
            fingerprint=uow.key.fingerprint,
            code=rejection.code,
            message=rejection.message,
            facts=msgspec.Raw(_encode(rejection.facts)),
            at=uow.now,
        )
    )


def has_open_call(order: Order, target: RequestTarget) -> bool:
    """Returns whether a processor call about the target is under way.

    A call whose outcome is unknown does not count, and one that is sent again later does not either.
    """
    for payment in order.payments:
        intent = payment.intent
        if intent is None or intent.unknown or intent.unsent or target.payment_id not in {None, payment.payment_id}:
            continue
        if target.refund_id in {None, intent.refund_id}:
            return True
    return False


def _refused_before(refusal: RequestRefused) -> Rejected:
    """Returns the recorded rejection as it was first raised."""
    facts = json.loads(bytes(refusal.facts), parse_float=Decimal)
    rejection = rejection_of(refusal.code)(refusal.message, **facts)
    rejection.repeated = True
    return rejection
