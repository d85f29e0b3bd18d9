"""The journal's peers append what is counted, are created from their own packages, and are compared with the journal."""

from __future__ import annotations

import asyncio
import json

import psycopg
import pytest
from benchmarks.load import peer_schemas
from benchmarks.load import peers as load
from benchmarks.load.peers import PeerPlan
from benchmarks.measure.samples import Sample
from benchmarks.suites import journal, peers

_EVENT = '{"orderId":"1"}'

# What a peer's functions look like to its client, without what they do.
_WRITE_MESSAGE = """
create function message_store.write_message(varchar, varchar, varchar, jsonb, jsonb, bigint) returns bigint
language sql as $$ insert into messages values ($2, $4) returning 0::bigint $$
"""
_EMT_APPEND = """
create function emt_append_to_stream(text[], jsonb[], jsonb[], text[], text[], text[], text, text, bigint, text)
returns table (success bool) language sql as $$ insert into emt_messages values ($7, $2[1]) returning true $$
"""


def appended(database_url: str, store: load.Store) -> Sample:
    plan = PeerPlan(
        url=database_url,
        store=store,
        merchants=journal.open_merchants(database_url, 2),
        event=_EVENT,
        connections=2,
        in_flight=4,
        seconds=0.2,
        warm_up_s=0,
    )
    one = asyncio.run(load.run(plan, lambda: None))
    assert not one.others
    assert one.done
    return one


def rows(database_url: str, table: str) -> int:
    with psycopg.connect(database_url) as connection:
        row = connection.execute(f"select count(*) from {table}").fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize(
    ("store", "table"), [("pool", "event"), ("recorder", "peer_events"), ("aggregates", "peer_aggregates")]
)
def test_every_append_that_was_counted_is_in_the_store(store, table, database_url):
    one = appended(database_url, store)
    assert rows(database_url, table) >= one.done


def test_message_db_is_created_from_the_files_of_its_package(database_url, tmp_path):
    assert "npm install" in (peer_schemas.install_message_db(database_url, tmp_path) or "")
    files = {
        "schema/message-store.sql": "create schema message_store",
        "tables/messages.sql": "create table message_store.messages (stream_name text, data jsonb)",
        "functions/write-message.sql": _WRITE_MESSAGE,
    }
    for name, text in files.items():
        file = tmp_path / "@eventide/message-db/database" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert peer_schemas.install_message_db(database_url, tmp_path) is None
    one = appended(database_url, "message-db")
    assert rows(database_url, "message_store.messages") >= one.done


def test_emmett_is_created_from_what_its_package_exports(database_url, tmp_path, monkeypatch):
    assert "npm install" in (peer_schemas.install_emmett(database_url, tmp_path) or "")
    module = tmp_path / "@event-driven-io/emmett-postgresql/dist/index.js"
    module.parent.mkdir(parents=True)
    module.touch()
    (tmp_path / "statements.json").write_text(
        json.dumps(["create table emt_messages (stream_id text, data jsonb)", _EMT_APPEND])
    )
    node = tmp_path / "node"
    node.write_text(f"#!/bin/sh\ncat {tmp_path}/statements.json\n")
    node.chmod(0o700)
    monkeypatch.setattr(peer_schemas.shutil, "which", lambda _: None)
    assert "node is not on the path" in (peer_schemas.install_emmett(database_url, tmp_path) or "")
    monkeypatch.setattr(peer_schemas.shutil, "which", lambda _: str(node))
    assert peer_schemas.install_emmett(database_url, tmp_path) is None
    one = appended(database_url, "emmett")
    assert rows(database_url, "emt_messages") >= one.done


def sample_of(per_second: float) -> Sample:
    return Sample(done=int(per_second), seconds=1, p50_ms=1, p99_ms=2)


def test_peers_are_measured_at_their_best_and_shown_as_shares_of_both_limits(database_url, tmp_path, monkeypatch):
    speeds = {"pool": 1_000, "recorder": 500, "aggregates": 600}
    monkeypatch.setattr(peers.InsertLimit, "run", lambda *_: sample_of(10_000))
    monkeypatch.setattr(peers, "write", lambda *_: sample_of(20_000))
    monkeypatch.setattr(peers, "_append", lambda plan, _: sample_of(speeds[plan.store] + plan.connections))
    found = peers.report(database_url, 1, 1, tmp_path)
    assert found.facts["one transaction per command"].startswith("fastest with 32 connections")
    assert found.facts["message-db, write_message"].startswith("not measured: run `npm install")
    assert found.facts["Emmett, emt_append_to_stream"].startswith("not measured: run `npm install")
    recorder = "eventsourcing, application recorder"
    assert found.shares["of R"][recorder] == pytest.approx(0.0532)
    assert found.shares["of the journal"][recorder] == pytest.approx(0.0266)
    [ratio] = [one for one in found.ratios if one.to == recorder]
    assert (ratio.value, str(ratio.target), ratio.reached) == (pytest.approx(20_000 / 532), "≥ 20", True)
