"""An operation under an idempotency key: done once, answered alike for ever (contract N30, section 8.14).

The rule a stranger would break: the same key with another request is refused before anything of it is done, and a
request that is neither answered nor refused is not answered by guessing.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Final

import msgspec

from ledger.domain.idempotency.events import RequestAnswered, RequestRefused
from ledger.domain.idempotency.state import IdempotencyRecord
from ledger.domain.orders.evolve.order import evolve
from ledger.domain.orders.state import Order
from ledger.domain.rejections import IdempotencyKeyReused, Rejected, RequestInProgress, rejection_of
from ledger.operations.pipeline.loading import is_under_way, load_order
from ledger.operations.pipeline.unit_of_work import UnitOfWork
from ledger.operations.results import OrderResult, RequestTarget

_encode: Final = msgspec.json.Encoder(decimal_format="number").encode


async def run_idempotently(
    errand: UnitOfWork, work: Callable[[], Awaitable[OrderResult]], *, creates: bool = False
) -> OrderResult:
    """Carry out the errand's work, or answer as it was answered before. `creates`: what the work does makes something new.

    Raises what the work raises; IdempotencyKeyReused, RequestInProgress. A rejection of the business is recorded.
    """
    if errand.key is None:
        return await work()
    known = await errand.recall()
    if known is not None:
        if known.fingerprint != errand.key.fingerprint:
            raise IdempotencyKeyReused("This Idempotency-Key was used for another request.")
        before = await _answered_before(errand, known, creates=creates)
        if before is not None:
            return before
    try:
        return await work()
    except Rejected as rejection:
        if await errand.overtaken():  # what stood in the way is the work of the same request, sent beside this one
            raise RequestInProgress("A request with this Idempotency-Key is being carried out.") from rejection
        if rejection.lasting:
            await _refuse(errand, errand.key.fingerprint, rejection)
        raise


async def _answered_before(errand: UnitOfWork, known: IdempotencyRecord, *, creates: bool) -> OrderResult | None:
    """The answer that the key has already; None where the request never left us and is to be carried out again."""
    if known.refusal is not None:
        raise _again(known.refusal)
    if known.released:
        return None
    assert known.order_id is not None, "an accepted request is about an order"
    if known.answer is not None:
        return await _receipt(errand, known, known.answer)
    order, version = await load_order(errand.ledger, errand.merchant_id, known.order_id)
    if known.payment_id is not None and order.payment(known.payment_id).was_not_sent:  # from before releases were told
        return None
    if is_under_way(order, RequestTarget(payment_id=known.payment_id, refund_id=known.refund_id)):
        raise RequestInProgress("A request with this Idempotency-Key is being carried out.")
    answer = errand.answered(version, created=creates)
    assert answer is not None, "the errand has a key"
    await errand.commit([], record=[answer])
    return await _receipt(errand, known, answer)


async def _receipt(errand: UnitOfWork, known: IdempotencyRecord, answer: RequestAnswered) -> OrderResult:
    """The order as it stood when the request was answered; its customer as it is now."""
    ledger, merchant_id = errand.ledger, errand.merchant_id
    assert known.order_id is not None, "an answered request is about an order"
    order: Order | None = None
    for event in (await ledger.journal.reader.stream(merchant_id, known.order_id))[: answer.order_version]:
        order = evolve(order, event)
    assert order is not None, "the answer stands behind the order's first event"
    customer = await ledger.customers.by_id(merchant_id, order.terms.customer_id)
    assert customer is not None, "an order's customer does not go away"
    return OrderResult(
        order=order,
        customer=customer.customer,
        payment_id=known.payment_id,
        refund_id=known.refund_id,
        created=answer.created,
        replayed=answer.replayed,
        repeated=True,
    )


def _again(refused: RequestRefused) -> Rejected:
    facts = json.loads(bytes(refused.facts), parse_float=Decimal)
    rejection = rejection_of(refused.code)(refused.message, **facts)
    rejection.repeated = True
    return rejection


async def _refuse(errand: UnitOfWork, fingerprint: str, rejection: Rejected) -> None:
    await errand.refuse(
        RequestRefused(
            fingerprint=fingerprint,
            code=rejection.code,
            message=rejection.message,
            facts=msgspec.Raw(_encode(rejection.facts)),
            at=errand.ledger.clock.now(errand.merchant_id),
        )
    )
