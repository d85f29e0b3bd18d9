"""POST {base}/sandbox/settlements: settlement batches as the acquirer reports them: listed, matched, refused.

Report a batch line by line, as an acquirer's file does: each line may fail alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal
from uuid import UUID, uuid5

import msgspec
from msgspec import Meta, Struct

from api.decoding.bodies import BodyDecoder
from api.http.dependencies import Dependencies
from api.http.endpoint import WRITE, ScopedOperation
from api.http.request import ApiRequest
from api.openapi.parameters import IDEMPOTENCY_KEY
from api.operation import ANY, BODY, IDEMPOTENT, SANDBOX, OperationSpec, codes_of
from api.response import ApiResponse
from api.sandbox.find_payment import find_payment
from api.sandbox.once import respond_once
from api.sandbox.processor import OWN, AccountName, sandbox_account
from ledger.domain.orders.payment import Payment
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import OrderStatus, PaymentStatus
from ledger.domain.rejections import InvalidOrderState
from ledger.operations.pipeline.unit_of_work import load_order
from ledger.processors.messages import SettlementListed, SettlementMatched, SettlementRefused
from projections.lists.pages import OrderQuery

_Message = SettlementListed | SettlementMatched | SettlementRefused
_Stage = Literal["LISTED", "MATCHED", "REFUSED"]
_MESSAGES: Final[Mapping[_Stage, type[_Message]]] = {
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


class Settle(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A settlement batch of the acquirer."""

    payment_ids: Annotated[
        Annotated[list[UUID], Meta(max_length=100)] | None,
        Meta(
            description="The payments of the batch. Absent: those that can be settled, of the newest hundred "
            "orders with "
            "money."
        ),
    ] = None
    stage: Annotated[_Stage | None, Meta(description="Absent: LISTED, then MATCHED.")] = None
    account: AccountName = OWN


_decode: Final = BodyDecoder(Settle)


class SettlementLine(Struct, rename="camel"):
    """The line of a batch about one payment."""

    payment_order_id: Annotated[UUID, Meta(description="The order.")]
    payment_id: Annotated[UUID, Meta(description="The payment.")]
    stage: Annotated[_Stage, Meta(description="The stage that the line reports.")]
    batch_id: Annotated[str, Meta(description="The batch that contains the payment.")]
    processor_message_id: Annotated[str, Meta(description="The processor's own id of the message.")]
    waits_for: Annotated[
        str | None, Meta(description="Why the order has not recorded the line yet; null where it has.")
    ]


class Settled(Struct, rename="camel"):
    """A settlement batch."""

    accepted: Annotated[Literal[True], Meta(description="Always true: every line is stored on disk.")]
    batch_id: Annotated[str, Meta(description="The id of the batch.")]
    lines: Annotated[list[SettlementLine], Meta(description="The lines, one for each payment and stage.")]


class _Id(Struct):
    id: UUID


class _Page(Struct):
    data: list[_Id]


