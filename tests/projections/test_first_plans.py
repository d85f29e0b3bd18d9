"""The plans of reads on the first day of an installation, when all indexes cost the same for lack of statistics.

Such a plan stays on its connection until the table is analyzed. It must also be good for the orders of ten minutes
later.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from itertools import chain
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from tests.domain.builders import NOON

from ledger.domain.orders.statuses import OrderStatus
from projections.lists import pool
from projections.lists.pages import OrderQuery
from projections.lists.statements import page_statements
from projections.orders import table
from projections.search import counts

QUERIES: list[dict[str, Any]] = [
    {},
    {"search": "7"},
    {"search": "7", "ascending": True},
    {"search": "789"},
    {"search": "789", "created_from": NOON - timedelta(days=9)},
    {"search": "789", "statuses": (OrderStatus.PENDING,)},
    {"search": "789", "customer": "ana", "exclude_overdue": True},
]


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    yield from chain.from_iterable(nodes(part) for part in plan.get("Plans", ()))


def explained(connection: psycopg.Connection[Any], statement: str, parameters: Any) -> Iterator[dict[str, Any]]:
    row = connection.execute(f"explain (format json) {statement}", parameters).fetchone()
    assert row is not None
    yield from nodes(row[0][0]["Plan"])


@pytest.fixture
def first_day(database_url: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection with the settings of lists, over an empty table without statistics."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("truncate payment_order")
    with psycopg.connect(database_url, autocommit=True, options=pool._OPTIONS) as connection:
        yield connection


@pytest.mark.parametrize("query", QUERIES, ids=" ".join)
def test_an_order_is_looked_up_by_the_primary_key_even_by_the_first_plan(
    first_day: psycopg.Connection[Any], query: dict[str, Any]
) -> None:
    customers = [uuid4()] if "customer" in query else None
    statements, parameters = page_statements(uuid4(), OrderQuery(**query), NOON, customers)
    for statement in statements:
        lookups = [node for node in explained(first_day, statement, parameters) if is_lookup(node)]
        assert lookups, "there is a page at least"
        assert {node["Index Name"] for node in lookups} == {"payment_order_pkey"}


def test_compaction_looks_orders_up_by_the_primary_key_too(first_day: psycopg.Connection[Any]) -> None:
    asked = {"merchant_id": uuid4(), "orders": [uuid4()]}
    [lookup] = [node for node in explained(first_day, counts._EMAILS, asked) if is_lookup(node)]
    assert lookup["Index Name"] == "payment_order_pkey"


def test_a_single_order_is_looked_up_by_the_primary_key_too(first_day: psycopg.Connection[Any]) -> None:
    asked = ([0], [uuid4()], [uuid4()], ["pedido-1"])
    lookups = [node for node in explained(first_day, table.FIND, asked) if is_lookup(node)]
    assert len(lookups) == 2, "by its own id, and by the merchant's"
    assert {node["Index Name"] for node in lookups} == {"payment_order_pkey"}


def test_a_page_that_is_scanned_for_is_read_in_the_order_of_the_list(first_day: psycopg.Connection[Any]) -> None:
    """Up to 16,384 orders are read: none by a lookup."""
    statements, parameters = page_statements(uuid4(), OrderQuery(search="7"), NOON)
    for statement in (statements[0], statements[-1]):
        [scanned] = [
            node for node in explained(first_day, statement, parameters) if node.get("Subplan Name") == "CTE scanned"
        ]
        indexes = [node["Index Name"] for node in nodes(scanned) if node.get("Relation Name") == "payment_order"]
        assert indexes == ["payment_order_created"]


def is_lookup(node: dict[str, Any]) -> bool:
    """Whether this is how one order is read by its id."""
    asked = node.get("Index Cond", "") + node.get("Filter", "")
    return node.get("Relation Name") == "payment_order" and re.search(r"\(order_id (=|>=) [a-z]", asked) is not None
