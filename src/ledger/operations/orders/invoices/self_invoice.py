"""Stamps the invoice that the payer of an order requests by a signed link, once: the same operation as the merchant's.

Decide on the order as the commit finds it (`require_open`): of two requests at once one gives the receiver, and the
other one finds the invoice that is being stamped.
"""

from __future__ import annotations

from uuid import UUID

from ledger.domain.fiscal_data import FiscalData
from ledger.domain.invoices.commands import StampRequest
from ledger.domain.invoices.self_invoicing import (
    PAYER_REQUEST,
    SelfInvoiceState,
    require_open,
    self_invoice_ends_at,
)
from ledger.domain.orders.state import Order
from ledger.domain.rejections import FiscalDataIncomplete, InvalidField, SelfInvoiceUnavailable
from ledger.invoicing.contract import ProviderUnavailable
from ledger.invoicing.issuers import IssuerMissing
from ledger.invoicing.self_invoice_links import LinkedOrder
from ledger.operations.context.inputs import Actor, StampInput
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.invoices.policy import invoicing_policy
from ledger.operations.orders.invoices.stamp import stamp_order
from ledger.operations.orders.invoices.stampable import require_stampable
from ledger.operations.pipeline.execute_request import wait_until
from ledger.operations.pipeline.unit_of_work import find_order, load_order


async def self_invoice_link(ledger: Ledger, merchant_id: UUID, reference: str) -> tuple[Order, LinkedOrder, str]:
    """Returns an order, what its payer's link names, and the link's address.

    Raises OrderNotFound, SelfInvoiceUnavailable; FiscalDataIncomplete if the merchant has set no issuer, or if no
    invoice can state the order; a Fault.
    """
    assert ledger.invoicing is not None, "a process that serves has an access to stamping"
    order = await find_order(ledger, merchant_id, reference)
    require_open(order)
    try:
        await ledger.invoicing.issuers.find(merchant_id)
    except IssuerMissing:
        raise FiscalDataIncomplete("The merchant has set no issuer of invoices.", ["fiscalIssuer"]) from None
    await require_invoiceable(ledger, merchant_id, order)
    linked = await link_of(ledger, merchant_id, order)
    return order, linked, ledger.invoicing.links.sign(linked)


async def require_invoiceable(ledger: Ledger, merchant_id: UUID, order: Order) -> None:
    """Raises FiscalDataIncomplete with what the order or the merchant lacks for an invoice; a Fault."""
    policy = await invoicing_policy(ledger, await ledger.merchant(merchant_id), None)
    try:
        await require_stampable(ledger, merchant_id, order.terms, policy)
    except InvalidField as lacking:
        wrong = [(each.field, each.problem) for each in (lacking, *lacking.others)]
        message = f"The order cannot be invoiced: {lacking.message}"
        raise FiscalDataIncomplete(message, (), wrong) from None


async def link_of(ledger: Ledger, merchant_id: UUID, order: Order) -> LinkedOrder:
    """Returns what the link of an order's payer names. Its end is that of the merchant's setting of the time zone."""
    merchant = await ledger.merchant(merchant_id)
    ends_at = self_invoice_ends_at(order, merchant.settings.time_zone)
    return LinkedOrder(merchant_id, order.terms.order_id, ends_at)


async def self_invoice(ledger: Ledger, linked: LinkedOrder, receiver: FiscalData, request_id: str) -> Order:
    """Stamps the invoice of an order to the receiver that its payer gives, unless it has one, and returns the order.

    Read from the order whether the invoice is that of this receiver. A provider that cannot be reached leaves the
    invoice pending. Raises what stamping raises except ProviderUnavailable; SelfInvoiceUnavailable if the order takes
    no such request.
    """
    actor = Actor(merchant_id=linked.merchant_id, request_id=f"{PAYER_REQUEST}{request_id}")
    request = StampInput(stamp=StampRequest(), fiscal=receiver, exchange_rate=None)
    order_id = linked.order_id

    async def has_ended() -> bool:
        order = await load_order(ledger, linked.merchant_id, order_id)
        invoice = None if order.invoices is None else order.invoices.invoice
        return invoice is None or invoice.intent is None

    try:
        return (await stamp_order(ledger, actor, str(order_id), request, check=require_open)).order
    except SelfInvoiceUnavailable as refused:
        if refused.state not in {SelfInvoiceState.BEING_STAMPED, SelfInvoiceState.INVOICED}:
            raise
        await wait_until(ledger, has_ended)
    except ProviderUnavailable:
        pass
    return await load_order(ledger, linked.merchant_id, order_id)
