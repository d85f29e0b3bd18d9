"""The worker: one process that runs the reactions until it is told to stop.

The rule a stranger would break: a reaction is stopped between two pieces of work, never inside one. Whatever was begun
is finished or left for the next worker, which finds it by the same question.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial

from ledger.background import periodic
from ledger.background.erasure import ErasureSweep
from ledger.background.inbox.delivery import open_delivery
from ledger.background.reactions.dispatcher import Dispatcher
from ledger.background.reactions.registry import HANDLERS, REACTIONS
from ledger.background.reactions.runner import ReactionRunner
from ledger.background.recovery import Recovery, Windows
from ledger.background.scheduler.jobs import Jobs
from ledger.journal.journal import journal_metrics
from ledger.settings import Settings
from ledger.telemetry import shared_metrics
from ledger.telemetry.metrics import metric_sample, process_metrics
from ledger.telemetry.shared_metrics import MetricSample
from ledger.wiring import open_ledger
from projections.erasures import Erasures
from projections.open_calls import OpenCalls
from projections.search.compaction import SearchCompactor


async def run(settings: Settings, ready: Callable[[], None], stop: asyncio.Event) -> None:
    """Run every reaction; `ready` is called once they all do. Raises psycopg.OperationalError at the start."""
    assert settings.database_url is not None, "whoever starts a worker tells it its database"
    windows = Windows(
        margin_s=settings.recovery_margin_s,
        late_s=max(0.0, settings.not_found_final_s - settings.processor_timeout_s),
    )
    url = settings.database_url
    async with (
        open_ledger(settings) as ledger,
        OpenCalls(url) as intents,
        SearchCompactor(url) as search,
        Erasures(url) as payers,
        Jobs(url, ledger, HANDLERS) as jobs,
        open_delivery(url, ledger) as mail,
    ):
        dispatcher = Dispatcher(ledger.journal, jobs, REACTIONS)
        watch = ReactionRunner(url, dispatcher, jobs)
        recovery = Recovery(ledger, intents.due, windows)
        forgetting = ErasureSweep(ledger, payers.unfinished, payers.orders_of, payers.finished)

        def figures() -> Iterator[MetricSample]:
            yield from journal_metrics(ledger.journal)
            yield metric_sample("ledger_recovery_settled_total", recovery.settled)
            yield from job_metrics(jobs)
            yield metric_sample("ledger_due_times_total", watch.enqueued)
            yield metric_sample("ledger_reactions_set_aside_merchants", dispatcher.aside.merchants)

        recovering = asyncio.create_task(recovery.run(stop), name="recovery")
        packing = asyncio.create_task(periodic.run_periodically(search.pack, stop), name="search packing")
        erasures = asyncio.create_task(forgetting.run(stop), name="forgetting")
        watching = asyncio.create_task(watch.run(stop), name="reactions")
        working = asyncio.create_task(jobs.run(stop), name="jobs")
        delivering = asyncio.create_task(mail.run(stop), name="mail")
        here = shared_metrics.current("worker")
        with here.publishing(figures, partial(process_metrics, here)):
            ready()
            await asyncio.gather(recovering, packing, erasures, watching, working, delivering)


def job_metrics(jobs: Jobs) -> Iterator[MetricSample]:
    """What a worker counts of its jobs."""
    yield metric_sample("ledger_jobs_total", jobs.done, "done")
    yield metric_sample("ledger_jobs_total", jobs.failed, "failed")
    yield metric_sample("ledger_jobs_total", jobs.given_up, "given-up")
