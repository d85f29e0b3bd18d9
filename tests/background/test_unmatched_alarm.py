"""A message that no order matches leaves the metrics after a while, and stays listed."""

from __future__ import annotations

from uuid import UUID

import psycopg
import pytest
from tests.databases import Databases

from ledger.background.inbox.pending import pending_messages
from ledger.operations.message_delivery import UNKNOWN_NAME, UNKNOWN_ORDER, UNMATCHED
from ledger.postgres.connection import connect
from projections.queries import Queries

pytestmark = pytest.mark.anyio

HOUR_S = 3600.0
INSERT = """
insert into processor_message (processor, merchant_id, message_id, body, waits_for, next_try_at, received_at)
values ('sandbox', %s, %s, '{"type":"deposit"}', %s, %s, now() - make_interval(hours => %s))
"""


async def test_an_unmatched_message_leaves_the_metrics_and_stays_listed(databases: Databases):
    merchant = UUID(int=1)
    with databases.lent() as url:
        with psycopg.connect(url) as connection:
            for message, waits_for, due, hours in (
                ("old and unmatched", UNKNOWN_NAME, "infinity", 2),
                ("unmatched", UNKNOWN_ORDER, "now", 0),
                ("old, of an order", "the order is busy", "now", 2),
                ("old, untried", None, "now", 2),
                ("dead letter", "it is in another currency", "infinity", 2),
            ):
                connection.execute(INSERT, (merchant, message, waits_for, due, hours))
        queries = Queries(url)
        await queries.start()
        number, _, set_aside = await queries.waiting_messages(UNMATCHED, HOUR_S)
        assert (number, set_aside) == (4, 1)
        assert (await queries.waiting_messages(UNMATCHED, 3 * HOUR_S))[0] == 5
        await queries.stop()
        async with await connect(url, "test") as connection_:
            assert len(await pending_messages(connection_)) == 5
