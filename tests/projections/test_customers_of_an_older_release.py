"""Customers' rows that a process of an older release writes after the migration: listed, found and counted like others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import psycopg
import pytest
from uuid_utils.compat import uuid7

# The statement by which the release before migration 21 wrote a customer's row.
_WRITE = """
insert into customer (merchant_id, customer_id, version, external_id, email, email_folded, source_id, doc)
values (%(merchant_id)s, %(customer_id)s, %(version)s, 'Ana-7', %(email)s, lower(%(email)s), null, %(doc)s)
on conflict (merchant_id, customer_id) do update set
  version = excluded.version, external_id = excluded.external_id, email = excluded.email,
  email_folded = excluded.email_folded, source_id = excluded.source_id, doc = excluded.doc
"""
_ROW = "select erased, text_folded, extras from customer where merchant_id = %s and customer_id = %s"
_NAMES = ("firstName", "lastName", "phoneNumber")


class OlderProcess:
    """Writes rows of one customer as the older release does."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self.merchant_id, self.customer_id, self._version = uuid7(), uuid7(), 0
        self._connection = connection

    def write(self, customer_id: UUID | None = None, **document: Any) -> None:
        self._version += 1
        doc = dict.fromkeys(_NAMES) | {"active": True, "updatedAt": f"{self._version}"} | document
        parameters = {
            "merchant_id": self.merchant_id,
            "customer_id": customer_id or self.customer_id,
            "version": self._version,
            "email": doc.get("email"),
            "doc": json.dumps(doc).encode(),
        }
        self._connection.execute(_WRITE, parameters)

    def execute(self, statement: Any, *parameters: Any) -> None:
        self._connection.execute(statement, parameters)

    @property
    def row(self) -> Any:
        return self._connection.execute(_ROW, [self.merchant_id, self.customer_id]).fetchone()

    @property
    def count(self) -> int:
        found = self._connection.execute("select n from customer_count where merchant_id = %s", [self.merchant_id])
        (n,) = found.fetchone() or (0,)
        return int(n)


@pytest.fixture
def older(database_url: str) -> Iterator[OlderProcess]:
    with psycopg.connect(database_url) as connection:
        yield OlderProcess(connection)


def test_a_new_customer_is_found_and_counted(older: OlderProcess) -> None:
    older.write(firstName="Ana", lastName="LÓPEZ", email="Ana@Example.com", phoneNumber="+52 1")
    assert older.row == (False, "ana-7\x1fana lópez\x1fana@example.com\x1f+52 1", None)
    older.write(customer_id=uuid7(), lastName="Ruiz")
    assert older.count == 2


def test_a_changed_customer_is_found_by_what_it_has_now_and_counted_once(older: OlderProcess) -> None:
    older.write(firstName="Ana")
    older.write(firstName="Eva", email="e@example.com")
    assert older.row == (False, "ana-7\x1feva\x1fe@example.com\x1f", None)
    assert older.count == 1


def test_an_erased_customer_is_neither_listed_nor_counted_and_keeps_nothing(older: OlderProcess) -> None:
    older.write(firstName="Ana")
    older.execute("update customer set extras = 'private' where customer_id = %s", older.customer_id)
    older.write(active=False)
    assert older.row == (True, None, None)
    assert older.count == 0
    older.write(active=False)
    assert older.count == 0


def test_the_text_that_a_newer_process_folded_stays_where_the_search_reads_nothing_else(older: OlderProcess) -> None:
    older.write(lastName="Groß")
    older.execute("update customer set text_folded = 'gross' where customer_id = %s", older.customer_id)
    older.write(lastName="Groß", sourceId=str(uuid7()))
    assert older.row[1] == "gross"
    older.write(lastName="Weiß")
    assert older.row[1] == "ana-7\x1fweiß\x1f\x1f"
