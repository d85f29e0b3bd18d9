"""Settlement batches as the acquirer reports them: listed, matched, refused.

The rule a stranger would break: a batch is told line by line, as an acquirer's file is, and each line may fail alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID, uuid4

import msgspec
from msgspec import Struct

from api.dependencies import Dependencies
from api.http.decoding import BodyDecoder
from api.http.request import ApiRequest
from api.http.response import ApiResponse, json_response
from api.sandbox.find_payment import find_payment
from api.sandbox.schemas import Settle
from ledger.domain.orders.payment import Payment
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import OrderStatus, PaymentStatus
from ledger.domain.rejections import InvalidOrderState
from ledger.operations.pipeline.unit_of_work import load_order
from ledger.processors.messages import SettlementListed, SettlementMatched, SettlementRefused
from projections.lists.pages import OrderQuery

_decode: Final = BodyDecoder(Settle)
_Line = SettlementListed | SettlementMatched | SettlementRefused
_KINDS: Final[Mapping[str, type[_Line]]] = {
    "LISTED": SettlementListed,
    "MATCHED": SettlementMatched,
    "REFUSED": SettlementRefused,
}
_WITH_MONEY: Final = (OrderStatus.COMPLETED, OrderStatus.PARTIALLY_PAID)
_SETTLING: Final = frozenset(
    {PaymentStatus.CAPTURED, PaymentStatus.PARTIALLY_CAPTURED, PaymentStatus.PENDING_SETTLEMENT}
)
_ORDERS_MAX: Final = 100
_AT_ONCE: Final = 8


class _Id(Struct):
    id: UUID


class _Page(Struct):
    data: list[_Id]


async def settle(rooms: Dependencies, call: ApiRequest) -> ApiResponse:
    """POST {base}/sandbox/settlements: 200 with what became of each line of the batch."""
    request = _decode(await call.body(rooms.body_limit))
    merchant_id = call.principal.merchant_id
    if request.payment_ids is not None:
        chosen = [await find_payment(rooms, merchant_id, payment_id) for payment_id in request.payment_ids]
        _insist_on_batch(chosen, request.stage)
    else:
        chosen = [
            each
            for each in await _settling(rooms, merchant_id)
            if _is_listed(each[1]) or not _ends_a_batch(request.stage)
        ]
    stages = ("LISTED", "MATCHED") if request.stage is None else (request.stage,)
    batch_id = f"sbx_batch_{uuid4().hex}"
    lines = await _told_all(rooms, merchant_id, chosen, stages, batch_id)
    return json_response(200, {"accepted": True, "batchId": batch_id, "lines": lines})


def _insist_on_batch(chosen: Sequence[tuple[Order, Payment]], stage: str | None) -> None:
    """A batch is matched or refused with the lines that it lists; another line no order could ever take in."""
    for _, payment in chosen:
        if _ends_a_batch(stage) and not _is_listed(payment):
            raise InvalidOrderState(
                "The payment is listed in no batch.",
                currentStatus=payment.status,
                allowedStatuses=(PaymentStatus.PENDING_SETTLEMENT,),
                paymentId=payment.payment_id,
            )


def _ends_a_batch(stage: str | None) -> bool:
    return stage in {"MATCHED", "REFUSED"}


def _is_listed(payment: Payment) -> bool:
    return payment.status is PaymentStatus.PENDING_SETTLEMENT


async def _settling(rooms: Dependencies, merchant_id: UUID) -> list[tuple[Order, Payment]]:
    """What can stand in a batch: captured payments of the newest orders with money."""
    query = OrderQuery(statuses=_WITH_MONEY, limit=_ORDERS_MAX)
    page = await rooms.reader.orders(merchant_id, query, rooms.ledger.clock.now(merchant_id))
    orders = [
        await load_order(rooms.ledger, merchant_id, found.id) for found in msgspec.json.decode(page, type=_Page).data
    ]
    return [(order, payment) for order in orders for payment in order.payments if payment.status in _SETTLING]


async def _told_all(
    rooms: Dependencies,
    merchant_id: UUID,
    chosen: Sequence[tuple[Order, Payment]],
    stages: Sequence[str],
    batch_id: str,
) -> list[dict[str, object]]:
    """Tell every line: those of one order in turn, since each takes it in anew, several orders at once."""
    turns = asyncio.Semaphore(_AT_ONCE)

    async def told(payments: Sequence[tuple[Order, Payment]]) -> list[dict[str, object]]:
        async with turns:
            return [line for each in payments for line in await _told(rooms, merchant_id, *each, stages, batch_id)]

    by_order: dict[UUID, list[tuple[Order, Payment]]] = {}
    for order, payment in chosen:
        by_order.setdefault(order.terms.order_id, []).append((order, payment))
    # No task group: the first fault is the answer, as it is, and the lines that are on their way arrive all the same.
    return [line for lines in await asyncio.gather(*map(told, by_order.values())) for line in lines]


async def _told(
    rooms: Dependencies, merchant_id: UUID, order: Order, payment: Payment, stages: Sequence[str], batch_id: str
) -> list[dict[str, object]]:
    """Tell a payment's line, stage by stage; one that is listed already goes on in its own batch."""
    assert rooms.mail is not None, "only the sandbox has these routes"
    listed = payment.batch if _is_listed(payment) else None
    lines: list[dict[str, object]] = []
    for stage in stages:
        if stage == "LISTED" and listed is not None and len(stages) > 1:
            continue
        message = _KINDS[stage](
            processor=payment.processor,
            message_id=f"sbx_msg_{uuid4().hex}",
            merchant_id=merchant_id,
            occurred_at=rooms.ledger.clock.now(merchant_id),
            order_id=order.terms.order_id,
            payment_id=payment.payment_id,
            batch_id=listed.batch_id if listed else batch_id,
            processor_reference=payment.processor_reference or "",
        )
        receipt = await rooms.mail.deliver(message)
        lines.append(
            {
                "paymentOrderId": order.terms.order_id,
                "paymentId": payment.payment_id,
                "stage": stage,
                "batchId": message.batch_id,
                "processorMessageId": message.message_id,
                "waitsFor": receipt.waits_for,
            }
        )
    return lines
