"""Changes the terms of an order after its creation.

The commit decides between a change and a payment: an amount never changes under a payment that has begun.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import to_builtins
from msgspec.structs import replace

from ledger.domain.fold import fold
from ledger.domain.invoices.commands import EnableInvoicing
from ledger.domain.invoices.decide.stamping import decide_enabling
from ledger.domain.orders.commands import ChangeOrder, OrderChanges
from ledger.domain.orders.decide.changes import decide_change, require_not_invoiced
from ledger.domain.orders.decide.guards import require_whole_centavos
from ledger.domain.orders.events import (
    OrderAmountChanged,
    OrderEvent,
    OrderLineItemsChanged,
    OrderReceiverChanged,
)
from ledger.domain.orders.evolve.order import evolve
from ledger.domain.orders.state import Order
from ledger.domain.rejections import InvalidField, refuse_fields
from ledger.domain.streams import CUSTOMERS, ORDERS
from ledger.invoicing.line_keys import wrong_lines
from ledger.journal.append import Conflict
from ledger.operations.context.inputs import Actor, ChangeInput
from ledger.operations.context.ledger import Ledger
from ledger.operations.context.results import OrderResult
from ledger.operations.orders.create import reminder_policy
from ledger.operations.orders.invoices.policy import invoicing_policy
from ledger.operations.orders.invoices.stampable import require_stampable
from ledger.operations.orders.order_request import execute_on_order
from ledger.operations.pipeline.unit_of_work import IdempotencyKey, Plan, UnitOfWork

_STATED = (OrderAmountChanged, OrderLineItemsChanged, OrderReceiverChanged)
"""The events that change what an invoice states."""


async def change_order(
    ledger: Ledger, actor: Actor, reference: str, request: ChangeInput, key: IdempotencyKey | None = None
) -> OrderResult:
    """Changes the terms of the order that `reference` (service id or external id) names.

    Raises like `execute_on_order` and `decide_change`; OrderNotFound, AmountNotChargeable, InvalidField for what no
    invoice of the order could state.
    """
    uow = UnitOfWork(ledger, actor, key)

    async def attempt(_: Conflict | None) -> Plan:
        order = await uow.find(ORDERS, reference)
        changes = await _with_customers_receiver(uow, order, request)
        merchant = await ledger.merchant(uow.merchant_id)
        command = ChangeOrder(changes=changes, reminders=reminder_policy(merchant), at=uow.now)
        events = decide_change(order, command)
        events += await _invoicing(uow, order, events, request)
        return Plan(changes=[uow.change_order(order.terms.order_id, events)])

    return await execute_on_order(uow, attempt)  # a single commit: a caller that hangs up leaves nothing half done


async def _with_customers_receiver(uow: UnitOfWork, order: Order, request: ChangeInput) -> OrderChanges:
    """Returns the changes with the fiscal data of the order's customer, if the request takes them."""
    if not request.takes_customers_fiscal:
        return request.changes
    customer = await uow.load(CUSTOMERS, order.terms.customer_id)
    if customer is None or customer.fiscal is None:
        raise InvalidField(
            "customerFiscalData",
            "is CUSTOMER, and the customer has no fiscalData: send the receiver, or give the customer fiscalData first",
        )
    return replace(request.changes, fiscal=customer.fiscal)


async def _invoicing(
    uow: UnitOfWork, order: Order, events: Sequence[OrderEvent], request: ChangeInput
) -> Sequence[OrderEvent]:
    """Returns the events that enable the invoices of a changed order, by the merchant's settings of now.

    Raises InvalidField and AmountNotChargeable for an order that could not be invoiced any more, as at its creation.
    """
    after = fold(evolve, order, events)
    if not after.is_fiscal:
        if request.exchange_rate is not None:
            raise InvalidField("exchangeRate", "belongs to an invoice: send customerFiscalData as well")
        return []
    merchant = await uow.ledger.merchant(uow.merchant_id)
    policy = await invoicing_policy(uow.ledger, merchant, request.exchange_rate)
    enabled: Sequence[OrderEvent] = []
    if after.invoices is None or request.exchange_rate is not None:
        enabled = decide_enabling(after, EnableInvoicing(policy=policy, at=uow.now))
        if enabled:
            require_not_invoiced(order)
    if enabled or any(isinstance(event, _STATED) for event in events):
        problems = await _empty_receiver(uow, events)
        problems += [InvalidField(field, problem) for field, problem in wrong_lines(after.terms.line_items)]
        refuse_fields(problems)
        require_whole_centavos(after.terms.amount)
        own_rate = None if after.invoices is None else after.invoices.enabled.exchange_rate
        policy = replace(policy, exchange_rate=request.exchange_rate or own_rate)
        await require_stampable(uow.ledger, uow.merchant_id, after.terms, policy)
    return enabled


async def _empty_receiver(uow: UnitOfWork, events: Sequence[OrderEvent]) -> list[InvalidField]:
    """Returns the problem of a new receiver without any field, unless the merchant invoices the public in general."""
    if not any(isinstance(event, OrderReceiverChanged) and not to_builtins(event.fiscal) for event in events):
        return []
    invoicing = uow.ledger.invoicing
    issuer = None if invoicing is None else await invoicing.issuers.known_issuer(uow.merchant_id)
    if issuer is not None and issuer.public_in_general:
        return []
    lacking = "names no receiver: send taxId, legalName, taxSystem, cfdiUse and zipCode"
    return [InvalidField("customerFiscalData", lacking)]
