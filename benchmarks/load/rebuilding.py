"""One rebuild, or one comparison, in a process of its own."""

from __future__ import annotations

import time

from msgspec import Struct

from benchmarks.load.commits import throwaway_keys
from benchmarks.load.processes import Go, work
from benchmarks.measure.samples import Sample
from ledger.backup.rebuild import rebuild
from ledger.journal.codec import CODEC
from ledger.journal.reader import LogReader
from projections.read_models import ORDERS


class RebuildPlan(Struct, frozen=True, kw_only=True):
    """A rebuild of these tables, or only their comparison."""

    url: str
    tables: list[str]
    writes: bool


async def run(plan: RebuildPlan, go: Go) -> Sample:
    """Rebuilds, and counts the orders that were compared. `ended` is how many rows differed."""
    reader = LogReader(plan.url, CODEC, throwaway_keys(plan.url))
    go()
    began, used = time.perf_counter(), time.process_time()
    found = await rebuild(plan.url, reader, tables=plan.tables, writes=plan.writes)
    return Sample(
        done=next(table.rows for table in found.tables if table.table == ORDERS),
        seconds=time.perf_counter() - began,
        p50_ms=0,
        p99_ms=0,
        cpu_s=time.process_time() - used,
        ended=sum(table.differing for table in found.tables),
    )


if __name__ == "__main__":
    work(RebuildPlan, run)
