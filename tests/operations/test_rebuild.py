"""A rebuild keeps the rule of rows: an order in flight has no rendered bytes, and the log gives the same row."""

from __future__ import annotations

import psycopg
import pytest
from tests.operations.conftest import SILENT, an_order, by_card
from tests.whole_log import whole_log

from ledger.backup.rebuild import Rebuilt, rebuild
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.create import create_order
from projections.orders.head import render_head
from projections.orders.payments import render_payments
from projections.queries import Queries
from projections.rebuild import replay, stored

pytestmark = pytest.mark.anyio


async def test_an_order_that_an_earlier_release_rendered_in_flight_gets_the_row_of_this_one(
    ledger: Ledger, merchant: Actor, database_url: str
):
    await create_order(ledger, merchant, an_order("2"))
    unknown = (await create_order(ledger, merchant, an_order("1", by_card(SILENT)))).order
    head, payments = render_head(unknown), render_payments(unknown)
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        where = "where order_id = %s"
        values = (head, payments, unknown.terms.order_id)
        await connection.execute(f"update payment_order set head = %s, payments = %s {where}", values)
        columns = "currency = null, amount = null, method_types = null, last4s = null"
        await connection.execute(f"update payment_order set {columns}")
        for corrected in (2, 0):
            found = await rebuild(database_url, ledger.journal.reader, tables=["payment_order"])
            assert found.tables == [Rebuilt("payment_order", 2, corrected)]
        log = await whole_log(ledger.journal.reader, connection, merchant.merchant_id)
        of_log = replay(merchant.merchant_id, [(each.stream_id, each.version, each.event) for each in log])
        assert await stored(connection, merchant.merchant_id) == of_log
    queries = Queries(database_url, ledger.journal.reader.stream)
    await queries.start()
    row = await queries.order(merchant.merchant_id, "1")
    assert row is not None
    assert (row.head, row.payments) == (head, payments)
    await queries.stop()
