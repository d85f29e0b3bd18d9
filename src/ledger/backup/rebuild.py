"""Renders stored orders and subscriptions again from their log, as this release shows them: after an upgrade, or after
a restore by a newer release.

It runs beside the service, in pages, and may be ended and run again. What changes meanwhile is rendered by its own
commit: never overwrite a row of another version.
"""

from __future__ import annotations

import asyncio
from typing import Final, LiteralString
from uuid import UUID

from msgspec import Struct

from ledger.domain.streams import ORDERS, SUBSCRIPTIONS
from ledger.operations.context.ledger import Ledger
from ledger.postgres.connection import Connection
from ledger.progress import Progress, unreported
from projections.orders.table import filtered_by, rendered
from projections.subscriptions.invoices import render_invoice
from projections.subscriptions.subscriptions import render_subscription

_PAGE: Final = 200

# The orders of all merchants behind one of them.
_ORDERS: Final = """
select merchant_id, order_id from payment_order where (merchant_id, order_id) > (%s, %s)
 order by merchant_id, order_id limit %s
"""
_WRITE: Final = """
update payment_order
   set head = %(head)s, payments = %(payments)s,
       currency = %(currency)s, amount = %(amount)s, method_types = %(method_types)s, last4s = %(last4s)s
 where merchant_id = %(merchant_id)s and order_id = %(order_id)s and version = %(version)s
   and (head, payments, currency, amount, method_types, last4s)
       is distinct from (%(head)s, %(payments)s, %(currency)s, %(amount)s, %(method_types)s, %(last4s)s)
"""


# The subscriptions of all merchants behind one of them.
_SUBSCRIPTIONS: Final = """
select merchant_id, subscription_id from subscription where (merchant_id, subscription_id) > (%s, %s)
 order by merchant_id, subscription_id limit %s
"""
# Writes a subscription and its invoices, unless it has changed since it was read, and counts the rows with other bytes.
_WRITE_SUBSCRIPTION: Final = """
with own as (
  select subscription_id from subscription
   where merchant_id = %(merchant_id)s and subscription_id = %(subscription_id)s and version = %(version)s for update
), subscriptions as (
  update subscription s set doc = %(doc)s from own
   where s.merchant_id = %(merchant_id)s and s.subscription_id = own.subscription_id and s.doc <> %(doc)s
  returning 1
), invoices as (
  update subscription_invoice i set doc = n.doc from own, unnest(%(ids)s::uuid[], %(docs)s::bytea[]) as n(id, doc)
   where i.merchant_id = %(merchant_id)s and i.invoice_id = n.id and i.doc <> n.doc
  returning 1
)
select (select count(*) from subscriptions) + (select count(*) from invoices)
"""


class Rebuilt(Struct, frozen=True, kw_only=True):
    """How many orders or subscriptions were rendered, and how many of their rows had other bytes."""

    rendered: int
    changed: int


async def rebuild_orders(ledger: Ledger, connection: Connection, progress: Progress = unreported) -> Rebuilt:
    """Renders every order of every merchant. Raises KeyUnavailable, SealBroken if a key is missing; a Fault."""
    merchant_id = order_id = UUID(int=0)
    orders = changed = 0
    total = await _count(connection, "select count(*) from payment_order")
    while True:
        page = await (await connection.execute(_ORDERS, (merchant_id, order_id, _PAGE))).fetchall()
        if not page:
            return Rebuilt(rendered=orders, changed=changed)
        changed += sum(await asyncio.gather(*(_rebuild(ledger, connection, *key) for key in page)))
        orders += len(page)
        progress("rendering orders", orders, total)
        merchant_id, order_id = page[-1]


async def _count(connection: Connection, query: LiteralString) -> int:
    row = await (await connection.execute(query)).fetchone()
    assert row is not None, "an aggregate always answers"
    return int(row[0])


async def _rebuild(ledger: Ledger, connection: Connection, merchant_id: UUID, order_id: UUID) -> int:
    """Renders one order; returns 1 if its row had other bytes, else 0."""
    order, version = await ledger.journal.load(merchant_id, ORDERS, order_id)
    assert order is not None, "an order's row follows from its log"
    head, payments = rendered(order)
    currency, amount, method_types, last4s = filtered_by(order)
    row = {
        "merchant_id": merchant_id,
        "order_id": order_id,
        "version": version,
        "head": head,
        "payments": payments,
        "currency": currency.decode(),
        "amount": amount,
        "method_types": method_types,
        "last4s": None if last4s is None else last4s.decode(),
    }
    written = await connection.execute(_WRITE, row)
    return written.rowcount


async def rebuild_subscriptions(ledger: Ledger, connection: Connection, progress: Progress = unreported) -> Rebuilt:
    """Renders every subscription of every merchant, with its invoices. Raises as `rebuild_orders`."""
    merchant_id = subscription_id = UUID(int=0)
    subscriptions = changed = 0
    total = await _count(connection, "select count(*) from subscription")
    while True:
        page = await (await connection.execute(_SUBSCRIPTIONS, (merchant_id, subscription_id, _PAGE))).fetchall()
        if not page:
            return Rebuilt(rendered=subscriptions, changed=changed)
        for key in page:
            changed += await _rebuild_subscription(ledger, connection, *key)
        subscriptions += len(page)
        progress("rendering subscriptions", subscriptions, total)
        merchant_id, subscription_id = page[-1]


async def _rebuild_subscription(
    ledger: Ledger, connection: Connection, merchant_id: UUID, subscription_id: UUID
) -> int:
    """Renders one subscription and its invoices; returns how many of their rows had other bytes."""
    state, version = await ledger.journal.load(merchant_id, SUBSCRIPTIONS, subscription_id)
    assert state is not None, "a subscription's row follows from its log"
    parameters = {
        "merchant_id": merchant_id,
        "subscription_id": subscription_id,
        "version": version,
        "doc": render_subscription(merchant_id, state),
        "ids": [invoice.invoice_id for invoice in state.invoices],
        "docs": [render_invoice(state, invoice) for invoice in state.invoices],
    }
    row = await (await connection.execute(_WRITE_SUBSCRIPTION, parameters)).fetchone()
    assert row is not None, "an aggregate always answers"
    return int(row[0])
