"""Logs of any length, written by SQL, and their trees as this page computes them from the rows."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID, uuid4

import psycopg
from tests.tlog.test_merkle import tree_hash

from ledger.background.log_sealing import LogSealer
from ledger.tlog.checkpoint_files import CheckpointFiles
from ledger.tlog.checkpoints import Checkpoint, open_checkpoint
from ledger.tlog.entries import encode_entry, entry_of
from ledger.tlog.keys import LogKeys
from ledger.tlog.merkle import leaf_hash

KEYS = LogKeys("pay.example.com/v1/log", [bytes(range(32))])

_GROW = """
with head as (
  insert into merchant_head (merchant_id, position) values (%(merchant)s, %(count)s)
  on conflict (merchant_id) do update set position = merchant_head.position + excluded.position
  returning position - %(count)s as before)
insert into event (merchant_id, stream_id, version, position, command_id, recorded_at, topic, data, context)
select %(merchant)s, %(stream)s, n, before + n, gen_random_uuid(), %(at)s::timestamptz + n * interval '1 us', %(topic)s,
       convert_to('{"n":' || n || '}', 'UTF8'), '{}'
  from head, generate_series(1, %(count)s) n
"""
_ENTRIES = """
select position, stream_id, version, topic, recorded_at, command_id, data, context
  from event where merchant_id = %s order by position
"""


def append(url: str, merchant: UUID, count: int, topic: str = "test.v1", at: str = "2026-03-01T10:00:00.5Z") -> None:
    """Appends events to a merchant's log, in a stream of their own."""
    with psycopg.connect(url) as connection:
        values = {"merchant": merchant, "stream": uuid4(), "count": count, "topic": topic, "at": at}
        connection.execute(_GROW, values)


def execute(url: str, statement: str, *values: Any) -> list[Any]:
    with psycopg.connect(url) as connection:
        cursor = connection.execute(statement, values)
        return cursor.fetchall() if cursor.description else []


def entries(url: str, merchant: UUID) -> list[bytes]:
    names = ("position", "stream_id", "version", "topic", "recorded_at", "command_id", "data", "context")
    rows = execute(url, _ENTRIES, merchant)
    return [encode_entry(entry_of(merchant, **dict(zip(names, row, strict=True)))) for row in rows]


def leaves(url: str, merchant: UUID) -> list[bytes]:
    return [leaf_hash(entry) for entry in entries(url, merchant)]


def checkpoints(url: str, merchant: UUID, keys: LogKeys = KEYS) -> list[Checkpoint]:
    """Returns a merchant's checkpoints by size, each verified."""
    notes = execute(url, "select note from log_checkpoint where merchant_id = %s order by size", merchant)
    return [open_checkpoint(note.encode(), keys.verifiers(merchant)[:1]) for (note,) in notes]


def assert_sealed(url: str, merchant: UUID) -> None:
    """Asserts that the newest checkpoint has the whole log, and that each one has a beginning of it."""
    found, tree = checkpoints(url, merchant), leaves(url, merchant)
    assert found[-1].size == len(tree)
    assert [each.root for each in found] == [tree_hash(tree[: each.size]) for each in found]


def sealer_of(url: str, keys: LogKeys = KEYS, *, folder: object = "/nowhere", every_s: float = 1.0) -> LogSealer:
    """Returns a worker's sealer, which writes checkpoints to a folder only where it runs."""
    return LogSealer(url, keys, CheckpointFiles(f"file://{folder}"), every_s=every_s)


async def seal(url: str, keys: LogKeys = KEYS) -> None:
    async with sealer_of(url, keys) as sealer:
        await sealer.seal(asyncio.Event())
