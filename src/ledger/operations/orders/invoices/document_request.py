"""How a request about an order's documents is answered: with the order, after the last call to the provider."""

from __future__ import annotations

from msgspec import Struct

from ledger.domain.idempotency.state import IdempotencyRecord
from ledger.domain.orders.state import Order
from ledger.invoicing.contract import ProviderUnavailable
from ledger.operations.context.results import WHOLE_ORDER
from ledger.operations.orders.order_request import answered_order
from ledger.operations.pipeline.execute_stream import stream_of
from ledger.operations.pipeline.unit_of_work import AnsweredWhen, Plan, UnitOfWork, in_progress


class DocumentResult(Struct, frozen=True, kw_only=True):
    """The order after a request about its documents. `repeated` marks the answer that its key received before."""

    order: Order
    repeated: bool = False
    replayed: bool = False


class DocumentAnswer:
    """Answers with the order once no call of the request is open: one request may make several calls."""

    when = AnsweredWhen.AT_END

    async def after(self, uow: UnitOfWork, plan: Plan) -> DocumentResult:
        if uow.nothing_was_sent:
            raise ProviderUnavailable("the stamping provider could not be reached")
        return DocumentResult(order=await uow.order(plan.stream_id))

    async def again(self, uow: UnitOfWork, record: IdempotencyRecord) -> DocumentResult | None:
        if record.answer is None and is_being_called(await uow.order(stream_of(record))):
            raise in_progress()
        order = await answered_order(uow, record, WHOLE_ORDER)
        return None if order is None else DocumentResult(order=order, repeated=True)


def is_being_called(order: Order) -> bool:
    """Returns whether a call about a document is under way. A call whose outcome is unknown does not count."""
    intent = None if order.invoices is None else order.invoices.open_intent
    return intent is not None and not intent.unknown
