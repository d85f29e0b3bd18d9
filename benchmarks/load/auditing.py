"""One audit, one check of the log alone, or one bare read of all events, in a process of its own."""

from __future__ import annotations

import asyncio
import os
import resource
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal
from uuid import UUID

from msgspec import Struct

from benchmarks.load.processes import Go, work
from benchmarks.measure.samples import Sample
from ledger.audit.auditor import audit, audit_log, tune_process
from ledger.audit.snapshot import take_snapshot
from ledger.audit.streams import EVENTS
from ledger.settings import CannotRun, Settings

MASTER_KEY: Final = "5e" * 32
_PAGE: Final = 1000
_ALL: Final = UUID(int=(1 << 128) - 1)


class AuditPlan(Struct, frozen=True, kw_only=True):
    """What is read, by so many processes."""

    url: str
    what: Literal["audit", "log", "cursor"]
    workers: int = 1


def settings_for(url: str) -> Settings:
    """Returns the settings of a database that a benchmark has filled."""
    return Settings(database_url=url, database_vault_url=url, master_key=MASTER_KEY)


async def run(plan: AuditPlan, go: Go) -> Sample:
    """Reads all events, and counts them. `ended` is the peak of this process's resident memory, in KB; the processor
    time is that of the processes that it starts too.
    """
    tune_process()
    go()
    began, used = time.perf_counter(), _used_s()
    done = await asyncio.to_thread(_read, plan)
    return Sample(
        done=done,
        seconds=time.perf_counter() - began,
        p50_ms=0,
        p99_ms=0,
        cpu_s=_used_s() - used,
        ended=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    )


def _used_s() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _read(plan: AuditPlan) -> int:
    settings = settings_for(plan.url)
    if plan.what == "audit":
        report = audit(settings, plan.url, workers=plan.workers)
        if not report.is_clean:
            raise CannotRun(f"the audit is not clean: {report.violations[0]}")
        return report.events
    if plan.what == "log":
        with TemporaryDirectory(prefix="ledger-bench-") as folder:
            events, violations = audit_log(settings, plan.url, Path(folder) / "leaves")
        if violations:
            raise CannotRun(f"the log is not what was signed: {violations[0]}")
        return events
    with take_snapshot(plan.url) as (connection, _), connection.cursor("events", binary=True) as cursor:
        cursor.execute(EVENTS, (UUID(int=0), UUID(int=0), _ALL, _ALL))
        done = 0
        while page := cursor.fetchmany(_PAGE):
            done += len(page)
        return done


if __name__ == "__main__":
    work(AuditPlan, run)
