"""`ledger archive`: what it takes, asks for and records. What it moves is tested in tests/archive."""

import json
import re

import psycopg

from ledger.journal.event_archive import Reference

ARCHIVED = """
with head as (update merchant_head set position = position + 1 where merchant_id = %s returning merchant_id, position)
insert into event (merchant_id, stream_id, version, position, command_id, recorded_at, topic, data, context)
select merchant_id, gen_random_uuid(), 1, position, gen_random_uuid(), now(), 'order-created.v1', %s, '{}' from head
"""


def test_it_asks_first_and_is_recorded(ledger, database_url):
    assert "this cannot be undone; add --yes" in ledger("archive").one_line
    assert ledger("archive", "--yes", "--by", "ana", "--json").json == {"events": 0, "files": 0, "bytes": 0}
    assert ledger("archive", "--yes", "--before", "2026-01-31").done == "moved 0 events of 0.0 MB into 0 files\n"
    with psycopg.connect(database_url) as connection:
        query = "select operator, subject from operator_command where command = 'archive' order by at"
        (first, second) = connection.execute(query).fetchall()
    assert first[0] == "ana"
    assert second[1] == "2026-01-31"


def test_a_day_that_is_none_is_named(ledger):
    assert "'soon' is not a day" in ledger("archive", "--yes", "--before", "soon").one_line
    assert "has not come yet" in ledger("archive", "--yes", "--before", "2999-01-01").one_line
    assert "is not the id of a merchant" in ledger("archive", "--yes", "--merchant", "café").one_line
    unknown = "01980d1e-3b5c-7cc0-9d5a-6f1f0d9a2b44"
    assert "has no signed log" in ledger("archive", "--yes", "--merchant", unknown).one_line


def test_a_command_prints_no_log_line_about_a_lost_file(ledger, database_url):
    merchant = ledger("merchants", "create", "Café de Prueba", "--json").json["merchantId"]
    with psycopg.connect(database_url) as connection:
        connection.execute(ARCHIVED, (merchant, Reference(b"f" * 16, 0, 9, b"h" * 32).encode()))
    exported = ledger("export", "--to", "-", "--merchant", merchant)
    assert exported.code == 1
    assert [json.loads(line)["position"] for line in exported.out.splitlines()][-1] > 1
    assert "1 events cannot be read" in exported.err
    checked = ledger("rebuild", "--check", "--merchant", merchant)
    assert (checked.code, checked.out) == (2, "")
    assert re.fullmatch(r"ledger: [^\n]*bring the file back as it was[^\n]*\n", checked.err)
