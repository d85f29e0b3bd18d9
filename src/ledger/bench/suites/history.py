"""Whether the journal keeps its speed over a long history: the same load on an empty database and on millions of
events.

A throughput alone does not prove that no table is scanned: the server's counters of scans and of rows read are part of
the result.
"""

from __future__ import annotations

from functools import partial
from typing import Final
from uuid import UUID

import psycopg

from ledger.bench.load import commits
from ledger.bench.measure.report import Ratio, Report, Target
from ledger.bench.measure.samples import in_turns, ratio, show_progress, typical
from ledger.bench.scratch import scratch_database
from ledger.bench.suites.journal import open_merchants, per_second, write

EVENTS: Final = 5_000_000
_MERCHANTS: Final = 50
_CHUNK: Final = 100_000
_KEPT: Final = Target(0.75)

# A history as it grows: streams of one event, ids in the order of time, positions without a gap.
_COPY: Final = """
copy event (merchant_id, stream_id, version, position, command_id, recorded_at, topic, data, context) from stdin
"""
_HEADS: Final = "update merchant_head set position = %s where merchant_id = any(%s)"
_COUNTERS: Final = """
select coalesce(sum(seq_scan), 0), coalesce(sum(seq_tup_read), 0), coalesce(sum(idx_tup_fetch), 0)
  from pg_stat_user_tables where relname in ('event', 'claim', 'merchant_head')
"""


def fill(url: str, merchants: list[UUID], events: int) -> None:
    """Writes that many events into the table by COPY, evenly over the merchants."""
    data = commits.event_bytes("lean").hex()
    each = -(-events // len(merchants))
    with psycopg.connect(url, autocommit=True) as connection:
        for first in range(0, each, _CHUNK // len(merchants)):
            last = min(each, first + _CHUNK // len(merchants))
            show_progress(f"filling: {first * len(merchants):,} of {events:,} events")
            with connection.cursor().copy(_COPY) as copy:
                for position in range(first + 1, last + 1):
                    for n, merchant_id in enumerate(merchants):
                        stream = f"{position:012x}7000{0x8000 + n:04x}000000000000"
                        copy.write(
                            f"{merchant_id}\t{stream}\t1\t{position}\t{stream}\t2026-01-01T00:00:00Z\tlean-happened.v1"
                            f"\t\\\\x{data}\t\\\\x7b7d\n"
                        )
        connection.execute(_HEADS, [each, merchants])
        connection.execute("vacuum (analyze) event")


def counters(url: str) -> tuple[int, int, int]:
    """Returns the journal's tables' sequential scans, rows read by them, and rows fetched through indexes so far."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("select pg_stat_force_next_flush()")
        row = connection.execute(_COUNTERS).fetchone()
    assert row is not None, "an aggregate always answers"
    return int(row[0]), int(row[1]), int(row[2])


def report(server_url: str, seconds: float, rounds: int, events: int = EVENTS) -> Report:
    """Measures the lean append on an empty database and on a full one of the same server, in turn."""
    with scratch_database(server_url) as empty, scratch_database(server_url) as full:
        young, old = open_merchants(empty, _MERCHANTS), open_merchants(full, _MERCHANTS)
        fill(full, old, events)
        before = counters(full)
        without, withal = "append, empty table", f"append, {events:,} events"
        taken = in_turns(
            rounds,
            {
                without: partial(write, empty, "lean", young, seconds),
                withal: partial(write, full, "lean", old, seconds),
            },
        )
        scans, scanned, fetched = (now - then for now, then in zip(counters(full), before, strict=True))
        commands = sum(one.done for one in taken[withal])
        kept = Ratio(of=withal, to=without, value=ratio(taken[withal], taken[without], per_second), target=_KEPT)
        return Report(
            name="journal, long history",
            samples={name: typical(some) for name, some in taken.items()},
            ratios=[kept],
            facts={
                "sequential scans of the journal's tables": f"{scans} ({scanned} rows)",
                "rows fetched through indexes": f"{fetched / max(1, commands):.2f} per command",
            },
        )