async def settle(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """POST {base}/sandbox/settlements: 200 with the result of each line of the batch."""
    body = await request.body(deps.body_limit)
    sent, errors = _decode.gather(body)
    errors.refuse()

    async def act(seed: UUID) -> Settled:
        return await _settle(deps, request.principal.merchant_id, sent, seed)

    return await respond_once(deps, request, body, Settled, act)


async def _settle(deps: Dependencies, merchant_id: UUID, sent: Settle, seed: UUID) -> Settled:
    await sandbox_account(deps, merchant_id, sent.account)
    if sent.payment_ids is not None:
        chosen = [await find_payment(deps, merchant_id, payment_id, sent.account) for payment_id in sent.payment_ids]
        _require_listed(chosen, sent.stage)
    else:
        chosen = [
            each
            for each in await _settling(deps, merchant_id)
            if each[1].account == sent.account and (_is_listed(each[1]) or not _ends_a_batch(sent.stage))
        ]
    stages: tuple[_Stage, ...] = ("LISTED", "MATCHED") if sent.stage is None else (sent.stage,)
    batch_id = f"sbx_batch_{seed.hex}"
    lines = await _report_all(deps, merchant_id, chosen, stages, seed)
    return Settled(accepted=True, batch_id=batch_id, lines=lines)


def _require_listed(chosen: Sequence[tuple[Order, Payment]], stage: str | None) -> None:
    """Raises InvalidOrderState if a matched or refused batch has a payment that no batch has listed.

    No order could ever apply such a line. The bank can send back a batch that was paid out: that is refused too.
    """
    for _, payment in chosen:
        is_sent_back = stage == "REFUSED" and _is_paid_out(payment)
        if _ends_a_batch(stage) and not _is_listed(payment) and not is_sent_back:
            raise InvalidOrderState(
                "The payment is not listed in a batch: list it first with stage LISTED.",
                currentStatus=payment.status,
                allowedStatuses=(PaymentStatus.PENDING_SETTLEMENT,),
                paymentId=payment.payment_id,
            )


def _ends_a_batch(stage: str | None) -> bool:
    return stage in {"MATCHED", "REFUSED"}


def _is_listed(payment: Payment) -> bool:
    return payment.batch is not None and payment.batch.status is PaymentStatus.PENDING_SETTLEMENT


def _is_paid_out(payment: Payment) -> bool:
    return payment.batch is not None and payment.batch.status is PaymentStatus.SETTLED


async def _settling(deps: Dependencies, merchant_id: UUID) -> list[tuple[Order, Payment]]:
    """Returns the payments that a batch can hold: captured payments of the newest orders with money."""
    query = OrderQuery(statuses=_WITH_MONEY, limit=_ORDERS_MAX)
    page = await deps.queries.orders(merchant_id, query, deps.ledger.clock.now(merchant_id))
    orders = [
        await load_order(deps.ledger, merchant_id, found.id) for found in msgspec.json.decode(page, type=_Page).data
    ]
    return [(order, payment) for order in orders for payment in order.payments if payment.status in _SETTLING]


async def _report_all(
    deps: Dependencies,
    merchant_id: UUID,
    chosen: Sequence[tuple[Order, Payment]],
    stages: Sequence[_Stage],
    seed: UUID,
) -> list[SettlementLine]:
    """Reports every line: those of one order in turn, since each changes the order, and several orders at once."""
    slots = asyncio.Semaphore(_AT_ONCE)

    async def report_order(payments: Sequence[tuple[Order, Payment]]) -> list[SettlementLine]:
        async with slots:
            return [line for each in payments for line in await _report(deps, merchant_id, *each, stages, seed)]

    by_order: dict[UUID, list[tuple[Order, Payment]]] = {}
    for order, payment in chosen:
        by_order.setdefault(order.terms.order_id, []).append((order, payment))
    # No task group: the first fault is the answer, as it is, and the lines that are on their way arrive all the same.
    return [line for lines in await asyncio.gather(*map(report_order, by_order.values())) for line in lines]


async def _report(
    deps: Dependencies, merchant_id: UUID, order: Order, payment: Payment, stages: Sequence[_Stage], seed: UUID
) -> list[SettlementLine]:
    """Reports a payment's line, stage by stage; a payment that is listed already goes on in its own batch."""
    listed = payment.batch if _is_listed(payment) or (_is_paid_out(payment) and stages == ("REFUSED",)) else None
    lines: list[SettlementLine] = []
    for stage in stages:
        if stage == "LISTED" and listed is not None and len(stages) > 1:
            continue
        message = _MESSAGES[stage](
            processor=payment.processor,
            account=payment.account_in_event,
            message_id=f"sbx_msg_{uuid5(seed, f'{payment.payment_id}:{stage}').hex}",
            merchant_id=merchant_id,
            occurred_at=deps.ledger.clock.now(merchant_id),
            order_id=order.terms.order_id,
            payment_id=payment.payment_id,
            batch_id=listed.batch_id if listed else f"sbx_batch_{seed.hex}",
            processor_reference=payment.processor_reference or "",
        )
        entry = await deps.delivery.deliver(message)
        lines.append(
            SettlementLine(
                payment_order_id=order.terms.order_id,
                payment_id=payment.payment_id,
                stage=stage,
                batch_id=message.batch_id,
                processor_message_id=message.message_id,
                waits_for=entry.waits_for,
            )
        )
    return lines


SETTLE: Final = ScopedOperation(
    settle,
    WRITE,
    OperationSpec(
        name="settle",
        summary="Settle payments",
        description="Acts as an acquirer: lists payments in a batch and pays them out, or refuses the batch. Sandbox "
        "only.",
        tag=SANDBOX,
        parameters=(IDEMPOTENCY_KEY,),
        takes=Settle,
        examples={"all": {"summary": "All payments that can be settled", "value": {}}},
        answers={200: ("The lines of the batch.", Settled)},
        codes=codes_of(
            ANY,
            BODY,
            IDEMPOTENT,
            {404: ("PAYMENT_NOT_FOUND", "PROCESSOR_ACCOUNT_NOT_FOUND"), 409: ("INVALID_ORDER_STATE",)},
        ),
        replays=True,
    ),
)
