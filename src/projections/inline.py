"""The read models that the journal writes in the append's own statement, beside the events.

Compute a row from the change alone and without side effects: the journal discards the rows of a command that lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from ledger.domain.customers.state import Customer
from ledger.domain.merchants.state import Merchant
from ledger.domain.orders.global_invoices.state import GlobalInvoice
from ledger.domain.orders.state import Order
from ledger.domain.payment_methods.state import SavedMethods
from ledger.domain.plans.state import Plan
from ledger.domain.processor_accounts.state import ProcessorAccount
from ledger.domain.products.state import Product
from ledger.domain.streams import (
    CUSTOMERS,
    DISMISSED_MESSAGES,
    GLOBAL_INVOICES,
    IDEMPOTENCY_RECORDS,
    MERCHANTS,
    ORDERS,
    PAYMENT_METHODS,
    PLANS,
    PROCESSOR_ACCOUNTS,
    PRODUCTS,
    SUBSCRIPTIONS,
    WEBHOOK_ENDPOINTS,
    Stream,
)
from ledger.domain.subscriptions.state import Subscription
from ledger.domain.webhooks.state import WebhookEndpoint
from ledger.journal.append import Change
from ledger.journal.inline import InlineTable, Row
from projections import (
    customers,
    global_invoices,
    merchants,
    payment_methods,
    processor_accounts,
    products,
    webhook_endpoints,
)
from projections.lists import tally
from projections.orders import table
from projections.search import lines
from projections.subscriptions import invoices, plans, subscriptions

TABLES: Final[tuple[InlineTable, ...]] = (
    table.TABLE,
    customers.TABLE,
    tally.TABLE,
    lines.TABLE,
    merchants.TABLE,
    merchants.KEY_TABLE,
    payment_methods.TABLE,
    products.TABLE,
    plans.TABLE,
    subscriptions.TABLE,
    invoices.TABLE,
    global_invoices.TABLE,
    global_invoices.ORDERS,
    processor_accounts.TABLE,
    webhook_endpoints.TABLE,
)


class Inline:
    """The read models that the journal writes, without a state of their own."""

    tables: Sequence[InlineTable] = TABLES

    def rows(self, merchant_id: UUID, change: Change) -> Mapping[str, Sequence[Row]]:
        """Returns the rows of a change, by table name: none for a change without events."""
        if not change.events:
            return {}
        return rows_of(merchant_id, change.expected + len(change.events), change.before, change.after)


def rows_of(merchant_id: UUID, version: int, before: Any, after: Any) -> Mapping[str, Sequence[Row]]:
    """Returns the rows of a stream that changed from `before` (None if new) to `after`, at `version`, by table name."""
    return _RENDERERS[type(after)](merchant_id, version, before, after)


def _order_rows(merchant_id: UUID, version: int, before: Order | None, after: Order) -> Mapping[str, Sequence[Row]]:
    return {
        table.TABLE.name: [table.row(merchant_id, version, after)],
        tally.TABLE.name: tally.moves(merchant_id, before, after),
        lines.TABLE.name: lines.order_rows(merchant_id, before, after),
    }


def _customer_rows(
    merchant_id: UUID, version: int, before: Customer | None, after: Customer
) -> Mapping[str, Sequence[Row]]:
    return {
        customers.TABLE.name: [customers.row(merchant_id, version, after)],
        lines.TABLE.name: lines.customer_rows(merchant_id, before, after),
    }


def _method_rows(
    merchant_id: UUID, _: int, before: SavedMethods | None, after: SavedMethods
) -> Mapping[str, Sequence[Row]]:
    return {payment_methods.TABLE.name: payment_methods.rows(merchant_id, before, after)}


def _merchant_rows(
    merchant_id: UUID, version: int, before: Merchant | None, after: Merchant
) -> Mapping[str, Sequence[Row]]:
    return {
        merchants.TABLE.name: [merchants.row(merchant_id, version, after)],
        merchants.KEY_TABLE.name: merchants.key_rows(merchant_id, before, after),
    }


def _product_rows(merchant_id: UUID, version: int, _: Product | None, after: Product) -> Mapping[str, Sequence[Row]]:
    return {products.TABLE.name: [products.row(merchant_id, version, after)]}


def _plan_rows(merchant_id: UUID, version: int, _: Plan | None, after: Plan) -> Mapping[str, Sequence[Row]]:
    return {plans.TABLE.name: [plans.row(merchant_id, version, after)]}


def _subscription_rows(
    merchant_id: UUID, version: int, before: Subscription | None, after: Subscription
) -> Mapping[str, Sequence[Row]]:
    if not after.is_shown:
        return {}
    return {
        subscriptions.TABLE.name: [subscriptions.row(merchant_id, version, after)],
        invoices.TABLE.name: invoices.rows(merchant_id, before, after),
    }


def _global_invoice_rows(
    merchant_id: UUID, version: int, before: GlobalInvoice | None, after: GlobalInvoice
) -> Mapping[str, Sequence[Row]]:
    return {
        global_invoices.TABLE.name: [global_invoices.row(merchant_id, version, after)],
        global_invoices.ORDERS.name: global_invoices.order_rows(merchant_id, before, after),
    }


def _account_rows(
    merchant_id: UUID, version: int, _: ProcessorAccount | None, after: ProcessorAccount
) -> Mapping[str, Sequence[Row]]:
    return {processor_accounts.TABLE.name: [processor_accounts.row(merchant_id, version, after)]}


def _endpoint_rows(
    merchant_id: UUID, version: int, _: WebhookEndpoint | None, after: WebhookEndpoint
) -> Mapping[str, Sequence[Row]]:
    return {webhook_endpoints.TABLE.name: [webhook_endpoints.row(merchant_id, version, after)]}


def _no_rows(_: UUID, __: int, ___: Any, ____: Any) -> Mapping[str, Sequence[Row]]:
    return {}


RENDERERS: Final[Mapping[Stream[Any], Callable[[UUID, int, Any, Any], Mapping[str, Sequence[Row]]]]] = {
    ORDERS: _order_rows,
    CUSTOMERS: _customer_rows,
    PAYMENT_METHODS: _method_rows,
    MERCHANTS: _merchant_rows,
    PRODUCTS: _product_rows,
    PLANS: _plan_rows,
    SUBSCRIPTIONS: _subscription_rows,
    GLOBAL_INVOICES: _global_invoice_rows,
    PROCESSOR_ACCOUNTS: _account_rows,
    WEBHOOK_ENDPOINTS: _endpoint_rows,
    DISMISSED_MESSAGES: _no_rows,  # the inbox has the message
    IDEMPOTENCY_RECORDS: _no_rows,  # a repeated request is answered from the log itself
}
"""What renders the rows of each kind of stream."""

_RENDERERS: Final = {stream.state: render for stream, render in RENDERERS.items()}
