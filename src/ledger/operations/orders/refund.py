"""Give money back.

The rule a stranger would break: what a refund asks for is taken off what can be refunded in the commit of its intent, before
the processor hears of it. That, and the version, is why no number of refunds at once gives back more than was captured.
"""

from __future__ import annotations

from uuid import UUID

from uuid_utils.compat import uuid7

from ledger.domain.orders.commands import REFUND_WINDOW_S, RefundOrder
from ledger.domain.orders.decide.refunds import decide_refund
from ledger.domain.orders.state import Order
from ledger.operations.inputs import Actor, RefundInput
from ledger.operations.ledger import Ledger
from ledger.operations.pipeline.execute import call_deadline, execute
from ledger.operations.pipeline.idempotency import run_idempotently
from ledger.operations.pipeline.loading import find_order
from ledger.operations.pipeline.processor_requests import SecretInputs
from ledger.operations.pipeline.unit_of_work import IdempotencyKey, UnitOfWork
from ledger.operations.results import OrderResult, RefundReceipt, RequestTarget


async def refund_order(
    ledger: Ledger, actor: Actor, reference: str, draft: RefundInput, key: IdempotencyKey | None = None
) -> RefundReceipt:
    """Give back `draft.amount`, gross and in minor units (contract N35 to N39, sections 8.7 and 8.11).

    Raises OrderNotFound, PaymentNotFound, OrderNotRefundable, RefundInProgress, RefundExceedsBalance, RefundWindowExpired,
    IdempotencyMismatch, InvalidField, InvalidOrderState, ConcurrentUpdate, ProcessorUnavailable where nothing was sent, a
    Fault of the journal; under an idempotency key also IdempotencyKeyReused and RequestInProgress.
    """
    errand = UnitOfWork(ledger, actor, key)
    done = await ledger.complete(run_idempotently(errand, lambda: _refund(errand, reference, draft), creates=True))
    assert done.refund_id is not None, "it is about a refund"
    return RefundReceipt(
        order=done.order,
        customer=done.customer,
        refund_id=done.refund_id,
        created=done.created,
        replayed=done.replayed,
        repeated=done.repeated,
    )


async def _refund(errand: UnitOfWork, reference: str, draft: RefundInput) -> OrderResult:
    ledger = errand.ledger
    order_id = await find_order(ledger, errand.merchant_id, reference)
    refund_id, deadline_at = uuid7(), call_deadline(ledger)
    able = None if ledger.processor is None else ledger.processor.capabilities
    window_s = REFUND_WINDOW_S if able is None else int(able.refund_window_s)
    return await execute(
        errand,
        order_id,
        lambda order, at: decide_refund(
            order,
            RefundOrder(
                refund_id=refund_id,
                amount=draft.amount,
                deadline_at=deadline_at,
                at=at,
                reason=draft.reason,
                payment_id=draft.payment_id,
                external_id=draft.external_id,
                allocations=draft.allocations,
                destination=draft.destination,
                card_window_s=window_s,
                partial_payouts=able is None or able.partial_payouts,
            ),
        ),
        lambda order, _: RequestTarget(refund_id=_meant(order, refund_id, draft.external_id)),
        SecretInputs(destination=draft.destination),
        creates=True,
    )


def _meant(order: Order, refund_id: UUID, external_id: str | None) -> UUID:
    """The refund that the merchant has named so before, or else this one."""
    known = None if external_id is None else order.refund_by_external_id(external_id)
    return refund_id if known is None else known.refund_id
