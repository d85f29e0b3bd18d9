"""The plans of reads and of the append on the first day of an installation, when all indexes cost the same for lack of statistics.

Such a plan stays on its connection until the table is analyzed. It must also be good for the orders of ten minutes
later.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from itertools import chain
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from tests.databases import Databases
from tests.domain.builders import NOON

from ledger.domain.orders.statuses import OrderStatus
from ledger.domain.orders.terms import MethodType
from ledger.journal.commit.append_statement import build_statement
from ledger.postgres.connection import LIST_SETTINGS, SET, session_settings
from projections.inline import Inline
from projections.lists import references
from projections.lists.pages import OrderQuery
from projections.lists.statements import page_statements
from projections.orders import table
from projections.search import counts

_ONE_EVENT_EACH = """
insert into event (merchant_id, stream_id, version, position, command_id, recorded_at, topic, data, context)
select gen_random_uuid(), gen_random_uuid(), 1, 1, gen_random_uuid(), now(), 'order-created.v1', '', ''
  from generate_series(1, 60)
"""

QUERIES: list[dict[str, Any]] = [
    {},
    {"search": "7"},
    {"search": "7", "ascending": True},
    {"search": "789"},
    {"search": "789", "created_from": NOON - timedelta(days=9)},
    {"search": "789", "statuses": (OrderStatus.PENDING,)},
    {"search": "789", "customer": "ana", "exclude_overdue": True},
    {"external_id": "789"},
    {"last4": "4242", "statuses": (OrderStatus.PENDING,)},
    {"currency": "MXN"},
    {"search": "789", "amount_min": Decimal(1)},
]


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    yield from chain.from_iterable(nodes(part) for part in plan.get("Plans", ()))


def explained(connection: psycopg.Connection[Any], statement: str, parameters: Any) -> Iterator[dict[str, Any]]:
    row = connection.execute(f"explain (format json) {statement}", parameters).fetchone()
    assert row is not None
    yield from nodes(row[0][0]["Plan"])


@pytest.fixture(scope="module")
def first_day(databases: Databases) -> Iterator[psycopg.Connection[Any]]:
    """A connection with the settings of lists, over an empty table without statistics. No test changes anything."""
    with databases.lent() as url:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("truncate payment_order")
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(SET, (list(LIST_SETTINGS), list(LIST_SETTINGS.values())))
            yield connection


@pytest.mark.parametrize("query", QUERIES, ids=" ".join)
def test_an_order_is_looked_up_by_the_primary_key_even_by_the_first_plan(
    first_day: psycopg.Connection[Any], query: dict[str, Any]
) -> None:
    customers = [uuid4()] if "customer" in query else None
    cards = ["4242"] if "last4" in query else None
    statements, parameters = page_statements(uuid4(), OrderQuery(**query), NOON, customers, cards)
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


def test_the_append_probes_the_latest_version_by_the_primary_key(databases: Databases) -> None:
    """The statistics know of one event for each merchant, as on a node of Citus that has just got its shards. The index
    of positions costs the same then, but it would read a merchant's whole log in each probe.
    """
    statement = build_statement(Inline().tables)
    values = ", ".join("null" for _ in range(statement.count("$")))
    with databases.lent() as url, psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"truncate event; {_ONE_EVENT_EACH}; analyze event")
        connection.execute(SET, (list(session_settings()), list(session_settings().values())))
        connection.execute(f"prepare append as {statement}")
        found = list(explained(connection, f"execute append ({values})", ()))
    probes = [node["Index Name"] for node in found if node.get("Relation Name") == "event" and "Index Name" in node]
    assert probes == ["event_pkey"]


def test_a_page_that_is_scanned_for_is_read_in_the_order_of_the_list(first_day: psycopg.Connection[Any]) -> None:
    """Up to 16,384 orders are read: none by a lookup."""
    statements, parameters = page_statements(uuid4(), OrderQuery(search="7"), NOON)
    for statement in (statements[0], statements[-1]):
        [scanned] = [
            node for node in explained(first_day, statement, parameters) if node.get("Subplan Name") == "CTE scanned"
        ]
        indexes = [node["Index Name"] for node in nodes(scanned) if node.get("Relation Name") == "payment_order"]
        assert indexes == ["payment_order_created"]


@pytest.mark.parametrize(
    "query",
    [
        {"currency": "MXN"},
        {"amount_min": Decimal(1), "amount_max": Decimal(2), "exclude_overdue": True},
        {"methods": (MethodType.SPEI,), "statuses": (OrderStatus.PENDING,), "ascending": True},
    ],
    ids=" ".join,
)
def test_filters_by_columns_are_read_from_the_index_of_the_list_alone(
    first_day: psycopg.Connection[Any], query: dict[str, Any]
) -> None:
    """A row weighs some kilobytes: reading a million of them would take minutes."""
    [statement], parameters = page_statements(uuid4(), OrderQuery(**query), NOON)
    found = [node for node in explained(first_day, statement, parameters) if not is_lookup(node)]
    read = [(node["Node Type"], node["Index Name"]) for node in found if node.get("Relation Name") == "payment_order"]
    assert read == [("Index Only Scan", "payment_order_created")] * 3, "few orders, the total and the places of many"


def test_orders_of_a_card_are_found_by_their_own_index(first_day: psycopg.Connection[Any]) -> None:
    for ascending in (False, True):
        query = OrderQuery(last4="4242", ascending=ascending)
        [statement], parameters = page_statements(uuid4(), query, NOON, cards=["4242", "1881,4242"])
        found = [node for node in explained(first_day, statement, parameters) if not is_lookup(node)]
        read = [node["Index Name"] for node in found if node.get("Relation Name") == "payment_order"]
        assert sorted(read) == ["payment_order_cards"] * 2 + ["payment_order_open_call"] * 2


def test_what_filters_refer_to_is_found_by_indexes(first_day: psycopg.Connection[Any]) -> None:
    merchant_id = uuid4()
    for statement, parameters in (
        references.named_statement(merchant_id, "pedido-1"),
        references.email_statement(merchant_id, "ana@example.com"),
        references.cards_statement(merchant_id, "4242"),
        references.unfilled_statement(merchant_id),
    ):
        found = list(explained(first_day, statement, parameters))
        assert "Seq Scan" not in {node["Node Type"] for node in found}, statement


def is_lookup(node: dict[str, Any]) -> bool:
    """Whether this is how one order is read by its id."""
    asked = node.get("Index Cond", "") + node.get("Filter", "")
    return node.get("Relation Name") == "payment_order" and re.search(r"\(order_id (=|>=) [a-z]", asked) is not None
