"""The worker: one process that runs the reactions until it is told to stop.

The rule a stranger would break: a reaction is stopped between two pieces of work, never inside one. Whatever was begun
is finished or left for the next worker, which finds it by the same question.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial

from ledger.background import periodic
from ledger.background.erasure import Forgetting
from ledger.background.inbox.delivery import open_mail
from ledger.background.reactions.dispatcher import Dispatcher
from ledger.background.reactions.registry import HANDLERS, REACTIONS
from ledger.background.reactions.runner import Watch
from ledger.background.recovery import Recovery, Windows
from ledger.background.scheduler.jobs import Jobs
from ledger.journal.journal import journal_figures
from ledger.settings import Settings
from ledger.telemetry import shared_metrics
from ledger.telemetry.metrics import process_figures, told
from ledger.telemetry.shared_metrics import Reading
from ledger.wiring import open_ledger
from projections.erasures import Payers
from projections.open_calls import OpenIntents
from projections.search.compaction import SearchPacking


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
        OpenIntents(url) as intents,
        SearchPacking(url) as search,
        Payers(url) as payers,
        Jobs(url, ledger, HANDLERS) as jobs,
        open_mail(url, ledger) as mail,
    ):
        dispatcher = Dispatcher(ledger.journal, jobs, REACTIONS)
        watch = Watch(url, dispatcher, jobs)
        recovery = Recovery(ledger, intents.due, windows)
        forgetting = Forgetting(ledger, payers.unfinished, payers.orders_of, payers.finished)

        def figures() -> Iterator[Reading]:
            yield from journal_figures(ledger.journal)
            yield told("ledger_recovery_settled_total", recovery.settled)
            yield from jobs_figures(jobs)
            yield told("ledger_due_times_total", watch.enqueued)
            yield told("ledger_reactions_set_aside_merchants", dispatcher.aside.merchants)

        recovering = asyncio.create_task(recovery.run(stop), name="recovery")
        packing = asyncio.create_task(periodic.run(search.pack, stop), name="search packing")
        erasures = asyncio.create_task(forgetting.run(stop), name="forgetting")
        watching = asyncio.create_task(watch.run(stop), name="reactions")
        working = asyncio.create_task(jobs.run(stop), name="jobs")
        delivering = asyncio.create_task(mail.run(stop), name="mail")
        here = shared_metrics.here("worker")
        with here.telling(figures, partial(process_figures, here)):
            ready()
            await asyncio.gather(recovering, packing, erasures, watching, working, delivering)


def jobs_figures(jobs: Jobs) -> Iterator[Reading]:
    """What a worker counts of its jobs."""
    yield told("ledger_jobs_total", jobs.done, "done")
    yield told("ledger_jobs_total", jobs.failed, "failed")
    yield told("ledger_jobs_total", jobs.given_up, "given-up")
