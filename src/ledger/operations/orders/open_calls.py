"""The calls to outside systems that an order has open: what the recovery looks up."""

from __future__ import annotations

from uuid import UUID

from ledger.domain.orders.state import Order
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.invoices.provider_calls import open_call
from ledger.operations.orders.processor_call import ProcessorCall
from ledger.operations.pipeline.calls import Call


def open_calls(ledger: Ledger, merchant_id: UUID, order: Order) -> list[Call]:
    """Returns the calls without an outcome: those of the order's payments, then those about its documents."""
    found: list[Call] = [
        ProcessorCall(ledger=ledger, merchant_id=merchant_id, order=order, intent=payment.intent)
        for payment in order.payments
        if payment.intent is not None
    ]
    documents = () if order.invoices is None else order.invoices.documents
    calls = (open_call(ledger, merchant_id, order, document) for document in documents)
    return [*found, *(call for call in calls if call is not None)]
