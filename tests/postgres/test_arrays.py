"""Postgres reads every packed column unchanged: every type, nulls, empty columns, long values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.postgres.arrays import ENCODE_ARRAY, register

INT4, INT8 = (-(2**31), 2**31 - 1), (-(2**63), 2**63 - 1)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int4": st.integers(*INT4),
    "int8": st.integers(*INT8),
    "uuid": st.binary(min_size=16, max_size=16),
    "text": st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=50).map(str.encode),
    "bytea": st.one_of(st.binary(max_size=50), st.binary(min_size=4090, max_size=5000)),
    "timestamptz": st.integers(-(10**15), 10**16),
    "date": st.integers(-10_000, 100_000),
}
# The expression by which Postgres returns a value in comparable form.
SHOWN = {
    "uuid": "uuid_send({0})",
    "text": "convert_to({0}, 'UTF8')",
    "timestamptz": "(extract(epoch from {0}) * 1000000)::int8 - 946684800000000",
    "date": "{0} - date '2000-01-01'",
}


@pytest.fixture(scope="module")
def connection(postgres_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        register(connection)
        yield connection


@pytest.mark.parametrize("examples", [30, pytest.param(150, marks=pytest.mark.long)])
def test_a_packed_column_arrives_unchanged(connection: psycopg.Connection[Any], examples: int) -> None:
    @settings(max_examples=examples, deadline=None)
    @given(data=st.data(), type_=st.sampled_from(sorted(VALUES)))
    def holds(data: st.DataObject, type_: str) -> None:
        values = data.draw(
            st.lists(st.one_of(VALUES[type_], st.none()) if data.draw(st.booleans()) else VALUES[type_], max_size=40)
        )
        shown = SHOWN.get(type_, "{0}").format("v")
        rows = connection.execute(
            f"select {shown} from unnest(%s::{type_}[]) with ordinality as t(v, n) order by n",
            (ENCODE_ARRAY[type_](values),),
        ).fetchall()
        assert [row[0] for row in rows] == values

    holds()
