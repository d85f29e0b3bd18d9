"""The rows that the journal writes beside its events."""

from __future__ import annotations

from datetime import date
from importlib import import_module
from pkgutil import walk_packages
from uuid import UUID

import psycopg
import pytest
from msgspec.structs import replace
from tests.domain.builders import (
    CUSTOMER,
    NOON,
    ORDER,
    VISA,
    authorization_requested,
    created,
    folded,
    method,
    started,
)

import projections
from ledger.domain.customers.state import Customer
from ledger.domain.orders.terms import MethodType
from ledger.domain.streams import STREAMS
from ledger.journal.append import Change
from ledger.journal.inline import InlineTable
from projections.binary import days, from_micros, micros, utc_day
from projections.inline import RENDERERS, TABLES, Inline

MERCHANT = UUID(int=5)


def test_an_order_has_a_row_and_changes_the_counters() -> None:
    events = [created(external_id="ñ"), started(1, 10_000)]
    order = folded(events)
    rows = Inline().rows(MERCHANT, Change(ORDER, 3, events, None, order))
    assert set(rows) == {"payment_order", "tally", "search_line"}
    [row] = rows["payment_order"]
    assert row[:9] == (
        MERCHANT.bytes,
        ORDER.bytes,
        5,
        b"PROCESSING",
        CUSTOMER.bytes,
        "ñ".encode(),
        b"PO0000000001",
        None,
        "po0000000001\x1fñ\x1f".encode(),
    )
    assert row[9:13] == (None, micros(NOON), micros(NOON), None)
    assert row[13:17] == (b"MXN", 100_000_000, 1, VISA.last4.encode())


def test_the_row_has_every_method_and_every_card_once() -> None:
    other = replace(method(), card=replace(VISA, last4="0007"))
    events = [
        created("150.75", allow_partials=True, currency="USD"),
        started(1, 10),
        started(2, 10, 0, MethodType.PAYCASH),
        replace(started(3, 10), method=other),
        started(4, 10),
    ]
    [row] = Inline().rows(MERCHANT, Change(ORDER, 0, events, None, folded(events)))["payment_order"]
    assert row[13:17] == (b"USD", 1_507_500, 1 | 4 | 8, b"0007," + VISA.last4.encode())
    [row] = Inline().rows(MERCHANT, Change(ORDER, 0, events[:1], None, folded(events[:1])))["payment_order"]
    assert row[13:17] == (b"USD", 1_507_500, 0, None)


def test_the_row_has_the_deadline_of_the_oldest_open_call() -> None:
    events = [created(allow_partials=True), started(1, 4_000), authorization_requested(1, 4_000)]
    [row] = Inline().rows(MERCHANT, Change(ORDER, 0, events, None, folded(events)))["payment_order"]
    assert from_micros(row[12]) == events[2].deadline_at


def test_a_customer_has_one_row() -> None:
    customer = Customer(customer_id=CUSTOMER, external_id="ana", created_at=NOON, updated_at=NOON)
    rows = Inline().rows(MERCHANT, Change(CUSTOMER, 0, [created()], None, customer))
    [row] = rows["customer"]
    assert row[:5] == (MERCHANT.bytes, CUSTOMER.bytes, 1, b"ana", None)


def test_a_change_without_events_has_no_rows() -> None:
    order = folded([created()])
    assert Inline().rows(MERCHANT, Change(ORDER, 1, [], order, order)) == {}


def test_each_kind_of_stream_says_what_renders_its_rows() -> None:
    assert [stream.name for stream in STREAMS if stream not in RENDERERS] == []


def test_the_journal_writes_every_table_that_a_module_of_the_read_models_defines() -> None:
    modules = [import_module(each.name) for each in walk_packages(projections.__path__, "projections.")]
    defined = {value.name for module in modules for value in vars(module).values() if isinstance(value, InlineTable)}
    assert defined == {table.name for table in TABLES}


def test_a_state_without_a_read_model_is_a_bug() -> None:
    with pytest.raises(KeyError):
        Inline().rows(MERCHANT, Change(ORDER, 0, [created()], None, 7))


def test_the_written_columns_are_those_of_the_schema_with_their_types(database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        for table in TABLES:
            columns = connection.execute(
                "select attname, format_type(atttypid, null) from pg_attribute "
                "where attrelid = %s::regclass and attnum > 0 and not attisdropped",
                (table.name,),
            ).fetchall()
            names = {"timestamp with time zone": "timestamptz", "integer": "int4", "bigint": "int8", "boolean": "bool"}
            assert {(name, names.get(type_, type_)) for name, type_ in columns} == set(table.columns)


def test_times_and_days_survive_the_conversion_to_the_database_and_back() -> None:
    for at in (
        NOON,
        NOON.replace(microsecond=1),
        NOON.replace(year=1999),
        NOON.replace(year=1),
        NOON.replace(year=9999),
    ):
        assert from_micros(micros(at)) == at
        assert utc_day(micros(at)) == days(at.date())
    assert days(date(2000, 1, 1)) == 0
